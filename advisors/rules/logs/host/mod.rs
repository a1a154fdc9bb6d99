//! Rules on the host: reads, transfers, fallbacks, launches.

pub mod aborts;
pub mod collective_launches;
pub mod cpu_fallback;
pub mod debug_settings;
pub mod eager_launches;
pub mod graph_breaks;
pub mod host_reads;
pub mod slow_attention;
