//! `XSpace` (`*.xplane.pb`): what libtpu and the JAX profiler write.
//!
//! One pass in three parts. The lines of a plane come before the metadata that explains them, so
//! first the planes are indexed (lines are skipped over, not read); then the metadata of each
//! plane is interned, a few thousand entries; then all lines of all planes are read in parallel
//! into columns. Nothing is copied but what is kept.
//!
//! Metadata ids are signed 64-bit hashes on `/host:metadata`: they are keys of a map, never
//! indices of a table.

mod event_stats;
mod ids;
mod info;
mod line;
mod metadata;
mod plane;

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use self::line::{HostOp, LineData, LineKind, MemorySample, line_job, read_line};
use self::metadata::{Interned, Local, module_of_program};
use self::plane::{Plane, shorten};
use crate::emit::mark;
use crate::memory::MemoryTimeline;
use crate::session::{CoreKind, Device, HostThread, Op, Track};
use crate::session_builder::{OpKey, SessionBuilder, parse_tpu_plane, split_module_label};
use crate::wire::Message;

/// Why bytes are not an `XSpace` that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XSpaceError {
    /// The first bytes are not a plane of an `XSpace`.
    #[error("not an XSpace: {what} at byte {offset}")]
    NotXSpace {
        /// What was found.
        what: &'static str,
        /// Where.
        offset: usize,
    },
    /// Valid so far as it goes, but without a single plane.
    #[error("an XSpace without planes: the capture wrote nothing")]
    NoPlanes,
}

/// Reads one `XSpace` into the builder.
///
/// `host_hint` names the host where the file does not; `strict_utf8` is not needed: names that
/// are not UTF-8 are cut at the first bad byte.
///
/// # Errors
/// When not even one plane can be read. Everything after that is a note.
pub fn read(
    bytes: &[u8],
    host_hint: &str,
    builder: &mut SessionBuilder,
) -> Result<(), XSpaceError> {
    let mut planes = Vec::new();
    let mut hostname = None;
    let mut fields = Message::new(bytes);
    for (number, value) in fields.by_ref() {
        match number {
            1 => planes.push(Plane::index(value.bytes(), builder.notes())),
            2 => builder.notes().warn(
                "profiler-error",
                format!("the profiler reported: {}", shorten(value.text())),
            ),
            3 if mark::take(value.text(), builder) => {}
            3 => builder.notes().warn(
                "profiler-warning",
                format!("the profiler warned: {}", shorten(value.text())),
            ),
            4 if hostname.is_none() => hostname = Some(value.text()),
            _ => {}
        }
    }
    if let Some(error) = fields.error() {
        if planes.is_empty() {
            return Err(XSpaceError::NotXSpace {
                what: error.what,
                offset: error.offset,
            });
        }
        builder.notes().warn(
            "truncated-xspace",
            format!(
                "the file ends inside a plane (byte {} of {}): planes after that are lost",
                error.offset,
                bytes.len()
            ),
        );
    }
    if planes.is_empty() {
        return Err(XSpaceError::NoPlanes);
    }
    let host = builder.host(
        hostname
            .filter(|name| !name.is_empty())
            .unwrap_or(host_hint),
    );
    read_planes(&planes, host, builder);
    Ok(())
}

/// What a plane is read as.
enum Role {
    /// A TPU core: index into the devices under construction.
    Core(CoreKind, u32),
    /// Threads of the host.
    Host,
}

fn read_planes(planes: &[Plane<'_>], host: u32, builder: &mut SessionBuilder) {
    let mut roles: Vec<Option<Role>> = Vec::with_capacity(planes.len());
    for plane in planes {
        roles.push(role_of(plane, host, builder));
    }
    let locals: Vec<Local<'_>> = planes.iter().map(Local::of).collect();
    let mut jobs = Vec::new();
    for (index, plane) in planes.iter().enumerate() {
        let Some(role) = &roles[index] else { continue };
        for line in &plane.lines {
            let (job, name) = line_job(index, role, line);
            if matches!(role, Role::Core(..)) {
                builder.session.device_lines.insert(name.to_owned());
            }
            if let Some(job) = job {
                jobs.push(job);
            }
        }
    }
    let data: Vec<LineData> = jobs
        .par_iter()
        .map(|job| read_line(job, &locals[job.plane]))
        .collect();

    // Interning is sequential, so that handles do not depend on the order of threads.
    let mut devices: Vec<Option<Device>> = planes
        .iter()
        .zip(&roles)
        .map(|(plane, role)| match role {
            Some(Role::Core(kind, ordinal)) => {
                let mut device = Device::new(host, plane.name.to_owned(), *kind, *ordinal);
                info::read_plane_stats(plane, &mut device);
                Some(device)
            }
            _ => None,
        })
        .collect();
    let mut tables: Vec<Interned> = locals
        .iter()
        .map(|local| Interned::new(local.metadata.len()))
        .collect();
    let mut memory: FxHashMap<u64, MemoryTimeline> = FxHashMap::default();
    let mut rescaled = 0;
    let mut bad_events = 0;
    for (job, mut line) in jobs.iter().zip(data) {
        let local = &locals[job.plane];
        let table = &mut tables[job.plane];
        rescaled += line.rescaled;
        bad_events += line.bad_events;
        match (job.kind, &mut devices[job.plane]) {
            (LineKind::HostThread, _) => {
                for id in &mut line.spans.id {
                    *id = table.name(*id, local, builder);
                }
                for sample in std::mem::take(&mut line.memory) {
                    add_memory(&mut memory, host, &sample);
                }
                add_host_ops(job.name, host, std::mem::take(&mut line.host_ops), builder);
                builder.add_thread(HostThread {
                    host,
                    name: job.name.to_owned(),
                    spans: line.spans,
                });
            }
            (kind, Some(device)) => add_device_line(kind, line, device, local, table, builder),
            _ => {}
        }
    }
    if rescaled > 0 {
        builder.notes().info(
            "time-scaled",
            format!("{rescaled} operations ran at another clock (Time Scale Multiplier is not 1): times are as measured, not rescaled"),
        );
    }
    if bad_events > 0 {
        builder.notes().warn(
            "bad-events",
            format!("{bad_events} events are damaged and were left out"),
        );
    }
    for device in devices.into_iter().flatten() {
        builder.add_device(device);
    }
    let mut memory: Vec<(u64, MemoryTimeline)> = memory.into_iter().collect();
    memory.sort_by_key(|(allocator, _)| *allocator);
    builder
        .session
        .memory
        .extend(memory.into_iter().map(|(_, timeline)| timeline));
    for plane in planes {
        match plane.name {
            "/host:metadata" => info::read_programs(plane, builder),
            "Task Environment" => info::read_environment(plane, host, builder),
            "/host:CPU" => info::read_host_counters(plane, host, builder),
            _ => {}
        }
    }
}

fn role_of(plane: &Plane<'_>, host: u32, builder: &mut SessionBuilder) -> Option<Role> {
    let _ = host;
    if let Some((kind, ordinal)) = parse_tpu_plane(plane.name) {
        return Some(Role::Core(kind, ordinal));
    }
    if let Some(rest) = plane.name.strip_prefix("/device:") {
        let foreign =
            !rest.starts_with("TPU") && !rest.starts_with("CUSTOM") && !rest.starts_with("CPU");
        if foreign
            && !builder
                .session
                .foreign_planes
                .iter()
                .any(|name| name == plane.name)
        {
            builder.session.foreign_planes.push(plane.name.to_owned());
        }
        return None;
    }
    // Planes without lines carry metadata; the Python tracer's has lines of its own.
    let is_host = plane.name.starts_with("/host:") && !plane.name.starts_with("/host:metadata");
    is_host.then_some(Role::Host)
}

fn add_memory(memory: &mut FxHashMap<u64, MemoryTimeline>, host: u32, sample: &MemorySample) {
    let timeline = memory
        .entry(sample.allocator)
        .or_insert_with(|| MemoryTimeline {
            host,
            allocator: sample.allocator.to_string(),
            ..MemoryTimeline::default()
        });
    timeline.time_ps.push(sample.time_ps);
    timeline.in_use_bytes.push(sample.in_use);
    timeline.reserved_bytes.push(sample.reserved);
    timeline.free_bytes.push(sample.free);
    timeline.lifetime_peak_bytes = timeline.lifetime_peak_bytes.max(sample.peak);
}

fn add_device_line(
    kind: LineKind,
    mut line: LineData,
    device: &mut Device,
    local: &Local<'_>,
    table: &mut Interned,
    builder: &mut SessionBuilder,
) {
    match kind {
        LineKind::Ops => {
            for id in &mut line.spans.id {
                *id = table.op(*id, local, builder);
            }
            // The order of a hash map does not reach the result: each entry goes to its own op.
            #[expect(
                clippy::iter_over_hash_type,
                reason = "each entry goes to its own slot"
            )]
            for (index, cost) in line.costs {
                let sum = device
                    .event_costs
                    .entry(table.op(index, local, builder))
                    .or_default();
                sum.flops = sum.flops.saturating_add(cost.flops);
                sum.model_flops = sum.model_flops.saturating_add(cost.model_flops);
                sum.bytes_accessed = sum.bytes_accessed.saturating_add(cost.bytes_accessed);
            }
            append(&mut device.ops, line.spans);
            device.op_device_start_ps.append(&mut line.device_start_ps);
            device
                .op_device_duration_ps
                .append(&mut line.device_duration_ps);
        }
        LineKind::Modules => {
            for id in &mut line.spans.id {
                let (name, _) = local.label(*id);
                let (module, program_id) = split_module_label(name);
                *id = match program_id {
                    Some(program_id) => {
                        let known = module_of_program(program_id, builder);
                        if let Some(entry) = builder.session.modules.get_mut(known as usize)
                            && entry.name.is_empty()
                        {
                            module.clone_into(&mut entry.name);
                        }
                        known
                    }
                    None => builder.module(module, None),
                };
            }
            append(&mut device.modules, line.spans);
            device.run_ids.append(&mut line.run_ids);
        }
        LineKind::AsyncOps => {
            for id in &mut line.spans.id {
                *id = table.op(*id, local, builder);
            }
            append(&mut device.async_ops, line.spans);
        }
        LineKind::Steps | LineKind::Marks => {
            for id in &mut line.spans.id {
                *id = table.name(*id, local, builder);
            }
            if kind == LineKind::Steps {
                let by_device = Track {
                    start_ps: line.device_start_ps,
                    duration_ps: line.device_duration_ps,
                    id: line.spans.id.clone(),
                };
                device.device_extent_ps = by_device.extent();
                append(&mut device.steps, line.spans);
            } else {
                append(&mut device.marks, line.spans);
            }
        }
        LineKind::HostThread => {}
    }
}

/// Appends without a copy where the target is empty, which it nearly always is.
fn append(target: &mut Track, mut source: Track) {
    if target.is_empty() {
        *target = source;
    } else {
        target.start_ps.append(&mut source.start_ps);
        target.duration_ps.append(&mut source.duration_ps);
        target.id.append(&mut source.id);
    }
}

/// XLA:CPU runs operations on threads of the host: each such thread becomes a core.
fn add_host_ops(
    thread: &str,
    host: u32,
    ops: Vec<(u64, u64, HostOp)>,
    builder: &mut SessionBuilder,
) {
    if ops.is_empty() {
        return;
    }
    let ordinal = builder.session.devices.len() as u32;
    let mut device = Device::new(host, format!("/host:CPU {thread}"), CoreKind::Cpu, ordinal);
    for (start, duration, op) in ops {
        let program_id = (op.program_id != 0).then_some(op.program_id);
        let (module, _) = split_module_label(&op.module);
        let module = builder.module(module, program_id);
        let key = OpKey::Name {
            module: Some(module),
            name: op.name.clone(),
        };
        let id = builder.op(key, || {
            let opcode = op.name.split('.').next().unwrap_or_default();
            Op {
                module: Some(module),
                name: op.name.clone(),
                category: opcode
                    .trim_end_matches(|c: char| c.is_ascii_digit())
                    .to_owned(),
                ..Op::default()
            }
        });
        device.push_op(id, start, duration, None);
    }
    builder.add_device(device);
}
