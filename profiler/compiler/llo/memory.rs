//! HBM as a kernel's transfers meet it: one channel, served in order.

use serde::Serialize;

use crate::chip::ChipFacts;

/// How fast HBM is, in cycles of the TensorCore.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// Bytes per cycle that transfers reach.
    pub bytes_per_cycle: f64,
    /// Cycles from a transfer's issue to its first byte.
    pub latency_cycles: u64,
}

/// Bytes of a DMA granule on v5e, v5p, v6e and TPU7x; 512 on v4. Listings with windows of known
/// shape tell it.
pub(super) const GRANULE: u64 = 32;

/// Share of the peak bandwidth that transfers reach: what the published times of memory-bound
/// programs on a v6e fit best.
pub(super) const REACHED: f64 = 0.85;

/// From issue to arrival. With it a grid step that does next to nothing takes 0.37 us on a v6e;
/// the Pallas guide puts such a step at about 0.35 us.
const LATENCY_NS: f64 = 500.0;

impl Memory {
    /// From a chip's facts; `None` where its clock is not known. A core has its share of the
    /// bandwidth.
    #[must_use]
    pub fn of(chip: &ChipFacts) -> Option<Self> {
        let clock_hz = chip.clock_mhz.as_ref()?.value * 1e6;
        let bytes_per_s = REACHED * chip.hbm_gb_per_s_per_core() * 1e9;
        Some(Self::new(bytes_per_s, LATENCY_NS, clock_hz))
    }

    /// From a chip's figures: bandwidth in bytes per second that transfers reach (not the peak),
    /// latency in nanoseconds, and the TensorCore's clock in Hz.
    #[must_use]
    pub fn new(bytes_per_s: f64, latency_ns: f64, clock_hz: f64) -> Self {
        Self {
            bytes_per_cycle: bytes_per_s / clock_hz,
            latency_cycles: (latency_ns * 1e-9 * clock_hz).round() as u64,
        }
    }
}

/// The channel, and until when it is busy.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    memory: Memory,
    /// Fractions of a cycle add up over thousands of small transfers.
    free: f64,
}

impl Channel {
    pub(super) fn new(memory: Memory) -> Self {
        Self { memory, free: 0.0 }
    }

    /// Starts a transfer now, or when the channel is free; returns the cycle in which it ends.
    pub(super) fn transfer(&mut self, now: u64, bytes: u64) -> u64 {
        let rate = self.memory.bytes_per_cycle;
        // A machine without a bandwidth has transfers that take no time.
        let cycles = if rate > 0.0 { bytes as f64 / rate } else { 0.0 };
        self.free = self.free.max(now as f64) + cycles;
        (self.free.ceil() as u64).saturating_add(self.memory.latency_cycles)
    }
}
