//! Writes a [`TpuProfile`] as the trace viewer's JSON: `NAME.trace.json`.
//!
//! The dialect that JAX leaves beside an XSpace: all arguments are strings, what
//! only XProf uses itself (flops, program and symbol ids, plane stats, HLO) is
//! missing, times are microseconds, and the list ends with an empty object.

use serde_json::{Value, json};

use super::profile::{Mark, Op, TpuProfile};

/// The file's text.
pub fn to_string(profile: &TpuProfile) -> String {
    let mut events = Vec::new();
    for device in &profile.devices {
        let pid = device.ordinal + 3;
        process(&mut events, pid, &format!("/device:TPU:{}", device.ordinal));
        for (tid, name) in [
            (1, "Steps"),
            (2, "XLA Modules"),
            (3, "XLA Ops"),
            (4, "Async XLA Ops"),
            (6, "XLA TraceMe"),
        ] {
            if tid != 1 || !device.steps.is_empty() {
                thread(&mut events, pid, tid, name);
            }
        }
    }
    process(&mut events, 701, "/host:CPU");
    for (index, host) in profile.host_threads.iter().enumerate() {
        thread(
            &mut events,
            701,
            21_000 + index,
            &format!("{}/{}", host.name, 21_000 + index),
        );
    }
    for device in &profile.devices {
        let pid = device.ordinal + 3;
        let skew = device.clock_skew;
        for step in &device.steps {
            let args = json!({"group_id": step.number.to_string()});
            complete(
                &mut events,
                (pid, 1),
                step.start + skew,
                step.duration,
                &step.number.to_string(),
                args,
            );
        }
        for run in &device.modules {
            let program = &profile.programs[run.program];
            let args = json!({
                "core_type": "0",
                "device_duration_ps": run.duration.to_string(),
                "device_offset_ps": run.start.to_string(),
                "queue_id": "0",
                "replica_id": "0",
                "run_id": run.run_id.to_string(),
            });
            let name = format!("{}({})", program.name, program.id);
            complete(
                &mut events,
                (pid, 2),
                run.start + skew,
                run.duration,
                &name,
                args,
            );
        }
        let mut jumped = 0;
        for run in &device.ops {
            let op = profile.op(run.op);
            let mut args = op_args(op);
            args["device_duration_ps"] = json!(run.duration.to_string());
            args["device_offset_ps"] = json!(run.start.to_string());
            complete(
                &mut events,
                (pid, 3),
                run.start + skew + jumped,
                run.host_duration,
                &op.name,
                args,
            );
            jumped += run.host_duration.saturating_sub(run.duration);
        }
        for transfer in &device.transfers {
            let mut args = op_args(profile.op(transfer.start_op));
            args["hlo_op"] = json!(profile.op(transfer.done_op).name);
            let name = profile.op(transfer.start_op).async_name();
            complete(
                &mut events,
                (pid, 4),
                transfer.start + skew,
                transfer.duration,
                &name,
                args,
            );
        }
        for Mark {
            name,
            start,
            duration,
        } in &device.trace_me
        {
            let args = json!({
                "device_duration_ps": duration.to_string(),
                "device_offset_ps": start.to_string(),
            });
            complete(&mut events, (pid, 6), start + skew, *duration, name, args);
        }
    }
    for (index, thread) in profile.host_threads.iter().enumerate() {
        for e in &thread.events {
            let args = e
                .stats
                .iter()
                .map(|(n, v)| ((*n).to_owned(), json!(v.to_string())));
            let args = Value::Object(args.collect());
            complete(
                &mut events,
                (701, 21_000 + index),
                e.start,
                e.duration,
                &e.name,
                args,
            );
        }
    }
    let list: Vec<String> = events.iter().map(Value::to_string).collect();
    format!(
        "{{\"displayTimeUnit\":\"ns\",\"metadata\":{{\"highres-ticks\":true}},\"traceEvents\":[{},{{}}]}}",
        list.join(",")
    )
}

fn op_args(op: &Op) -> Value {
    let mut args = json!({
        "bytes_accessed": op.bytes.to_string(),
        "hlo_category": op.category,
        "long_name": op.hlo,
        "memory_access_breakdown": "<opaque bytes>",
        "model_flops": op.model_flops.to_string(),
        "raw_bytes_accessed": op.bytes.to_string(),
        "shape_with_layout": op.shape,
    });
    for (name, value) in [
        ("source", &op.source),
        ("source_stack", &op.source_stack),
        ("tf_op", &op.tf_op),
        ("deduplicated_name", &op.deduplicated_name),
    ] {
        if let Some(value) = value {
            args[name] = json!(value);
        }
    }
    args
}

fn process(events: &mut Vec<Value>, pid: u32, name: &str) {
    events.push(json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}));
    events.push(
        json!({"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}),
    );
}

fn thread(events: &mut Vec<Value>, pid: u32, tid: usize, name: &str) {
    events.push(
        json!({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}),
    );
    events.push(json!({
        "ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}
    }));
}

/// A complete event; one without length becomes an instant, as the viewer has it.
fn complete(
    events: &mut Vec<Value>,
    (pid, tid): (u32, usize),
    start: u64,
    duration: u64,
    name: &str,
    args: Value,
) {
    let ts = start as f64 / 1e6;
    events.push(if duration == 0 {
        json!({"ph": "i", "pid": pid, "tid": tid, "ts": ts, "s": "t", "name": name, "args": args})
    } else {
        let dur = duration as f64 / 1e6;
        json!({"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name, "args": args})
    });
}
