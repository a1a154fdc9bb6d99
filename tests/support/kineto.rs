//! Writes a [`TpuProfile`] as `torch.profiler` exports it: a Kineto trace.
//!
//! Device planes become `cat: "kernel"` with the plane's id as `pid` and the
//! line's name as the thread's; every stat, of the metadata first, then of the
//! event, is an argument and every argument a string.

use serde_json::{Value, json};

use super::profile::{Op, TpuProfile};

/// The file's text.
pub fn to_string(profile: &TpuProfile) -> String {
    let mut events = Vec::new();
    for device in &profile.devices {
        let pid = 2 + 8 * device.ordinal;
        let name = format!("/device:TPU:{}", device.ordinal);
        events.push(json!({"name": "process_name", "ph": "M", "ts": 0.0, "pid": pid, "tid": 0, "args": {"name": name}}));
        for (tid, line) in [(1, "Steps"), (2, "XLA Modules"), (3, "XLA Ops")] {
            events.push(json!({"name": "thread_name", "ph": "M", "ts": 0.0, "pid": pid, "tid": tid, "args": {"name": line}}));
        }
        let base = profile.start_unix_ns;
        let mut push = |tid: u32, name: &str, start: u64, duration: u64, args: Value| {
            let ts = (start + device.clock_skew) as f64 / 1e6;
            let dur = duration as f64 / 1e6;
            events.push(json!({"ph": "X", "cat": "kernel", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}));
        };
        for step in &device.steps {
            let args = json!({"group_id": step.number.to_string()});
            push(1, &step.number.to_string(), step.start, step.duration, args);
        }
        for run in &device.modules {
            let program = &profile.programs[run.program];
            let args = json!({"run_id": run.run_id.to_string(), "replica_id": "0", "queue_id": "0", "core_type": "0"});
            push(
                2,
                &format!("{}({})", program.name, program.id),
                run.start,
                run.duration,
                args,
            );
        }
        for run in &device.ops {
            let op = profile.op(run.op);
            let mut args = op_args(op, profile.programs[run.op.program].id);
            args["device_offset_ps"] = json!(run.start.to_string());
            args["device_duration_ps"] = json!(run.duration.to_string());
            push(3, &op.name, run.start, run.host_duration, args);
        }
        let _ = base;
    }
    for thread in &profile.host_threads {
        for e in &thread.events {
            let (ts, dur) = (e.start as f64 / 1e6, e.duration as f64 / 1e6);
            events.push(json!({"ph": "X", "cat": "cpu_op", "name": e.name, "pid": 4242, "tid": 4242, "ts": ts, "dur": dur, "args": {}}));
        }
    }
    let trace = json!({
        "schemaVersion": 1,
        "deviceProperties": [],
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": profile.start_unix_ns,
        "traceEvents": events,
        "traceName": "trace.json",
    });
    trace.to_string()
}

fn op_args(op: &Op, program_id: u64) -> Value {
    let mut args = json!({
        "hlo_category": op.category,
        "program_id": program_id.to_string(),
        "symbol_id": op.symbol.to_string(),
        "flops": op.flops.to_string(),
        "model_flops": op.model_flops.to_string(),
        "bytes_accessed": op.bytes.to_string(),
        "memory_access_breakdown": "<binary_data>",
        "raw_bytes_accessed": op.bytes.to_string(),
        "shape_with_layout": op.shape,
        "long_name": op.hlo,
    });
    for (name, value) in [
        ("source", &op.source),
        ("source_stack", &op.source_stack),
        ("tf_op", &op.tf_op),
    ] {
        if let Some(value) = value {
            args[name] = json!(value);
        }
    }
    args
}
