//! The lines of a plane and their events: the hot loop.

use rustc_hash::FxHashMap;

use super::Role;
use super::event_stats::EventStat;
use super::metadata::Local;
use super::plane::Stat;
use crate::session::{EventCosts, Track};
use crate::wire::Message;

/// A line, its header read, its events not.
pub(super) struct LineJob<'a> {
    pub(super) plane: usize,
    pub(super) kind: LineKind,
    pub(super) name: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) timestamp_ps: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Ops,
    Modules,
    AsyncOps,
    Steps,
    Marks,
    HostThread,
}

impl LineKind {
    /// Whether times on the device's own clock are kept.
    fn has_device_time(self) -> bool {
        matches!(self, Self::Ops | Self::Steps)
    }
}

/// The line's job, if its events are wanted, and its name.
pub(super) fn line_job<'a>(
    plane: usize,
    role: &Role,
    bytes: &'a [u8],
) -> (Option<LineJob<'a>>, &'a str) {
    let mut name = "";
    let mut display = "";
    let mut timestamp_ns = 0u64;
    for (number, value) in Message::new(bytes) {
        match number {
            2 => name = value.text(),
            3 => timestamp_ns = value.uint(),
            // The header of a line comes before its events, except for the display name.
            4 => break,
            11 => display = value.text(),
            _ => {}
        }
    }
    let kind = match role {
        Role::Host => LineKind::HostThread,
        Role::Core(..) => match name {
            "XLA Ops" | "Sparse Core Ops" => LineKind::Ops,
            "XLA Modules" | "Sparse Core Modules" => LineKind::Modules,
            "Async XLA Ops" => LineKind::AsyncOps,
            "Steps" | "Sparse Core Steps" => LineKind::Steps,
            "XLA TraceMe" => LineKind::Marks,
            _ => return (None, name),
        },
    };
    let name = if name.is_empty() { display } else { name };
    let timestamp_ps = timestamp_ns.saturating_mul(1000);
    let job = LineJob {
        plane,
        kind,
        name,
        bytes,
        timestamp_ps,
    };
    (Some(job), name)
}

/// The columns of one line, ids still local to the plane.
#[derive(Default)]
pub(super) struct LineData {
    pub(super) spans: Track,
    pub(super) device_start_ps: Vec<u64>,
    pub(super) device_duration_ps: Vec<u64>,
    pub(super) run_ids: Vec<u64>,
    pub(super) costs: FxHashMap<u32, EventCosts>,
    pub(super) memory: Vec<MemorySample>,
    /// Executions of XLA:CPU operations met on a host line.
    pub(super) host_ops: Vec<(u64, u64, HostOp)>,
    pub(super) rescaled: u64,
    pub(super) bad_events: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HostOp {
    pub(super) name: String,
    pub(super) module: String,
    pub(super) program_id: u64,
}

pub(super) struct MemorySample {
    pub(super) allocator: u64,
    pub(super) time_ps: u64,
    pub(super) in_use: u64,
    pub(super) reserved: u64,
    pub(super) free: u64,
    pub(super) peak: u64,
}

pub(super) fn read_line(job: &LineJob<'_>, local: &Local<'_>) -> LineData {
    let mut data = LineData::default();
    let events = estimate_events(job.bytes);
    data.spans.reserve(events);
    if job.kind.has_device_time() {
        data.device_start_ps.reserve(events);
        data.device_duration_ps.reserve(events);
    }
    let mut fields = Message::new(job.bytes);
    while let Some((number, value)) = fields.next() {
        if number == 4 {
            read_event(fields.nested(value.bytes()), job, local, &mut data);
        }
    }
    data
}

/// About how many events a line has, judged by its first ones: exact enough that columns seldom
/// grow, and never more than its bytes could hold.
fn estimate_events(line: &[u8]) -> usize {
    const LOOK_AT: usize = 64;
    let mut fields = Message::new(line);
    let mut seen = 0;
    let mut first = 0;
    while let Some((number, value)) = fields.next() {
        if number == 4 {
            if seen == 0 {
                first = fields.offset() - value.bytes().len();
            }
            seen += 1;
            if seen == LOOK_AT {
                let per_event = (fields.offset() - first) / LOOK_AT;
                return line.len() / per_event.max(2) * 9 / 8;
            }
        }
    }
    seen
}

#[inline]
fn read_event<'a>(message: Message<'a>, job: &LineJob<'_>, local: &Local<'a>, data: &mut LineData) {
    let mut device_offset = None;
    let mut device_duration = None;
    let mut run_id = 0;
    let mut cost = EventCosts::default();
    let mut hlo_op = "";
    let mut hlo_module = "";
    let mut program_id = 0;
    let has_stats = job.kind != LineKind::HostThread || local.stats.has_host_ops;
    let mut event = message.clone();
    let mut metadata_id = event.next_uint(1).unwrap_or(0).cast_signed();
    let mut offset = event.next_uint(2).unwrap_or(0);
    let mut duration = event.next_uint(3).unwrap_or(0);
    while let Some((number, value)) = event.next() {
        match number {
            1 => metadata_id = value.int(),
            2 => offset = value.uint(),
            3 => duration = value.uint(),
            4 if has_stats => {
                let Some((which, stat)) = local.stats.read(event.nested(value.bytes())) else {
                    continue;
                };
                match which {
                    EventStat::DeviceOffsetPs => device_offset = Some(stat.uint()),
                    EventStat::DeviceDurationPs => device_duration = Some(stat.uint()),
                    EventStat::RunId => run_id = stat.uint(),
                    EventStat::Flops => cost.flops = stat.uint(),
                    EventStat::ModelFlops => cost.model_flops = stat.uint(),
                    EventStat::BytesAccessed => cost.bytes_accessed = stat.uint(),
                    EventStat::TimeScale => {
                        data.rescaled += u64::from((stat.double() - 1.0).abs() > 1e-9);
                    }
                    EventStat::HloOp => hlo_op = stat_text(stat, local),
                    EventStat::HloModule => hlo_module = stat_text(stat, local),
                    EventStat::ProgramId => program_id = stat.uint(),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    let index = local.find(metadata_id);
    let (Some(index), None) = (index, event.error()) else {
        data.bad_events += 1;
        return;
    };
    // A negative offset is possible where clocks were aligned; it means before the first event.
    let offset = if offset.cast_signed() < 0 { 0 } else { offset };
    let duration = if duration.cast_signed() < 0 {
        0
    } else {
        duration
    };
    let start = job.timestamp_ps.saturating_add(offset);
    if job.kind == LineKind::HostThread {
        if local.is_memory(index) {
            data.memory.push(memory_sample(message, local, start));
            return;
        }
        if !hlo_op.is_empty() {
            let op = HostOp {
                name: hlo_op.to_owned(),
                module: hlo_module.to_owned(),
                program_id,
            };
            data.host_ops.push((start, duration, op));
            return;
        }
    }
    data.spans.push(start, duration, index);
    if job.kind.has_device_time() {
        data.device_start_ps.push(device_offset.unwrap_or(start));
        data.device_duration_ps
            .push(device_duration.unwrap_or(duration));
    }
    if job.kind == LineKind::Modules {
        data.run_ids.push(run_id);
    }
    if cost != EventCosts::default() && job.kind == LineKind::Ops {
        let sum = data.costs.entry(index).or_default();
        sum.flops = sum.flops.saturating_add(cost.flops);
        sum.model_flops = sum.model_flops.saturating_add(cost.model_flops);
        sum.bytes_accessed = sum.bytes_accessed.saturating_add(cost.bytes_accessed);
    }
}

fn stat_text<'a>(stat: Stat<'a>, local: &Local<'a>) -> &'a str {
    match stat {
        Stat::Ref(key) => local
            .plane
            .stat_names
            .get(&key.cast_signed())
            .copied()
            .unwrap_or_default(),
        other => other.text(),
    }
}

fn memory_sample<'a>(mut event: Message<'a>, local: &Local<'a>, time_ps: u64) -> MemorySample {
    let mut sample = MemorySample {
        allocator: 0,
        time_ps,
        in_use: 0,
        reserved: 0,
        free: 0,
        peak: 0,
    };
    while let Some((number, value)) = event.next() {
        if number != 4 {
            continue;
        }
        let Some((which, stat)) = local.stats.read(event.nested(value.bytes())) else {
            continue;
        };
        match which {
            EventStat::Allocator => sample.allocator = stat.uint(),
            EventStat::BytesAllocated => sample.in_use = stat.uint(),
            EventStat::BytesReserved => sample.reserved = stat.uint(),
            EventStat::BytesAvailable => sample.free = stat.uint(),
            EventStat::PeakBytes => sample.peak = stat.uint(),
            _ => {}
        }
    }
    sample
}
