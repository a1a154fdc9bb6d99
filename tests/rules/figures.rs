//! The figures that all findings rest on: steps, peaks, utilization, bytes.

use profiler::chip::Generation;
use profiler::evidence::{Evidence, Peaks, StepBasis};

use crate::rules::{findings, report, session};
use crate::support::chip::Chip;
use crate::support::profile::{Op, TpuProfile, us};

fn op(name: &str, symbol: u64, category: &str, hlo: &str) -> Op {
    let (shape, _) = hlo.split_once(' ').expect("a shape and an opcode");
    Op {
        name: name.to_owned(),
        hlo: format!("%{name} = {hlo}"),
        category: category.to_owned(),
        symbol,
        shape: shape.to_owned(),
        ..Op::default()
    }
}

fn add() -> Op {
    let hlo = "f32[1024]{0} add(f32[1024]{0} %a, f32[1024]{0} %b)";
    op("add.1", 1, "non-fusion elementwise", hlo)
}

/// A product of two square matrices of side 8192 and their dtypes.
fn product(name: &str, symbol: u64, lhs: &str, rhs: &str) -> Op {
    let array = |dtype: &str| format!("{dtype}[8192,8192]{{1,0:T(8,128)}}");
    let hlo = format!(
        "{} convolution({} %a, {} %param.1), dim_labels=bf_io->bf",
        array("bf16"),
        array(lhs),
        array(rhs)
    );
    op(name, symbol, "convolution", &hlo)
}

/// FLOPs of a [`product`].
const FLOPS: f64 = 2.0 * 8192.0 * 8192.0 * 8192.0;

/// Picoseconds of a [`product`] at a rate in TFLOP/s.
fn at(tflops: f64) -> u64 {
    (FLOPS / tflops) as u64
}

/// Ten runs of operations, a microsecond between them, on one core of a chip.
fn runs(chip: Chip, ops: Vec<(Op, u64)>) -> TpuProfile {
    let mut profile = TpuProfile::new(chip, 1);
    let (ops, times): (Vec<Op>, Vec<u64>) = ops.into_iter().unzip();
    let names: Vec<String> = ops.iter().map(|op| op.name.clone()).collect();
    let program = profile.program("jit_step", 7, ops);
    let ops: Vec<_> = names.iter().map(|n| profile.find(program, n)).collect();
    for run in 0..10 {
        profile.devices[0].run(program, run + 1, |device| {
            for (op, time) in ops.iter().zip(&times) {
                device.op(*op, *time);
            }
        });
        profile.devices[0].idle(us(1));
    }
    profile
}

#[test]
fn one_long_gap_is_named_and_not_claimed() {
    let mut profile = TpuProfile::new(Chip::V6e, 1);
    let program = profile.program("jit_step", 7, vec![add()]);
    let work = profile.find(program, "add.1");
    let device = &mut profile.devices[0];
    for step in 0..10 {
        device.run(program, step + 1, |device| device.op(work, us(10_000)));
        device.idle(us(if step == 4 { 500_001 } else { 1 }));
    }
    let report = report(&[profile]);
    assert!((report.steps.time.median_ms - 10.0).abs() < 1e-6);
    assert!((report.steps.wall_ms - 60.001).abs() < 1e-3);
    let idle = findings(&report, "device-idle-between-programs")[0];
    let saving = idle.saving.as_ref().expect("a saving");
    assert!(saving.high_ms < 0.001, "{saving:?}");
    assert!((saving.upper_bound_ms - 50.001).abs() < 0.001, "{saving:?}");
    assert!(idle.title.contains("rare gaps of up to 500 ms"));
    assert!(report.combined_saving_ms <= report.steps.wall_ms);
}

#[test]
fn a_plane_of_a_megacore_chip_is_one_core() {
    let matmul = product("convolution.1", 1, "bf16", "bf16");
    let mut session = session(&[runs(Chip::V5p, vec![(matmul, at(0.9 * 229.5))])]);
    let chips = knowledge::chips::chips();
    let value = |peak: &Option<profiler::evidence::peaks::Peak>| peak.as_ref().map(|p| p.value);
    {
        let stated = Evidence::gather(&session, None, chips).peaks;
        assert_eq!(value(&stated.bf16_tflops), Some(233.4));
        let int8 = value(&stated.int8_tops).expect("v5p multiplies int8");
        assert!(
            (int8 - 466.8).abs() < 1e-9,
            "follows the stated rate: {int8}"
        );
    }
    // As trace JSON, which states nothing.
    session.devices[0].peaks = Default::default();
    let evidence = Evidence::gather(&session, Some(Generation::V5p), chips);
    assert_eq!(value(&evidence.peaks.bf16_tflops), Some(229.5));
    assert_eq!(value(&evidence.peaks.hbm_gb_per_s), Some(1382.5));
    let efficiency = evidence.ops[0].roofline.efficiency;
    assert!((efficiency - 0.9).abs() < 1e-3, "{efficiency}");
    let report = advisors::Report::new(&evidence, advisors::registry::RULES);
    assert!(findings(&report, "matmul-below-shape-limit").is_empty());
}

#[test]
fn of_few_steps_the_one_with_most_operations_is_whole() {
    for counts in [&[3, 120][..], &[120, 5], &[3, 120, 5], &[120, 120]] {
        let mut profile = TpuProfile::new(Chip::V6e, 1);
        let program = profile.program("jit_step", 7, vec![add()]);
        let work = profile.find(program, "add.1");
        for (run, count) in (1..).zip(counts) {
            profile.devices[0].run(program, run, |device| {
                (0..*count).for_each(|_| device.op(work, us(1_000)));
            });
        }
        let report = report(&[profile]);
        let steps = &report.steps;
        assert!((steps.time.median_ms - 120.0).abs() < 1e-6, "{counts:?}");
        assert_eq!(
            steps.cut,
            counts.iter().filter(|count| **count < 120).count()
        );
        let unconfirmed = report.notes.iter().any(|n| n.code == "unconfirmed-step");
        assert_eq!(unconfirmed, steps.time.count < 2, "{counts:?}");
    }
}

#[test]
fn markers_on_some_cores_are_no_steps_of_all() {
    let mut profile = TpuProfile::new(Chip::V6e, 2);
    let program = profile.program("jit_step", 7, vec![add()]);
    let work = profile.find(program, "add.1");
    for run in 0..6 {
        let body = |device: &mut crate::support::profile::Device| {
            device.run(program, run + 1, |device| device.op(work, us(1_000)));
        };
        profile.devices[0].step(run, body);
        body(&mut profile.devices[1]);
    }
    let session = session(&[profile]);
    let evidence = Evidence::gather(&session, None, knowledge::chips::chips());
    assert!(matches!(evidence.steps.basis, StepBasis::ModuleRuns(_)));
    assert_eq!(evidence.steps.cores.len(), 2);
    let codes: Vec<&str> = evidence.steps.notes.iter().map(|note| note.code).collect();
    assert_eq!(codes, ["steps-on-some-cores"]);
}

#[test]
fn utilization_counts_each_dtype_at_its_peak_and_nothing_twice() {
    let fp8 = |name, symbol| product(name, symbol, "f8e4m3fn", "f8e4m3fn");
    let time = at(0.7 * 2307.0);
    let once = report(&[runs(Chip::Tpu7x, vec![(fp8("convolution.1", 1), time)])]);
    let used = once.utilization.as_ref().expect("FLOPs and a peak");
    assert!(
        (used.mfu_without_custom_calls - 0.7).abs() < 0.002,
        "{used:?}"
    );
    assert_eq!(used.mfu_without_custom_calls, used.hfu_with_custom_calls);
    let twice = runs(
        Chip::Tpu7x,
        vec![
            (fp8("convolution.1", 1), time),
            (fp8("convolution.1.remat", 2), time),
        ],
    );
    let twice = report(&[twice]);
    let used = twice.utilization.as_ref().expect("FLOPs and a peak");
    assert!(
        (used.mfu_without_custom_calls - 0.35).abs() < 0.002,
        "{used:?}"
    );
    assert!((used.hfu_with_custom_calls - 0.7).abs() < 0.002, "{used:?}");
}

#[test]
fn a_product_runs_at_the_rate_of_its_slower_operand() {
    let peaks = Peaks::of_facts(knowledge::chips::chip(Generation::V6e));
    assert_eq!(peaks.product_tflops([("s8", "s8")]), Some(1836.0));
    assert_eq!(peaks.product_tflops([("bf16", "s8")]), Some(918.0));
    assert_eq!(peaks.product_tflops([]), None);
    let weights = product("convolution.1", 1, "bf16", "s8");
    let session = session(&[runs(Chip::V6e, vec![(weights, at(0.8 * 918.0))])]);
    let evidence = Evidence::gather(&session, None, knowledge::chips::chips());
    let efficiency = evidence.ops[0].roofline.efficiency;
    assert!((efficiency - 0.8).abs() < 1e-3, "{efficiency}");
}

#[test]
fn the_bytes_of_a_copy_are_counted_once_at_its_done() {
    let tuple = "((bf16[32,4096]{1,0}), bf16[1,4096]{1,0:S(1)}, s32[]{:S(2)})";
    let start = format!("{tuple} async-start(bf16[32,4096]{{1,0}} %p), calls=%c");
    let done = format!("bf16[1,4096]{{1,0:S(1)}} async-done({tuple} %slice-start.1), calls=%c");
    let ops = vec![
        (op("slice-start.1", 1, "async-start", &start), us(1)),
        (op("slice-done.1", 2, "async-done", &done), us(2)),
    ];
    let session = session(&[runs(Chip::V6e, ops)]);
    let evidence = Evidence::gather(&session, None, knowledge::chips::chips());
    let bytes = |name: &str| {
        let op = evidence.find_op(Some(0), name).expect("it ran");
        op.cost.hbm_bytes
    };
    assert_eq!(bytes("slice-start.1"), None);
    assert_eq!(bytes("slice-done.1"), Some(8192.0));
}
