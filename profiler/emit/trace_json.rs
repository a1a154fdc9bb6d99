//! A session as Chrome trace JSON: what Perfetto and chrome://tracing open, in the dialect that
//! JAX leaves beside an XSpace.

use rustc_hash::FxHashSet;
use serde_json::{Map, Value, json};

use super::hlo_line::HloLines;
use super::{LINES, mark, module_label, steps};
use crate::session::{CoreKind, Device, OpId, Session};

/// Writes a session as the text of a `.trace.json`. Times are microseconds; the details of an
/// operation stand at its first execution only.
#[must_use]
pub fn trace_json(session: &Session) -> Vec<u8> {
    let mut out = String::from("{\"displayTimeUnit\":\"ns\",\"metadata\":{\"highres-ticks\":true}");
    let host = session.hosts.first().map_or("", |host| host.name.as_str());
    if !host.is_empty() {
        out.push_str(&format!(",\"host_name\":{}", json!(host)));
    }
    if let Some(mark) = mark::of(session) {
        out.push_str(&format!(",\"prediction\":{}", json!(mark)));
    }
    out.push_str(",\"traceEvents\":[");
    let mut list = List {
        out,
        is_first: true,
    };
    let texts = HloLines::of(session);
    for (number, device) in (0u64..).zip(&session.devices) {
        if device.kind != CoreKind::Cpu {
            add_device(&mut list, session, device, number + 3, &texts);
        }
    }
    list.out.push_str("]}");
    list.out.into_bytes()
}

/// The list of events.
struct List {
    out: String,
    is_first: bool,
}

impl List {
    fn push(&mut self, event: &str) {
        if !self.is_first {
            self.out.push_str(",\n");
        }
        self.is_first = false;
        self.out.push_str(event);
    }

    fn named(&mut self, pid: u64, tid: Option<u64>, name: &str) {
        let what = if tid.is_some() { "thread" } else { "process" };
        let mut event = json!({
            "ph": "M", "pid": pid, "name": format!("{what}_name"), "args": { "name": name },
        });
        let mut order = json!({
            "ph": "M",
            "pid": pid,
            "name": format!("{what}_sort_index"),
            "args": { "sort_index": tid.unwrap_or(pid) },
        });
        if let Some(tid) = tid {
            event["tid"] = json!(tid);
            order["tid"] = json!(tid);
        }
        self.push(&event.to_string());
        self.push(&order.to_string());
    }

    fn complete(&mut self, place: (u64, u64), span: (u64, u64), name: &str, args: &Value) {
        let (pid, tid) = place;
        let event = format!(
            "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"dur\":{},\"name\":{},\"args\":{args}}}",
            micros(span.0),
            micros(span.1),
            json!(name),
        );
        self.push(&event);
    }
}

/// Picoseconds as microseconds, to the last digit.
fn micros(ps: u64) -> String {
    let (whole, part) = (ps / 1_000_000, ps % 1_000_000);
    if part == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{part:06}")
            .trim_end_matches('0')
            .to_owned()
    }
}

fn add_device(list: &mut List, session: &Session, device: &Device, pid: u64, texts: &HloLines<'_>) {
    list.named(pid, None, &device.plane);
    let [steps_line, modules_line, ops_line, async_line] = LINES;
    for (tid, name) in LINES {
        list.named(pid, Some(tid), name);
    }
    for (at, (start, duration, name)) in steps(session, device).into_iter().enumerate() {
        let args = json!({ "group_id": at.to_string() });
        list.complete((pid, steps_line.0), (start, duration), &name, &args);
    }
    for (at, (start, duration, module)) in device.modules.iter().enumerate() {
        let mut args = json!({
            "run_id": device.run_ids.get(at).copied().unwrap_or(0).to_string(),
            "queue_id": "0",
            "device_offset_ps": start.to_string(),
            "device_duration_ps": duration.to_string(),
        });
        let run = session.prediction.as_ref().and_then(|p| p.run(module));
        if let Some(run) = run {
            args["predicted"] = json!(run.time.words());
        }
        let name = module_label(session, module);
        list.complete((pid, modules_line.0), (start, duration), &name, &args);
    }
    let mut seen: FxHashSet<OpId> = FxHashSet::default();
    for (at, (start, duration, op)) in device.ops.iter().enumerate() {
        let mut args = Map::new();
        if seen.insert(op) {
            details(&mut args, session, op, texts);
        }
        let exact = device.op_device_duration_ps.get(at).copied();
        let exact = exact.unwrap_or(duration);
        args.insert("device_offset_ps".to_owned(), json!(start.to_string()));
        args.insert("device_duration_ps".to_owned(), json!(exact.to_string()));
        if let Some(executions) = device.repeats.get(&at) {
            args.insert("executions".to_owned(), json!(executions.to_string()));
        }
        let name = session
            .ops
            .get(op as usize)
            .map_or("", |op| op.name.as_str());
        list.complete((pid, ops_line.0), (start, duration), name, &args.into());
    }
    for (start, duration, op) in device.async_ops.iter() {
        let name = session
            .ops
            .get(op as usize)
            .map_or("", |op| op.name.as_str());
        let kind = name.split("-start").next().unwrap_or("copy");
        list.complete(
            (pid, async_line.0),
            (start, duration),
            &format!("async-{kind}"),
            &json!({ "hlo_op": name }),
        );
    }
}

fn details(args: &mut Map<String, Value>, session: &Session, id: OpId, texts: &HloLines<'_>) {
    let Some(op) = session.ops.get(id as usize) else {
        return;
    };
    let module = op.module.and_then(|id| session.modules.get(id as usize));
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    for (name, value) in [
        ("hlo_category", text(&op.category)),
        ("long_name", text(&texts.line(id))),
        ("program_id", number(module.and_then(|m| m.program_id))),
        ("symbol_id", number(op.symbol_id)),
        ("flops", number(op.flops)),
        ("model_flops", number(op.model_flops)),
        ("bytes_accessed", number(op.bytes_accessed)),
        ("raw_bytes_accessed", number(op.bytes_accessed)),
        ("shape_with_layout", text(&op.shape)),
        ("source", text(&op.source)),
        ("source_stack", text(&op.source_stack)),
        ("tf_op", text(&op.framework_op)),
        ("deduplicated_name", text(&op.deduplicated_name)),
    ] {
        if let Some(value) = value {
            args.insert(name.to_owned(), Value::String(value));
        }
    }
    if let Some(found) = session.prediction.as_ref().and_then(|p| p.op(id)) {
        let words = format!("{}, from {}", found.run.words(), found.basis.words());
        args.insert("predicted".to_owned(), Value::String(words));
    }
}
