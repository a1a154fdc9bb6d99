//! Writes a [`TpuProfile`] as `torch.profiler` exports it: a Kineto trace.
//!
//! Device planes become `cat: "kernel"` with the plane's id as `pid` and the
//! line's name as the thread's; every stat, of the metadata first, then of the
//! event, is an argument, and every argument a string. The frame around it is
//! as in a real export; that of device events is after the plugin's rules, for
//! want of a real capture from a TPU.

use serde_json::{Value, json};

use super::profile::{Op, TpuProfile};

/// Where the trace's clock stands when the capture begins, in microseconds.
const CLOCK: f64 = 5_187_842_570_000.0;

/// The process that ran the model.
const PROCESS: u32 = 4_242;

/// The file's text.
pub fn to_string(profile: &TpuProfile) -> String {
    let mut events = Vec::new();
    for device in &profile.devices {
        let pid = 2 + 8 * device.ordinal;
        describe(&mut events, pid, "TPU", "TPU Device");
        for (tid, line) in [(1, "Steps"), (2, "XLA Modules"), (3, "XLA Ops")] {
            events.push(json!({
                "ph": "M", "name": "thread_name", "ts": 0.0, "pid": pid, "tid": tid,
                "args": {"name": line}
            }));
        }
    }
    describe(&mut events, PROCESS, "python", "CPU");
    for device in &profile.devices {
        let pid = 2 + 8 * device.ordinal;
        let skew = device.clock_skew;
        let mut push = |tid: u32, name: &str, start: u64, duration: u64, args: Value| {
            events.push(complete(
                "kernel",
                pid,
                tid,
                name,
                start + skew,
                duration,
                args,
            ));
        };
        for step in &device.steps {
            let args = json!({"group_id": step.number.to_string()});
            push(1, &step.number.to_string(), step.start, step.duration, args);
        }
        for run in &device.modules {
            let program = &profile.programs[run.program];
            let args = json!({
                "run_id": run.run_id.to_string(),
                "replica_id": "0",
                "queue_id": "0",
                "core_type": "0",
            });
            let name = format!("{}({})", program.name, program.id);
            push(2, &name, run.start, run.duration, args);
        }
        for run in &device.ops {
            let op = profile.op(run.op);
            let mut args = op_args(op, profile.programs[run.op.program].id);
            args["device_offset_ps"] = json!(run.start.to_string());
            args["device_duration_ps"] = json!(run.duration.to_string());
            push(3, &op.name, run.start, run.host_duration, args);
        }
    }
    for event in profile
        .host_threads
        .iter()
        .flat_map(|thread| &thread.events)
    {
        let (start, duration) = (event.start, event.duration);
        let args = json!({"Ev Idx": events.len()});
        events.push(complete(
            "cpu_op",
            PROCESS,
            PROCESS,
            &event.name,
            start,
            duration,
            args,
        ));
    }
    events.push(json!({
        "ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
        "tid": "PyTorch Profiler", "ts": CLOCK, "dur": profile.duration() as f64 / 1e6,
        "args": {"Op count": 0}
    }));
    events.push(json!({
        "ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "",
        "ts": CLOCK + profile.duration() as f64 / 1e6
    }));
    let trace = json!({
        "schemaVersion": 1,
        "deviceProperties": [],
        "host_name": profile.hostname,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": profile.start_unix_ns,
        "traceEvents": events,
        "traceName": "trace.json",
    });
    trace.to_string()
}

fn describe(events: &mut Vec<Value>, pid: u32, name: &str, labels: &str) {
    for (key, args) in [
        ("process_name", json!({"name": name})),
        ("process_labels", json!({"labels": labels})),
    ] {
        events
            .push(json!({"ph": "M", "name": key, "ts": CLOCK, "pid": pid, "tid": 0, "args": args}));
    }
}

fn complete(
    cat: &str,
    pid: u32,
    tid: u32,
    name: &str,
    start: u64,
    duration: u64,
    args: Value,
) -> Value {
    // Microseconds with the nanoseconds as their fraction, as Kineto prints them.
    let us = |ps: u64| (ps / 1_000) as f64 / 1e3;
    json!({
        "ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid,
        "ts": CLOCK + us(start), "dur": us(duration), "args": args
    })
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
