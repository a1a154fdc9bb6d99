//! `XSpace` (`*.xplane.pb`): what libtpu and the JAX profiler write.
//!
//! One pass in three parts. The lines of a plane come before the metadata that explains them, so
//! first the planes are indexed (lines are skipped over, not read); then the metadata of each
//! plane is interned, a few thousand entries; then all lines of all planes are read in parallel
//! into columns. Nothing is copied but what is kept.
//!
//! Metadata ids are signed 64-bit hashes on `/host:metadata`: they are keys of a map, never
//! indices of a table.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::memory::MemoryTimeline;
use crate::note::Notes;
use crate::program;
use crate::session::{
    CoreKind, Device, EventCosts, HostThread, MemoryAccess, NameId, Op, OpId, SessionProgram,
    StatedPeaks, Track,
};
use crate::session_builder::{OpKey, SessionBuilder, parse_tpu_plane, split_module_label};
use crate::wire::{Message, Value};

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
    while let Some((number, value)) = fields.next() {
        match number {
            1 => planes.push(Plane::index(value.bytes(), builder.notes())),
            2 => builder.notes().warn(
                "profiler-error",
                format!("the profiler reported: {}", shorten(value.text())),
            ),
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

fn shorten(text: &str) -> String {
    text.chars().take(300).collect()
}

/// A plane with its lines still unread.
#[derive(Default)]
struct Plane<'a> {
    name: &'a str,
    lines: Vec<&'a [u8]>,
    event_metadata: Vec<(i64, &'a [u8])>,
    stat_names: FxHashMap<i64, &'a str>,
    stats: Vec<&'a [u8]>,
    truncated: bool,
}

impl<'a> Plane<'a> {
    fn index(bytes: &'a [u8], notes: &mut Notes) -> Self {
        let mut plane = Self::default();
        let mut fields = Message::new(bytes);
        while let Some((number, value)) = fields.next() {
            match number {
                2 => plane.name = value.text(),
                3 => plane.lines.push(value.bytes()),
                4 => {
                    let (key, entry) = map_entry(value.bytes());
                    plane.event_metadata.push((key, entry));
                }
                5 => {
                    let (key, entry) = map_entry(value.bytes());
                    let name = Message::new(entry)
                        .find(|(n, _)| *n == 2)
                        .map(|(_, v)| v.text());
                    plane.stat_names.insert(key, name.unwrap_or_default());
                }
                6 => plane.stats.push(value.bytes()),
                _ => {}
            }
        }
        if let Some(error) = fields.error() {
            plane.truncated = true;
            notes.warn(
                "bad-plane",
                format!(
                    "plane {:?} is damaged ({error}): it was read up to there",
                    shorten(plane.name)
                ),
            );
        }
        plane
    }

    fn stat(&self, bytes: &'a [u8]) -> (&'a str, Stat<'a>) {
        let (id, value) = raw_stat(bytes);
        let name = self.stat_names.get(&id).copied().unwrap_or_default();
        let value = match value {
            Stat::Ref(key) => Stat::Text(
                self.stat_names
                    .get(&key.cast_signed())
                    .copied()
                    .unwrap_or_default(),
            ),
            other => other,
        };
        (name, value)
    }

    fn stat_id(&self, name: &str) -> i64 {
        // Ids are unique; where a name stands twice the smaller id is taken, so that the answer
        // does not depend on the map's order.
        let ids = self.stat_names.iter().filter(|(_, known)| **known == name);
        ids.map(|(id, _)| *id).min().unwrap_or(i64::MIN)
    }
}

/// A stat's value.
#[derive(Clone, Copy, Debug)]
enum Stat<'a> {
    None,
    Int(u64),
    Double(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Ref(u64),
}

impl<'a> Stat<'a> {
    fn uint(self) -> u64 {
        match self {
            Self::Int(v) | Self::Ref(v) => v,
            Self::Text(text) => text.parse().unwrap_or(0),
            Self::Double(v) if v >= 0.0 => v as u64,
            _ => 0,
        }
    }

    fn double(self) -> f64 {
        match self {
            Self::Double(v) => v,
            Self::Int(v) => v as f64,
            Self::Text(text) => text.parse().unwrap_or(0.0),
            _ => 0.0,
        }
    }

    fn text(self) -> &'a str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
            _ => &[],
        }
    }
}

#[inline]
fn raw_stat(bytes: &[u8]) -> (i64, Stat<'_>) {
    let mut id = 0;
    let mut stat = Stat::None;
    for (number, value) in Message::new(bytes) {
        match number {
            1 => id = value.int(),
            2 => stat = Stat::Double(value.double()),
            3 | 4 => stat = Stat::Int(value.uint()),
            5 => stat = Stat::Text(value.text()),
            6 => stat = Stat::Bytes(value.bytes()),
            7 => stat = Stat::Ref(value.uint()),
            _ => {}
        }
    }
    (id, stat)
}

fn map_entry(bytes: &[u8]) -> (i64, &[u8]) {
    let mut key = 0;
    let mut entry: &[u8] = &[];
    for (number, value) in Message::new(bytes) {
        match number {
            1 => key = value.int(),
            2 => entry = value.bytes(),
            _ => {}
        }
    }
    (key, entry)
}

/// What a plane is read as.
enum Role {
    /// A TPU core: index into the devices under construction.
    Core(CoreKind, u32),
    /// Threads of the host.
    Host,
}

/// A line, its header read, its events not.
struct LineJob<'a> {
    plane: usize,
    kind: LineKind,
    name: &'a str,
    bytes: &'a [u8],
    timestamp_ps: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Ops,
    Modules,
    AsyncOps,
    Steps,
    Marks,
    HostThread,
}

/// Ids of the stats that matter on events, resolved once for each plane.
#[derive(Clone, Copy)]
struct EventStats {
    device_offset_ps: i64,
    device_duration_ps: i64,
    run_id: i64,
    flops: i64,
    model_flops: i64,
    bytes_accessed: i64,
    time_scale: i64,
    hlo_op: i64,
    hlo_module: i64,
    program_id: i64,
}

/// The columns of one line, ids still local to the plane.
#[derive(Default)]
struct LineData {
    spans: Track,
    device_start_ps: Vec<u64>,
    device_duration_ps: Vec<u64>,
    run_ids: Vec<u64>,
    costs: FxHashMap<u32, EventCosts>,
    memory: Vec<MemorySample>,
    /// Executions of XLA:CPU operations met on a host line.
    host_ops: Vec<(u64, u64, HostOp)>,
    rescaled: u64,
    bad_events: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HostOp {
    name: String,
    module: String,
    program_id: u64,
}

struct MemorySample {
    allocator: u64,
    time_ps: u64,
    in_use: u64,
    reserved: u64,
    free: u64,
    peak: u64,
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
                read_plane_stats(plane, &mut device);
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
            "/host:metadata" => read_programs(plane, builder),
            "Task Environment" => read_environment(plane, host, builder),
            "/host:CPU" => read_host_counters(plane, host, builder),
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

/// The line's job, if its events are wanted, and its name.
fn line_job<'a>(plane: usize, role: &Role, bytes: &'a [u8]) -> (Option<LineJob<'a>>, &'a str) {
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

/// A plane's event metadata by local index, and the stat ids that its events use.
struct Local<'a> {
    plane: &'a Plane<'a>,
    metadata: Vec<&'a [u8]>,
    index: FxHashMap<i64, u32>,
    stats: EventStats,
    memory_ids: [Option<u32>; 2],
}

impl<'a> Local<'a> {
    fn of(plane: &'a Plane<'a>) -> Self {
        let mut index = FxHashMap::default();
        let mut metadata = Vec::with_capacity(plane.event_metadata.len());
        let mut memory_ids = [None; 2];
        for (id, bytes) in &plane.event_metadata {
            let local = metadata.len() as u32;
            index.insert(*id, local);
            metadata.push(*bytes);
            let name = Message::new(bytes)
                .find(|(n, _)| *n == 2)
                .map(|(_, v)| v.text());
            match name {
                Some("MemoryAllocation") => memory_ids[0] = Some(local),
                Some("MemoryDeallocation") => memory_ids[1] = Some(local),
                _ => {}
            }
        }
        let stats = EventStats {
            device_offset_ps: plane.stat_id("device_offset_ps"),
            device_duration_ps: plane.stat_id("device_duration_ps"),
            run_id: plane.stat_id("run_id"),
            flops: plane.stat_id("flops"),
            model_flops: plane.stat_id("model_flops"),
            bytes_accessed: plane.stat_id("bytes_accessed"),
            time_scale: plane.stat_id("Time Scale Multiplier"),
            hlo_op: plane.stat_id("hlo_op"),
            hlo_module: plane.stat_id("hlo_module"),
            program_id: plane.stat_id("program_id"),
        };
        Self {
            plane,
            metadata,
            index,
            stats,
            memory_ids,
        }
    }

    fn label(&self, local: u32) -> (&'a str, &'a str) {
        let mut name = "";
        let mut display = "";
        let bytes = self
            .metadata
            .get(local as usize)
            .copied()
            .unwrap_or_default();
        for (number, value) in Message::new(bytes) {
            match number {
                2 => name = value.text(),
                4 => display = value.text(),
                _ => {}
            }
        }
        (name, display)
    }
}

/// Handles already given to a plane's metadata.
struct Interned {
    names: Vec<Option<NameId>>,
    ops: Vec<Option<OpId>>,
}

impl Interned {
    fn new(len: usize) -> Self {
        Self {
            names: vec![None; len],
            ops: vec![None; len],
        }
    }

    fn name(&mut self, local: u32, metadata: &Local<'_>, builder: &mut SessionBuilder) -> NameId {
        let slot = self.names.get_mut(local as usize);
        match slot {
            Some(Some(id)) => *id,
            Some(slot) => {
                let (name, display) = metadata.label(local);
                let id = builder.name(if display.is_empty() { name } else { display });
                *slot = Some(id);
                id
            }
            None => builder.name(""),
        }
    }

    fn op(&mut self, local: u32, metadata: &Local<'_>, builder: &mut SessionBuilder) -> OpId {
        if let Some(Some(id)) = self.ops.get(local as usize) {
            return *id;
        }
        let id = intern_op(local, metadata, builder);
        if let Some(slot) = self.ops.get_mut(local as usize) {
            *slot = Some(id);
        }
        id
    }
}

fn intern_op(local: u32, metadata: &Local<'_>, builder: &mut SessionBuilder) -> OpId {
    let bytes = metadata
        .metadata
        .get(local as usize)
        .copied()
        .unwrap_or_default();
    let mut op = Op::default();
    let mut program_id = None;
    let mut name = "";
    let mut display = "";
    for (number, value) in Message::new(bytes) {
        match number {
            2 => name = value.text(),
            4 => display = value.text(),
            5 => {
                let (key, stat) = metadata.plane.stat(value.bytes());
                match key {
                    "hlo_category" => op.category = stat.text().to_owned(),
                    "program_id" => program_id = Some(stat.uint()),
                    "symbol_id" => op.symbol_id = Some(stat.uint()),
                    "flops" => op.flops = Some(stat.uint()),
                    "model_flops" => op.model_flops = Some(stat.uint()),
                    "bytes_accessed" => op.bytes_accessed = Some(stat.uint()),
                    "memory_access_breakdown" => op.accesses = read_breakdown(stat.bytes()),
                    "shape_with_layout" => op.shape = stat.text().to_owned(),
                    "tf_op" => op.framework_op = stat.text().to_owned(),
                    "source" => op.source = stat.text().to_owned(),
                    "source_stack" => op.source_stack = stat.text().to_owned(),
                    "deduplicated_name" => op.deduplicated_name = stat.text().to_owned(),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    display.clone_into(&mut op.name);
    if op.name.is_empty() {
        let text = name.strip_prefix('%').unwrap_or(name);
        let end = text.find(" = ").unwrap_or(text.len());
        text[..end].clone_into(&mut op.name);
    }
    if name.contains(" = ") {
        name.clone_into(&mut op.hlo_text);
    }
    op.module = program_id.map(|id| module_of_program(id, builder));
    let key = match (program_id, op.symbol_id) {
        (Some(program_id), Some(symbol_id)) if symbol_id != 0 => OpKey::Symbol {
            program_id,
            symbol_id,
        },
        _ => OpKey::Name {
            module: op.module,
            name: op.name.clone(),
        },
    };
    builder.op(key, || op)
}

/// The module of a program id: named on the modules line, or not yet.
fn module_of_program(program_id: u64, builder: &mut SessionBuilder) -> u32 {
    let known = builder
        .session
        .modules
        .iter()
        .position(|m| m.program_id == Some(program_id));
    match known {
        Some(index) => index as u32,
        None => builder.module("", Some(program_id)),
    }
}

/// Reads XProf's `MemoryAccessBreakdown`: repeated `{operation_type, memory_space, bytes}`.
fn read_breakdown(bytes: &[u8]) -> Vec<MemoryAccess> {
    let mut accesses = Vec::new();
    for (number, value) in Message::new(bytes) {
        if number != 1 {
            continue;
        }
        let mut access = MemoryAccess {
            write: false,
            space: 0,
            bytes: 0,
        };
        for (number, value) in Message::new(value.bytes()) {
            match number {
                1 => access.write = value.uint() == 2,
                2 => access.space = value.uint(),
                3 => access.bytes = value.uint(),
                _ => {}
            }
        }
        accesses.push(access);
    }
    accesses
}

fn read_line(job: &LineJob<'_>, local: &Local<'_>) -> LineData {
    let mut data = LineData::default();
    let wants_device_time = matches!(job.kind, LineKind::Ops | LineKind::Steps);
    for (number, value) in Message::new(job.bytes) {
        if number == 4 {
            read_event(value, job, local, wants_device_time, &mut data);
        }
    }
    data
}

#[inline]
fn read_event(
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
    while let Some((number, value)) = event.next() {
        match number {
            1 => metadata_id = value.int(),
            2 => offset = value.uint(),
            3 => duration = value.uint(),
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
    let index = local.index.get(&metadata_id).copied();
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

fn memory_sample(event: &[u8], local: &Local<'_>, time_ps: u64) -> MemorySample {
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

fn read_plane_stats(plane: &Plane<'_>, device: &mut Device) {
    let mut peaks = StatedPeaks::default();
    for bytes in &plane.stats {
        let (name, stat) = plane.stat(bytes);
        match name {
            "device_type_string" => peaks.device_type = Some(stat.text().to_owned()),
            "peak_teraflops_per_second" => peaks.peak_tflops = positive(stat.double()),
            "peak_hbm_bw_gigabytes_per_second" => peaks.peak_hbm_gb_per_s = positive(stat.double()),
            "peak_vmem_rd_bw_gigabytes_per_second" => {
                peaks.peak_vmem_read_gb_per_s = positive(stat.double());
            }
            "peak_vmem_wr_bw_gigabytes_per_second" => {
                peaks.peak_vmem_write_gb_per_s = positive(stat.double());
            }
            "peak_cmem_rd_bw_gigabytes_per_second" => {
                peaks.peak_cmem_read_gb_per_s = positive(stat.double());
            }
            "peak_cmem_wr_bw_gigabytes_per_second" => {
                peaks.peak_cmem_write_gb_per_s = positive(stat.double());
            }
            "has_megacore" => peaks.has_megacore = Some(stat.uint() != 0),
            "core_details" => {
                // CoreDetails.local_chip_id is field 4, absent (0) on the first chip.
                let chip = Message::new(stat.bytes()).find(|(number, _)| *number == 4);
                device.chip_on_host = Some(chip.map_or(0, |(_, value)| value.uint() as u32));
            }
            _ => {}
        }
    }
    device.peaks = peaks;
}

fn positive(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

fn read_environment(plane: &Plane<'_>, host: u32, builder: &mut SessionBuilder) {
    let mut start = None;
    let mut stop = None;
    for bytes in &plane.stats {
        match plane.stat(bytes) {
            ("profile_start_time", stat) => start = Some(stat.uint()),
            ("profile_stop_time", stat) => stop = Some(stat.uint()),
            _ => {}
        }
    }
    if let (Some(start), Some(stop), Some(host)) =
        (start, stop, builder.session.hosts.get_mut(host as usize))
    {
        host.capture_ns = Some((start, stop));
    }
}

fn read_host_counters(plane: &Plane<'_>, host: u32, builder: &mut SessionBuilder) {
    for bytes in &plane.stats {
        let (name, stat) = plane.stat(bytes);
        let Some(host) = builder.session.hosts.get_mut(host as usize) else {
            return;
        };
        match name {
            "matrix_unit_utilization_percent" => host.mxu_utilization_percent = Some(stat.double()),
            "hbm_utilization_percent" => host.hbm_utilization_percent = Some(stat.double()),
            _ => {}
        }
    }
}

/// Reads the HLO that libtpu embeds, of programs that ran in the capture.
fn read_programs(plane: &Plane<'_>, builder: &mut SessionBuilder) {
    let mut protos = Vec::new();
    for (id, bytes) in &plane.event_metadata {
        let mut label = "";
        let mut proto: &[u8] = &[];
        for (number, value) in Message::new(bytes) {
            match number {
                2 => label = value.text(),
                5 => {
                    let (name, stat) = plane.stat(value.bytes());
                    if name == "Hlo Proto" || name == "hlo_proto" {
                        proto = stat.bytes();
                    }
                }
                _ => {}
            }
        }
        if proto.is_empty() {
            continue;
        }
        let (name, program_id) = split_module_label(label);
        let program_id = program_id.unwrap_or(id.cast_unsigned());
        let module = builder
            .session
            .modules
            .iter()
            .position(|m| m.program_id == Some(program_id));
        if let Some(module) = module {
            let module = module as u32;
            if builder.session.modules[module as usize].name.is_empty() {
                name.clone_into(&mut builder.session.modules[module as usize].name);
            }
            protos.push((module, proto));
        }
    }
    let known: Vec<u32> = builder
        .session
        .programs
        .iter()
        .filter_map(|p| p.module)
        .collect();
    protos.retain(|(module, _)| !known.contains(module));
    protos.sort_by_key(|(module, _)| *module);
    let programs: Vec<_> = protos
        .par_iter()
        .map(|(module, proto)| (*module, program::read_hlo_proto(proto)))
        .collect();
    for (module, (program, notes)) in programs {
        builder.notes().merge(notes);
        builder.add_program(SessionProgram {
            module: Some(module),
            program,
        });
    }
}
