//! The lines of a plane and their events: the hot loop.

use rustc_hash::FxHashMap;

use super::Role;
use super::metadata::Local;
use super::plane::{Stat, raw_stat};
use crate::session::{EventCosts, Track};
use crate::wire::{Message, Value};

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
    let wants_device_time = matches!(job.kind, LineKind::Ops | LineKind::Steps);
    let mut data = LineData::default();
    // Events take about 30 bytes, more with statistics: this is the right order of magnitude.
    let events = job.bytes.len() / 32;
    data.spans.reserve(events);
    if wants_device_time {
        data.device_start_ps.reserve(events);
        data.device_duration_ps.reserve(events);
    }
    for (number, value) in Message::new(job.bytes) {
        if number == 4 {
            read_event(value, job, local, wants_device_time, &mut data);
        }
    }
    data
}

#[inline]
pub(super) fn read_event(
    value: Value<'_>,
    job: &LineJob<'_>,
    local: &Local<'_>,
    device_time: bool,
    data: &mut LineData,
) {
    let ids = &local.stats;
    let mut metadata_id = 0i64;
    let mut offset = 0u64;
    let mut duration = 0u64;
    let mut device_offset = None;
    let mut device_duration = None;
    let mut run_id = 0;
    let mut cost = EventCosts::default();
    let mut hlo_op = "";
    let mut hlo_module = "";
    let mut program_id = 0;
    let mut event = Message::new(value.bytes());
    for (number, value) in event.by_ref() {
        match number {
            1 => metadata_id = value.int(),
            2 => offset = value.uint(),
            3 => duration = value.uint(),
            // On the host's threads only the operations of XLA:CPU carry what is wanted.
            4 if job.kind == LineKind::HostThread && ids.hlo_op == i64::MIN => {}
            4 => {
                let (id, stat) = raw_stat(value.bytes());
                if id == ids.device_offset_ps {
                    device_offset = Some(stat.uint());
                } else if id == ids.device_duration_ps {
                    device_duration = Some(stat.uint());
                } else if id == ids.run_id {
                    run_id = stat.uint();
                } else if id == ids.flops {
                    cost.flops = stat.uint();
                } else if id == ids.model_flops {
                    cost.model_flops = stat.uint();
                } else if id == ids.bytes_accessed {
                    cost.bytes_accessed = stat.uint();
                } else if id == ids.time_scale {
                    data.rescaled += u64::from((stat.double() - 1.0).abs() > 1e-9);
                } else if id == ids.hlo_op {
                    hlo_op = stat_text(stat, local);
                } else if id == ids.hlo_module {
                    hlo_module = stat_text(stat, local);
                } else if id == ids.program_id {
                    program_id = stat.uint();
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
        if local.memory_ids.contains(&Some(index)) {
            data.memory.push(memory_sample(value.bytes(), local, start));
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
    if device_time {
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

pub(super) fn stat_text<'a>(stat: Stat<'a>, local: &Local<'a>) -> &'a str {
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

pub(super) fn memory_sample(event: &[u8], local: &Local<'_>, time_ps: u64) -> MemorySample {
    let mut sample = MemorySample {
        allocator: 0,
        time_ps,
        in_use: 0,
        reserved: 0,
        free: 0,
        peak: 0,
    };
    for (number, value) in Message::new(event) {
        if number != 4 {
            continue;
        }
        let (name, stat) = local.plane.stat(value.bytes());
        match name {
            "index_on_host" | "device_ordinal" => sample.allocator = stat.uint(),
            "bytes_allocated" => sample.in_use = stat.uint(),
            "bytes_reserved" => sample.reserved = stat.uint(),
            "bytes_available" => sample.free = stat.uint(),
            "peak_bytes_in_use" => sample.peak = stat.uint(),
            _ => {}
        }
    }
    sample
}
