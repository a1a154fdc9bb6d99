//! Kernels, and attention without one.

use advisors::Severity;
use advisors::finding::Basis;

use crate::rules::{close, findings, report, said, saving};
use crate::support::chip::Chip;
use crate::support::profile::{Op, TpuProfile, us};
use crate::support::scenarios;

#[test]
fn a_healthy_run_has_no_finding_about_kernels() {
    let report = report(&[scenarios::healthy()]);
    for rule in [
        "kernel-far-from-roof",
        "kernel-without-cost",
        "naive-attention",
    ] {
        assert!(findings(&report, rule).is_empty(), "{rule}");
    }
}

#[test]
fn bad_blocks_save_down_to_the_same_work_in_good_ones() {
    let report = report(&[scenarios::kernel_bad_blocks()]);
    let found = findings(&report, "kernel-far-from-roof");
    assert_eq!(
        found.len(),
        1,
        "the kernel with blocks of 512 is near enough"
    );
    assert!(
        found[0].title.contains("bm 128, bn 128, bk 128"),
        "{}",
        found[0].title
    );
    let saving = saving(found[0]);
    assert_eq!(saving.basis, Basis::Measured);
    close(
        saving.expected_ms,
        1.112 - 0.041,
        1e-6,
        "1,112 us against 41 us",
    );
    let roof = 2.0 * 2048f64.powi(3) / 918e12 * 1e3;
    close(saving.upper_bound_ms, 1.112 - roof, 1e-3, "the peak");
    assert!(said(found[0]).contains("matmul_bm512_bn512_bk512"));
}

#[test]
fn kernels_as_fast_as_each_other_are_left_alone() {
    let report = report(&[scenarios::layout_copies()]);
    assert!(findings(&report, "kernel-far-from-roof").is_empty());
}

/// Flash attention of 16 heads of 128 over 2048 positions, without a cost estimate.
fn flash(time: u64) -> TpuProfile {
    let mut profile = TpuProfile::new(Chip::V6e, 1);
    let array = "bf16[2,8,2048,128]{3,2,1,0:T(8,128)(2,1)}";
    let op = Op {
        name: "flash_attention.3".to_owned(),
        hlo: format!(
            "%flash_attention.3 = {array} custom-call({array} %q, {array} %k, {array} %v), \
             custom_call_target=\"tpu_custom_call\""
        ),
        category: "custom-call".to_owned(),
        symbol: 1,
        shape: array.to_owned(),
        tf_op: Some("jit(f)/flash_attention/pallas_call:".to_owned()),
        ..Op::default()
    };
    let program = profile.program("jit_f", 79, vec![op]);
    let op = profile.find(program, "flash_attention.3");
    let device = &mut profile.devices[0];
    for run in 0..5 {
        device.run(program, run + 1, |device| device.op(op, time));
        device.idle(us(5));
    }
    profile
}

#[test]
fn attention_is_held_against_what_attention_kernels_reach() {
    // Two products over all keys; tuned kernels reach 35 % of the peak on v6e.
    let flops = 4.0 * 16.0 * 2048.0 * 2048.0 * 128.0;
    let good = flops / (918e12 * 0.35) * 1e3;
    let slow = report(&[flash(us(1_000))]);
    let found = findings(&slow, "kernel-far-from-roof");
    assert_eq!(found.len(), 1);
    close(saving(found[0]).expected_ms, 1.0 - good, 1e-3, "to 35 %");
    assert!(said(found[0]).contains("128 fills 50.0 % of an MXU of 256"));
    let near = report(&[flash(us(150))]);
    assert!(
        findings(&near, "kernel-far-from-roof").is_empty(),
        "{good} ms is good"
    );
}

/// Paged attention as servers call it: 512 tokens, 4 x 8 heads of 128, pages of 64.
fn paged(name: &str, time: u64) -> TpuProfile {
    let mut profile = TpuProfile::new(Chip::Tpu7x, 1);
    let cache = "bf16[1000,64,4,2,128]{4,3,2,1,0:T(2,128)(2,1)}";
    let queries = "bf16[4,512,4,2,128]{4,3,2,1,0:T(2,128)(2,1)}";
    let op = Op {
        name: format!("{name}.7"),
        hlo: format!(
            "%{name}.7 = ({queries}, {cache}) custom-call(s32[256]{{0:T(256)}} %lengths, \
             s32[131072]{{0:T(1024)}} %pages, {queries} %q, \
             bf16[512,4,2,128]{{3,2,1,0:T(2,128)(2,1)}} %new, {cache} %cache), \
             custom_call_target=\"tpu_custom_call\", \
             output_to_operand_aliasing={{{{0}}: (2, {{}}), {{1}}: (4, {{}})}}"
        ),
        category: "custom-call".to_owned(),
        symbol: 1,
        shape: format!("({queries}, {cache})"),
        tf_op: Some(format!("jit(step)/{name}/pallas_call:")),
        ..Op::default()
    };
    let program = profile.program("jit_step", 78, vec![op]);
    let op = profile.find(program, &format!("{name}.7"));
    let device = &mut profile.devices[0];
    for run in 0..5 {
        device.run(program, run + 1, |device| device.op(op, time));
        device.idle(us(5));
    }
    profile
}

#[test]
fn paged_attention_with_the_fallbacks_blocks_is_reported_with_a_wide_band() {
    let report = report(&[paged("RPA-bq_32-bkvp_64-p_64-", us(266))]);
    let found = findings(&report, "kernel-far-from-roof");
    assert_eq!(found.len(), 1);
    let saving = saving(found[0]);
    assert_eq!(saving.basis, Basis::LookedUp);
    close(
        saving.expected_ms,
        0.266 * (1.0 - 1.0 / 1.15),
        1e-3,
        "what a table entry won",
    );
    close(
        saving.high_ms,
        0.266 * (1.0 - 1.0 / 1.49),
        1e-3,
        "the most that blocks won",
    );
    assert_eq!(saving.low_ms, 0.0, "the work stands in the data");
    let said = said(found[0]);
    assert!(
        said.contains("default blocks bq 32, bkvp 64, p 64"),
        "{said}"
    );
    assert!(said.contains("32 query heads of 128"), "{said}");
    // 2 KiB a token: 4 x 32 x 32 x 128 FLOP over 2,048 bytes.
    assert!(said.contains("256 FLOPs a byte"), "{said}");
    // 64,000 tokens of 2 KiB at 3690 GB/s.
    assert!(said.contains("whole cache once takes 35.5 us"), "{said}");
}

#[test]
fn paged_attention_with_blocks_of_its_own_promises_nothing() {
    let report = report(&[paged("RPA-bq_128-bkvp_16-p_64-", us(266))]);
    let found = findings(&report, "kernel-far-from-roof");
    assert_eq!(found.len(), 1);
    assert!(found[0].saving.is_none());
    assert_eq!(found[0].severity, Severity::Info);
}

#[test]
fn a_kernel_without_a_cost_is_told_of_and_one_with_it_is_not() {
    let silent = report(&[paged("RPA-bq_32-bkvp_64-p_64-", us(266))]);
    let found = findings(&silent, "kernel-without-cost");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity, Severity::Info);
    assert!(
        found[0]
            .title
            .contains("RPA-bq_32-bkvp_64-p_64- states no cost")
    );
    let stated = report(&[scenarios::kernel_bad_blocks()]);
    assert!(findings(&stated, "kernel-without-cost").is_empty());
}

#[test]
fn scores_in_hbm_save_their_traffic() {
    let report = report(&[scenarios::attention_naive()]);
    let found = findings(&report, "naive-attention");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].title.contains("[16,4096,4096]"),
        "{}",
        found[0].title
    );
    // In bf16 written once and read twice, in f32 written and read once.
    let scores = 16.0 * 4096.0 * 4096.0;
    let traffic = scores * (3.0 * 2.0 + 2.0 * 4.0) / 1_637.993e9 * 1e3;
    let saving = saving(found[0]);
    assert!(
        saving.expected_ms <= traffic && saving.expected_ms > 0.9 * traffic,
        "{traffic}"
    );
    assert!(
        saving.low_ms > 0.0,
        "4096 positions are enough for a kernel to gain time"
    );
    let mut names: Vec<&str> = found[0].ops.iter().map(|op| op.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["fusion.16", "fusion.2", "fusion.21"]);
}

#[test]
fn at_short_sequences_the_gain_may_be_memory_only() {
    for scenario in [scenarios::padding(), scenarios::sample()] {
        let report = report(&[scenario]);
        let found = findings(&report, "naive-attention");
        assert_eq!(found.len(), 1);
        assert_eq!(saving(found[0]).low_ms, 0.0);
        assert!(said(found[0]).contains("expect memory rather than time"));
    }
}

#[test]
fn an_mlp_is_no_attention() {
    for scenario in [
        scenarios::f32_matmul(),
        scenarios::train_step_fsdp(),
        scenarios::decode(),
    ] {
        assert!(findings(&report(&[scenario]), "naive-attention").is_empty());
    }
}
