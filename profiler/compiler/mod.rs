//! The TPU compiler as a component.

pub mod llo;
