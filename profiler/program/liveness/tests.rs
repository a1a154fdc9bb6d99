use super::*;
use crate::program::parse_module;

fn estimate(entry: &str, others: &str) -> MemoryEstimate {
    let text = format!("HloModule m, is_scheduled=true\n\n{others}ENTRY %main {{\n{entry}}}\n");
    let (program, notes) = parse_module(&text);
    assert!(notes.is_empty(), "{notes:?}");
    program
        .memory_estimate(MemorySpace::Hbm)
        .expect("it is scheduled")
}

/// Bytes of f32[1024,128].
const ARRAY: u64 = 512 << 10;

#[test]
fn a_value_lives_from_its_maker_to_its_last_reader() {
    let found = estimate(
        "  %a = f32[1024,128]{1,0:T(8,128)} parameter(0)\n  \
         %b = f32[1024,128]{1,0:T(8,128)} sort(%a), dimensions={0}\n  \
         %c = f32[1024,128]{1,0:T(8,128)} sort(%b), dimensions={0}\n  \
         %d = f32[1024,128]{1,0:T(8,128)} sort(%c), dimensions={0}\n  \
         ROOT %e = f32[1024,128]{1,0:T(8,128)} sort(%d), dimensions={0}\n",
        "",
    );
    assert_eq!(found.arguments, Bytes(ARRAY));
    assert_eq!(found.outputs, Bytes(ARRAY));
    assert_eq!(found.temporaries, Bytes(2 * ARRAY), "b and c, then c and d");
    assert_eq!(found.peak(), Bytes(4 * ARRAY));
    let classes: Vec<BufferClass> = found.live.iter().map(|buffer| buffer.class).collect();
    assert_eq!(
        classes,
        [
            BufferClass::Parameter,
            BufferClass::Output,
            BufferClass::Temporary,
            BufferClass::Temporary
        ]
    );
}

#[test]
fn elementwise_operations_write_over_what_is_read_for_the_last_time() {
    let program = |last: &str| {
        estimate(
            &format!(
                "  %a = f32[1024,128]{{1,0}} parameter(0)\n  \
                 %b = f32[1024,128]{{1,0}} sort(%a), dimensions={{0}}\n  \
                 %c = f32[1024,128]{{1,0}} negate(%b)\n  \
                 %d = f32[1024,128]{{1,0}} sort({last}), dimensions={{0}}\n  \
                 ROOT %e = f32[1024,128]{{1,0}} add(%c, %d)\n"
            ),
            "",
        )
    };
    assert_eq!(program("%c").temporaries, Bytes(2 * ARRAY));
    assert_eq!(
        program("%b").temporaries,
        Bytes(3 * ARRAY),
        "b is read again"
    );
}

#[test]
fn updates_in_place_and_donated_buffers_take_nothing_new() {
    let text = "HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }\n\n\
        ENTRY %main {\n  \
        %a = f32[1024,128]{1,0} parameter(0)\n  \
        %u = f32[1,128]{1,0} parameter(1)\n  \
        %i = s32[]{:S(6)} parameter(2)\n  \
        ROOT %d = f32[1024,128]{1,0} dynamic-update-slice(%a, %u, %i, %i)\n}\n";
    let (program, notes) = parse_module(text);
    assert!(notes.is_empty(), "{notes:?}");
    let found = program
        .memory_estimate(MemorySpace::Hbm)
        .expect("scheduled");
    assert_eq!(found.arguments, Bytes(ARRAY + 512));
    assert_eq!(found.aliased, Bytes(ARRAY));
    assert_eq!(found.temporaries, Bytes(0));
    assert_eq!(found.peak(), Bytes(ARRAY + 512));
}

#[test]
fn a_loop_carries_in_place_and_adds_what_its_body_needs() {
    let body = "%body {\n  \
        %p = (s32[]{:S(6)}, f32[1024,128]{1,0}) parameter(0)\n  \
        %i = s32[]{:S(6)} get-tuple-element(%p), index=0\n  \
        %x = f32[1024,128]{1,0} get-tuple-element(%p), index=1\n  \
        %y = f32[1024,128]{1,0} sort(%x), dimensions={0}\n  \
        %z = f32[1024,128]{1,0} sort(%y), dimensions={0}\n  \
        ROOT %r = (s32[]{:S(6)}, f32[1024,128]{1,0}) tuple(%i, %z)\n}\n\n\
        %condition {\n  %q = (s32[]{:S(6)}, f32[1024,128]{1,0}) parameter(0)\n  \
        %j = s32[]{:S(6)} get-tuple-element(%q), index=0\n  %n = s32[] constant(8)\n  \
        ROOT %l = pred[] compare(%j, %n), direction=LT\n}\n\n";
    let found = estimate(
        "  %a = f32[1024,128]{1,0} parameter(0)\n  \
         %s = f32[1024,128]{1,0} sort(%a), dimensions={0}\n  \
         %zero = s32[]{:S(6)} constant(0)\n  \
         %t = (s32[]{:S(6)}, f32[1024,128]{1,0}) tuple(%zero, %s)\n  \
         %w = (s32[]{:S(6)}, f32[1024,128]{1,0}) while(%t), condition=%condition, body=%body\n  \
         %x1 = f32[1024,128]{1,0} get-tuple-element(%w), index=1\n  \
         ROOT %e = f32[1024,128]{1,0} sort(%x1), dimensions={0}\n",
        body,
    );
    // The carried array and y; z goes where the carried one was.
    assert_eq!(found.temporaries, Bytes(2 * ARRAY));
}

#[test]
fn only_the_memory_that_is_asked_for_counts_and_padding_is_told() {
    let found = estimate(
        "  %a = f32[1000,100]{1,0:T(8,128)} parameter(0)\n  \
         %b = f32[1000,100]{1,0:T(8,128)S(1)} sort(%a), dimensions={0}\n  \
         ROOT %e = f32[1000,100]{1,0:T(8,128)} sort(%b), dimensions={0}\n",
        "",
    );
    assert_eq!(found.temporaries, Bytes(0), "b is in VMEM");
    assert_eq!(found.arguments, Bytes(1000 * 128 * 4));
    assert_eq!(found.padding, Bytes(2 * 1000 * 28 * 4));
}

#[test]
fn transfers_in_flight_hold_what_they_read_and_write() {
    let found = estimate(
        "  %a = f32[1024,128]{1,0} parameter(0)\n  \
         %b = f32[1024,128]{1,0} sort(%a), dimensions={0}\n  \
         %s = (f32[1024,128]{1,0}, f32[1024,128]{1,0}, u32[]{:S(2)}) copy-start(%b)\n  \
         %c = f32[1024,128]{1,0} sort(%a), dimensions={0}\n  \
         %d = f32[1024,128]{1,0} copy-done(%s)\n  \
         ROOT %e = f32[1024,128]{1,0} add(%c, %d)\n",
        "",
    );
    assert_eq!(found.temporaries, Bytes(3 * ARRAY), "b, its copy, and c");
}

#[test]
fn computations_that_call_themselves_end() {
    let (program, _) = parse_module(
        "HloModule m, is_scheduled=true\n\nENTRY %main {\n  \
         %a = f32[8]{0} parameter(0)\n  ROOT %c = f32[8]{0} call(%a), to_apply=%main\n}\n",
    );
    assert!(program.memory_estimate(MemorySpace::Hbm).is_some());
}
