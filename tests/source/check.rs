//! `check`: check.
