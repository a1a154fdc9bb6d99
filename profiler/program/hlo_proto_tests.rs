//! Tests of the HLO proto reader, on protos written here field by field.

use proptest::prelude::*;

use super::*;
use crate::program::OpId;
use crate::program::buffers::{BufferClass, PeakMemory};
use crate::program::instruction::WindowDim;
use crate::program::instruction_proto::literal;
use crate::program::shape::MemorySpace;
use crate::units::Bytes;

/// Writes a message: `(field, value)` pairs.
enum Field {
    Int(u32, i64),
    Text(u32, &'static str),
    Message(u32, Vec<u8>),
}
use Field::{Int, Message as Sub, Text};

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn message(fields: Vec<Field>) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        let (number, bytes) = match field {
            Int(number, value) => {
                varint(u64::from(number) << 3, &mut out);
                varint(value.cast_unsigned(), &mut out);
                continue;
            }
            Text(number, text) => (number, text.as_bytes().to_vec()),
            Sub(number, bytes) => (number, bytes),
        };
        varint(u64::from(number) << 3 | 2, &mut out);
        varint(bytes.len() as u64, &mut out);
        out.extend(bytes);
    }
    out
}

/// `f32[rows,100]{1,0:T(8,128)}`
fn matrix(rows: i64) -> Vec<u8> {
    let tile = message(vec![Int(1, 8), Int(1, 128)]);
    let layout = message(vec![Int(1, 1), Int(1, 0), Sub(6, tile)]);
    message(vec![Int(2, 11), Int(3, rows), Int(3, 100), Sub(5, layout)])
}

/// Ids in real protos are hashes, negative ones among them.
const X: i64 = -8_800_332_967_749_297_542;
const Y: i64 = i64::MAX;
/// Not written at all.
const SUM: i64 = 0;

fn module() -> Vec<u8> {
    let x = message(vec![
        Text(1, "x"),
        Text(2, "parameter"),
        Sub(3, matrix(8)),
        Int(35, X),
    ]);
    let y = message(vec![
        Text(1, "y"),
        Text(2, "negate"),
        Sub(3, matrix(16)),
        Int(35, Y),
        Int(36, X),
        Int(37, X),
        Sub(7, message(vec![Text(2, "jit(f)/neg"), Int(15, 2)])),
    ]);
    let sum = message(vec![
        Text(1, "sum"),
        Text(2, "fusion"),
        Text(11, "kLoop"),
        Sub(3, matrix(8)),
        Int(36, Y),
        Int(36, X),
        Int(38, 99),
        Text(43, r#"{"window_config":{"estimated_cycles":"5"}}"#),
    ]);
    let entry = message(vec![
        Text(1, "main"),
        Sub(2, sum),
        Sub(2, x),
        Sub(2, y),
        Int(5, 1),
        Int(6, SUM),
    ]);
    let p = message(vec![
        Text(1, "p"),
        Text(2, "parameter"),
        Sub(3, matrix(16)),
        Int(35, 50),
    ]);
    let fused = message(vec![Text(1, "fused"), Sub(2, p), Int(5, 99), Int(6, 50)]);
    let order = message(vec![Int(1, X), Int(1, Y), Int(1, SUM)]);
    let schedule = message(vec![Sub(1, message(vec![Int(1, 1), Sub(2, order)]))]);
    let frames = message(vec![
        Text(1, "a.py"),
        Sub(3, message(vec![Int(1, 1), Int(3, 10)])),
        Sub(3, message(vec![Int(1, 1), Int(3, 20)])),
        Sub(4, message(vec![Int(1, 1)])),
        Sub(4, message(vec![Int(1, 2), Int(2, 1)])),
    ]);
    message(vec![
        Text(1, "jit_f"),
        Text(2, "main"),
        Sub(3, fused),
        Sub(3, entry),
        Sub(7, schedule),
        Sub(17, frames),
    ])
}

fn read(bytes: &[u8]) -> Program {
    let (program, notes) = read_hlo_proto(bytes);
    assert_eq!(notes.iter().collect::<Vec<_>>(), []);
    program
}

fn op(program: &Program, name: &str) -> OpId {
    program.find(name).expect(name)
}

#[test]
fn a_module_is_read_in_schedule_order_with_all_references() {
    let program = read(&module());
    assert_eq!(
        (program.name.as_str(), program.is_scheduled),
        ("jit_f", true)
    );
    let entry = program.entry_computation().expect("an entry");
    let order: Vec<_> = entry
        .ops()
        .filter_map(|op| Some(program.get(op)?.name.as_str()))
        .collect();
    assert_eq!(order, ["x", "y", "sum"]);
    assert_eq!(entry.root, Some(op(&program, "sum")));
    assert_eq!(program.find_id(X), program.find("x"));
    assert_eq!(
        program.users(op(&program, "x")),
        [op(&program, "y"), op(&program, "sum")]
    );
    let sum = program.get(op(&program, "sum")).expect("sum");
    assert_eq!(sum.estimated_cycles(), Some(5));
    assert_eq!(sum.shape.to_string(), "f32[8,100]{1,0:T(8,128)}");
    assert_eq!(
        program
            .body_of(op(&program, "sum"))
            .map(|c| c.name.as_str()),
        Some("fused")
    );
    let lines: Vec<_> = program
        .source(op(&program, "y"))
        .iter()
        .map(|l| l.line)
        .collect();
    assert_eq!(lines, [20, 10]);
    let x = program.get(op(&program, "x")).expect("x");
    assert_eq!(
        x.attributes.parameter_number,
        Some(0),
        "protos do not write zeros"
    );
}

#[test]
fn attributes_are_those_that_text_would_give() {
    let conv = message(vec![
        Text(1, "c"),
        Text(2, "convolution"),
        Sub(3, matrix(8)),
        Sub(
            15,
            message(vec![Sub(
                1,
                message(vec![Int(1, 3), Int(2, 2), Int(3, -1), Int(6, 4)]),
            )]),
        ),
        Sub(
            16,
            message(vec![
                Int(7, 1),
                Int(8, 2),
                Int(11, 0),
                Int(3, 1),
                Int(10, 2),
                Int(9, 1),
            ]),
        ),
        Sub(
            92,
            message(vec![
                Int(1, 2),
                Int(2, 4),
                Int(3, 4),
                Int(3, 2),
                Int(4, 1),
                Int(4, 0),
            ]),
        ),
        Sub(52, message(vec![Int(2, 1)])),
        Sub(8, message(vec![Int(4, -3)])),
    ]);
    let raw = instruction(&conv, &mut Notes::default())
        .instruction
        .attributes;
    let window = WindowDim {
        size: 3,
        stride: 2,
        pad_low: -1,
        base_dilation: 4,
        ..WindowDim::default()
    };
    assert_eq!(
        raw.window,
        [WindowDim {
            window_dilation: 1,
            ..window
        }]
    );
    let dims = raw.convolution.expect("dims");
    assert_eq!(
        (
            dims.input_batch,
            dims.input_feature,
            &dims.input_spatial[..]
        ),
        (1, 2, &[0][..])
    );
    assert_eq!(
        raw.replica_groups.map(|g| g.to_string()).as_deref(),
        Some("[2,4]<=[4,2]T(1,0)")
    );
    assert_eq!(raw.source_target_pairs, [(0, 1)]);
    assert_eq!(raw.literal, "-3");
}

#[test]
fn literals_of_one_element_are_text() {
    assert_eq!(literal(&message(vec![Sub(13, vec![0x80, 0x3f])])), "1");
    assert_eq!(literal(&message(vec![Sub(11, vec![0x00, 0xb8])])), "-0.5");
    assert_eq!(
        literal(&message(vec![Sub(8, 1.5f32.to_le_bytes().to_vec())])),
        "1.5"
    );
    assert_eq!(literal(&message(vec![Int(2, 1)])), "true");
    assert_eq!(
        literal(&message(vec![Int(4, 1), Int(4, 2)])),
        "",
        "only scalars are kept"
    );
}

/// Logical buffers 1 = x, 2 = y, 3 = sum; the block 0 is the parameter, 1 the temporaries.
fn with_buffers(events: &[(i64, i64, i64)]) -> Program {
    let buffer = |id, size, instruction| {
        Sub(
            1,
            message(vec![
                Int(1, id),
                Int(2, size),
                Sub(3, message(vec![Int(4, instruction)])),
            ]),
        )
    };
    let held = |id| Sub(9, message(vec![Int(1, id)]));
    let mut trace = Vec::new();
    for &(kind, id, other) in events {
        trace.push(Sub(
            1,
            message(vec![Int(1, kind), Int(2, id), Text(4, "y"), Int(5, other)]),
        ));
    }
    let assignment = message(vec![
        buffer(1, 4096, X),
        buffer(2, 8192, Y),
        buffer(3, 4096, SUM),
        Sub(3, message(vec![Int(2, 4096), Int(5, 1), held(1)])),
        Sub(3, message(vec![Int(1, 1), Int(2, 12288), held(2), held(3)])),
        Sub(4, message(trace)),
    ]);
    read(&message(vec![Sub(1, module()), Sub(3, assignment)]))
}

fn peak(program: &Program) -> PeakMemory {
    let buffers = program.buffers.as_ref().expect("buffers");
    buffers.peak(MemorySpace::Hbm, program).expect("a peak")
}

#[test]
fn the_peak_is_the_most_that_lives_at_once() {
    let program = with_buffers(&[(0, 2, 0), (0, 3, 0), (1, 2, 0), (1, 3, 0)]);
    let peak = peak(&program);
    assert_eq!(
        (peak.heap, peak.indefinite, peak.total()),
        (Bytes(12288), Bytes(4096), Bytes(16384))
    );
    // 16 and 8 rows of 100 floats, stored as 128.
    assert_eq!(peak.heap_unpadded, Bytes(24 * 400));
    assert_eq!(
        peak.live
            .iter()
            .map(|b| (b.id, b.class))
            .collect::<Vec<_>>(),
        [
            (1, BufferClass::Parameter),
            (2, BufferClass::Temporary),
            (3, BufferClass::Temporary),
        ]
    );
    assert_eq!(peak.at, program.find("y"));
    assert_eq!(peak.live[2].unpadded, Bytes(8 * 400));
    let totals = program
        .buffers
        .as_ref()
        .expect("buffers")
        .totals(MemorySpace::Hbm);
    assert_eq!(totals.get(&BufferClass::Temporary), Some(&Bytes(12288)));
}

#[test]
fn shared_memory_counts_once_until_the_last_is_freed() {
    let apart = peak(&with_buffers(&[(0, 2, 0), (1, 2, 0), (0, 3, 0)]));
    assert_eq!(apart.heap, Bytes(8192));
    let shared = peak(&with_buffers(&[(0, 2, 0), (2, 3, 2), (1, 2, 0), (0, 1, 0)]));
    assert_eq!(
        shared.heap,
        Bytes(8192 + 4096),
        "3 still holds the memory of 2"
    );
    let again = peak(&with_buffers(&[(0, 2, 0), (1, 2, 0), (2, 3, 2)]));
    assert_eq!(again.heap, Bytes(8192), "taken again after it was freed");
}

#[test]
fn other_bytes_are_refused() {
    let plane = message(vec![Int(1, 3), Text(2, "/device:TPU:0")]);
    for bytes in [&b"HloModule jit_f"[..], &[], &message(vec![Sub(1, plane)])] {
        assert!(!looks_like_hlo_proto(bytes));
        assert!(read_hlo_proto(bytes).1.has_warnings());
    }
    assert!(looks_like_hlo_proto(&module()));
    assert!(looks_like_hlo_proto(&message(vec![Sub(1, module())])));
}

#[test]
fn a_cut_off_module_keeps_what_came_before() {
    let bytes = module();
    let (program, notes) = read_hlo_proto(&bytes[..bytes.len() - 3]);
    assert_eq!(program.len(), 4);
    assert_eq!(
        notes.iter().map(|n| n.code).collect::<Vec<_>>(),
        ["hlo-proto-cut-off"]
    );
}

proptest! {
    #[test]
    fn no_damage_panics(at in 0usize..600, bytes in prop::collection::vec(any::<u8>(), 0..8)) {
        let whole = with_buffers_bytes();
        let at = at % whole.len();
        let mut damaged = whole[..at].to_vec();
        damaged.extend(&bytes);
        damaged.extend(whole.get(at + bytes.len()..).unwrap_or_default());
        let (program, _) = read_hlo_proto(&damaged);
        if let Some(buffers) = &program.buffers {
            let _ = buffers.peak(MemorySpace::Hbm, &program);
        }
    }
}

fn with_buffers_bytes() -> Vec<u8> {
    let event = |kind, id| Sub(1, message(vec![Int(1, kind), Int(2, id), Int(5, 1)]));
    let trace = message(vec![event(0, 1), event(2, 2), event(1, 1)]);
    let buffer = message(vec![
        Int(1, 1),
        Int(2, 64),
        Sub(3, message(vec![Int(4, X)])),
    ]);
    let block = message(vec![Int(2, 64), Sub(9, message(vec![Int(1, 1)]))]);
    let assignment = message(vec![Sub(1, buffer), Sub(3, block), Sub(4, trace)]);
    message(vec![Sub(1, module()), Sub(3, assignment)])
}
