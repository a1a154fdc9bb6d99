//! Matmuls: shape, element type, padding, weights.

use advisors::Severity;

use crate::rules::by_hand::{Line, report_of, session_with_hlo, straight};
use crate::rules::{close, findings, report, said, saving};
use crate::support::profile::{TpuProfile, us};
use crate::support::{fixture_text, scenarios};

const RULES: [&str; 5] = [
    "matmul-below-shape-limit",
    "f32-matmul",
    "mxu-padding-waste",
    "weight-bound-decode",
    "small-expert-matmul",
];

#[test]
fn a_healthy_run_has_no_finding_about_matmuls() {
    let report = report(&[scenarios::healthy()]);
    for rule in RULES {
        assert!(findings(&report, rule).is_empty(), "{rule}");
    }
}

#[test]
fn six_passes_are_told_from_one_by_the_rate() {
    let report = report(&[scenarios::f32_matmul()]);
    let found = findings(&report, "f32-matmul");
    // The product at the default precision takes one pass and waits for no bytes.
    assert_eq!(found.len(), 1);
    let ops: Vec<&str> = found[0].ops.iter().map(|op| op.name.as_str()).collect();
    assert_eq!(ops, ["fusion"]);
    let saving = saving(found[0]);
    // 2,093 us in six passes: half with three, and 2 * 2048^2 * 8192 FLOP at 197 TFLOP/s with one.
    let one_pass = 2.0 * 2048.0 * 2048.0 * 8192.0 / 197e12 * 1e3;
    close(saving.expected_ms, 2.093 / 2.0, 1e-3, "three passes");
    close(
        saving.upper_bound_ms,
        2.093 - one_pass,
        1e-3,
        "one pass at the peak",
    );
    // Without the program the precision is a guess, and the band says so.
    assert_eq!(saving.low_ms, 0.0);
    assert!(found[0].title.contains("seem to take"));
    assert!(said(found[0]).contains("changes the numbers"));
}

#[test]
fn the_programs_precision_makes_six_passes_certain() {
    let hlo = fixture_text("hlo/matmul_f32_v5e.after_optimizations.txt");
    assert!(hlo.contains("operand_precision={highest,highest}"));
    let one_finding = |hlo: &str| {
        let report = report_of(&session_with_hlo(scenarios::f32_matmul(), hlo));
        let found = findings(&report, "f32-matmul");
        found.first().map(|found| (*found).clone())
    };
    let found = one_finding(&hlo).expect("six passes");
    assert!(
        found.title.contains("take several bf16 passes"),
        "{}",
        found.title
    );
    assert!(said(&found).contains("6 bf16 passes by its precision"));
    let saved = saving(&found);
    close(saved.expected_ms, 2.093 / 2.0, 1e-3, "three passes");
    close(saved.low_ms, saved.expected_ms, 1e-9, "no doubt left");
    // With three passes on record the same time is another matter: one pass instead of three.
    let found = one_finding(&hlo.replace("{highest,highest}", "{high,high}")).expect("three");
    assert!(said(&found).contains("3 bf16 passes by its precision"));
    close(
        saving(&found).expected_ms,
        2.093 * 2.0 / 3.0,
        1e-3,
        "one pass",
    );
    // Asked for the default it takes one pass, however slow it is.
    let default = hlo.replace("operand_precision={highest,highest}, ", "");
    assert!(one_finding(&default).is_none());
}

#[test]
fn passes_are_not_taken_for_a_bad_shape() {
    let report = report(&[scenarios::f32_matmul()]);
    for finding in findings(&report, "matmul-below-shape-limit") {
        assert!(
            finding.ops.iter().all(|op| op.name != "fusion"),
            "{}",
            finding.title
        );
    }
}

#[test]
fn a_matmul_below_its_limit_saves_what_the_typical_rate_would() {
    let report = report(&[scenarios::padding()]);
    let found = findings(&report, "matmul-below-shape-limit");
    let logits = found
        .iter()
        .find(|f| f.title.starts_with("logits 2000 x 1200 x 50257"));
    let logits = logits.expect("the logits are the longest matmul");
    // The scenario multiplies at 35 % of 918 TFLOP/s; good matmuls reach 84 % of it on v6e, and
    // 1200 x 50257 fills arrays of 256 as 1280 x 50432.
    let flops = 2.0 * 2000.0 * 1200.0 * 50257.0;
    let padded = 2.0 * 2000.0 * 1280.0 * 50432.0;
    let time = flops / (918e12 * 0.35) * 1e3;
    let saving = saving(logits);
    close(
        saving.expected_ms,
        time - padded / (918e12 * 0.84) * 1e3,
        0.01,
        "to 84 %",
    );
    close(
        saving.upper_bound_ms,
        time - padded / 918e12 * 1e3,
        0.01,
        "to the peak",
    );
    assert!(logits.title.contains("35 %"));
    assert!(found.len() <= 4);
}

#[test]
fn zeros_in_the_mxu_are_named_and_timed() {
    let report = report(&[scenarios::padding()]);
    let found = findings(&report, "mxu-padding-waste");
    assert_eq!(found.len(), 1);
    let said = said(found[0]);
    for named in [
        "contracted 1200 to 1280",
        "columns 50257 to 50432",
        "columns 6600 to 6656",
    ] {
        assert!(said.contains(named), "{named} is not in {said}");
    }
    // The logits' zeros alone, at the peak.
    let zeros = 2.0 * 2000.0 * (1280.0 * 50432.0 - 1200.0 * 50257.0) / 918e12 * 1e3;
    let saving = saving(found[0]);
    assert!(
        saving.expected_ms >= zeros,
        "{} of at least {zeros}",
        saving.expected_ms
    );
    assert!(
        saving.expected_ms < 2.0 * zeros,
        "{} of {zeros} and a little",
        saving.expected_ms
    );
    assert_eq!(saving.low_ms, 0.0, "a checkpoint may fix the sizes");
    assert!(
        !said.contains("pad the"),
        "padding in the program is no advice"
    );
}

#[test]
fn full_arrays_have_no_padding_finding() {
    for scenario in [
        scenarios::f32_matmul(),
        scenarios::attention_naive(),
        scenarios::decode(),
    ] {
        assert!(findings(&report(&[scenario]), "mxu-padding-waste").is_empty());
    }
}

#[test]
fn decode_waits_for_its_weights() {
    let report = report(&[scenarios::decode()]);
    let found = findings(&report, "weight-bound-decode");
    assert_eq!(found.len(), 1);
    // Four layers of 2048 x 11264, 5632 x 2048 and 2048 x 2048 in bf16 from HBM; qkv comes through
    // VMEM, and the matmuls on the KV cache read no weights.
    let mut names: Vec<&str> = found[0].ops.iter().map(|op| op.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["fusion.85", "fusion.86", "fusion.87"]);
    assert!(
        found[0].title.contains("about 8 rows"),
        "{}",
        found[0].title
    );
    let said = said(found[0]);
    assert!(said.contains("from 560 on"), "{said}");
    let bytes = 4.0 * 2.0 * 2048.0 * (11264.0 + 5632.0 + 2048.0);
    let weights = bytes / (1_637.993 * 0.8 * 1e9) * 1e3;
    let time: f64 = found[0].ops.iter().map(|op| op.self_ms_per_step).sum();
    close(time, weights, 0.05, "bytes at 80 % of the bandwidth");
    close(
        saving(found[0]).expected_ms,
        time / 2.0,
        1e-6,
        "half of the bytes",
    );
}

#[test]
fn scores_and_caches_are_no_weights() {
    for scenario in [
        scenarios::attention_naive(),
        scenarios::sample(),
        scenarios::padding(),
    ] {
        let report = report(&[scenario]);
        let found = findings(&report, "weight-bound-decode");
        assert!(found.is_empty(), "{}", found[0].title);
    }
}

#[test]
fn without_a_chip_nothing_is_held_against_its_peaks() {
    for scenario in [
        scenarios::padding(),
        scenarios::f32_matmul(),
        scenarios::decode(),
    ] {
        let session = crate::rules::session(&[scenario]);
        let mut session = session;
        for device in &mut session.devices {
            device.peaks = Default::default();
            device.peaks.device_type = Some("TPU v99".to_owned());
        }
        let evidence = profiler::evidence::Evidence::gather(&session, None, &[]);
        assert!(evidence.chip.is_none());
        let report = advisors::Report::new(&evidence, advisors::registry::RULES);
        for rule in RULES {
            assert!(findings(&report, rule).is_empty(), "{rule}");
        }
    }
}

/// One call of a grouped product for each run.
fn grouped(rows: u64) -> TpuProfile {
    use crate::support::chip::Chip;
    use crate::support::profile::Op;
    let mut profile = TpuProfile::new(Chip::V6e, 1);
    let op = Op {
        name: "gmm.1".to_owned(),
        hlo: format!(
            "%gmm.1 = bf16[{rows},1536]{{1,0:T(8,128)(2,1)}} custom-call(s32[65]{{0:T(128)}} %offsets, \
             bf16[{rows},1024]{{1,0:T(8,128)(2,1)}} %x, bf16[64,1024,1536]{{2,1,0:T(8,128)(2,1)}} %w), \
             custom_call_target=\"tpu_custom_call\""
        ),
        category: "custom-call".to_owned(),
        symbol: 1,
        shape: format!("bf16[{rows},1536]{{1,0:T(8,128)(2,1)}}"),
        tf_op: Some("jit(f)/experts/gmm/pallas_call:".to_owned()),
        ..Op::default()
    };
    let program = profile.program("jit_f", 77, vec![op]);
    let op = profile.find(program, "gmm.1");
    let device = &mut profile.devices[0];
    for run in 0..5 {
        device.run(program, run + 1, |device| device.op(op, us(200)));
        device.idle(us(5));
    }
    profile
}

#[test]
fn experts_with_few_rows_are_told_without_a_promise() {
    let few = report(&[grouped(4096)]);
    let found = findings(&few, "small-expert-matmul");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].title.contains("about 64 rows each"),
        "{}",
        found[0].title
    );
    assert_eq!(found[0].severity, Severity::Info);
    assert!(found[0].saving.is_none());
    let many = report(&[grouped(65_536)]);
    assert!(findings(&many, "small-expert-matmul").is_empty());
}

#[test]
fn smaller_weights_spare_their_own_bytes_only() {
    // 8 rows: the weight of 4096 x 4096 in f32 is nearly all that is read.
    let product = "%fusion.1 = f32[8,4096]{1,0:T(8,128)} fusion(f32[8,4096]{1,0:T(8,128)} %p.1, f32[4096,4096]{1,0:T(8,128)} %p.2), kind=kOutput, calls=%c";
    let report = report(&[straight(&[Line {
        hlo: product,
        category: "convolution fusion",
        tf_op: "jit(f)/mlp/dot_general",
        ps: 50_000_000,
    }])]);
    let found = findings(&report, "weight-bound-decode");
    assert_eq!(found.len(), 1);
    let weight = 4096.0 * 4096.0 * 4.0;
    let all = weight + 2.0 * 8.0 * 4096.0 * 4.0;
    close(
        saving(found[0]).expected_ms,
        0.05 * weight / all * 0.75,
        1e-6,
        "8 of 32 bits stay",
    );
    assert!(
        found[0].title.contains("about 8 rows"),
        "{}",
        found[0].title
    );
    assert!(saving(found[0]).formula.contains("32 bits"));
    // Halves of the operands are an alternative: both together are no more than the best of them.
    let bounds = report.findings.iter().filter_map(|f| f.saving.as_ref());
    let most = bounds.map(|s| s.upper_bound_ms).fold(0.0, f64::max);
    assert!(report.combined_saving_ms <= most + 1e-9);
}
