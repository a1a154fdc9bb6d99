//! The statistics of events that are read, found by id; all others are skipped unread.

use super::ids::IdTable;
use super::plane::{Plane, Stat};
use crate::wire::Message;

/// What a statistic of an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventStat {
    DeviceOffsetPs,
    DeviceDurationPs,
    RunId,
    Flops,
    ModelFlops,
    BytesAccessed,
    TimeScale,
    HloOp,
    HloModule,
    ProgramId,
    Allocator,
    BytesAllocated,
    BytesReserved,
    BytesAvailable,
    PeakBytes,
}

impl EventStat {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "device_offset_ps" => Self::DeviceOffsetPs,
            "device_duration_ps" => Self::DeviceDurationPs,
            "run_id" => Self::RunId,
            "flops" => Self::Flops,
            "model_flops" => Self::ModelFlops,
            "bytes_accessed" => Self::BytesAccessed,
            "Time Scale Multiplier" => Self::TimeScale,
            "hlo_op" => Self::HloOp,
            "hlo_module" => Self::HloModule,
            "program_id" => Self::ProgramId,
            "index_on_host" | "device_ordinal" => Self::Allocator,
            "bytes_allocated" => Self::BytesAllocated,
            "bytes_reserved" => Self::BytesReserved,
            "bytes_available" => Self::BytesAvailable,
            "peak_bytes_in_use" => Self::PeakBytes,
            _ => return None,
        })
    }
}

/// The ids that a plane gives to the statistics that are read.
pub(super) struct EventStats {
    ids: IdTable<EventStat>,
    /// Whether events may be operations of XLA:CPU: on a host's threads nothing else of an event
    /// is wanted but its time.
    pub(super) has_host_ops: bool,
}

impl EventStats {
    pub(super) fn of(plane: &Plane<'_>) -> Self {
        let mut ids = IdTable::sized(plane.stat_names.len());
        let known = plane.stat_names.iter();
        let known: Vec<(i64, EventStat)> = known
            .filter_map(|(id, name)| Some((*id, EventStat::named(name)?)))
            .collect();
        let has_host_ops = known.iter().any(|(_, stat)| *stat == EventStat::HloOp);
        for (id, stat) in known {
            ids.insert(id, stat);
        }
        Self { ids, has_host_ops }
    }

    /// Reads a statistic if it is one of those; of others only the id is looked at, which stands
    /// first.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "called for each statistic of millions of events"
    )]
    pub(super) fn read<'a>(&self, mut fields: Message<'a>) -> Option<(EventStat, Stat<'a>)> {
        let mut which = match fields.next_uint(1) {
            Some(id) => Some(self.ids.get(id.cast_signed())?),
            None => None,
        };
        // Nearly all are integers.
        if let (Some(which), Some(value)) = (which, fields.next_uint(3)) {
            return Some((which, Stat::Int(value)));
        }
        let mut stat = Stat::None;
        for (number, value) in fields {
            match number {
                1 => which = Some(self.ids.get(value.int())?),
                2 => stat = Stat::Double(value.double()),
                3 | 4 => stat = Stat::Int(value.uint()),
                5 => stat = Stat::Text(value.text()),
                6 => stat = Stat::Bytes(value.bytes()),
                7 => stat = Stat::Ref(value.uint()),
                _ => {}
            }
        }
        // An id of 0 is not written.
        let which = which.or_else(|| self.ids.get(0))?;
        Some((which, stat))
    }
}
