//! Rules on shardings that cannot be reached from one another cheaply.

pub mod conflicting_specs;
