use std::path::Path;

use super::*;
use crate::prediction::{Band, Prediction, Provenance, RunPrediction};
use crate::session::{CoreKind, Device, Host, Module, Op, Origin, Session};
use crate::session_builder::SessionBuilder;
use crate::source::read_bytes;
use crate::timeline::settle;

/// A predicted run of one program: two operations, one of which stands for a thousand executions.
fn session(name: &str) -> Session {
    let mut device = Device::new(0, "/device:TPU:0".to_owned(), CoreKind::TensorCore, 0);
    device.push_op(0, 0, 1_500, None);
    device.push_op(1, 1_500, 2_000_000_000, None);
    device.repeats.insert(1, 1_000);
    device.modules.push(0, 2_000_001_500, 0);
    device.run_ids.push(0);
    settle(&mut device);
    let op = |name: &str, symbol: u64| Op {
        module: Some(0),
        symbol_id: Some(symbol),
        name: name.to_owned(),
        category: "loop fusion".to_owned(),
        ..Op::default()
    };
    Session {
        origin: Origin::Predicted,
        prediction: Some(Prediction {
            provenance: Provenance {
                compiler: "libtpu 0.0.50".to_owned(),
                target: format!("v6e-4 {name}"),
                prices: "a calibration".to_owned(),
                is_lower_bound: false,
            },
            ops: Vec::new(),
            runs: vec![RunPrediction {
                module: 0,
                time: Band {
                    low_ps: 1_800_001_350,
                    time_ps: 2_000_001_500,
                    high_ps: 2_600_001_950,
                },
                memory: None,
            }],
        }),
        hosts: vec![Host {
            name: "predicted".to_owned(),
            capture_ns: None,
            mxu_utilization_percent: None,
            hbm_utilization_percent: None,
        }],
        devices: vec![device],
        modules: vec![Module {
            name: "jit_f".to_owned(),
            program_id: Some(u64::MAX - 1),
        }],
        ops: vec![op(name, 1), op("fusion.2", 2)],
        ..Session::default()
    }
}

fn read(file: &str, bytes: &[u8]) -> Session {
    let mut builder = SessionBuilder::default();
    read_bytes(Path::new(file), bytes, &mut builder).expect("readable");
    builder.finish()
}

/// What a hostile program may be called.
const HOSTILE: &str = "fusion\"}],{\u{1}\u{202e}é\n";

#[test]
fn what_is_written_reads_back_as_predicted_with_its_times() {
    let written = session(HOSTILE);
    for (file, bytes) in [
        ("p.xplane.pb", xplane(&written, &[])),
        ("p.trace.json", trace_json(&written)),
    ] {
        let found = read(file, &bytes);
        assert_eq!(found.origin, Origin::Predicted, "{file}");
        let (then, now) = (&written.prediction, &found.prediction);
        let (then, now) = (then.as_ref().expect("set"), now.as_ref().expect("marked"));
        assert_eq!(now.provenance, then.provenance, "{file}");
        assert_eq!(now.step(), then.step(), "{file}");
        assert!(!found.notes.has_warnings(), "{file}");
        let device = &found.devices[0];
        assert_eq!(device.ops.start_ps, [0, 1_500], "{file}");
        assert_eq!(device.ops.duration_ps, [1_500, 2_000_000_000], "{file}");
        let names: Vec<&str> = found.ops.iter().map(|op| op.name.as_str()).collect();
        assert_eq!(names, [HOSTILE, "fusion.2"], "{file}");
        let module = &found.modules[found.ops[0].module.expect("a module") as usize];
        assert_eq!(
            (module.name.as_str(), module.program_id),
            ("jit_f", Some(u64::MAX - 1))
        );
    }
}

#[test]
fn the_mark_begins_with_words() {
    let mark = mark::of(&session("f")).expect("it is predicted");
    assert!(
        mark.starts_with("predicted by tpu-tune, not measured: -10 % to +30 %, for v6e-4 f {"),
        "{mark}"
    );
    let measured = Session {
        origin: Origin::Measured,
        prediction: None,
        ..session("f")
    };
    assert_eq!(mark::of(&measured), None);
    let found = read("m.xplane.pb", &xplane(&measured, &[]));
    assert_eq!(found.origin, Origin::Measured);
}

#[test]
fn trace_json_is_json_with_exact_times() {
    let text = trace_json(&session(HOSTILE));
    let json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let events = json["traceEvents"].as_array().expect("a list");
    let op = events
        .iter()
        .find(|event| event["name"] == HOSTILE)
        .expect("the operation");
    assert_eq!(op["dur"].as_f64(), Some(0.0015));
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.contains("\"ts\":0.0015,\"dur\":2000,"), "{text}");
    assert!(text.contains("\"executions\":\"1000\""));
}

#[test]
fn a_damaged_mark_is_told() {
    let mut builder = SessionBuilder::default();
    assert!(mark::take(
        "predicted by tpu-tune, not measured: {\"provenance\":3}",
        &mut builder
    ));
    assert_eq!(builder.session.origin, Origin::Predicted);
    assert!(builder.session.notes.has_warnings());
    assert!(!mark::take("low memory", &mut builder));
}
