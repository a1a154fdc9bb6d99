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

impl MemoryTimeline {
    /// The sample with the most bytes in use, stack reservations included.
    #[must_use]
    pub fn peak(&self) -> Option<MemoryPeak> {
        let used = |i: usize| self.in_use_bytes[i].saturating_add(self.reserved_bytes[i]);
        let at = (0..self.time_ps.len()).max_by_key(|i| (used(*i), std::cmp::Reverse(*i)))?;
        Some(MemoryPeak {
            time_ps: self.time_ps[at],
            used_bytes: used(at),
            reserved_bytes: self.reserved_bytes[at],
            free_bytes: self.free_bytes[at],
        })
    }
}

/// Memory at its fullest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryPeak {
    /// When, on the host's clock.
    pub time_ps: u64,
    /// Bytes in use, stacks included.
    pub used_bytes: u64,
    /// Of those, reserved for the stacks of programs.
    pub reserved_bytes: u64,
    /// Bytes left.
    pub free_bytes: u64,
}

impl MemoryPeak {
    /// Size of the memory.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.used_bytes.saturating_add(self.free_bytes)
    }
}
