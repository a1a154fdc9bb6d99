//! Rules on the host: reads, transfers, fallbacks, launches.

pub mod aborts;
pub mod collective_launches;
pub mod cpu_fallback;
pub mod debug_settings;
pub mod eager_launches;
pub mod graph_breaks;
pub mod graph_cuts;
pub mod host_reads;
pub mod input_transfers;
pub mod large_transfers;
pub mod many_executions;
pub mod slow_attention;
mod substitutes;
pub mod xla_cpu_fallback;
pub mod xla_host_reads;

#[cfg(test)]
mod xla_tests;
