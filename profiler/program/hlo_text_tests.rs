//! Tests of the HLO text reader.

use proptest::prelude::*;

use super::*;
use crate::program::OpId;
use crate::program::cost::{CostModel, lone_cost};
use crate::program::instruction::{CallRole, FusionKind};
use crate::program::shape::MemorySpace;

const MODULE: &str = r#"HloModule jit_step, is_scheduled=true, num_partitions=4, input_output_alias={ {0}: (1, {}, may-alias) }, entry_computation_layout={(f32[8,128]{1,0})->f32[8,128]{1,0}}

FileNames
1 "train.py"
2 "layers.py"

FunctionNames
1 "main"
2 "mlp"

FileLocations
1 {file_name_id=1 function_name_id=1 line=40 end_line=40 column=2 end_column=9}
2 {file_name_id=2 function_name_id=2 line=12 end_line=12 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}


%fused_computation (param_0: f32[8,128]) -> f32[8,128] {
  %param_0 = f32[8,128]{1,0:T(8,128)} parameter(0)
  %table = s32[2,2]{1,0} constant({
    { 1, 2 },
    { 3, 4 }
  })
  ROOT %add.1 = f32[8,128]{1,0:T(8,128)} add(%param_0, %param_0)
}

%offloaded (p: f32[8]) -> f32[8] {
  ROOT %p = f32[8]{0} parameter(0)
}, execution_thread="sparsecore"

ENTRY %main.7 (x: f32[8,128], y: f32[8,128]) -> f32[8,128] {
  %y = f32[8,128]{1,0:T(8,128)} parameter(1)
  %x = f32[8,128]{1,0:T(8,128)} parameter(0), metadata={op_name="x"}
  %gte.broken = f32[8,128 get-tuple-element(%x)
  %fusion.2 = f32[8,128]{1,0:T(8,128)S(1)} fusion(%x), kind=kLoop, calls=%fused_computation, metadata={op_name="jit(step)/mlp/add" stack_frame_id=2}, backend_config={"window_config":{"estimated_cycles":"77"}}
  ROOT %multiply.3 = f32[8,128]{1,0:T(8,128)} multiply(%fusion.2, /*index=1*/%y), control-predecessors={%x}
}
"#;

#[test]
fn a_module_becomes_one_graph_with_names_lines_and_roots() {
    let (program, notes) = parse_module(MODULE);
    assert_eq!(program.name, "jit_step");
    assert!(program.is_scheduled);
    assert_eq!(program.num_partitions, Some(4));
    assert_eq!(program.parameter_aliases[0].operand, 1);
    let entry = program.entry_computation().expect("an entry");
    assert_eq!(entry.name, "main.7");
    let names = |ops: &mut dyn Iterator<Item = OpId>| -> Vec<String> {
        ops.filter_map(|op| Some(program.get(op)?.name.clone()))
            .collect()
    };
    assert_eq!(
        names(&mut entry.parameters.iter().copied()),
        ["x", "y"],
        "by number"
    );
    let fusion = program.find("%fusion.2").expect("the fusion");
    assert_eq!(
        names(&mut program.users(fusion).into_iter()),
        ["multiply.3"]
    );
    assert_eq!(entry.root, program.find("multiply.3"));
    let root = entry.root.expect("a root");
    assert_eq!(names(&mut program.operands(root)), ["fusion.2", "y"]);
    assert_eq!(
        names(&mut program.neighbourhood(fusion, 1).into_iter()),
        ["x", "fusion.2", "multiply.3"]
    );
    assert_eq!(
        program.body_of(fusion).map(|c| c.name.as_str()),
        Some("fused_computation")
    );
    assert_eq!(program.computations[0].callers, [(fusion, CallRole::Calls)]);
    assert_eq!(program.computations[1].execution_thread, "sparsecore");
    assert_eq!(program.computation_of(fusion), program.entry);
    let lines: Vec<_> = program
        .source(fusion)
        .into_iter()
        .map(|l| (l.file, l.line))
        .collect();
    assert_eq!(lines, [("layers.py", 12), ("train.py", 40)]);
    assert_eq!(
        program.operand_shape(root, 0),
        program.get(fusion).map(|op| &op.shape)
    );

    let notes: Vec<_> = notes.iter().map(|note| (note.code, note.message)).collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(notes[0].0, "bad-hlo-line");
    let broken = MODULE
        .lines()
        .position(|line| line.contains("gte.broken"))
        .expect("a line");
    assert!(
        notes[0].1.starts_with(&format!("line {} ", broken + 1)),
        "{}",
        notes[0].1
    );
}

#[test]
fn constants_and_kernel_metadata_may_take_several_lines() {
    let (program, _) = parse_module(MODULE);
    let table = program.find("table").and_then(|op| program.get(op));
    assert_eq!(
        table.map(|op| op.shape.to_string()).as_deref(),
        Some("s32[2,2]{1,0}")
    );
    let (program, notes) = parse_module(
        r#"HloModule m
ENTRY %main (q: f32[8]) -> f32[8] {
  %q = f32[8]{0} parameter(0)
  %k = f32[8]{0} custom-call(%q), custom_call_target="tpu_custom_call", frontend_attributes={kernel_metadata={
"xprof_metadata":"{\"block_q\": 128, \"k} ]"
}}, metadata={op_name="attention"}
  ROOT %n = f32[8]{0} negate(%k)
}
"#,
    );
    assert_eq!(notes.iter().collect::<Vec<_>>(), []);
    let kernel = program
        .find("k")
        .and_then(|op| program.get(op))
        .expect("the kernel");
    assert_eq!(kernel.metadata.op_name, "attention");
    assert!(kernel.attributes.other[0].1.contains("block_q"));
    assert_eq!(
        program.entry_computation().map(|entry| entry.ops().len()),
        Some(3)
    );
}

#[test]
fn an_instruction_that_is_cut_off_takes_no_other_with_it() {
    let (program, notes) = parse_module(
        "HloModule m\nENTRY %main (a: f32[8]) -> f32[8] {\n  %a = f32[8]{0} parameter(0)\n  %b = (f32[8]{0}, ...\n  c = f32[8]{0} negate(f32[8]{0} a\n  ROOT %d = f32[8]{0} negate(%a)\n}\n",
    );
    assert!(program.find("d").is_some());
    assert_eq!(
        notes.iter().map(|note| note.code).collect::<Vec<_>>(),
        ["bad-hlo-line"; 2]
    );
}

#[test]
fn a_trace_name_gives_operands_with_types() {
    let op = parse_instruction(
        "%fusion.1 = (bf16[1024,128]{1,0:T(8,128)(2,1)S(1)}, u32[]{:S(2)}) fusion(bf16[32768,128]{1,0:T(16,128)(2,1)} %param.24, (s32[4], s32[]) %t), kind=kCustom, calls=%fused_computation.1",
    )
    .expect("an instruction");
    assert_eq!(
        (op.name.as_str(), op.opcode.as_str()),
        ("fusion.1", "fusion")
    );
    assert_eq!(op.attributes.fusion_kind, Some(FusionKind::Custom));
    assert_eq!(op.calls(CallRole::Calls), Some("fused_computation.1"));
    let operand = |i: usize| op.operands[i].shape.as_ref().expect("a type").to_string();
    assert_eq!(operand(0), "bf16[32768,128]{1,0:T(16,128)(2,1)}");
    assert_eq!(
        (operand(1).as_str(), op.operands[1].name.as_str()),
        ("(s32[4], s32[])", "t")
    );
    assert_eq!(op.shape.arrays()[0].memory_space(), MemorySpace::Vmem);
}

#[test]
fn attributes_of_every_kind_are_read() {
    let op = |text: &str| parse_instruction(text).expect(text);
    let dot = op(
        "d = f32[16,128]{1,0} dot(f32[256,16]{1,0} a, f32[128,256]{1,0} b), lhs_contracting_dims={0}, rhs_contracting_dims={1},",
    );
    assert_eq!(
        dot.attributes
            .dot
            .as_ref()
            .map(|d| d.lhs_contracting.clone()),
        Some(vec![0])
    );
    assert_eq!(dot.operands[1].name, "b");
    let reduce = op(
        "ROOT %r = f32[8]{0} all-reduce(%x), channel_id=3, replica_groups=[2,4]<=[8], use_global_device_ids=true, to_apply=%add",
    );
    assert!(reduce.is_root);
    assert_eq!(reduce.attributes.channel_id, Some(3));
    assert_eq!(
        reduce
            .attributes
            .replica_groups
            .as_ref()
            .map(|g| g.group_size()),
        Some(4)
    );
    assert_eq!(
        reduce.attributes.other,
        [("use_global_device_ids".into(), "true".into())]
    );
    let permute = op("%p = f32[8]{0} collective-permute(%x), source_target_pairs={{0,1},{1,0}}");
    assert_eq!(permute.attributes.source_target_pairs, [(0, 1), (1, 0)]);
    let call = op(
        r#"%c = f32[8]{0} custom-call(%a, %b), custom_call_target="tpu_custom_call", output_to_operand_aliasing={{}: (1, {})}, frontend_attributes={kernel_metadata={}}"#,
    );
    assert_eq!(call.attributes.custom_call_target, "tpu_custom_call");
    assert_eq!(call.attributes.output_aliases[0].operand, 1);
    let loop_ = op(
        "%w = (s32[]) while(%t), condition=%c, body=%b, backend_config={\"known_trip_count\":{\"n\":\"12\"}}",
    );
    assert_eq!(
        (loop_.calls(CallRole::Body), loop_.known_trip_count()),
        (Some("b"), Some(12))
    );
    let branch = op("%c = f32[] conditional(%i, %a, %b), branch_computations={%one, %two}");
    assert_eq!(branch.called.len(), 2);
    assert_eq!(
        op("%c = s32[]{:T(128)} constant(-5)").attributes.literal,
        "-5"
    );
    assert_eq!(op("%c = bf16[2,4] copy(...)").operands, []);
}

#[test]
fn what_is_no_instruction_says_why() {
    let error = |text: &str| parse_instruction(text).expect_err(text);
    assert_eq!(error("%a = f32[8] add(%b, %c"), HloTextError::Unclosed);
    assert!(matches!(
        error("%a"),
        HloTextError::Expected {
            expected: "`=`",
            offset: 2
        }
    ));
    assert!(matches!(error("%a = foo(%b)"), HloTextError::Shape(_)));
    assert!(
        error("%10 = s64[5] aten::mul(%9)")
            .to_string()
            .contains("opcode")
    );
}

#[test]
fn sniffing_knows_hlo_from_its_neighbours() {
    let yes = [
        "HloModule jit_f, is_scheduled=true\n",
        "// a comment\n\nENTRY %main (a: f32[]) -> f32[] {\n  ROOT %a = f32[] parameter(0)\n}\n",
        "%fusion.3 = bf16[32]{0} fusion(bf16[32]{0} %x), kind=kLoop, calls=%c\n",
    ];
    for text in yes {
        assert!(looks_like_hlo_text(text.as_bytes()), "{text}");
    }
    let no = [
        "module @jit_f attributes {mhlo.num_partitions = 1 : i32} {\n  func.func public @main() {\n",
        "{\"traceEvents\":[]}",
        "",
        "x = f(y)\n",
        "def f() {\n",
        "\u{1}\u{2}HloModule",
    ];
    for text in no {
        assert!(!looks_like_hlo_text(text.as_bytes()), "{text}");
    }
    assert!(!looks_like_hlo_text(
        b"HloModule\xff\xfe a"
            .as_slice()
            .get(9..)
            .unwrap_or_default()
    ));
}

#[test]
fn text_that_is_no_hlo_gives_one_note() {
    let (program, notes) = parse_module("once upon a time\nthere was no module\n");
    assert!(program.is_empty());
    assert_eq!(
        notes.iter().map(|n| n.code).collect::<Vec<_>>(),
        ["not-hlo"]
    );
}

#[test]
fn a_fragment_is_read_and_said_to_be_one() {
    let (program, notes) =
        parse_module("%a = f32[8]{0} copy(f32[8]{0} %b)\n%c = f32[8]{0} negate(%a)\n");
    assert_eq!(program.len(), 2);
    assert_eq!(
        program.users(program.find("a").expect("a")),
        [program.find("c").expect("c")]
    );
    assert_eq!(
        notes.iter().map(|n| n.code).collect::<Vec<_>>(),
        ["hlo-fragment"]
    );
}

proptest! {
    #[test]
    fn no_instruction_panics(
        opcode in prop::sample::select(&["dot", "convolution", "fusion", "scatter", "gather",
            "dynamic-update-slice", "async-start", "copy-start", "custom-call", "sort", "reduce",
            "while", "ragged-dot", "recv"][..]),
        shapes in prop::collection::vec("(bf16|s32|\\(f32)\\[([0-9]{1,20},){0,3}[0-9]{1,3}\\]", 1..5),
        attributes in "(, (dim_labels=(bf_io->bf|0bf_0io->0bf)|window=\\{size=[0-9]{1,3} stride=[0-9]{1,20} pad=-?[0-9]{1,20}_0 lhs_dilate=[0-9]{0,20}\\}|lhs_contracting_dims=\\{[0-4]\\}|feature_group_count=[0-9]{1,20}|kind=k(Loop|Output|Custom)|custom_call_target=\"tpu_custom_call\"|output_to_operand_aliasing=\\{\\{[0-9]?\\}: \\([0-9], \\{\\}\\)\\})){0,4}",
    ) {
        let operands = shapes.iter().map(|shape| format!("{shape} %flash_attention")).collect::<Vec<_>>();
        let text = format!("%flash = {} {opcode}({}){attributes}", shapes[0], operands.join(", "));
        if let Ok(instruction) = parse_instruction(&text) {
            let _ = lone_cost(&instruction);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = looks_like_hlo_text(&bytes);
        let _ = parse_module(&text);
        let _ = parse_instruction(&text);
    }

    #[test]
    fn no_damage_to_a_module_panics(
        at in 0usize..MODULE.len(), cut in 0usize..200, insert in "[\\PC{}()\\[\\]\"=,%\n]{0,6}",
    ) {
        let end = (at + cut).min(MODULE.len());
        let damaged = format!("{}{insert}{}", &MODULE[..at], &MODULE[end..]);
        let (program, _) = parse_module(&damaged);
        let mut costs = CostModel::new(&program);
        let _ = (costs.run(), program.executions(), program.fingerprint());
        for (op, instruction) in program.ops() {
            let _ = (program.source(op), program.neighbourhood(op, 2), program.computation_of(op));
            let _ = (costs.cost(op), lone_cost(instruction), program.trip_count(op));
        }
    }
}
