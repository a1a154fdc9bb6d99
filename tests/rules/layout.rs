//! Layouts and data movement.

use advisors::Severity;
use profiler::timeline::xplane;

use crate::rules::by_hand::{Line, looped, report_of, session_with_hlo, straight};
use crate::rules::{findings, report};
use crate::support::{fixture_text, scenarios};

const US: u64 = 1_000_000;

/// Expected saving in milliseconds of the only finding of a rule.
fn only_saving(report: &advisors::Report, rule: &str) -> f64 {
    let found = findings(report, rule);
    assert_eq!(
        found.len(),
        1,
        "{rule}: {:?}",
        found.iter().map(|f| &f.title).collect::<Vec<_>>()
    );
    let saving = found[0].saving.as_ref().expect("a saving");
    // Of copies that may have to pass elsewhere the high end is all of their time.
    if ["TT602", "TT605"].contains(&found[0].code.as_str()) {
        assert!(saving.expected_ms < saving.high_ms, "{saving:?}");
        return saving.high_ms;
    }
    saving.expected_ms
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() <= 0.01 * right.abs()
}

#[test]
fn copies_around_kernels_cost_all_of_their_time() {
    // The trace alone, and with the program beside it: bitcasts are guessed in one and known in
    // the other.
    let hlo = fixture_text("hlo/pallas_blocks_v6e.after_optimizations.txt");
    for report in [
        report(&[scenarios::layout_copies()]),
        report_of(&session_with_hlo(scenarios::layout_copies(), &hlo)),
    ] {
        let found = findings(&report, "layout-copies-around-custom-calls");
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for finding in &found {
            assert_eq!(finding.severity, Severity::High);
            assert_eq!(finding.op_count, 1);
            let saved = finding.saving.as_ref().expect("a saving").high_ms;
            assert!(close(saved, scenarios::KERNEL_COPY as f64 / 1e9), "{saved}");
            let kernel = if finding.title.contains("matmul_bm128") {
                "first"
            } else {
                "second"
            };
            seen.push((kernel, &finding.ops[0].name));
        }
        seen.sort_unstable();
        assert_eq!(seen, [("first", "copy"), ("second", "copy.1")]);
        for other in ["data-formatting", "whole-buffer-copy"] {
            assert!(
                findings(&report, other).is_empty(),
                "{other} speaks of the same copies"
            );
        }
    }
}

#[test]
fn transposes_before_attention_are_told_but_not_promised() {
    let kernel = "%splash_mha_fwd.1 = bf16[16,2048,128]{2,1,0:T(8,128)(2,1)} custom-call(bf16[16,2048,128]{2,1,0:T(8,128)(2,1)} %transpose.1), custom_call_target=\"tpu_custom_call\"";
    let transpose = "%transpose.1 = bf16[16,2048,128]{2,1,0:T(8,128)(2,1)} transpose(bf16[2048,16,128]{2,1,0:T(8,128)(2,1)} %fusion.1), dimensions={1,0,2}";
    let report = report(&[straight(&[
        Line {
            hlo: transpose,
            category: "data formatting",
            tf_op: "jit(f)/transpose",
            ps: 60 * US,
        },
        Line {
            hlo: kernel,
            category: "custom-call",
            tf_op: "jit(f)/splash_mha_fwd/pallas_call",
            ps: 900 * US,
        },
    ])]);
    let found = findings(&report, "layout-copies-around-custom-calls");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity, Severity::Info);
    assert!(found[0].saving.is_none());
    assert!(found[0].title.contains("inherent"), "{}", found[0].title);
}

#[test]
fn an_argument_that_is_copied_before_a_kernel_is_found_with_its_size() {
    let copy = "%copy.7 = bf16[2700,256,2,2,128]{4,3,2,1,0:T(2,128)(2,1)} copy(bf16[2700,256,2,2,128]{4,3,2,1,0:T(2,128)(2,1)} %args_12_.1)";
    let kernel = "%ring_attention.3 = bf16[1024,8,128]{2,1,0:T(8,128)(2,1)} custom-call(bf16[2700,256,2,2,128]{4,3,2,1,0:T(2,128)(2,1)} %copy.7), custom_call_target=\"tpu_custom_call\"";
    let report = report(&[straight(&[
        Line {
            hlo: copy,
            category: "data formatting",
            tf_op: "args[12]",
            ps: 828 * US,
        },
        Line {
            hlo: kernel,
            category: "custom-call",
            tf_op: "jit(f)/ring/pallas_call",
            ps: 500 * US,
        },
    ])]);
    let saved = only_saving(&report, "whole-buffer-copy");
    assert!(close(saved, 0.828), "{saved}");
    let found = findings(&report, "whole-buffer-copy")[0];
    assert!(
        found
            .title
            .starts_with("an argument is copied as it is: bf16[2700,256,2,2,128] (675 MiB)"),
        "{}",
        found.title
    );
    assert!(findings(&report, "layout-copies-around-custom-calls").is_empty());
}

#[test]
fn a_cache_copied_back_after_a_scan_is_a_whole_buffer() {
    // 4 layers x 8 x 256 x 2 x 16 x 128 in bf16 go through VMEM: read by an asynchronous copy,
    // written at 80 % of HBM's rate.
    let report = report(&[scenarios::decode()]);
    let saved = only_saving(&report, "whole-buffer-copy");
    assert!((0.050..0.055).contains(&saved), "{saved}");
    let title = &findings(&report, "whole-buffer-copy")[0].title;
    assert!(title.contains("(64.0 MiB)"), "{title}");
}

#[test]
fn an_argument_of_odd_width_gets_another_layout_in_every_step() {
    let report = report(&[scenarios::padding()]);
    let found = findings(&report, "whole-buffer-copy");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].title.contains("bf16[50257,1200]"),
        "{}",
        found[0].title
    );
    assert!(
        found[0].advice[0].contains("round 1200 up to 1280"),
        "{:?}",
        found[0].advice
    );
}

#[test]
fn slices_across_the_layout_cost_what_contiguous_ones_do_not() {
    let report = report(&[scenarios::dus_scan_axis()]);
    let saved = only_saving(&report, "dus-on-minor-scan-axis");
    // Sixteen updates that would take 70 us each.
    let truth = 16.0 * (scenarios::DUS as f64 / 1e9 - 0.070);
    assert!((saved - truth).abs() < 0.02 * truth, "{saved} for {truth}");
    let found = findings(&report, "dus-on-minor-scan-axis")[0];
    assert_eq!(found.severity, Severity::High);
    assert!(
        found.advice[0].contains("dimension 1"),
        "{:?}",
        found.advice
    );
}

#[test]
fn slow_updates_of_the_major_dimension_have_another_cause() {
    // The same update, as slow, into dimension 0 or 1.
    let update = |first: &'static str| Line {
        hlo: first,
        category: "dynamic-update-slice",
        tf_op: "jit(f)/while/body/dynamic_update_slice",
        ps: 391 * US,
    };
    let major = "%dus.1 = f32[16,2048,5632]{2,1,0:T(8,128)} dynamic-update-slice(f32[16,2048,5632]{2,1,0:T(8,128)} %gte.1, f32[1,2048,5632]{2,1,0:T(8,128)} %copy.1, s32[] %i, s32[] %z, s32[] %z)";
    let middle = "%dus.1 = f32[16,2048,5632]{2,0,1:T(8,128)} dynamic-update-slice(f32[16,2048,5632]{2,0,1:T(8,128)} %gte.1, f32[1,2048,5632]{2,0,1:T(8,128)} %copy.1, s32[] %i, s32[] %z, s32[] %z)";
    let count = |hlo| {
        let report = report(&[straight(&[update(hlo)])]);
        findings(&report, "dus-on-minor-scan-axis").len()
    };
    assert_eq!((count(major), count(middle)), (0, 1));
}

#[test]
fn a_loop_that_copies_its_stack_is_found_with_the_amplification() {
    let hlo = include_str!("stacked_copies.hlo");
    let profile = looped(
        &[
            Line {
                hlo: "%while.1 = (s32[]{:T(128)}, f32[15,512,1024]{2,1,0:T(8,128)}) while((s32[]{:T(128)}, f32[15,512,1024]{2,1,0:T(8,128)}) %tuple.2), condition=%cond, body=%body",
                category: "while",
                tf_op: "jit(f)/while",
                ps: 0,
            },
            Line {
                hlo: "%update.1 = f32[15,512,1024]{2,1,0:T(8,128)} dynamic-update-slice(f32[15,512,1024]{2,1,0:T(8,128)} %stack, f32[1,512,1024]{2,1,0:T(8,128)} %slice, s32[] %i, s32[] %zero, s32[] %zero)",
                category: "dynamic-update-slice",
                tf_op: "jit(f)/while/body/dynamic_update_slice",
                ps: 4 * US,
            },
            Line {
                hlo: "%copy.1 = f32[15,512,1024]{2,1,0:T(8,128)} copy(f32[15,512,1024]{2,1,0:T(8,128)} %update.1)",
                category: "data formatting",
                tf_op: "jit(f)/while/body/copy",
                ps: 50 * US,
            },
        ],
        15,
    );
    let report = report_of(&session_with_hlo(profile, hlo));
    let saved = only_saving(&report, "stacked-copies-in-loop");
    assert!(close(saved, 15.0 * 0.050), "{saved}");
    let shown = format!(
        "{:?}",
        findings(&report, "stacked-copies-in-loop")[0].evidence
    );
    assert!(
        shown.contains("15.0: 30.0 MiB of stack for a slice of 2.00 MiB"),
        "{shown}"
    );
    assert!(findings(&report, "whole-buffer-copy").is_empty());
}

#[test]
fn copies_slower_than_memory_are_expected_to_reach_its_rate() {
    // 64 MiB in and out: 0.1 ms at 1343 GB/s, where it takes 1 ms.
    let report = report(&[straight(&[
        Line {
            hlo: "%transpose.4 = f32[4096,4096]{1,0:T(8,128)} transpose(f32[4096,4096]{1,0:T(8,128)} %fusion.9), dimensions={1,0}",
            category: "data formatting",
            tf_op: "jit(f)/transpose",
            ps: 1_000 * US,
        },
        Line {
            hlo: "%fusion.9 = f32[4096,4096]{1,0:T(8,128)} fusion(f32[4096,4096]{1,0:T(8,128)} %p.1), kind=kLoop, calls=%c",
            category: "loop fusion",
            tf_op: "jit(f)/tanh",
            ps: 110 * US,
        },
    ])]);
    let saved = only_saving(&report, "data-formatting");
    assert!(
        close(saved, 1.0 - 2.0 * 4096.0 * 4096.0 * 4.0 / 1343.2e6),
        "{saved}"
    );
}

#[test]
fn a_healthy_layer_has_nothing_above_info_here() {
    let report = report(&[scenarios::healthy()]);
    for finding in &report.findings {
        let layouts = finding.code.starts_with("TT6");
        assert!(
            !layouts || finding.severity == Severity::Info,
            "{}: {}",
            finding.code,
            finding.title
        );
    }
}

#[test]
fn host_offload_is_no_matter_of_layouts() {
    let report = report(&[scenarios::host_offload()]);
    assert!(
        report
            .findings
            .iter()
            .all(|finding| !finding.code.starts_with("TT6"))
    );
}

#[test]
fn the_same_bytes_give_the_same_findings() {
    let bytes = crate::support::xspace::to_bytes(&scenarios::layout_copies());
    let once = || {
        let mut builder = profiler::session_builder::SessionBuilder::default();
        xplane::read(&bytes, "host0", &mut builder).expect("a valid XSpace");
        format!("{:?}", report_of(&builder.finish()).findings)
    };
    assert_eq!(once(), once());
}
