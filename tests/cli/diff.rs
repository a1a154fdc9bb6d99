//! `tpu-tune diff` on runs whose differences are known.

use profiler::diff::{Diff, Matched};
use profiler::evidence::Evidence;
use profiler::session::Session;

use super::Folder;
use crate::rules::session;
use crate::support::profile::TpuProfile;
use crate::support::{fixture, scenarios, trace_json, xspace};

fn diff(before: &Session, after: &Session) -> Diff {
    let gather = |session| Evidence::gather(session, None, knowledge::chips::chips());
    Diff::between(&gather(before), &gather(after))
}

/// Gives every numbered operation another number, as a new compilation does.
fn renumber(profile: &mut TpuProfile) {
    for program in &mut profile.programs {
        for op in &mut program.ops {
            let old = op.name.clone();
            let (stem, number) = match old.rsplit_once('.') {
                Some((stem, number)) => (stem, number.parse::<u64>().unwrap_or(0)),
                None => (old.as_str(), 0),
            };
            op.name = format!("{stem}.{}", number * 7 + 1000);
            op.hlo = op
                .hlo
                .replacen(&format!("%{old} ="), &format!("%{} =", op.name), 1);
            op.symbol += 5000;
        }
        program.id += 99;
    }
}

#[test]
fn deltas_of_any_two_scenarios_add_up_to_that_of_the_window() {
    let sessions: Vec<(&str, Session)> = scenarios::ALL
        .iter()
        .map(|(name, scenario)| (*name, session(&[scenario()])))
        .chain([("two_hosts", session(&scenarios::two_hosts()))])
        .collect();
    for (i, (a, before)) in sessions.iter().enumerate() {
        let (b, after) = &sessions[(i + 1) % sessions.len()];
        for (after, b) in [(after, *b), (before, *a)] {
            let diff = diff(before, after);
            let scale = diff.window.before_ms + diff.window.after_ms;
            let error = (diff.attributed_ms() - diff.window.delta_ms).abs();
            assert!(
                error <= 1e-9 * scale,
                "{a} to {b}: {error} ms of {scale} ms"
            );
            let rest: f64 = diff.rest.iter().map(|row| row.time.delta_ms).sum();
            for rows in [
                &diff.groups.categories,
                &diff.groups.scopes,
                &diff.groups.sources,
            ] {
                let sum: f64 = rows.iter().map(|row| row.time.delta_ms).sum();
                assert!(
                    (sum + rest - diff.window.delta_ms).abs() <= 1e-9 * scale,
                    "{a} to {b}"
                );
            }
            // What no row explains is a rounding of clocks, not a place to hide time.
            let unattributed = &diff.rest[2].time;
            assert!(
                unattributed.before_ms.abs() <= 1e-3 * diff.window.before_ms,
                "{a}: {unattributed:?}"
            );
        }
    }
}

#[test]
fn a_program_compiled_anew_is_the_same_program() {
    let before = scenarios::train_step_fsdp();
    let mut after = before.clone();
    renumber(&mut after);
    let diff = diff(&session(&[before]), &session(&[after]));
    assert!(diff.ops.len() > 20);
    for op in &diff.ops {
        assert_eq!(op.matched, Matched::Same, "{op:?}");
        assert_eq!(op.time.delta_ms, 0.0, "{op:?}");
    }
}

/// A run compiled anew in which each wait for a copy takes half the time.
pub(crate) fn with_faster_copies(profile: &TpuProfile) -> TpuProfile {
    let mut fast = profile.clone();
    renumber(&mut fast);
    let ops = &fast.programs[0].ops;
    let waits: Vec<bool> = ops.iter().map(|op| op.category == "copy-done").collect();
    for device in &mut fast.devices {
        // How much had been saved when each wait was over.
        let mut saved = vec![(0, 0)];
        let mut sum = 0;
        for run in device.ops.iter().filter(|run| waits[run.op.op]) {
            sum += run.duration / 2;
            saved.push((run.start + run.duration, sum));
        }
        let moved = |time: u64| {
            let before = saved.partition_point(|(end, _)| *end <= time);
            time - saved[before - 1].1
        };
        for run in &mut device.ops {
            let end = moved(run.start + run.duration);
            run.start = moved(run.start);
            run.duration = end - run.start;
            run.host_duration = run.duration;
        }
        for run in &mut device.modules {
            let end = moved(run.start + run.duration);
            run.start = moved(run.start);
            run.duration = end - run.start;
        }
    }
    fast
}

#[test]
fn what_became_faster_is_named_first() {
    let slow = scenarios::host_offload();
    let fast = with_faster_copies(&slow);
    let folder = Folder::with(&slow);
    folder.write("fast.xplane.pb", &xspace::to_bytes(&fast));
    let text = folder
        .run(&["diff", "run.xplane.pb", "fast.xplane.pb"])
        .ok();
    assert!(!text.contains("verified"), "{text}");
    let json = folder
        .run(&[
            "diff",
            "run.xplane.pb",
            "fast.xplane.pb",
            "--format",
            "json",
        ])
        .json();
    assert_eq!(json["schema_version"], 1);
    let first = &json["ops"][0];
    assert_eq!(first["matched"], "same");
    assert!(
        first["before"]["name"]
            .as_str()
            .expect("a name")
            .starts_with("copy-"),
        "{first}"
    );
    assert!(
        first["time"]["delta_ms"].as_f64().expect("a time") < -0.1,
        "{first}"
    );
    let markdown = folder
        .run(&[
            "diff",
            "run.xplane.pb",
            "fast.xplane.pb",
            "--format",
            "markdown",
        ])
        .ok();
    assert!(
        markdown.contains("| operation | matched | A ms | B ms | delta |"),
        "{markdown}"
    );
}

#[test]
fn a_longer_gap_between_runs_is_idle_time_and_not_an_operation() {
    let before = session(&[scenarios::healthy()]);
    let mut later = scenarios::healthy();
    let device = &mut later.devices[0];
    let late = |start: u64| -> u64 {
        let runs = &scenarios::healthy().devices[0].modules;
        runs.iter().filter(|run| run.start <= start).count() as u64 * 100_000_000
    };
    let starts: Vec<u64> = device.ops.iter().map(|run| run.start).collect();
    let delays: Vec<u64> = starts.iter().map(|start| late(*start)).collect();
    for (run, delay) in device.ops.iter_mut().zip(delays) {
        run.start += delay;
    }
    for (number, run) in device.modules.iter_mut().enumerate() {
        run.start += (number as u64 + 1) * 100_000_000;
    }
    let diff = diff(&before, &session(&[later]));
    assert_eq!(diff.rest[0].name, "idle between programs");
    let idle = diff.rest[0].time.delta_ms;
    assert!((idle - 0.1).abs() < 0.01, "{idle}");
    let ops: f64 = diff.ops.iter().map(|op| op.time.delta_ms.abs()).sum();
    assert!(ops < 1e-6, "{ops}");
}

#[test]
fn runs_of_different_formats_and_chips_are_compared_with_a_warning() {
    let folder = Folder::with(&scenarios::f32_matmul());
    let trace = trace_json::to_string(&scenarios::healthy());
    folder.write("other.trace.json", trace.as_bytes());
    let text = folder
        .run(&["diff", "run.xplane.pb", "other.trace.json", "--chip", "v6e"])
        .ok();
    assert!(text.contains("the chips differ: v5e and v6e"), "{text}");
    assert!(text.contains("steps are not of the same kind"), "{text}");
}

#[test]
fn cpu_profiles_are_compared_too() {
    let folder = Folder::new();
    let cpu = fixture("profiles/jax_cpu.xplane.pb").display().to_string();
    let json = folder.run(&["diff", &cpu, &cpu, "--format", "json"]);
    assert_eq!(json.code, 0, "{}", json.err);
    let json: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    let ops = json["ops"].as_array().expect("operations");
    assert!(!ops.is_empty());
    assert!(
        ops.iter()
            .all(|op| op["matched"] == "same" && op["time"]["delta_ms"] == 0.0)
    );
}

#[test]
fn a_run_without_operations_cannot_be_compared() {
    let folder = Folder::with(&scenarios::healthy());
    let mut nothing = scenarios::healthy();
    for device in &mut nothing.devices {
        device.ops.clear();
    }
    folder.write("nothing.xplane.pb", &xspace::to_bytes(&nothing));
    for args in [
        ["diff", "run.xplane.pb", "nothing.xplane.pb"],
        ["diff", "nothing.xplane.pb", "run.xplane.pb"],
    ] {
        folder
            .run(&args)
            .refused(&["nothing.xplane.pb has no device operations"]);
    }
}

#[test]
fn runs_of_one_log_directory_are_compared_by_name() {
    let folder = Folder::new();
    let bytes = xspace::to_bytes(&scenarios::healthy());
    folder.write("logs/plugins/profile/monday/h.xplane.pb", &bytes);
    folder.write("logs/plugins/profile/tuesday/h.xplane.pb", &bytes);
    let args = [
        "diff", "logs", "logs", "--run-a", "monday", "--run-b", "tuesday",
    ];
    let text = folder.run(&args).ok();
    assert!(text.contains("monday/h.xplane.pb") && text.contains("tuesday/h.xplane.pb"));
}
