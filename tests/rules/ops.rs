//! Operations that are slow on TPUs, and work that could be fused.

use advisors::Severity;

use crate::rules::by_hand::{Line, looped, straight};
use crate::rules::{findings, report};
use crate::support::scenarios;

const US: u64 = 1_000_000;

const TOPK: &str = "%topk.1 = (f32[1024,8]{1,0:T(8,128)}, s32[1024,8]{1,0:T(8,128)}) custom-call(f32[1024,384]{1,0:T(8,128)} %fusion.1), custom_call_target=\"TopK\"";
const MATMUL: &str = "%fusion.1 = f32[1024,384]{1,0:T(8,128)} fusion(f32[1024,4096]{1,0:T(8,128)} %p.1, f32[4096,384]{1,0:T(8,128)} %p.2), kind=kOutput, calls=%c";

#[test]
fn a_routers_topk_is_expected_to_gain_what_was_published() {
    let report = report(&[straight(&[
        Line {
            hlo: MATMUL,
            category: "convolution fusion",
            tf_op: "jit(f)/router/dot_general",
            ps: 100 * US,
        },
        Line {
            hlo: TOPK,
            category: "custom-call",
            tf_op: "jit(f)/router/top_k",
            ps: 300 * US,
        },
    ])]);
    let found = findings(&report, "sort-topk-sampling");
    assert_eq!(found.len(), 1);
    let saving = found[0].saving.as_ref().expect("a saving");
    assert!(
        (saving.expected_ms - 0.3 * (1.0 - 1.0 / 4.6)).abs() < 1e-6,
        "{}",
        saving.expected_ms
    );
    assert!((saving.high_ms - 0.3 * (1.0 - 1.0 / 25.0)).abs() < 1e-6);
}

#[test]
fn only_a_topk_is_expected_to_gain_by_another_topk() {
    let sort = "%sort.9 = f32[1024,384]{1,0:T(8,128)} sort(f32[1024,384]{1,0:T(8,128)} %p.1), dimensions={1}, to_apply=%less";
    let saves = |tf_op| {
        let report = report(&[straight(&[Line {
            hlo: sort,
            category: "sort",
            tf_op,
            ps: 300 * US,
        }])]);
        let found = findings(&report, "sort-topk-sampling");
        assert_eq!(found.len(), 1, "{tf_op}");
        found[0].saving.is_some()
    };
    assert!(saves("jit(f)/top_k/sort"));
    assert!(!saves("jit(f)/upsample/sort"));
    assert!(
        !saves("jit(f)/sampling/sort"),
        "a sampler may need all of the order"
    );
}

#[test]
fn a_sort_whose_order_may_be_needed_is_told_without_a_saving() {
    let report = report(&[scenarios::sparse_core()]);
    let found = findings(&report, "sort-topk-sampling");
    assert_eq!(
        found.len(),
        1,
        "the argsort, not the sort of the scatter's indices"
    );
    assert_eq!(found[0].severity, Severity::Info);
    assert_eq!(found[0].ops[0].name, "sort.1");
}

#[test]
fn the_sort_of_a_scatters_indices_belongs_to_the_scatter() {
    let report = report(&[scenarios::sparse_core()]);
    let found = findings(&report, "scatter-gather-slow");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].ops[0].name, "sort.3");
    assert!(
        found[0]
            .advice
            .iter()
            .any(|line| line.contains("indices_are_sorted"))
    );
}

#[test]
fn a_gather_of_single_elements_is_slow_and_one_of_rows_is_not() {
    let slow = "%fusion.5 = f32[65536]{0:T(1024)} fusion(f32[65536,1024]{1,0:T(8,128)} %p.1, s32[65536]{0:T(1024)} %p.2), kind=kCustom, calls=%c";
    let lines = |hlo, ps| {
        [Line {
            hlo,
            category: "custom fusion",
            tf_op: "jit(f)/gather",
            ps,
        }]
    };
    let mut profile = straight(&lines(slow, 900 * US));
    // The profile's own count: it does not read the whole table.
    profile.programs[0].ops[0].bytes = 3 * 65_536 * 4;
    let report_slow = report(&[profile]);
    let found = findings(&report_slow, "scatter-gather-slow");
    assert_eq!(found.len(), 1);
    assert!(
        found[0]
            .saving
            .as_ref()
            .is_some_and(|s| s.expected_ms < 0.46 && s.expected_ms > 0.4)
    );
    let rows = "%fusion.5 = bf16[1024,5120]{1,0:T(8,128)(2,1)} fusion(bf16[76032,5120]{1,0:T(8,128)(2,1)} %p.1, s32[1024]{0:T(1024)} %p.2), kind=kCustom, calls=%c";
    let report_rows = report(&[straight(&lines(rows, 20 * US))]);
    assert!(findings(&report_rows, "scatter-gather-slow").is_empty());
}

const LOOP: &str = "%while.1 = (s32[]{:T(128)}, f32[100,32]{0,1:T(8,128)}) while((s32[]{:T(128)}, f32[100,32]{0,1:T(8,128)}) %tuple.1), condition=%c, body=%b";
const UPDATE: &str = "%dynamic-update-slice.1 = f32[100,32]{0,1:T(8,128)} dynamic-update-slice(f32[100,32]{0,1:T(8,128)} %gte.1, f32[1,2]{0,1:T(2,128)} %fusion.9, s32[] %i, s32[] %j)";
const PICK: &str = "%fusion.9 = f32[1,2]{0,1:T(2,128)} fusion(f32[100,2]{0,1:T(2,128)} %gte.2, s32[] %i), kind=kLoop, calls=%c";
const SMALL_MATMUL: &str = "%fusion.9 = f32[8,512]{1,0:T(8,128)} fusion(f32[8,512]{1,0:T(8,128)} %gte.1, f32[512,512]{1,0:T(8,128)} %gte.2), kind=kOutput, calls=%c";

fn in_loop(hlo: &'static str, category: &'static str, ps: u64) -> Line {
    Line {
        hlo,
        category,
        tf_op: "jit(f)/while/body/x",
        ps,
    }
}

#[test]
fn a_vmapped_update_that_became_a_loop_is_found() {
    let body = [
        in_loop(LOOP, "while", 0),
        in_loop(PICK, "loop fusion", 2 * US),
        in_loop(UPDATE, "dynamic-update-slice", 2 * US),
    ];
    let report = report(&[looped(&body, 100)]);
    let found = findings(&report, "tiny-ops-loop");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].title.contains("100 iterations of 4.00 us"),
        "{}",
        found[0].title
    );
    let saving = found[0].saving.as_ref().expect("a saving");
    // 100 x 4 us, at least ten times as fast.
    assert!(
        (saving.expected_ms - 0.36).abs() < 1e-3,
        "{}",
        saving.expected_ms
    );
}

#[test]
fn a_recurrence_of_small_matmuls_is_told_without_a_saving() {
    let body = [
        in_loop(LOOP, "while", 0),
        in_loop(SMALL_MATMUL, "convolution fusion", 5 * US),
    ];
    let report = report(&[looped(&body, 100)]);
    let found = findings(&report, "tiny-ops-loop");
    assert_eq!(found.len(), 1);
    assert!(found[0].saving.is_none());
}

#[test]
fn a_scan_over_layers_is_no_loop_of_tiny_operations() {
    let body = [
        in_loop(LOOP, "while", 0),
        in_loop(SMALL_MATMUL, "convolution fusion", 400 * US),
    ];
    for profile in [
        looped(&body, 64),
        scenarios::decode(),
        scenarios::remat_free_hbm(),
    ] {
        assert!(findings(&report(&[profile]), "tiny-ops-loop").is_empty());
    }
}

#[test]
fn an_intermediate_that_passes_through_hbm_is_found_with_its_bytes() {
    // 512 MiB in float32: read once less, 0.4 ms at 1343 GB/s.
    let writes = "%fusion.1 = f32[16384,8192]{1,0:T(8,128)} fusion(f32[16384,8192]{1,0:T(8,128)} %p.1), kind=kLoop, calls=%c";
    let reads = "%fusion.2 = f32[16384,8192]{1,0:T(8,128)} fusion(f32[16384,8192]{1,0:T(8,128)} %fusion.1), kind=kLoop, calls=%d";
    let line = |hlo| Line {
        hlo,
        category: "loop fusion",
        tf_op: "jit(f)/mlp/mul",
        ps: 800 * US,
    };
    let report = report(&[straight(&[line(writes), line(reads)])]);
    let found = findings(&report, "unfused-elementwise-chains");
    assert_eq!(found.len(), 1);
    let saved = found[0].saving.as_ref().expect("a saving").expected_ms;
    assert!(
        (saved - 16_384.0 * 8_192.0 * 4.0 / 1343.2e6).abs() < 0.004,
        "{saved}"
    );
    let advice = found[0].advice.join(" ").to_lowercase();
    assert!(
        !advice.contains("pallas") && !advice.contains("kernel"),
        "{advice}"
    );
}

#[test]
fn weights_cast_in_every_step_are_found() {
    let cast = "%convert.1 = bf16[8192,8192]{1,0:T(8,128)(2,1)} convert(f32[8192,8192]{1,0:T(8,128)} %params.1)";
    let report = report(&[straight(&[Line {
        hlo: cast,
        category: "non-fusion elementwise",
        tf_op: "jit(f)/convert_element_type",
        ps: 300 * US,
    }])]);
    let found = findings(&report, "casts-of-their-own");
    assert_eq!(found.len(), 1);
    // Its reader reads 128 MiB more: 0.1 ms.
    let saved = found[0].saving.as_ref().expect("a saving").expected_ms;
    assert!(
        (saved - (0.3 - 8_192.0 * 8_192.0 * 2.0 / 1343.2e6)).abs() < 0.002,
        "{saved}"
    );
}

#[test]
fn threefry_is_compared_with_writing_its_bits() {
    let bits = "%fusion.3 = u32[4096,4096]{1,0:T(8,128)} fusion(u32[2]{0:T(128)} %p.1), kind=kLoop, calls=%c";
    let report = report(&[straight(&[Line {
        hlo: bits,
        category: "loop fusion",
        tf_op: "jit(f)/dropout/jit(_bernoulli)/jit(_uniform)/random_bits",
        ps: 500 * US,
    }])]);
    let found = findings(&report, "random-number-cost");
    assert_eq!(found.len(), 1);
    let saved = found[0].saving.as_ref().expect("a saving").expected_ms;
    assert!(
        (saved - (0.5 - 4_096.0 * 4_096.0 * 4.0 / 1343.2e6)).abs() < 0.002,
        "{saved}"
    );
}

#[test]
fn healthy_and_offloading_runs_have_nothing_above_info_here() {
    for profile in [scenarios::healthy(), scenarios::host_offload()] {
        for finding in &report(&[profile]).findings {
            let ours = finding.code.starts_with("TT7");
            assert!(
                !ours || finding.severity == Severity::Info,
                "{}: {}",
                finding.code,
                finding.title
            );
        }
    }
}
