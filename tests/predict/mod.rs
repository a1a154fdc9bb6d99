//! Compiled programs, predicted.

mod emit;
