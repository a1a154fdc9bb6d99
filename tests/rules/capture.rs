//! The quality of the capture: what must be said of it, and when to keep quiet.

use advisors::registry::RULES;
use advisors::{Finding, Report, Severity};
use profiler::evidence::Evidence;
use profiler::session_builder::SessionBuilder;
use profiler::timeline::xplane;

use crate::rules::by_hand::{report_of, session_with_hlo};
use crate::rules::{findings, report};
use crate::support::chip::Chip;
use crate::support::profile::{Op, TpuProfile, us};
use crate::support::{fixture_text, scenarios, xspace};

/// One program of one operation, run once for each duration in microseconds, as marked steps.
fn steps(durations: &[u64]) -> TpuProfile {
    let mut profile = TpuProfile::new(Chip::V6e, 1);
    let program = profile.program("jit_step", 7, vec![work("add.1", 1)]);
    let op = profile.find(program, "add.1");
    let device = &mut profile.devices[0];
    for (step, duration) in (0..).zip(durations) {
        device.step(step, |device| {
            device.run(program, step + 1, |device| device.op(op, us(*duration)));
        });
        device.idle(us(1));
    }
    profile
}

fn work(name: &str, symbol: u64) -> Op {
    Op {
        name: name.to_owned(),
        hlo: format!("%{name} = f32[1024]{{0}} add(f32[1024]{{0}} %a, f32[1024]{{0}} %b)"),
        category: "non-fusion elementwise".to_owned(),
        symbol,
        shape: "f32[1024]{0}".to_owned(),
        ..Op::default()
    }
}

/// The remark of a rule: information without a saving.
fn remark<'r>(report: &'r Report, rule: &str) -> &'r Finding {
    let found = findings(report, rule);
    assert_eq!(found.len(), 1, "{rule}: {:?}", report.findings);
    assert_eq!(
        (found[0].severity, &found[0].saving),
        (Severity::Info, &None)
    );
    found[0]
}

#[test]
fn a_healthy_run_has_no_finding_above_information_and_few_of_those() {
    let report = report(&[scenarios::healthy()]);
    let worse: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.code.as_str() < "TT3" && finding.severity != Severity::Info)
        .collect();
    assert!(worse.is_empty(), "{worse:?}");
    let remarks = report
        .findings
        .iter()
        .filter(|f| f.code.starts_with("TT1"))
        .count();
    assert!(remarks <= 2, "{:?}", report.findings);
}

#[test]
fn cut_steps_at_the_ends_are_left_out_without_a_word() {
    let report = report(&[scenarios::train_step_fsdp()]);
    assert_eq!(report.steps.time.count, 5);
    for rule in [
        "truncated-capture",
        "missing-steps",
        "unsteady-steps",
        "asymmetric-cores",
    ] {
        assert!(
            findings(&report, rule).is_empty(),
            "{rule}: {:?}",
            report.findings
        );
    }
}

#[test]
fn a_file_that_ends_early_is_said_to() {
    let bytes = xspace::to_bytes(&scenarios::train_step_fsdp());
    let mut builder = SessionBuilder::default();
    xplane::read(&bytes[..bytes.len() / 3 * 2], "host0", &mut builder).expect("whole planes");
    let session = builder.finish();
    let evidence = Evidence::gather(&session, None, knowledge::chips::chips());
    let report = Report::new(&evidence, RULES);
    let finding = remark(&report, "truncated-capture");
    assert!(
        finding
            .evidence
            .iter()
            .any(|exhibit| exhibit.what == "truncated-xspace")
    );
}

#[test]
fn runs_without_operations_were_dropped_by_the_profiler() {
    let mut profile = steps(&[1_000; 10]);
    profile.devices[0].ops.truncate(6);
    let report = report(&[profile]);
    let finding = remark(&report, "truncated-capture");
    let seen = format!("{:?}", finding.evidence);
    assert!(seen.contains("4 of 10 runs of jit_step"), "{seen}");
}

#[test]
fn one_whole_step_tells_nothing_of_the_next() {
    let report = report(&[steps(&[1_000])]);
    let finding = remark(&report, "missing-steps");
    assert!(
        finding.title.contains("one whole step"),
        "{}",
        finding.title
    );
}

#[test]
fn two_programs_in_turn_make_unmarked_steps_doubtful() {
    let mut profile = TpuProfile::new(Chip::V6e, 1);
    let programs = ["jit_forward", "jit_update"].map(|name| {
        let program = profile.program(name, name.len() as u64, vec![work("add.1", 1)]);
        (program, profile.find(program, "add.1"))
    });
    let device = &mut profile.devices[0];
    for run in 0..10 {
        for ((program, op), time) in programs.into_iter().zip([us(900), us(300)]) {
            device.run(program, run + 1, |device| device.op(op, time));
            device.idle(us(2));
        }
    }
    let report = report(&[profile]);
    let finding = remark(&report, "missing-steps");
    assert!(finding.title.contains("25.0 %"), "{}", finding.title);
    assert!(format!("{:?}", finding.evidence).contains("jit_forward x10, jit_update x10"));
    assert!(finding.advice[0].contains("StepTraceAnnotation"));
}

#[test]
fn repeated_runs_of_one_program_need_no_markers() {
    let report = report(&[scenarios::decode()]);
    assert!(findings(&report, "missing-steps").is_empty());
}

#[test]
fn cores_recorded_differently_are_named() {
    let mut profile = scenarios::train_step_fsdp();
    profile.devices[2].transfers.clear();
    let ops = profile.devices[3].ops.len();
    profile.devices[3].ops.truncate(ops / 4);
    let report = report(&[profile]);
    let found = findings(&report, "asymmetric-cores");
    let seen: Vec<String> = found.iter().map(|f| format!("{:?}", f.evidence)).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        seen.iter()
            .any(|s| s.contains("/device:TPU:3") && s.contains("are usual"))
    );
    assert!(
        seen.iter()
            .any(|s| s.contains("/device:TPU:2") && !s.contains("TPU:3"))
    );
}

/// One matmul of 10 us whose profile states `flops`, for `duration` microseconds at a time.
fn stated(flops: u64, duration: u64) -> TpuProfile {
    let mut profile = TpuProfile::new(Chip::V6e, 1);
    let matmul = Op {
        hlo: "%fusion.1 = bf16[128,128]{1,0} fusion(bf16[128,128]{1,0} %a), kind=kOutput, \
              calls=%fused"
            .to_owned(),
        category: "convolution fusion".to_owned(),
        flops,
        model_flops: flops,
        ..work("fusion.1", 1)
    };
    let program = profile.program("jit_step", 7, vec![matmul, work("add.2", 2)]);
    let fast = profile.find(program, "fusion.1");
    let rest = profile.find(program, "add.2");
    let device = &mut profile.devices[0];
    for run in 0..10 {
        device.run(program, run + 1, |device| {
            device.op(fast, duration);
            device.op(rest, us(100));
        });
        device.idle(us(1));
    }
    profile
}

#[test]
fn a_matmul_above_the_peak_has_a_wrong_cost() {
    // 918 TFLOP/s is v6e's peak: 10 us hold 9.18 GFLOP.
    let report = report(&[stated(27_540_000_000, us(10))]);
    let finding = remark(&report, "rates-above-peak");
    assert_eq!(finding.ops[0].name, "fusion.1");
    let seen = format!("{:?}", finding.evidence);
    assert!(seen.contains("2754 TFLOP/s, 3.00 times the peak"), "{seen}");
}

#[test]
fn a_rate_at_the_peak_or_of_less_than_a_microsecond_is_no_matter() {
    for profile in [
        stated(9_180_000_000, us(10)),
        stated(2_754_000_000, us(1) - 1_250),
    ] {
        let report = report(&[profile]);
        assert!(findings(&report, "rates-above-peak").is_empty());
    }
}

#[test]
fn waits_for_copies_have_no_rate() {
    let report = report(&[scenarios::host_offload()]);
    assert!(findings(&report, "rates-above-peak").is_empty());
}

#[test]
fn steps_that_differ_are_named_by_how() {
    let cases: [(&[u64], &str); 4] = [
        (
            &[1000, 1010, 1040, 1070, 1100, 1130, 1160, 1190, 1220],
            "steps drift from 1.01 ms to 1.19 ms",
        ),
        (
            &[
                1000, 1002, 4000, 1001, 1000, 1003, 1000, 1002, 1001, 1000, 1002, 1000,
            ],
            "1 of 12 steps take up to 4.00 ms where the median is 1.00 ms",
        ),
        (
            &[
                1000, 1600, 1004, 1610, 1001, 1605, 1002, 1003, 1001, 1604, 1000, 1002,
            ],
            "two kinds of steps: 33.3 % take 1.60 ms, the others 1.00 ms",
        ),
        (
            &[
                1000, 1400, 1150, 1290, 1020, 1350, 1080, 1220, 1010, 1180, 1300, 1110,
            ],
            "steps differ: 1.00 ms to 1.40 ms",
        ),
    ];
    for (durations, title) in cases {
        let report = report(&[steps(durations)]);
        let finding = remark(&report, "unsteady-steps");
        assert!(
            finding.title.contains(title),
            "{} lacks {title}",
            finding.title
        );
    }
}

#[test]
fn steps_within_a_tenth_of_each_other_are_steady() {
    let report = report(&[steps(&[
        1000, 1040, 990, 1060, 1010, 1050, 1000, 1030, 1020, 1000,
    ])]);
    assert!(
        findings(&report, "unsteady-steps").is_empty(),
        "{:?}",
        report.findings
    );
}

#[test]
fn three_steps_are_few() {
    let report = report(&[steps(&[1_000; 3])]);
    assert!(
        remark(&report, "unsteady-steps")
            .title
            .contains("only 3 whole steps")
    );
}

#[test]
fn work_on_a_sparse_core_is_no_asymmetry() {
    let report = report(&[scenarios::sparse_core()]);
    assert!(findings(&report, "asymmetric-cores").is_empty());
    assert!(findings(&report, "truncated-capture").is_empty());
}

#[test]
fn hlo_that_is_missing_is_said_to_be_with_how_to_get_it() {
    let report = report(&[scenarios::decode()]);
    let finding = remark(&report, "missing-hlo");
    assert!(finding.advice[0].contains("--xla_dump_to"));
}

#[test]
fn hlo_in_the_profile_or_beside_it_is_not_missing() {
    let inside = report(&[scenarios::sample()]);
    assert!(findings(&inside, "missing-hlo").is_empty());
    let mut without = scenarios::sample();
    without.programs[0].hlo_proto = None;
    remark(&report(&[without]), "missing-hlo");
    let hlo = fixture_text("hlo/decode_v6e.after_optimizations.txt");
    let beside = report_of(&session_with_hlo(scenarios::decode(), &hlo));
    assert!(findings(&beside, "missing-hlo").is_empty());
}
