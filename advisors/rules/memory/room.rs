//! How full the device memory is.

use profiler::units::Bytes;

use crate::finding::Exhibit;
use crate::rule::Context;

/// Device memory at its fullest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes in use at the peak.
    pub(crate) used: u64,
    /// Bytes of that, reserved for stacks of programs.
    pub(crate) reserved: u64,
    /// Bytes that there are.
    pub(crate) capacity: u64,
}

impl Room {
    /// From the runtime's memory events; `None` where the profile has none.
    pub(crate) fn of(context: &Context<'_>) -> Option<Self> {
        let peak = context.evidence.memory_peak()?;
        Some(Self {
            used: peak.used_bytes,
            reserved: peak.reserved_bytes,
            capacity: peak.capacity_bytes(),
        })
        .filter(|room| room.capacity > 0)
    }

    /// Bytes that were never used.
    pub(crate) fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    /// The part in use, 0 to 1.
    pub(crate) fn fullness(&self) -> f64 {
        self.used as f64 / self.capacity.max(1) as f64
    }

    /// It in words.
    pub(crate) fn exhibit(&self) -> Exhibit {
        Exhibit::text(
            "device memory",
            format!(
                "{} of {} in use at the peak, {} free",
                Bytes(self.used),
                Bytes(self.capacity),
                Bytes(self.free())
            ),
            "the runtime's memory events, the fullest device",
        )
    }
}
