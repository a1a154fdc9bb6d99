//! How much device memory the run used at its fullest, and how that is known.

use serde::Serialize;

use crate::evidence::peaks::Chip;
use crate::memory::MemoryTimeline;
use crate::program::shape::MemorySpace;
use crate::session::{Session, SessionProgram};

/// Where figures of memory come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemorySource {
    /// The runtime's memory events: everything on the device.
    Events,
    /// The compiler's buffer assignment of the largest program, and the chip's usable memory:
    /// arrays that no argument of that program holds are not seen.
    Buffers,
    /// The schedule of the largest program, see [`crate::program::liveness`].
    Schedule,
}

impl MemorySource {
    /// The source in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Events => "the runtime's memory events, the fullest device",
            Self::Buffers => {
                "the compiler's buffer assignment of the largest program; arrays that are not its arguments are not seen"
            }
            Self::Schedule => {
                "predicted from the schedule and the layouts of the largest program; its code and fragmentation are not in it"
            }
        }
    }
}

/// Device memory at its fullest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// Bytes in use at the peak, stacks included.
    pub used_bytes: u64,
    /// Of those, reserved for the stacks of programs; 0 where that is not known.
    pub reserved_bytes: u64,
    /// Size of the memory that programs can use.
    pub capacity_bytes: u64,
    /// How it is known.
    pub source: MemorySource,
}

impl MemoryUse {
    /// From the runtime's memory events, else from the programs' buffers and the chip, else as
    /// predicted.
    #[must_use]
    pub fn of(session: &Session, chip: Option<&Chip>) -> Option<Self> {
        Self::from_events(session)
            .or_else(|| Self::from_buffers(session, chip?))
            .or_else(|| Self::from_prediction(session, chip?))
    }

    fn from_prediction(session: &Session, chip: &Chip) -> Option<Self> {
        let runs = session.prediction.iter().flat_map(|found| &found.runs);
        let peaks = runs.filter_map(|run| Some(run.memory.as_ref()?.peak().0));
        Some(Self {
            used_bytes: peaks.max()?,
            reserved_bytes: 0,
            capacity_bytes: chip.facts.hbm_usable_bytes_per_device(),
            source: MemorySource::Schedule,
        })
        .filter(|memory| memory.capacity_bytes > 0)
    }

    fn from_events(session: &Session) -> Option<Self> {
        let peaks = session.memory.iter().filter_map(MemoryTimeline::peak);
        let peak = peaks.max_by_key(|peak| peak.used_bytes)?;
        Some(Self {
            used_bytes: peak.used_bytes,
            reserved_bytes: peak.reserved_bytes,
            capacity_bytes: peak.capacity_bytes(),
            source: MemorySource::Events,
        })
        .filter(|memory| memory.capacity_bytes > 0)
    }

    fn from_buffers(session: &Session, chip: &Chip) -> Option<Self> {
        let peak = |program: &SessionProgram| {
            let peak = program.program.peak_memory(MemorySpace::Hbm)?;
            Some(peak.total().0)
        };
        Some(Self {
            used_bytes: session.programs.iter().filter_map(peak).max()?,
            reserved_bytes: 0,
            capacity_bytes: chip.facts.hbm_usable_bytes_per_device(),
            source: MemorySource::Buffers,
        })
        .filter(|memory| memory.capacity_bytes > 0)
    }

    /// Bytes that were never used.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes)
    }

    /// The part in use; above 1 where the compiler planned for more than there is.
    #[must_use]
    pub fn fullness(&self) -> f64 {
        self.used_bytes as f64 / self.capacity_bytes.max(1) as f64
    }
}
