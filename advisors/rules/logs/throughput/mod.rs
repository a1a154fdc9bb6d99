//! Rules on step time and throughput as trainers and servers log them.

pub mod empty_profile;
pub mod input_wait;
pub mod kv_cache_full;
pub mod loss_not_finite;
pub mod slow_configuration;
pub mod slow_steps;
pub mod step_drift;
pub mod step_throughput;

#[cfg(test)]
mod tests;
