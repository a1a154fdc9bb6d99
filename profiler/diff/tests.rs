//! Small runs whose differences are known.

use proptest::prelude::*;

use super::{Diff, Matched, Verdict};
use crate::evidence::Evidence;
use crate::session::{CoreKind, Device, Op, Session};
use crate::session_builder::{OpKey, SessionBuilder};

const US: u64 = 1_000_000;

#[derive(Clone, Debug, Default)]
struct Made {
    module: &'static str,
    name: String,
    shape: &'static str,
    framework_op: &'static str,
    source: &'static str,
    category: &'static str,
    us: u64,
}

fn op(name: &str, us: u64) -> Made {
    Made {
        module: "jit_step",
        name: name.to_owned(),
        shape: "f32[8,128]{1,0:T(8,128)}",
        framework_op: "jit(step)/layer_0/add:",
        source: "model.py:10",
        category: "loop fusion",
        us,
    }
}

/// `steps` runs of one program with these operations, `idle_us` between the runs.
fn run(ops: &[Made], steps: u64, idle_us: u64) -> Session {
    let mut builder = SessionBuilder::default();
    let host = builder.host("host");
    let mut device = Device::new(host, "/device:TPU:0".to_owned(), CoreKind::TensorCore, 0);
    let mut now = 0;
    for _ in 0..steps {
        let begin = now;
        let mut module = builder.module("jit_step", Some(1));
        for made in ops {
            module = builder.module(made.module, Some(1));
            let key = OpKey::Name {
                module: Some(module),
                name: made.name.clone(),
            };
            let id = builder.op(key, || Op {
                module: Some(module),
                name: made.name.clone(),
                shape: made.shape.to_owned(),
                framework_op: made.framework_op.to_owned(),
                source: made.source.to_owned(),
                category: made.category.to_owned(),
                ..Op::default()
            });
            device.push_op(id, now, made.us * US, None);
            now += made.us * US;
        }
        device.modules.push(begin, now - begin, module);
        device.run_ids.push(0);
        now += idle_us * US;
    }
    builder.add_device(device);
    builder.finish()
}

fn diff(before: &Session, after: &Session) -> Diff {
    let gather = |session| Evidence::gather(session, None, &[]);
    Diff::between(&gather(before), &gather(after))
}

fn assert_adds_up(diff: &Diff) {
    let close = |got: f64, what: &str| {
        let scale = diff.window.before_ms.abs() + diff.window.after_ms.abs();
        let want = diff.window.delta_ms;
        assert!(
            (got - want).abs() <= 1e-9 * scale.max(1e-9),
            "{what}: {got} is not {want}"
        );
    };
    close(diff.attributed_ms(), "operations and the rest");
    let rest: f64 = diff.rest.iter().map(|row| row.time.delta_ms).sum();
    let groups = &diff.groups;
    for (name, rows) in [
        ("categories", &groups.categories),
        ("classes", &groups.classes),
        ("scopes", &groups.scopes),
        ("sources", &groups.sources),
    ] {
        let sum: f64 = rows.iter().map(|row| row.time.delta_ms).sum();
        close(sum + rest, name);
    }
}

fn of_name<'d>(diff: &'d Diff, name: &str) -> &'d super::OpChange {
    let found = diff.ops.iter().find(|op| {
        let sides = op.before.iter().chain(&op.after);
        sides.into_iter().any(|side| side.name == name)
    });
    found.unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let session = run(&[op("fusion.1", 30), op("fusion.2", 40)], 6, 5);
    let diff = diff(&session, &session);
    assert!(diff.ops.iter().all(|op| op.matched == Matched::Same));
    assert!(diff.ops.iter().all(|op| op.time.delta_ms == 0.0));
    assert!(diff.caveats.is_empty());
    assert_eq!(diff.step.verdict, Verdict::WithinSpread);
    assert_adds_up(&diff);
}

#[test]
fn renumbered_operations_are_matched_in_the_order_in_which_they_ran() {
    let before = run(&[op("copy.3142", 30), op("copy.7", 40)], 6, 0);
    let after = run(&[op("copy.2629", 30), op("copy.11", 90)], 6, 0);
    let diff = diff(&before, &after);
    assert_eq!(diff.ops.len(), 2);
    let first = &diff.ops[0];
    assert_eq!(first.matched, Matched::Same);
    assert_eq!(
        first.before.as_ref().map(|s| s.name.as_str()),
        Some("copy.7")
    );
    assert_eq!(
        first.after.as_ref().map(|s| s.name.as_str()),
        Some("copy.11")
    );
    assert!((first.time.delta_ms - 0.05).abs() < 1e-12);
    assert_eq!(diff.step.verdict, Verdict::Apart);
    assert_adds_up(&diff);
}

#[test]
fn of_equal_operations_the_one_that_is_gone_is_the_one_that_fits_least() {
    let before = run(
        &[op("copy.1", 10), op("copy.2", 500), op("copy.3", 20)],
        6,
        0,
    );
    let after = run(&[op("copy.5", 11), op("copy.6", 20)], 6, 0);
    let diff = diff(&before, &after);
    let gone = of_name(&diff, "copy.2");
    assert_eq!(gone.matched, Matched::Removed);
    assert!((gone.time.delta_ms + 0.5).abs() < 1e-12);
    assert_adds_up(&diff);
}

#[test]
fn weaker_keys_say_that_they_are_weaker() {
    let moved = Made {
        source: "model.py:12",
        ..op("fusion.1", 10)
    };
    let reshaped = Made {
        shape: "f32[16,128]{1,0:T(8,128)}",
        framework_op: "jit(step)/layer_0/mul:",
        ..op("fusion.2", 10)
    };
    let relaid = Made {
        shape: "f32[8,128]{0,1:T(8,128)}",
        framework_op: "jit(step)/layer_0/sub:",
        ..op("fusion.3", 10)
    };
    let renamed = Made {
        framework_op: "jit(step)/layer_0/div:",
        ..op("loop_divide_fusion", 10)
    };
    let added = Made {
        framework_op: "jit(step)/other:",
        source: "other.py:1",
        shape: "s32[]",
        ..op("iota.1", 3)
    };
    let old = |made: &Made| Made {
        source: "model.py:10",
        shape: "f32[8,128]{1,0:T(8,128)}",
        ..made.clone()
    };
    let before = [
        old(&moved),
        old(&reshaped),
        old(&relaid),
        Made {
            name: "fusion.77".to_owned(),
            ..renamed.clone()
        },
    ];
    let after = [moved, reshaped, relaid, renamed, added];
    let diff = diff(&run(&before, 6, 0), &run(&after, 6, 0));
    assert_eq!(of_name(&diff, "fusion.1").matched, Matched::SourceMoved);
    let reshaped = of_name(&diff, "fusion.2");
    assert_eq!(reshaped.matched, Matched::ShapeChanged);
    assert_eq!(reshaped.differences[0].what, "shape");
    assert_eq!(of_name(&diff, "fusion.3").differences[0].what, "layout");
    assert_eq!(of_name(&diff, "fusion.77").matched, Matched::NameChanged);
    assert_eq!(of_name(&diff, "iota.1").matched, Matched::Added);
    assert_adds_up(&diff);
}

#[test]
fn a_program_of_another_name_is_still_found() {
    let renamed = Made {
        module: "jit_train",
        framework_op: "jit(train)/layer_0/add:",
        ..op("fusion.9", 15)
    };
    let diff = diff(&run(&[op("fusion.1", 10)], 6, 0), &run(&[renamed], 6, 0));
    assert_eq!(diff.ops.len(), 1);
    assert_eq!(diff.ops[0].matched, Matched::OtherProgram);
    assert_eq!(diff.caveats.len(), 1, "{:?}", diff.caveats);
    assert_adds_up(&diff);
}

#[test]
fn idle_time_is_a_row_of_its_own() {
    let ops = [op("fusion.1", 30)];
    let diff = diff(&run(&ops, 6, 5), &run(&ops, 6, 25));
    let idle = &diff.rest[0];
    assert_eq!(idle.name, "idle between programs");
    assert!(
        (idle.time.delta_ms - 0.02 * 5.0 / 6.0).abs() < 1e-9
            || (idle.time.delta_ms - 0.02).abs() < 1e-9
    );
    assert!(diff.rest[2].time.delta_ms.abs() < 1e-9);
    let period = diff.period.as_ref().expect("periods");
    assert_eq!(period.verdict, Verdict::Apart);
    assert_eq!(diff.step.verdict, Verdict::WithinSpread);
    assert_adds_up(&diff);
}

fn any_run() -> impl Strategy<Value = Session> {
    let made =
        (0usize..4, 0usize..3, 0usize..3, 1u64..60).prop_map(|(name, shape, scope, us)| Made {
            name: ["fusion", "copy", "dot", "reduce"][name].to_owned(),
            shape: ["f32[8]{0}", "f32[16]{0}", ""][shape],
            framework_op: ["jit(step)/a/add:", "jit(step)/b/mul:", ""][scope],
            ..op("", us)
        });
    (prop::collection::vec(made, 1..12), 1u64..8, 0u64..20).prop_map(|(mut ops, steps, idle)| {
        for (number, made) in ops.iter_mut().enumerate() {
            made.name = format!("{}.{number}", made.name);
        }
        run(&ops, steps, idle)
    })
}

proptest! {
    #[test]
    fn deltas_add_up_and_every_operation_is_there_once(before in any_run(), after in any_run()) {
        let diff = diff(&before, &after);
        assert_adds_up(&diff);
        let ids = |side: fn(&super::OpChange) -> Option<u32>| {
            let mut ids: Vec<u32> = diff.ops.iter().filter_map(side).collect();
            ids.sort_unstable();
            ids
        };
        let all = |session: &Session| (0..session.ops.len() as u32).collect::<Vec<_>>();
        prop_assert_eq!(ids(|op| op.before.as_ref().map(|s| s.id)), all(&before));
        prop_assert_eq!(ids(|op| op.after.as_ref().map(|s| s.id)), all(&after));
        let back = super::Diff::between(&Evidence::gather(&after, None, &[]), &Evidence::gather(&before, None, &[]));
        prop_assert!((back.window.delta_ms + diff.window.delta_ms).abs() < 1e-12);
    }
}
