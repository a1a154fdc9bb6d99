//! How full the device memory is, as findings show it.

use profiler::evidence::{MemorySource, MemoryUse};
use profiler::units::Bytes;

use crate::finding::Exhibit;

/// It in words.
pub(crate) fn exhibit(memory: &MemoryUse) -> Exhibit {
    Exhibit::text(
        "device memory",
        format!(
            "{} of {} in use at the peak, {} free",
            Bytes(memory.used_bytes),
            Bytes(memory.capacity_bytes),
            Bytes(memory.free_bytes())
        ),
        memory.source.words(),
    )
}

/// What the source of the figures leaves open, if anything.
pub(crate) fn caveat(memory: &MemoryUse) -> Option<String> {
    (memory.source == MemorySource::Buffers).then(|| {
        "the free memory is the compiler's plan for one program: arrays of other programs come on top".to_owned()
    })
}
