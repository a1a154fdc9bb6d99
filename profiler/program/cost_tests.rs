//! Tests of the cost model.

use super::*;
use crate::program::hlo_text::{parse_instruction, parse_module};
use crate::program::shape::MemorySpace;

fn lone(text: &str) -> Cost {
    lone_cost(&parse_instruction(text).expect(text))
}

fn in_module(text: &str, name: &str) -> Cost {
    let (program, notes) = parse_module(text);
    assert_eq!(notes.iter().collect::<Vec<_>>(), []);
    let op = program.find(name).expect(name);
    CostModel::new(&program).cost(op)
}

const FUSED_MATMUL: &str = "HloModule m

%inner (p: bf16[256,64]) -> bf16[256,64] {
  %p = bf16[256,64]{1,0} parameter(0)
  ROOT %b = bf16[256,64]{1,0} bitcast(%p)
}

%fused (x: bf16[128,256], w: bf16[256,64]) -> f32[128,64] {
  %x = bf16[128,256]{1,0:S(1)} parameter(0)
  %w = bf16[256,64]{1,0} parameter(1)
  %w2 = bf16[256,64]{1,0} fusion(%w), kind=kLoop, calls=%inner
  %c = f32[128,64]{1,0} convolution(%x, %w2), dim_labels=bf_io->bf
  ROOT %t = f32[128,64]{1,0} tanh(%c)
}

ENTRY %main (a: bf16[128,256], b: bf16[256,64]) -> f32[128,64] {
  %a = bf16[128,256]{1,0:S(1)} parameter(0)
  %b = bf16[256,64]{1,0} parameter(1)
  ROOT %f = f32[128,64]{1,0} fusion(%a, %b), kind=kOutput, calls=%fused
}
";

#[test]
fn a_fusion_costs_what_its_body_does() {
    let cost = in_module(FUSED_MATMUL, "f");
    assert_eq!(cost.matmul_flops, 2.0 * 128.0 * 64.0 * 256.0);
    assert_eq!(cost.flops, cost.matmul_flops);
    assert_eq!(cost.transcendentals, 128.0 * 64.0);
    assert_eq!(cost.matmuls.len(), 1);
    assert_eq!(cost.basis, Basis::Exact);
    assert_eq!(
        cost.traffic.of(MemorySpace::Vmem).read,
        Bytes(128 * 256 * 2)
    );
    assert_eq!(cost.traffic.hbm().read, Bytes(256 * 64 * 2));
    assert_eq!(cost.traffic.hbm().written, Bytes(128 * 64 * 4));
}

#[test]
fn a_fusion_reads_only_the_slice_and_writes_only_the_update() {
    let cost = in_module(
        "HloModule m

%fused (cache: bf16[64,8,128], new: f32[1,8,128], i: s32[]) -> bf16[64,8,128] {
  %cache = bf16[64,8,128]{2,1,0} parameter(0)
  %new = f32[1,8,128]{2,1,0} parameter(1)
  %i = s32[] parameter(2)
  %z = s32[] constant(0)
  %old = bf16[1,8,128]{2,1,0} dynamic-slice(%cache, %i, %z, %z), dynamic_slice_sizes={1,8,128}
  %narrow = bf16[1,8,128]{2,1,0} convert(%new)
  %sum = bf16[1,8,128]{2,1,0} add(%old, %narrow)
  ROOT %u = bf16[64,8,128]{2,1,0} dynamic-update-slice(%cache, %sum, %i, %z, %z)
}

ENTRY %main (c: bf16[64,8,128], n: f32[1,8,128], j: s32[]) -> bf16[64,8,128] {
  %c = bf16[64,8,128]{2,1,0} parameter(0)
  %n = f32[1,8,128]{2,1,0} parameter(1)
  %j = s32[] parameter(2)
  ROOT %f = bf16[64,8,128]{2,1,0} fusion(%c, %n, %j), kind=kLoop, calls=%fused
}
",
        "f",
    );
    assert_eq!(
        cost.traffic.hbm().read,
        Bytes(8 * 128 * 2 + 8 * 128 * 4 + 4)
    );
    assert_eq!(cost.traffic.hbm().written, Bytes(8 * 128 * 2));
}

#[test]
fn a_copy_is_counted_once_and_where_it_happens() {
    let start = lone(
        "%s = (f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)S(5)}, u32[]{:S(2)}) copy-start(f32[1024]{0:T(1024)S(5)} %p)",
    );
    assert_eq!(start.traffic.host().read, Bytes(4096));
    assert_eq!(start.traffic.hbm().written, Bytes(4096));
    assert_eq!(start.traffic.of(MemorySpace::SyncFlag).total(), Bytes(0));
    let done = lone(
        "%d = f32[1024]{0:T(1024)} copy-done((f32[1024]{0:T(1024)}, f32[1024]{0:T(1024)S(5)}, u32[]{:S(2)}) %s)",
    );
    assert_eq!(done.traffic.total(), Bytes(0));
    let slice = lone(
        "%s = ((s8[4096]{0}), s8[1024]{0:S(1)}, s32[]{:S(2)}) async-start(s8[4096]{0} %b), calls=%c",
    );
    assert_eq!(slice.traffic.hbm().read, Bytes(1024));
    assert_eq!(slice.traffic.of(MemorySpace::Vmem).written, Bytes(1024));
}

#[test]
fn a_gather_reads_the_rows_it_returns() {
    let rows = 1024 * 128 * 2;
    let fusion = lone(
        "%fusion.1 = bf16[1024,128]{1,0:S(1)} fusion(bf16[32768,128]{1,0} %t, s32[1024]{0:S(1)} %i), kind=kCustom, calls=%c",
    );
    assert_eq!(fusion.traffic.hbm().read, Bytes(rows));
    assert_eq!(
        fusion.traffic.of(MemorySpace::Vmem).total(),
        Bytes(rows + 4096)
    );
    let gather = lone(
        "%g = bf16[1024,128]{1,0} gather(bf16[32768,128]{1,0} %t, s32[1024,1]{1,0} %i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,128}",
    );
    assert_eq!(gather.traffic.hbm().read, Bytes(rows + 4096));
}

#[test]
fn padding_is_counted_beside_the_elements() {
    let copy =
        lone("%c = bf16[1024,64]{1,0:T(8,128)(2,1)} copy(bf16[1024,64]{0,1:T(8,128)(2,1)} %x)");
    assert_eq!(copy.traffic.hbm().total(), Bytes(2 * 131_072));
    assert_eq!(copy.traffic.hbm().written_padded, Bytes(2 * 131_072));
    assert_eq!(copy.traffic.hbm().read_padded, Bytes(131_072));
}

#[test]
fn buffers_that_a_kernel_updates_in_place_are_set_apart() {
    let call = lone(
        "%k = (bf16[8]{0}, bf16[1000]{0}) custom-call(bf16[8]{0} %q, bf16[1000]{0} %cache, s32[4]{0} %i), custom_call_target=\"tpu_custom_call\", output_to_operand_aliasing={{1}: (1, {})}",
    );
    assert_eq!(call.in_place, Bytes(2000));
    assert_eq!(call.traffic.total(), Bytes(16 + 16 + 16));
    let free = lone(
        "%b = bf16[8]{0} custom-call(s8[8]{0} %a, s8[8]{0} %c), custom_call_target=\"ConcatBitcast\"",
    );
    assert_eq!(free.traffic.total(), Bytes(0));
}

#[test]
fn reductions_and_collectives_count_one_operation_for_each_step() {
    assert_eq!(
        lone("%r = f32[8]{0} reduce(f32[8,100]{1,0} %x, f32[] %z), dimensions={1}, to_apply=%add")
            .flops,
        8.0 * 99.0
    );
    assert_eq!(
        lone(
            "%r = f32[8,100]{1,0} all-reduce(f32[8,100]{1,0} %x), replica_groups={}, to_apply=%add"
        )
        .flops,
        800.0
    );
    assert_eq!(
        lone("%r = pred[8]{0} compare(f32[8]{0} %x, f32[8]{0} %y), direction=LT").flops,
        8.0
    );
    assert_eq!(
        lone("%r = f32[8]{0} exponential(f32[8]{0} %x)").transcendentals,
        8.0
    );
}

#[test]
fn a_lone_matmul_fusion_is_found_by_its_shapes() {
    let cost = lone(
        "%fusion.9 = bf16[1024,512]{1,0} fusion(bf16[1024,256]{1,0} %x, bf16[512,256]{1,0} %w, bf16[1024,512]{1,0} %residual), kind=kOutput, calls=%c",
    );
    assert_eq!(cost.matmul_flops, 2.0 * 1024.0 * 512.0 * 256.0);
    assert_eq!(cost.basis, Basis::Shapes);
    let cost = lone(
        "%loop = bf16[1024,512]{1,0} fusion(bf16[1024,256]{1,0} %x, bf16[512,256]{1,0} %w), kind=kLoop, calls=%c",
    );
    assert_eq!(
        (cost.matmul_flops, cost.flops),
        (0.0, 1024.0 * 512.0),
        "a loop fusion multiplies nothing"
    );
}

#[test]
fn computations_that_call_themselves_end() {
    let (program, _) = parse_module(
        "HloModule m\n%f (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n  ROOT %c = f32[8]{0} fusion(%p), kind=kLoop, calls=%f\n}\n",
    );
    let op = program.find("c").expect("c");
    assert_eq!(CostModel::new(&program).cost(op).flops, 0.0);
}

#[test]
fn a_run_counts_each_op_as_often_as_it_runs() {
    let (program, _) = parse_module(
        "HloModule m

%body (t: (s32[], f32[8,8])) -> (s32[], f32[8,8]) {
  %t = (s32[], f32[8,8]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %x = f32[8,8]{1,0} get-tuple-element(%t), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %y = f32[8,8]{1,0} dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %r = (s32[], f32[8,8]) tuple(%next, %y)
}

%condition (t.1: (s32[], f32[8,8])) -> pred[] {
  %t.1 = (s32[], f32[8,8]) parameter(0)
  %i.1 = s32[] get-tuple-element(%t.1), index=0
  %n = s32[] constant(5)
  ROOT %less = pred[] compare(%i.1, %n), direction=LT
}

ENTRY %main (a: f32[8,8]) -> (s32[], f32[8,8]) {
  %a = f32[8,8]{1,0} parameter(0)
  %zero = s32[] constant(0)
  %start = (s32[], f32[8,8]) tuple(%zero, %a)
  ROOT %w = (s32[], f32[8,8]) while(%start), condition=%condition, body=%body
}
",
    );
    let run = CostModel::new(&program).run();
    assert_eq!(run.matmul_flops, 5.0 * 2.0 * 512.0);
    // Five additions to the counter and six comparisons.
    assert_eq!(run.flops - run.matmul_flops, 11.0);
    assert!(!run.assumed);
    // Of each product 2 reads and a write, of each addition 12 bytes, of each comparison 9.
    assert_eq!(
        run.traffic.hbm().total(),
        Bytes(5 * 3 * 256 + 5 * 12 + 6 * 9)
    );
}

#[test]
fn an_asynchronous_collective_is_not_its_reduction() {
    let cost = in_module(
        "HloModule m

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

ENTRY %main (a: f32[128]) -> f32[128] {
  %a = f32[128]{0} parameter(0)
  %start = f32[128]{0} all-reduce-start(%a), replica_groups={{0,1}}, to_apply=%add
  ROOT %done = f32[128]{0} all-reduce-done(%start)
}
",
        "start",
    );
    assert_eq!(cost.flops, 128.0);
    assert_eq!(cost.traffic.hbm().total(), Bytes(1024));
}
