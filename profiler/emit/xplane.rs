//! A session as an `XSpace`, shaped as libtpu and the profiler server write it.
//!
//! Field numbers are those of `tsl/profiler/protobuf/xplane.proto`. Planes: one for each device,
//! `/host:metadata` with the HLO, `Task Environment` with the capture's length.

use rustc_hash::FxHashMap;

use super::encoder::Encoder;
use super::hlo_line::HloLines;
use super::{EmbeddedHlo, LINES, mark, module_label, steps};
use crate::prediction::OpPrediction;
use crate::program;
use crate::session::{CoreKind, Device, Op, OpId, Session};

/// A moment that a predicted capture is said to begin at, in nanoseconds since the epoch: tools
/// divide by it, and a clock would make each file different.
const START_NS: u64 = 1_600_000_000_000_000_000;

/// Writes a session as the bytes of an `.xplane.pb`. `hlo` are the programs to embed, without
/// which XProf shows no graph.
///
/// Spans that stand for several executions (the later iterations of long loops) are one event
/// each: XProf counts them once, and their time as it is.
#[must_use]
pub fn xplane(session: &Session, hlo: &[EmbeddedHlo<'_>]) -> Vec<u8> {
    let mut space = Encoder::default();
    let texts = HloLines::of(session);
    for (number, device) in (0u64..).zip(&session.devices) {
        if device.kind == CoreKind::Cpu {
            continue;
        }
        let plane = device_plane(session, device, number, &texts);
        space.bytes(1, &plane);
    }
    space.bytes(1, &metadata_plane(session, hlo));
    space.bytes(1, &environment_plane(session));
    // Field 3, warnings: XProf shows them.
    if let Some(mark) = mark::of(session) {
        space.text(3, &mark);
    }
    let host = session.hosts.first().map_or("", |host| host.name.as_str());
    space.text(4, host);
    space.into_bytes()
}

/// A value of a stat.
enum Value<'v> {
    Uint(u64),
    Int(i64),
    Double(f64),
    Text(&'v str),
    Bytes(&'v [u8]),
}

/// A plane under construction: its lines and stats are written at once, its names at the end.
#[derive(Default)]
struct Plane {
    out: Encoder,
    stats: Vec<&'static str>,
    /// Event metadata, by id from 1.
    events: Vec<Vec<u8>>,
    named: FxHashMap<String, u64>,
    ops: FxHashMap<(OpId, bool), u64>,
}

impl Plane {
    fn new(id: u64, name: &str) -> Self {
        let mut plane = Self::default();
        plane.out.uint(1, id);
        plane.out.text(2, name);
        plane
    }

    /// An `XStat`, written into the message at that field.
    fn stat(&mut self, out: &mut Encoder, field: u32, name: &'static str, value: &Value<'_>) {
        let at = self.stats.iter().position(|known| *known == name);
        let at = at.unwrap_or_else(|| {
            self.stats.push(name);
            self.stats.len() - 1
        });
        out.message(field, |stat| {
            stat.uint(1, at as u64 + 1);
            match value {
                Value::Double(value) => stat.double(2, *value),
                Value::Uint(value) => stat.uint(3, *value),
                Value::Int(value) => stat.uint(4, value.cast_unsigned()),
                Value::Text(value) => stat.text(5, value),
                Value::Bytes(value) => stat.bytes(6, value),
            }
        });
    }

    fn plane_stat(&mut self, name: &'static str, value: &Value<'_>) {
        let mut out = std::mem::take(&mut self.out);
        self.stat(&mut out, 6, name, value);
        self.out = out;
    }

    /// The metadata of events that are known by their name alone.
    fn named(&mut self, name: &str) -> u64 {
        if let Some(id) = self.named.get(name) {
            return *id;
        }
        let id = self.events.len() as u64 + 1;
        let mut metadata = Encoder::default();
        metadata.uint(1, id);
        metadata.text(2, name);
        self.events.push(metadata.into_bytes());
        self.named.insert(name.to_owned(), id);
        id
    }

    fn finish(mut self) -> Vec<u8> {
        for (id, metadata) in (1u64..).zip(&self.events) {
            self.out.message(4, |entry| {
                entry.uint(1, id);
                entry.bytes(2, metadata);
            });
        }
        for (id, name) in (1u64..).zip(&self.stats) {
            self.out.message(5, |entry| {
                entry.uint(1, id);
                entry.message(2, |stat| {
                    stat.uint(1, id);
                    stat.text(2, name);
                });
            });
        }
        self.out.into_bytes()
    }
}

fn device_plane(session: &Session, device: &Device, number: u64, texts: &HloLines<'_>) -> Vec<u8> {
    let mut plane = Plane::new(2 + 8 * number, &device.plane);
    plane_stats(&mut plane, device, number);
    let [steps_line, modules_line, ops_line, async_line] = LINES;
    let mut events = Encoder::default();
    for (at, (start, duration, name)) in steps(session, device).into_iter().enumerate() {
        let id = plane.named(&name);
        event(&mut events, id, start, duration, |out| {
            device_times(&mut plane, out, start, duration);
            plane.stat(out, 4, "group_id", &Value::Int(at as i64));
        });
    }
    line(&mut plane, steps_line, events);
    let mut events = Encoder::default();
    for (at, (start, duration, module)) in device.modules.iter().enumerate() {
        let id = plane.named(&module_label(session, module));
        let run = device.run_ids.get(at).copied().unwrap_or(0);
        event(&mut events, id, start, duration, |out| {
            for (name, value) in [
                ("run_id", Value::Uint(run)),
                ("replica_id", Value::Int(0)),
                ("queue_id", Value::Uint(0)),
                ("core_type", Value::Uint(0)),
            ] {
                plane.stat(out, 4, name, &value);
            }
        });
    }
    line(&mut plane, modules_line, events);
    let mut events = Encoder::default();
    for (at, (start, duration, op)) in device.ops.iter().enumerate() {
        let id = op_metadata(&mut plane, session, op, texts, false);
        let device_duration = device.op_device_duration_ps.get(at).copied();
        event(&mut events, id, start, duration, |out| {
            device_times(&mut plane, out, start, device_duration.unwrap_or(duration));
            if let Some(executions) = device.repeats.get(&at) {
                plane.stat(out, 4, "executions", &Value::Uint(*executions));
            }
        });
    }
    line(&mut plane, ops_line, events);
    let mut events = Encoder::default();
    for (start, duration, op) in device.async_ops.iter() {
        let id = op_metadata(&mut plane, session, op, texts, true);
        event(&mut events, id, start, duration, |_| {});
    }
    line(&mut plane, async_line, events);
    plane.finish()
}

fn plane_stats(plane: &mut Plane, device: &Device, number: u64) {
    let mut core = Encoder::default();
    core.uint(2, u64::from(device.ordinal));
    core.uint(4, u64::from(device.chip_on_host.unwrap_or(0)));
    core.uint(6, number);
    plane.plane_stat("core_details", &Value::Bytes(&core.into_bytes()));
    let peaks = &device.peaks;
    if let Some(kind) = &peaks.device_type {
        plane.plane_stat("device_type_string", &Value::Text(kind));
    }
    for (name, value) in [
        ("peak_teraflops_per_second", peaks.peak_tflops),
        ("peak_hbm_bw_gigabytes_per_second", peaks.peak_hbm_gb_per_s),
        (
            "peak_vmem_rd_bw_gigabytes_per_second",
            peaks.peak_vmem_read_gb_per_s,
        ),
        (
            "peak_vmem_wr_bw_gigabytes_per_second",
            peaks.peak_vmem_write_gb_per_s,
        ),
        (
            "peak_cmem_rd_bw_gigabytes_per_second",
            peaks.peak_cmem_read_gb_per_s,
        ),
        (
            "peak_cmem_wr_bw_gigabytes_per_second",
            peaks.peak_cmem_write_gb_per_s,
        ),
    ] {
        plane.plane_stat(name, &Value::Double(value.unwrap_or(0.0)));
    }
    let flag = |flag: Option<bool>| Value::Int(i64::from(flag == Some(true)));
    plane.plane_stat("has_megacore", &flag(peaks.has_megacore));
    plane.plane_stat("has_merged_vmem", &flag(peaks.has_merged_vmem));
}

fn line(plane: &mut Plane, (id, name): (u64, &str), events: Encoder) {
    let events = events.into_bytes();
    if events.is_empty() {
        return;
    }
    let mut header = Encoder::default();
    header.uint(1, id);
    header.text(2, name);
    let mut line = header.into_bytes();
    line.extend(events);
    plane.out.bytes(3, &line);
}

/// An `XEvent` on the line under construction.
fn event(
    line: &mut Encoder,
    metadata: u64,
    start: u64,
    duration: u64,
    stats: impl FnOnce(&mut Encoder),
) {
    line.message(4, |event| {
        event.uint(1, metadata);
        event.uint(2, start);
        event.uint(3, duration);
        stats(event);
    });
}

fn device_times(plane: &mut Plane, out: &mut Encoder, start: u64, duration: u64) {
    plane.stat(out, 4, "device_offset_ps", &Value::Uint(start));
    plane.stat(out, 4, "device_duration_ps", &Value::Uint(duration));
}

/// The metadata of an operation, or of what its start has in flight.
fn op_metadata(
    plane: &mut Plane,
    session: &Session,
    id: OpId,
    texts: &HloLines<'_>,
    in_flight: bool,
) -> u64 {
    if let Some(known) = plane.ops.get(&(id, in_flight)) {
        return *known;
    }
    let number = plane.events.len() as u64 + 1;
    let unknown = Op::default();
    let op = session.ops.get(id as usize).unwrap_or(&unknown);
    let text = texts.line(id);
    let text = if text.is_empty() { &op.name } else { &text };
    let mut metadata = Encoder::default();
    metadata.uint(1, number);
    metadata.text(2, text);
    if in_flight {
        let kind = op.name.split("-start").next().unwrap_or("copy");
        metadata.text(4, &format!("async-{kind}"));
    } else {
        metadata.text(4, &op.name);
    }
    let prediction = session.prediction.as_ref().and_then(|p| p.op(id));
    op_stats(plane, &mut metadata, session, op, prediction);
    plane.events.push(metadata.into_bytes());
    plane.ops.insert((id, in_flight), number);
    number
}

fn op_stats(
    plane: &mut Plane,
    out: &mut Encoder,
    session: &Session,
    op: &Op,
    prediction: Option<&OpPrediction>,
) {
    let module = op.module.and_then(|id| session.modules.get(id as usize));
    let mut breakdown = Encoder::default();
    for access in &op.accesses {
        breakdown.message(1, |entry| {
            entry.uint(1, if access.write { 2 } else { 1 });
            entry.uint(2, access.space);
            entry.uint(3, access.bytes);
        });
    }
    let breakdown = breakdown.into_bytes();
    let integer = |value: Option<u64>| value.map(|value| Value::Int(value.cast_signed()));
    let stats = [
        ("hlo_category", Some(Value::Text(&op.category))),
        (
            "program_id",
            module.and_then(|m| m.program_id).map(Value::Uint),
        ),
        ("symbol_id", op.symbol_id.map(Value::Uint)),
        ("flops", integer(op.flops)),
        ("model_flops", integer(op.model_flops)),
        ("bytes_accessed", integer(op.bytes_accessed)),
        (
            "memory_access_breakdown",
            (!breakdown.is_empty()).then_some(Value::Bytes(&breakdown)),
        ),
        ("source", some_text(&op.source)),
        ("source_stack", some_text(&op.source_stack)),
        ("raw_bytes_accessed", integer(op.bytes_accessed)),
        ("shape_with_layout", some_text(&op.shape)),
        ("tf_op", some_text(&op.framework_op)),
        ("deduplicated_name", some_text(&op.deduplicated_name)),
        (
            "predicted_low_ps",
            prediction.map(|p| Value::Uint(p.run.low_ps)),
        ),
        (
            "predicted_high_ps",
            prediction.map(|p| Value::Uint(p.run.high_ps)),
        ),
        (
            "predicted_from",
            prediction.map(|p| Value::Text(p.basis.words())),
        ),
    ];
    for (name, value) in stats {
        if let Some(value) = value {
            plane.stat(out, 5, name, &value);
        }
    }
}

fn some_text(text: &str) -> Option<Value<'_>> {
    (!text.is_empty()).then_some(Value::Text(text))
}

fn metadata_plane(session: &Session, hlo: &[EmbeddedHlo<'_>]) -> Vec<u8> {
    let mut plane = Plane::new(0, "/host:metadata");
    let mut entries = Vec::new();
    for embedded in hlo {
        let module = session.modules.get(embedded.module as usize);
        let (Some(id), Some(proto)) = (
            module.and_then(|module| module.program_id),
            hlo_proto(embedded.bytes),
        ) else {
            continue;
        };
        let mut metadata = Encoder::default();
        metadata.uint(1, id);
        metadata.text(2, &module_label(session, embedded.module));
        plane.stat(&mut metadata, 5, "Hlo Proto", &Value::Bytes(&proto));
        entries.push((id, metadata.into_bytes()));
    }
    for (id, metadata) in entries {
        // The key is the program's id read as a signed number: often negative.
        plane.out.message(4, |entry| {
            entry.uint(1, id);
            entry.bytes(2, &metadata);
        });
    }
    plane.finish()
}

/// The bytes as an `xla.HloProto`: a bare module becomes its first field, of a module with its
/// configuration only that is kept.
fn hlo_proto(bytes: &[u8]) -> Option<Vec<u8>> {
    let (module, buffers) = program::split_hlo_proto(bytes)?;
    let mut proto = Encoder::default();
    proto.bytes(1, module);
    if let Some(buffers) = buffers {
        proto.bytes(3, buffers);
    }
    Some(proto.into_bytes())
}

fn environment_plane(session: &Session) -> Vec<u8> {
    let mut plane = Plane::new(1, "Task Environment");
    let capture = session.hosts.first().and_then(|host| host.capture_ns);
    let end = session
        .devices
        .iter()
        .filter_map(|device| Some(device.modules.extent()?.1.max(device.ops.extent()?.1)))
        .max()
        .unwrap_or(0);
    let (start, stop) = capture.unwrap_or((START_NS, START_NS + end.div_ceil(1_000)));
    plane.plane_stat("profile_start_time", &Value::Uint(start));
    plane.plane_stat("profile_stop_time", &Value::Uint(stop));
    plane.finish()
}
