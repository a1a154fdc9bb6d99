//! Tests of the calibrated cost model, on a chip of round figures: 1 cycle is 1000 ps, HBM moves a
//! byte in a picosecond, the MXUs 100 FLOPs and the vector unit 4.096 operations.

use std::collections::BTreeMap;

use super::*;
use crate::chip::{Generation, Sourced};
use crate::compiler::calibration::{Accuracy, Spread};
use crate::program::hlo_text::parse_module;

fn sourced<T>(value: T) -> Sourced<T> {
    Sourced {
        value,
        source: "test".to_owned(),
    }
}

pub(crate) fn chip() -> ChipFacts {
    ChipFacts {
        generation: Generation::V6e,
        product_name: "test".to_owned(),
        tensor_cores_per_chip: sourced(1),
        devices_per_chip: sourced(1),
        sparse_cores_per_chip: None,
        peak_tflops_per_chip: BTreeMap::from([("bf16".to_owned(), sourced(100.0))]),
        hbm_gib_per_chip: sourced(32.0),
        hbm_usable_gib_per_device: None,
        hbm_gb_per_s_per_chip: sourced(1000.0),
        vmem_mib_per_core: None,
        ici_gb_per_s_per_chip: None,
        ici_links_per_chip: None,
        ici_dimensions: None,
        pcie_gb_per_s_per_chip: Some(sourced(10.0)),
        dcn_gb_per_s_per_chip: None,
        clock_mhz: Some(sourced(1000.0)),
        mxus_per_core: None,
        mxu_size: sourced(128),
        lanes: sourced(128),
        sublanes: sourced(8),
    }
}

pub(crate) fn calibration() -> Calibration {
    Calibration {
        generation: Generation::V6e,
        source: "test".to_owned(),
        libtpu_builds: vec!["1.0".to_owned()],
        measured: true,
        constants: Constants {
            mxu: 1.25,
            matmul_excess: 0.5,
            convolution_excess: 0.75,
            epilogue: 2.0,
            vector: 0.25,
            hbm: 0.8,
            kernel: 1.0,
        },
        spread: Spread {
            matmul: 0.1,
            convolution: 0.2,
            vector: 0.3,
            kernel: 0.4,
            band_factor: 1.5,
            ratio_floor: 0.05,
            ratio_factor: 1.5,
        },
        accuracy: Accuracy::default(),
    }
}

fn program(text: &str) -> Program {
    let (program, notes) = parse_module(text);
    assert_eq!(notes.iter().collect::<Vec<_>>(), []);
    program
}

fn price(text: &str, op: &str) -> Price {
    let program = program(text);
    let op = program.find(op).expect(op);
    CostModel::new(&program, &chip(), &calibration()).price(op)
}

fn total(text: &str) -> ProgramPrice {
    CostModel::new(&program(text), &chip(), &calibration()).total()
}

fn work(text: &str) -> Work {
    let program = program(text);
    let found = ProgramWork::of(&program, &chip()).ops;
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].0
}

/// An entry of one operation on two operands.
fn entry(op: &str, left: &str, right: &str) -> String {
    format!(
        "HloModule m\n\nENTRY %main (a: {left}, b: {right}) -> f32[] {{\n  %a = {left} parameter(0)\n  %b = {right} parameter(1)\n  ROOT %op = {op}\n}}\n"
    )
}

const CYCLES: &str = r#"backend_config={"window_config":{"estimated_cycles":"1000"},"other":"1"}"#;

fn matmul(cycles: &str, space: &str) -> String {
    let op = format!(
        "bf16[1024,1024]{{1,0:{space}}} convolution(%a, %b), dim_labels=bf_io->bf, {cycles}"
    );
    let side = format!("bf16[1024,1024]{{1,0:{space}}}");
    entry(&op, &side, &side)
}

#[test]
fn a_matmul_takes_its_products_and_a_part_of_what_the_compiler_estimates_beyond_them() {
    let products = 2.0 * 1024.0f64.powi(3) / 100.0;
    // Of 50 M ps estimated, 28.5 M ps are beyond the products.
    let cycles = CYCLES.replace("1000", "50000");
    let found = price(&matmul(&cycles, "T(8,128)(2,1)S(1)"), "op");
    let expected = 1.25 * products + 0.5 * (50e6 - products);
    assert_eq!(found.time_ps, expected.round() as u64);
    assert_eq!(
        (found.kind, found.basis),
        (OpKind::Matmul, PriceBasis::Cycles)
    );
    let band = 0.15f64.exp();
    assert_eq!(found.low_ps, (expected / band).round() as u64);
    assert_eq!(found.high_ps, (expected * band).round() as u64);

    let unknown = price(&matmul(r#"backend_config={}"#, "T(8,128)(2,1)S(1)"), "op");
    assert_eq!(unknown.time_ps, (1.25 * products).round() as u64);
    assert_eq!(unknown.basis, PriceBasis::Roofline);
}

#[test]
fn only_a_convolution_with_a_window_is_one() {
    let window = entry(
        "f32[4,14,14,128]{3,2,1,0} convolution(%a, %b), window={size=3x3}, dim_labels=b01f_01io->b01f",
        "bf16[4,16,16,64]{3,2,1,0}",
        "bf16[3,3,64,128]{3,2,1,0}",
    );
    assert_eq!(price(&window, "op").kind, OpKind::Convolution);
    assert_eq!(
        price(&matmul(CYCLES, "T(8,128)"), "op").kind,
        OpKind::Matmul
    );
}

#[test]
fn vector_work_beyond_the_compilers_estimate_slows_a_matmul() {
    let fused = |ops: &str| {
        format!(
            "HloModule m\n\n%body (a: bf16[128,128], b: bf16[128,128]) -> bf16[128,128] {{\n  %a = bf16[128,128]{{1,0:S(1)}} parameter(0)\n  %b = bf16[128,128]{{1,0:S(1)}} parameter(1)\n  %c = bf16[128,128]{{1,0}} convolution(%a, %b), dim_labels=bf_io->bf\n  ROOT %t = {ops}\n}}\n\nENTRY %main (x: bf16[128,128], y: bf16[128,128]) -> bf16[128,128] {{\n  %x = bf16[128,128]{{1,0:S(1)}} parameter(0)\n  %y = bf16[128,128]{{1,0:S(1)}} parameter(1)\n  ROOT %op = bf16[128,128]{{1,0:S(1)}} fusion(%x, %y), kind=kOutput, calls=%body, {}\n}}\n",
            CYCLES.replace("1000", "42")
        )
    };
    let plain = price(&fused("bf16[128,128]{1,0:S(1)} bitcast(%c)"), "op").time_ps;
    let tanh = price(&fused("bf16[128,128]{1,0:S(1)} tanh(%c)"), "op").time_ps;
    let one = 128.0 * 128.0 / 1.024 * 2.0;
    let products = 1.25 * 2.0 * 128.0f64.powi(3) / 100.0;
    assert_eq!(
        plain,
        (products + 0.5 * (42_000.0 - products / 1.25)).round() as u64
    );
    assert_eq!(tanh, (products + one).round() as u64);
}

fn add(shape: &str, cycles: &str) -> String {
    entry(&format!("{shape} add(%a, %b), {cycles}"), shape, shape)
}

#[test]
fn an_elementwise_operation_takes_its_padded_bytes_and_vmem_costs_none() {
    let found = price(&add("f32[1000,100]{1,0:T(8,128)}", CYCLES), "op");
    assert_eq!(found.time_ps, (3.0 * 1000.0 * 128.0 * 4.0 / 0.8) as u64);
    assert_eq!(
        (found.kind, found.basis),
        (OpKind::Loop, PriceBasis::HbmBytes)
    );
    let vmem = price(&add("f32[1000,100]{1,0:T(8,128)S(1)}", CYCLES), "op");
    assert_eq!((vmem.time_ps, vmem.basis), (250_000, PriceBasis::Cycles));
}

#[test]
fn the_mark_for_no_estimate_is_no_estimate() {
    let cycles = CYCLES.replace("1000", "9223372036854775807");
    let found = work(&add("f32[1024,128]{1,0:T(8,128)S(1)}", &cycles));
    assert_eq!(found.estimate_ps, None);
    assert_eq!(found.vector_ps, 1024.0 * 128.0 / 4.096);
}

#[test]
fn a_sliding_window_is_summed_in_steps_of_doubling_length() {
    let cumsum = "HloModule m\n\n%sum (x: f32[], y: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n  %y = f32[] parameter(1)\n  ROOT %z = f32[] add(%x, %y)\n}\n\nENTRY %main (a: f32[8,4096]) -> f32[8,4096] {\n  %a = f32[8,4096]{1,0} parameter(0)\n  %zero = f32[] constant(0)\n  ROOT %op = f32[8,4096]{1,0} reduce-window(%a, %zero), window={size=1x4096 pad=0_0x4095_0}, to_apply=%sum\n}\n";
    let found = work(cumsum);
    assert_eq!(found.vector_ps, 8.0 * 4096.0 * 13.0 / 4.096);
    assert_eq!(found.kind, OpKind::Other);
}

#[test]
fn what_only_moves_data_is_a_copy_and_what_sums_a_reduction() {
    let shape = "f32[256,256]{1,0}";
    let transposed = entry("f32[256,256]{0,1} copy(%a)", shape, shape);
    assert_eq!(price(&transposed, "op").kind, OpKind::Copy);
    let concatenated = entry(
        "f32[512,256]{1,0} concatenate(%a, %b), dimensions={0}",
        shape,
        shape,
    );
    assert_eq!(price(&concatenated, "op").kind, OpKind::Copy);
}

#[test]
fn a_kernel_takes_what_its_shapes_or_its_author_tell_or_its_bundles_count() {
    let call = |name: &str, config: &str| {
        let op = format!(
            "bf16[64,128]{{1,0:S(1)}} custom-call(%a, %b), custom_call_target=\"tpu_custom_call\", backend_config={config}"
        );
        let text = entry(&op, "bf16[64,4096]{1,0:S(1)}", "bf16[4096,128]{1,0:S(1)}");
        price(&text.replace("%op =", &format!("%{name} =")), name)
    };
    let softmax = call("online-softmax.1", "{}");
    let scores = 64.0 * 4096.0f64;
    let expected = 2.0 * scores * 128.0 / 100.0 + 3.0 * scores / 4.096 + scores / 1.024;
    assert_eq!(softmax.time_ps, expected.round() as u64);
    assert_eq!(softmax.kind, OpKind::Kernel);
    let stated = call("mine", r#"{"cost_estimate":{"flops":"100000"}}"#);
    assert_eq!((stated.time_ps, stated.basis), (1000, PriceBasis::Roofline));
    let counted = call(
        "mine",
        r#"{"bundle_analysis_data":{"estimated_cycles":"7"}}"#,
    );
    assert_eq!((counted.time_ps, counted.basis), (7000, PriceBasis::Kernel));
    let nothing = call("mine", "{}");
    assert_eq!((nothing.time_ps, nothing.basis), (0, PriceBasis::Unknown));
}

#[test]
fn collectives_have_no_price_here_and_are_counted() {
    let text = "HloModule m\n\n%sum (x: f32[], y: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n  %y = f32[] parameter(1)\n  ROOT %z = f32[] add(%x, %y)\n}\n\nENTRY %main (a: f32[8,128]) -> f32[8,128] {\n  %a = f32[8,128]{1,0} parameter(0)\n  ROOT %op = f32[8,128]{1,0} all-reduce(%a), replica_groups={{0,1}}, to_apply=%sum\n}\n";
    let found = price(text, "op");
    assert_eq!((found.time_ps, found.kind), (0, OpKind::Collective));
    assert_eq!(found.basis, PriceBasis::Unknown);
    let whole = total(text);
    assert_eq!((whole.time_ps, whole.collectives), (0, 1.0));
}

fn looped(limit: &str) -> String {
    format!(
        "HloModule m\n\n%body (p: (s32[], f32[1024,128])) -> (s32[], f32[1024,128]) {{\n  %p = (s32[], f32[1024,128]{{1,0}}) parameter(0)\n  %i = s32[] get-tuple-element(%p), index=0\n  %x = f32[1024,128]{{1,0}} get-tuple-element(%p), index=1\n  %one = s32[] constant(1)\n  %next = s32[]{{:S(6)}} add(%i, %one)\n  %y = f32[1024,128]{{1,0}} add(%x, %x), {CYCLES}\n  ROOT %t = (s32[], f32[1024,128]{{1,0}}) tuple(%next, %y)\n}}\n\n%cond (p: (s32[], f32[1024,128])) -> pred[] {{\n  %p = (s32[], f32[1024,128]{{1,0}}) parameter(0)\n  %i = s32[]{{:S(6)}} get-tuple-element(%p), index=0\n  %n = s32[]{{:S(6)}} {limit}\n  ROOT %lt = pred[]{{:S(6)}} compare(%i, %n), direction=LT\n}}\n\nENTRY %main (a: f32[1024,128]) -> (s32[], f32[1024,128]) {{\n  %a = f32[1024,128]{{1,0}} parameter(0)\n  %zero = s32[] constant(0)\n  %init = (s32[], f32[1024,128]{{1,0}}) tuple(%zero, %a)\n  ROOT %w = (s32[], f32[1024,128]{{1,0}}) while(%init), condition=%cond, body=%body\n}}\n"
    )
}

#[test]
fn a_loop_counts_as_often_as_it_runs_and_once_where_that_is_not_known() {
    // Two reads of one operand and a write, and the counter's few bytes.
    let once = price(&looped("constant(8)"), "y").time_ps as f64;
    let known = total(&looped("constant(8)"));
    assert!(
        (known.time_ps as f64 / once - 8.0).abs() < 0.01,
        "{known:?}"
    );
    assert_eq!(known.unknown_trips, 0);
    let unknown = total(&looped("get-tuple-element(%p), index=0"));
    assert!(unknown.unknown_trips == 1 || unknown.time_ps < known.time_ps);
}

#[test]
fn what_an_asynchronous_call_starts_counts_once() {
    let text = "HloModule m\n\n%work (p: f32[1024,128]) -> f32[1024,128] {\n  %p = f32[1024,128]{1,0} parameter(0)\n  ROOT %n = f32[1024,128]{1,0} negate(%p)\n}\n\n%wrapped (q: f32[1024,128]) -> f32[1024,128] {\n  %q = f32[1024,128]{1,0} parameter(0)\n  ROOT %c = f32[1024,128]{1,0} call(%q), to_apply=%work\n}\n\nENTRY %main (a: f32[1024,128]) -> f32[1024,128] {\n  %a = f32[1024,128]{1,0} parameter(0)\n  %s = ((f32[1024,128]{1,0}), f32[1024,128]{1,0}, u32[]{:S(2)}) async-start(%a), async_execution_thread=\"sparsecore\", calls=%wrapped\n  ROOT %d = f32[1024,128]{1,0} async-done(%s)\n}\n";
    assert_eq!(total(text).time_ps, (2.0 * 1024.0 * 512.0 / 0.8) as u64);
}

#[test]
fn branches_count_for_their_equal_share() {
    let branch = |name: &str, rows: u64| {
        format!(
            "%{name} (p: f32[4096,128]) -> f32[8,128] {{\n  %p.{name} = f32[4096,128]{{1,0}} parameter(0)\n  %s.{name} = f32[{rows},128]{{1,0}} slice(%p.{name}), slice={{[0:{rows}], [0:128]}}\n  ROOT %r.{name} = f32[8,128]{{1,0}} bitcast(%s.{name})\n}}\n\n"
        )
    };
    let text = format!(
        "HloModule m\n\n{}{}ENTRY %main (i: pred[], a: f32[4096,128]) -> f32[8,128] {{\n  %i = pred[] parameter(0)\n  %a = f32[4096,128]{{1,0}} parameter(1)\n  ROOT %c = f32[8,128]{{1,0}} conditional(%i, %a, %a), true_computation=%big, false_computation=%small\n}}\n",
        branch("big", 3072),
        branch("small", 1024)
    );
    let found = total(&text);
    assert_eq!(found.branches, 1);
    // Read and written, 4 bytes each.
    assert_eq!(
        found.time_ps,
        (0.5 * (3072.0 + 1024.0) * 128.0 * 8.0 / 0.8) as u64
    );
}

#[test]
fn transfers_hide_behind_arithmetic_and_cost_what_hbm_cannot_carry_beside_it() {
    let text = |rows: u64, cycles: u64| {
        format!(
            "HloModule m\n\nENTRY %main (a: f32[{rows},128], b: f32[8,128]) -> f32[8,128] {{\n  %a = f32[{rows},128]{{1,0}} parameter(0)\n  %b = f32[8,128]{{1,0:S(1)}} parameter(1)\n  %start = (f32[{rows},128]{{1,0:S(1)}}, f32[{rows},128]{{1,0}}, u32[]{{:S(2)}}) copy-start(%a)\n  %add = f32[8,128]{{1,0:S(1)}} add(%b, %b), {}\n  %done = f32[{rows},128]{{1,0:S(1)}} copy-done(%start)\n  ROOT %op = f32[8,128]{{1,0:S(1)}} add(%add, %add)\n}}\n",
            CYCLES.replace("1000", &cycles.to_string())
        )
    };
    let hidden = total(&text(1024, 100_000));
    assert_eq!(hidden.exposed_transfers_ps, 0);
    let exposed = total(&text(1024, 4));
    let transfer = (1024.0 * 512.0 / 0.8) as u64;
    assert_eq!(exposed.time_ps, transfer);
    assert!(exposed.exposed_transfers_ps > transfer / 2);
    assert!(hidden.time_ps > exposed.time_ps);
}

#[test]
fn the_ratio_of_like_programs_is_surer_than_their_times() {
    let calibration = calibration();
    let small = total(&add("f32[1024,128]{1,0}", CYCLES));
    let large = total(&add("f32[2048,128]{1,0}", CYCLES));
    let matmul = total(&matmul(CYCLES, "T(8,128)(2,1)S(1)"));
    let alike = large.over(&small, &calibration).expect("a ratio");
    assert_eq!(alike.ratio, 2.0);
    let width = |high: f64, middle: f64| high / middle;
    assert!(width(alike.high, 2.0) < width(small.high_ps as f64, small.time_ps as f64));
    let unlike = matmul.over(&small, &calibration).expect("a ratio");
    assert!(width(unlike.high, unlike.ratio) > width(alike.high, 2.0));
    assert!((alike.high - 2.0 * (1.5f64 * 0.05).exp()).abs() < 1e-9);
    let nothing = ProgramPrice::default();
    assert_eq!(small.over(&nothing, &calibration), None);
}

#[test]
fn shares_add_up_to_the_whole() {
    let found = total(&looped("constant(8)"));
    for sum in [
        found.kinds.values().sum::<f64>(),
        found.bases.values().sum(),
    ] {
        assert!((sum - 1.0).abs() < 1e-9);
    }
    assert!(found.low_ps < found.time_ps && found.time_ps < found.high_ps);
}

#[test]
fn an_empty_program_and_an_unknown_operation_cost_nothing() {
    let empty = Program::default();
    let (chip, calibration) = (chip(), calibration());
    let mut model = CostModel::new(&empty, &chip, &calibration);
    assert_eq!(model.total(), ProgramPrice::default());
    assert_eq!(model.price(OpId::new(7)).time_ps, 0);
}
