//! Changes of the program that were compiled, not modelled.

pub mod compiled_change;
