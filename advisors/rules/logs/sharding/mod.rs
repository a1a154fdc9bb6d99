//! Rules on shardings, and what the compiler said.

mod compiler_alarms;
pub mod compute_on_host;
pub mod constant_folding;
pub mod donation_unused;
pub mod full_rematerialization;
pub mod indivisible_axis;
pub mod slow_compile;
#[cfg(test)]
mod tests;
pub mod untuned_kernel;
