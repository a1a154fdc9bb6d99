//! Rules on the host: reads, transfers, fallbacks, launches.

pub mod xla_cpu_fallback;
pub mod graph_cuts;
pub mod input_transfers;
pub mod large_transfers;
pub mod many_executions;
mod substitutes;
pub mod xla_host_reads;

#[cfg(test)]
mod xla_tests;
