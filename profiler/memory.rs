//! Device memory: over time as the allocator reported it, and at the peak of a program.

use serde::Serialize;

/// Allocator events of one memory of one host, as the runtime's memory profile gives them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MemoryTimeline {
    /// Index into the session's hosts.
    pub host: u32,
    /// The allocator's name, as `TPU:0 HBM` or the device id.
    pub allocator: String,
    /// Time of each sample on the host's clock.
    pub time_ps: Vec<u64>,
    /// Bytes in use after each event (stack reservations apart).
    pub in_use_bytes: Vec<u64>,
    /// Bytes reserved for stacks after each event.
    pub reserved_bytes: Vec<u64>,
    /// Bytes free after each event.
    pub free_bytes: Vec<u64>,
    /// Highest use that the allocator ever reported.
    pub lifetime_peak_bytes: u64,
}
