//! Host memory and HBM.

use advisors::{Report, Severity};
use profiler::memory::MemoryTimeline;
use profiler::session::Session;

use crate::rules::by_hand::{Line, report_of, session_with_hlo, straight};
use crate::rules::{findings, report, session};
use crate::support::oracle::Figures;
use crate::support::profile::TpuProfile;
use crate::support::scenarios;

#[test]
fn exposed_host_copies_that_need_not_be_are_found_with_their_time() {
    let report = report(&[scenarios::host_offload()]);
    let found = findings(&report, "exposed-host-offload");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity, Severity::High);
    let saving = found[0].saving.as_ref().expect("a saving");
    // All four copies but what the matmuls between them hide.
    let copies = 4.0 * scenarios::HOST_COPY as f64 / 1e9;
    assert!(
        saving.expected_ms > 0.96 * copies && saving.expected_ms < copies,
        "{} of {copies}",
        saving.expected_ms
    );
    assert!(saving.share_of_step > 0.95 && saving.share_of_step < 1.0);
    let shown = format!("{:?}", found[0].evidence);
    assert!(
        shown.contains("all host buffers 512 MiB") && shown.contains("of 31.2 GiB"),
        "{shown}"
    );
    assert!(
        found[0]
            .caveats
            .iter()
            .any(|c| c.contains("compiler's plan")),
        "{:?}",
        found[0].caveats
    );
    let memory = report.memory.as_ref().expect("memory");
    assert!(
        memory.source.contains("buffer assignment"),
        "{}",
        memory.source
    );
}

#[test]
fn host_copies_are_not_said_to_fit_where_nothing_tells_how_full_memory_is() {
    let mut profile = scenarios::host_offload();
    profile.programs[0].hlo_proto = None;
    let report = report(&[profile]);
    let found = findings(&report, "exposed-host-offload");
    assert_eq!(found.len(), 1);
    let saving = found[0].saving.as_ref().expect("a saving");
    // Nothing is copied out, so no overlap of both directions either.
    assert_eq!(saving.expected_ms, 0.0);
    assert!(found[0].caveats.iter().any(|c| c.contains("not known")));
    assert!(report.memory.is_none());
}

#[test]
fn all_host_buffers_must_fit() {
    // 4 x 128 MiB and one being written fit into 1 GiB, not into 640 MiB.
    let fits = |free: u64| {
        let report = report_of(&with_memory(scenarios::host_offload(), 128 << 20, free));
        let saving = findings(&report, "exposed-host-offload")[0].saving.clone();
        saving.expect("a saving").expected_ms > 0.0
    };
    assert!(fits(GIB));
    assert!(!fits(600 << 20));
}

#[test]
fn a_healthy_run_has_no_host_offload_finding() {
    let report = report(&[scenarios::healthy()]);
    assert!(findings(&report, "exposed-host-offload").is_empty());
}

/// A session with one memory of `capacity` bytes of which `used` are in use at the peak.
fn with_memory(profile: TpuProfile, used: u64, capacity: u64) -> Session {
    let mut session = session(&[profile]);
    session.memory = vec![MemoryTimeline {
        allocator: "TPU:0".to_owned(),
        time_ps: vec![1],
        in_use_bytes: vec![used],
        reserved_bytes: vec![0],
        free_bytes: vec![capacity - used],
        lifetime_peak_bytes: used,
        ..MemoryTimeline::default()
    }];
    session
}

const GIB: u64 = 1 << 30;

/// Self time a step of the operations in `rematted_computation` scopes, in milliseconds.
fn recomputed_ms(profile: &TpuProfile) -> f64 {
    let figures = Figures::of(profile);
    let remat = figures.ops.iter().filter(|(op, _)| {
        let tf_op = profile.op(**op).tf_op.as_deref().unwrap_or("");
        tf_op.contains("rematted_computation")
    });
    let total: u64 = remat.map(|(_, op)| op.self_time).sum();
    let steps = profile
        .devices
        .iter()
        .map(|device| device.steps.len())
        .sum::<usize>();
    total as f64 / 1e9 / steps as f64
}

#[test]
fn recomputation_with_memory_free_is_found_with_its_time() {
    let profile = scenarios::remat_free_hbm();
    let truth = recomputed_ms(&profile);
    let report = report_of(&with_memory(profile, 2 * GIB, 32 * GIB));
    let found = findings(&report, "remat-with-free-hbm");
    assert_eq!(found.len(), 1);
    let saving = found[0].saving.as_ref().expect("a saving");
    assert!(
        (saving.upper_bound_ms - truth).abs() < 0.01 * truth,
        "{} for {truth}",
        saving.upper_bound_ms
    );
    assert!(
        saving.expected_ms > 0.5 * truth && saving.expected_ms < 0.95 * truth,
        "{}",
        saving.expected_ms
    );
    assert!(
        found[0].title.contains("30.0 GiB of 32.0 GiB HBM are free"),
        "{}",
        found[0].title
    );
}

#[test]
fn what_does_not_fit_is_not_promised() {
    // The results of the recomputed matmuls take 1.33 GiB; three are free, then one.
    let saved = |used| {
        let report = report_of(&with_memory(scenarios::remat_free_hbm(), used, 10 * GIB));
        let found = findings(&report, "remat-with-free-hbm");
        found
            .first()
            .map(|found| found.saving.as_ref().expect("a saving").expected_ms)
    };
    let all = saved(7 * GIB).expect("a finding");
    let part = saved(9 * GIB).expect("a finding");
    assert!(part < 0.75 * all && part > 0.5 * all, "{part} of {all}");
    assert_eq!(
        saved(10 * GIB - GIB / 4),
        None,
        "the recomputation is what makes it fit"
    );
}

#[test]
fn unknown_memory_is_said_to_be_unknown() {
    let mut profile = scenarios::remat_free_hbm();
    profile.programs[0].hlo_proto = None;
    let report = report(&[profile]);
    let found = findings(&report, "remat-with-free-hbm");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].caveats[0].contains("not known"),
        "{:?}",
        found[0].caveats
    );
    assert_eq!(found[0].saving, None);
    assert!(
        found[0].advice[0].contains("memory_analysis"),
        "{:?}",
        found[0].advice
    );
}

#[test]
fn what_the_compiler_recomputes_is_in_no_saving() {
    let mut profile = scenarios::remat_free_hbm();
    let report_with = |profile: TpuProfile| report_of(&with_memory(profile, 2 * GIB, 32 * GIB));
    let own = report_with(profile.clone());
    let upper = |report: &Report| {
        let found = findings(report, "remat-with-free-hbm");
        found[0].saving.as_ref().expect("a saving").upper_bound_ms
    };
    let renamed = profile
        .programs
        .iter_mut()
        .flat_map(|program| &mut program.ops)
        .find(|op| {
            op.tf_op
                .as_deref()
                .unwrap_or("")
                .contains("rematted_computation")
        });
    let op = renamed.expect("an operation that recomputes");
    let name = format!("{}.remat", op.name);
    op.hlo = op.hlo.replacen(&op.name, &name, 1);
    op.name = name;
    assert!(upper(&report_with(profile)) < upper(&own));
}

#[test]
fn memory_is_the_compilers_plan_where_the_runtime_reported_none() {
    let report = report(&[scenarios::remat_free_hbm()]);
    let found = findings(&report, "remat-with-free-hbm");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].title.contains("of 31.2 GiB HBM are free"),
        "{}",
        found[0].title
    );
    assert!(
        found[0]
            .caveats
            .iter()
            .any(|c| c.contains("compiler's plan")),
        "{:?}",
        found[0].caveats
    );
}

#[test]
fn nearly_full_memory_is_told_without_a_saving() {
    let full = report_of(&with_memory(scenarios::healthy(), 31 * GIB, 32 * GIB));
    let found = findings(&full, "memory-near-limit");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity, Severity::Info);
    let half = report_of(&with_memory(scenarios::healthy(), 16 * GIB, 32 * GIB));
    assert!(findings(&half, "memory-near-limit").is_empty());
}

#[test]
fn padding_that_is_moved_is_found_with_its_axis_and_time() {
    // 64 of 128 lanes: 256 MiB of elements in 512 MiB, read and written.
    let hlo = "%fusion.1 = f32[1048576,64]{1,0:T(8,128)} fusion(f32[1048576,64]{1,0:T(8,128)} %p.1), kind=kLoop, calls=%c";
    let line = Line {
        hlo,
        category: "loop fusion",
        tf_op: "jit(f)/mul",
        ps: 800_000_000,
    };
    let report = report(&[straight(&[line])]);
    let found = findings(&report, "padded-buffers");
    assert_eq!(found.len(), 1);
    let saved = found[0].saving.as_ref().expect("a saving").expected_ms;
    assert!(
        (saved - 2.0 * 1_048_576.0 * 64.0 * 4.0 / 1343.2e6).abs() < 0.004,
        "{saved}"
    );
    assert!(
        found[0].title.contains("padded 2.00-fold"),
        "{}",
        found[0].title
    );
    let shown = format!("{:?}", found[0].evidence);
    assert!(shown.contains("dimension 1 from 64 to 128"), "{shown}");
}

#[test]
fn arguments_that_are_mostly_padding_are_told_by_their_memory() {
    let hlo = "HloModule jit_f, is_scheduled=true\n\nENTRY %main (x: f32[8388608,2]) -> f32[8388608,2] {\n  %x = f32[8388608,2]{1,0:T(8,128)} parameter(0)\n  ROOT %negate.1 = f32[8388608,2]{1,0:T(8,128)} negate(%x)\n}\n";
    let line = Line {
        hlo: "%negate.1 = f32[8388608,2]{1,0:T(8,128)} negate(f32[8388608,2]{1,0:T(8,128)} %x)",
        category: "non-fusion elementwise",
        tf_op: "jit(f)/neg",
        ps: 7_000_000_000,
    };
    let report = report_of(&session_with_hlo(straight(&[line]), hlo));
    let titles: Vec<&str> = findings(&report, "padded-buffers")
        .iter()
        .map(|f| f.title.as_str())
        .collect();
    assert!(
        titles
            .iter()
            .any(|title| title.contains("padding of arguments takes 3.94 GiB")),
        "{titles:?}"
    );
}

#[test]
fn a_healthy_run_has_nothing_above_info_here() {
    for finding in &report(&[scenarios::healthy()]).findings {
        let ours = finding.code.starts_with("TT8");
        assert!(
            !ours || finding.severity == Severity::Info,
            "{}: {}",
            finding.code,
            finding.title
        );
    }
}
