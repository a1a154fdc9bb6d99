//! Tests of trip counts and executions.

use super::*;
use crate::program::hlo_text::parse_module;

/// A loop over `(counter, limit, high)`: how it starts, goes on and ends.
fn loop_with(init: &str, next: &str, condition: &str) -> Program {
    let text = format!(
        "HloModule m

%add_one (p: s32[]) -> s32[] {{
  %p = s32[] parameter(0)
  %one = s32[] constant(1)
  ROOT %s = s32[] add(%p, %one)
}}

%body (t: (s32[], s32[], u32[])) -> (s32[], s32[], u32[]) {{
  %t = (s32[], s32[], u32[]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %n = s32[] get-tuple-element(%t), index=1
  %h = u32[] get-tuple-element(%t), index=2
{next}
  ROOT %r = (s32[], s32[], u32[]) tuple(%next, %n, %h)
}}

%condition (c: (s32[], s32[], u32[])) -> pred[] {{
  %c = (s32[], s32[], u32[]) parameter(0)
  %ci = s32[] get-tuple-element(%c), index=0
  %cn = s32[] get-tuple-element(%c), index=1
  %ch = u32[] get-tuple-element(%c), index=2
{condition}
}}

ENTRY %main (x: s32[]) -> (s32[], s32[], u32[]) {{
  %x = s32[] parameter(0)
  %limit = s32[] constant(100)
  %high = u32[] constant(0)
{init}
  %start = (s32[], s32[], u32[]) tuple(%first, %limit, %high)
  ROOT %w = (s32[], s32[], u32[]) while(%start), condition=%condition, body=%body
}}
"
    );
    let (program, notes) = parse_module(&text);
    assert_eq!(notes.iter().collect::<Vec<_>>(), []);
    program
}

fn trips(program: &Program) -> Option<u64> {
    program.trip_count(program.find("w").expect("the loop"))
}

const FROM_ZERO: &str = "  %zero = s32[] constant(0)\n  %first = s32[] copy(%zero)";
const PLUS_ONE: &str = "  %k = s32[] constant(1)\n  %next = s32[] add(%i, %k)";
const FUSED_PLUS_ONE: &str = "  %next = s32[] fusion(%i), kind=kLoop, calls=%add_one";
const BELOW_LIMIT: &str = "  ROOT %less = pred[] compare(%ci, %cn), direction=LT";

#[test]
fn a_counted_loop_gives_its_trips() {
    assert_eq!(
        trips(&loop_with(FROM_ZERO, PLUS_ONE, BELOW_LIMIT)),
        Some(100)
    );
    assert_eq!(
        trips(&loop_with(FROM_ZERO, FUSED_PLUS_ONE, BELOW_LIMIT)),
        Some(100)
    );
    let by_seven = "  %k = s32[] constant(7)\n  %next = s32[] add(%i, %k)";
    assert_eq!(
        trips(&loop_with(
            "  %first = s32[] constant(2)",
            by_seven,
            BELOW_LIMIT
        )),
        Some(14)
    );
    let constant =
        "  %ten = s32[] constant(10)\n  ROOT %less = pred[] compare(%ci, %ten), direction=LE";
    assert_eq!(trips(&loop_with(FROM_ZERO, PLUS_ONE, constant)), Some(11));
    let down = "  %k = s32[] constant(1)\n  %next = s32[] subtract(%i, %k)";
    let above = "  %z = s32[] constant(0)\n  ROOT %more = pred[] compare(%ci, %z), direction=GT";
    assert_eq!(
        trips(&loop_with("  %first = s32[] constant(5)", down, above)),
        Some(5)
    );
}

#[test]
fn a_counter_in_two_halves_gives_its_trips() {
    let halves = "  %hs = s32[] bitcast-convert(%ch)
  %z = s32[] constant(0)
  %zu = u32[] constant(0)
  %negative = pred[] compare(%hs, %z), direction=LT
  %none = pred[] compare(%ch, %zu), direction=EQ
  %low = pred[] compare(%ci, %cn), direction=LT
  %both = pred[] and(%none, %low)
  ROOT %or = pred[] or(%negative, %both)";
    assert_eq!(trips(&loop_with(FROM_ZERO, PLUS_ONE, halves)), Some(100));
}

#[test]
fn what_depends_on_data_is_unknown() {
    let given = "  %first = s32[] negate(%x)";
    assert_eq!(trips(&loop_with(given, PLUS_ONE, BELOW_LIMIT)), None);
    let endless = "  %next = s32[] copy(%i)";
    assert_eq!(trips(&loop_with(FROM_ZERO, endless, BELOW_LIMIT)), None);
    let program = loop_with(FROM_ZERO, PLUS_ONE, BELOW_LIMIT);
    assert_eq!(
        program.trip_count(program.find("start").expect("a tuple")),
        None
    );
}

#[test]
fn executions_multiply_along_calls() {
    let program = loop_with(FROM_ZERO, FUSED_PLUS_ONE, BELOW_LIMIT);
    let executions = program.executions();
    let of = |name: &str| executions[program.find_computation(name).expect(name).0 as usize];
    let exactly = |count| Executions {
        count,
        assumed: false,
    };
    assert_eq!(of("main"), exactly(1));
    assert_eq!(of("body"), exactly(100));
    assert_eq!(of("condition"), exactly(101));
    assert_eq!(of("add_one"), exactly(100));
    let own: Vec<_> = (0..)
        .zip(&program.computations)
        .filter(|&(id, _)| program.has_own_ops(ComputationId(id)))
        .map(|(_, c)| c.name.as_str())
        .collect();
    assert_eq!(own, ["body", "condition", "main"]);
    let unknown = loop_with("  %first = s32[] negate(%x)", FUSED_PLUS_ONE, BELOW_LIMIT);
    let executions = unknown.executions();
    let inner = executions[unknown.find_computation("add_one").expect("it").0 as usize];
    assert_eq!(
        inner,
        Executions {
            count: 1,
            assumed: true
        }
    );
}

#[test]
fn functions_of_reductions_do_not_run_by_themselves() {
    let (program, _) = parse_module(
        "HloModule m
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}
%copied (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %c = f32[8]{0} copy(%p)
}
ENTRY %main (x: f32[8]) -> f32[] {
  %x = f32[8]{0} parameter(0)
  %z = f32[] constant(0)
  %as = ((f32[8]{0}), f32[8]{0}, u32[]) async-start(%x), calls=%copied
  %ad = f32[8]{0} async-done(%as), calls=%copied
  ROOT %r = f32[] reduce(%ad, %z), dimensions={0}, to_apply=%add
}
",
    );
    let counts: Vec<_> = program.executions().iter().map(|e| e.count).collect();
    assert_eq!(counts, [0, 1, 1]);
}

#[test]
fn computations_that_call_each_other_end() {
    let (program, _) = parse_module(
        "HloModule m\n%f (p: f32[8]) -> f32[8] {\n  ROOT %c = f32[8]{0} call(%p), to_apply=%g\n}\n%g (p: f32[8]) -> f32[8] {\n  ROOT %d = f32[8]{0} call(%p), to_apply=%f\n}\nENTRY %m (p: f32[8]) -> f32[8] {\n  ROOT %e = f32[8]{0} call(%p), to_apply=%f\n}\n",
    );
    assert_eq!(program.executions().iter().map(|e| e.count).max(), Some(1));
}
