//! Rules on shardings, and what the compiler said.

pub mod compiler_alarms;
pub mod full_rematerialization;
pub mod indivisible_axis;
#[cfg(test)]
mod tests;
