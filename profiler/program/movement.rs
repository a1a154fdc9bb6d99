//! Which bytes an instruction moves: all of its operands and results, except where it looks at a
//! part only (slices, gathers) or writes in place (dynamic-update-slice, scatter).

use rustc_hash::FxHashMap;

use crate::program::cost::operand_shape;
use crate::program::instruction::{CallRole, FusionKind, Instruction};
use crate::program::matmul::Basis;
use crate::program::opcode::AsyncPart;
use crate::program::shape::{Array, Shape, product};
use crate::program::traffic::Traffic;
use crate::program::{OpId, Program};
use crate::units::Bytes;

/// What moves in one execution.
#[derive(Debug, Default)]
pub(super) struct Movement {
    pub(super) traffic: Traffic,
    /// Bytes that a custom call updates in place, touched to an unknown extent.
    pub(super) in_place: Bytes,
    pub(super) basis: Basis,
}

/// Custom calls that are bookkeeping of the compiler: they move nothing.
const FREE_TARGETS: [&str; 7] = [
    "AllocateBuffer",
    "AssumeGatherIndicesInBound",
    "ConcatBitcast",
    "Sharding",
    "X64Combine",
    "X64SplitHigh",
    "X64SplitLow",
];

/// Ops that are followed from a fusion's parameter to what uses it.
const MAX_CHAIN: usize = 32;

/// The bytes that one execution of an instruction moves.
pub(super) fn movement(
    program: Option<&Program>,
    instruction: &Instruction,
    op: Option<OpId>,
) -> Movement {
    let mut moved = Movement::default();
    let opcode = &instruction.opcode;
    if opcode.is_free() || opcode.is_control_flow() {
        return moved;
    }
    match (opcode.as_str(), opcode.async_part(), program.zip(op)) {
        (_, Some((AsyncPart::Done | AsyncPart::Update, _)), _) => {}
        (_, Some((AsyncPart::Start, base)), _) => start(program, instruction, op, base, &mut moved),
        ("fusion", _, Some((program, op))) => fusion(program, instruction, op, &mut moved.traffic),
        ("fusion", ..) => lone_fusion(instruction, &mut moved),
        ("custom-call", ..) => custom_call(program, instruction, &mut moved),
        _ => plain(
            program,
            instruction,
            opcode.as_str(),
            &instruction.shape,
            &mut moved.traffic,
        ),
    }
    moved
}

/// An op that is no fusion, or what an asynchronous op starts.
fn plain(
    program: Option<&Program>,
    instruction: &Instruction,
    opcode: &str,
    result: &Shape,
    traffic: &mut Traffic,
) {
    let shape = |i| operand_shape(program, instruction, i);
    let array = |i| shape(i).and_then(Shape::as_array);
    let all = 0..instruction.operands.len();
    let read = |traffic: &mut Traffic, operands: std::ops::Range<usize>| {
        operands
            .filter_map(shape)
            .for_each(|shape| traffic.read(shape));
    };
    match opcode {
        // The slice or rows that come out, and the indices.
        "slice" | "dynamic-slice" | "gather" => {
            if let Some(source) = array(0) {
                let made = result
                    .arrays()
                    .iter()
                    .map(|a| a.elements())
                    .max()
                    .unwrap_or(0);
                traffic.read_part(source, made.min(source.elements()));
            }
            read(traffic, 1..all.end);
            traffic.write(result);
        }
        // The rest of the array stays where it is.
        "dynamic-update-slice" => {
            read(traffic, 1..all.end);
            if let (Some(update), Some(out)) = (array(1), result.as_array()) {
                traffic.write_part(out, update.elements());
            }
        }
        // Operands: arrays, indices, updates. What is updated is read first.
        "scatter" => {
            let arrays = all.end.saturating_sub(1) / 2;
            read(traffic, arrays..all.end);
            for (out, update) in result
                .arrays()
                .into_iter()
                .zip((arrays + 1..all.end).map(array))
            {
                let touched = update.map_or(0, Array::elements);
                traffic.read_part(out, touched);
                traffic.write_part(out, touched);
            }
        }
        "send" => read(traffic, 0..1),
        "recv" => result
            .elements()
            .iter()
            .take(1)
            .for_each(|buffer| traffic.write(buffer)),
        _ => {
            read(traffic, all);
            traffic.write(result);
        }
    }
}

/// The start of an asynchronous op. Its type is a tuple of sources, results and what the
/// hardware needs to wait for the end.
fn start(
    program: Option<&Program>,
    instruction: &Instruction,
    op: Option<OpId>,
    base: &str,
    moved: &mut Movement,
) {
    // The ops of a call have their own cost, asynchronous or not.
    if base == "call" {
        return;
    }
    let body = program
        .zip(op)
        .filter(|_| instruction.calls(CallRole::Calls).is_some());
    if let Some((program, body)) =
        body.and_then(|(program, op)| Some((program, program.body_of(op)?)))
    {
        for op in body.ops() {
            if let Some(instruction) = program.get(op) {
                // Asynchronous ops within asynchronous ones are not followed.
                let inner = if instruction.opcode.async_part().is_some() {
                    Movement::default()
                } else {
                    movement(Some(program), instruction, Some(op))
                };
                moved.traffic.add(&inner.traffic);
                moved.in_place.0 = moved.in_place.0.saturating_add(inner.in_place.0);
            }
        }
        return;
    }
    let parts = instruction.shape.elements();
    let result = match base {
        "copy" => parts.first(),
        _ => parts.get(1),
    };
    let result = result.unwrap_or(&instruction.shape);
    if base == "async" {
        // What it starts is not known: take it to be a copy of what comes out, as slices and
        // copies are by far the most frequent.
        moved.basis = Basis::Shapes;
        plain(program, instruction, "slice", result, &mut moved.traffic);
    } else {
        plain(program, instruction, base, result, &mut moved.traffic);
    }
}

fn custom_call(program: Option<&Program>, instruction: &Instruction, moved: &mut Movement) {
    let attributes = &instruction.attributes;
    if FREE_TARGETS.contains(&attributes.custom_call_target.as_str()) {
        return;
    }
    for operand in 0..instruction.operands.len() {
        let Some(shape) = operand_shape(program, instruction, operand) else {
            continue;
        };
        if attributes
            .output_aliases
            .iter()
            .any(|alias| alias.operand == operand)
        {
            moved.in_place.0 = moved.in_place.0.saturating_add(shape.bytes().0);
        } else {
            moved.traffic.read(shape);
        }
    }
    let aliased = |index: &[i64]| {
        attributes
            .output_aliases
            .iter()
            .any(|a| a.output_index == index)
    };
    if aliased(&[]) {
        return;
    }
    match &instruction.shape {
        Shape::Tuple(elements) => {
            for (index, element) in (0i64..).zip(elements) {
                if !aliased(&[index]) {
                    moved.traffic.write(element);
                }
            }
        }
        shape => moved.traffic.write(shape),
    }
}

/// A fusion reads what its body uses of each operand and writes its root's results.
fn fusion(program: &Program, instruction: &Instruction, op: OpId, traffic: &mut Traffic) {
    let Some(body) = program.body_of(op) else {
        plain(
            Some(program),
            instruction,
            "fusion",
            &instruction.shape,
            traffic,
        );
        return;
    };
    let mut demand = Demand {
        program,
        known: FxHashMap::default(),
    };
    for (i, &parameter) in body.parameters.iter().enumerate() {
        match operand_shape(Some(program), instruction, i) {
            Some(Shape::Array(array)) => {
                traffic.read_part(array, demand.of(parameter, body.root, 0));
            }
            Some(shape) => traffic.read(shape),
            None => {}
        }
    }
    let Some(root) = body.root else { return };
    let elements: Vec<_> = match program.get(root) {
        Some(tuple) if tuple.opcode == "tuple" => tuple.operands.iter().map(|o| o.op).collect(),
        _ => vec![Some(root)],
    };
    let results = match &instruction.shape {
        Shape::Tuple(results) if results.len() == elements.len() => results.iter().collect(),
        shape => vec![shape],
    };
    for (result, element) in results.into_iter().zip(elements) {
        match (result, element) {
            (Shape::Array(array), Some(element)) => {
                traffic.write_part(array, written(program, element));
            }
            (shape, _) => traffic.write(shape),
        }
    }
}

/// Elements that a fusion really writes of a result: those of the update where it is updated in
/// place, else all.
fn written(program: &Program, mut op: OpId) -> u64 {
    let elements = |op: Option<OpId>| {
        let array = op
            .and_then(|op| program.get(op))
            .and_then(|i| i.shape.as_array());
        array.map_or(u64::MAX, Array::elements)
    };
    for _ in 0..MAX_CHAIN {
        let Some(instruction) = program.get(op) else {
            break;
        };
        let operand = |i: usize| instruction.operands.get(i).and_then(|operand| operand.op);
        let next = match instruction.opcode.as_str() {
            "dynamic-update-slice" => return elements(operand(1)),
            "scatter" => return elements(operand(instruction.operands.len().saturating_sub(1))),
            "bitcast" | "reshape" => operand(0),
            "fusion" => program.body_of(op).and_then(|body| body.root),
            _ => None,
        };
        match next {
            Some(next) => op = next,
            None => break,
        }
    }
    u64::MAX
}

/// How many elements of an op's result a fusion's body looks at.
struct Demand<'a> {
    program: &'a Program,
    known: FxHashMap<OpId, u64>,
}

impl Demand<'_> {
    fn of(&mut self, op: OpId, root: Option<OpId>, depth: usize) -> u64 {
        let array = self.program.get(op).and_then(|i| i.shape.as_array());
        let all = array.map_or(u64::MAX, Array::elements);
        if depth >= MAX_CHAIN || root == Some(op) {
            return all;
        }
        if let Some(&known) = self.known.get(&op) {
            return known;
        }
        // Stands in while it is computed, so that computations that call each other end.
        self.known.insert(op, all);
        let mut sum = 0u64;
        for user in self.program.users(op) {
            sum = sum
                .saturating_add(self.by_user(op, user, root, depth))
                .min(all);
        }
        self.known.insert(op, sum);
        sum
    }

    fn by_user(&mut self, op: OpId, user: OpId, root: Option<OpId>, depth: usize) -> u64 {
        let Some(instruction) = self.program.get(user) else {
            return u64::MAX;
        };
        let first = instruction.operands.first().and_then(|operand| operand.op) == Some(op);
        let others = instruction
            .operands
            .iter()
            .skip(1)
            .any(|operand| operand.op == Some(op));
        let made = instruction
            .shape
            .as_array()
            .map_or(u64::MAX, Array::elements);
        match instruction.opcode.as_str() {
            "slice" | "dynamic-slice" | "gather" if first && !others => made,
            "dynamic-update-slice" if first && !others => {
                // In place if the result is the fusion's own; a copy of the rest otherwise.
                if written(self.program, root.unwrap_or(user)) == u64::MAX {
                    made
                } else {
                    0
                }
            }
            "scatter" if first && !others => 0,
            "bitcast" | "reshape" | "transpose" | "convert" | "copy" | "negate" => {
                self.of(user, root, depth + 1)
            }
            "fusion" => {
                let Some(body) = self.program.body_of(user) else {
                    return u64::MAX;
                };
                let (inner_root, parameters) = (body.root, body.parameters.clone());
                let used = instruction.operands.iter().zip(parameters);
                used.filter(|(operand, _)| operand.op == Some(op)).fold(
                    0,
                    |sum: u64, (_, parameter)| {
                        sum.saturating_add(self.of(parameter, inner_root, depth + 1))
                    },
                )
            }
            _ => u64::MAX,
        }
    }
}

/// A fusion whose body is not known. Two patterns show in its operands: rows gathered from a
/// table, and an array updated in place.
fn lone_fusion(fusion: &Instruction, moved: &mut Movement) {
    moved.basis = Basis::Shapes;
    let traffic = &mut moved.traffic;
    let operands: Vec<&Shape> = fusion
        .operands
        .iter()
        .filter_map(|o| o.shape.as_ref())
        .collect();
    let arrays: Vec<&Array> = operands
        .iter()
        .filter_map(|shape| shape.as_array())
        .collect();
    if let (Some(FusionKind::Custom), [table, indices], Shape::Array(out)) = (
        fusion.attributes.fusion_kind,
        arrays.as_slice(),
        &fusion.shape,
    ) && is_row_gather(table, indices, out)
    {
        // Padding indices beyond the result's rows are not looked at.
        let row = product(table.dims.get(1..).unwrap_or_default()).max(1);
        traffic.read_part(table, out.elements());
        traffic.read_part(indices, indices.elements().min(out.elements() / row));
        traffic.write(&fusion.shape);
        return;
    }
    if let Some(out) = fusion.shape.as_array()
        && fusion.name.contains("dynamic-update-slice")
        && let Some(target) = arrays
            .iter()
            .position(|a| a.dims == out.dims && a.dtype == out.dtype)
    {
        let mut updates = 0u64;
        for (i, array) in arrays.iter().enumerate() {
            if i != target {
                traffic.read_part(array, array.elements());
                updates = updates.saturating_add(array.elements());
            }
        }
        traffic.write_part(out, updates);
        return;
    }
    operands.into_iter().for_each(|shape| traffic.read(shape));
    traffic.write(&fusion.shape);
}

/// Whether each index can pick a row of the table to give the result.
fn is_row_gather(table: &Array, indices: &Array, out: &Array) -> bool {
    let Some((_, row)) = table.dims.split_first() else {
        return false;
    };
    let rows = out
        .dims
        .len()
        .checked_sub(row.len())
        .and_then(|at| out.dims.split_at_checked(at));
    let Some((_, tail)) = rows else { return false };
    let is_index = indices.dtype.is_integer() && indices.dtype.bits() >= 16;
    // Padding rows may be left out of the result.
    is_index
        && table.dtype == out.dtype
        && !row.is_empty()
        && tail == row
        && out.elements() <= table.elements()
}
