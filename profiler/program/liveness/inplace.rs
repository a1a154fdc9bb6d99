//! Which operations write over what they read.

use super::alike;
use crate::program::instruction::{FusionKind, Instruction};
use crate::program::shape::Shape;
use crate::program::{Computation, OpId, Program};

/// A result that is written over an operand, always.
pub(super) struct Over {
    /// Where in the result.
    pub(super) result: Vec<i64>,
    /// Which operand.
    pub(super) operand: usize,
    /// Which array of that operand.
    pub(super) leaf: usize,
}

/// Operations that are followed from a fusion's result to its parameter.
const MAX_CHAIN: usize = 32;

/// Results that are updated in place: of slices written into an array, of scatters, and of custom
/// calls that say so. The compiler put a copy before where that would lose something.
pub(super) fn written_over(program: &Program, op: OpId, instruction: &Instruction) -> Vec<Over> {
    let whole = |operand| {
        vec![Over {
            result: Vec::new(),
            operand,
            leaf: 0,
        }]
    };
    let mut over = match instruction.opcode.as_str() {
        "dynamic-update-slice" => whole(0),
        "scatter" if instruction.operands.len() == 3 => whole(0),
        "fusion" => program
            .body_of(op)
            .map(|body| fused(program, body))
            .unwrap_or_default(),
        _ => Vec::new(),
    };
    // What the compiler says itself, of custom calls and fusions.
    over.extend(
        instruction
            .attributes
            .output_aliases
            .iter()
            .map(|alias| Over {
                result: alias.output_index.clone(),
                operand: alias.operand,
                // Operands of tuples are not seen in compiled programs.
                leaf: 0,
            }),
    );
    over
}

fn fused(program: &Program, body: &Computation) -> Vec<Over> {
    let Some((root, instruction)) = body.root.and_then(|op| Some((op, program.get(op)?))) else {
        return Vec::new();
    };
    let results: Vec<(Vec<i64>, OpId)> = if instruction.opcode == "tuple" {
        (0i64..)
            .zip(&instruction.operands)
            .filter_map(|(index, operand)| Some((vec![index], operand.op?)))
            .collect()
    } else {
        vec![(Vec::new(), root)]
    };
    results
        .into_iter()
        .filter_map(|(result, op)| {
            let parameter = updated(program, op)?;
            let operand = body.parameters.iter().position(|p| *p == parameter)?;
            Some(Over {
                result,
                operand,
                leaf: 0,
            })
        })
        .collect()
}

/// The parameter that a fusion's result updates in place.
fn updated(program: &Program, mut op: OpId) -> Option<OpId> {
    let mut is_update = false;
    for _ in 0..MAX_CHAIN {
        let instruction = program.get(op)?;
        let first = instruction.operands.first().and_then(|operand| operand.op);
        match instruction.opcode.as_str() {
            "parameter" => return is_update.then_some(op),
            "dynamic-update-slice" => {
                is_update = true;
                op = first?;
            }
            "scatter" if instruction.operands.len() == 3 => {
                is_update = true;
                op = first?;
            }
            "bitcast" => op = first?,
            "fusion" => {
                let body = program.body_of(op)?;
                let inner = updated(program, body.root?)?;
                let operand = body.parameters.iter().position(|p| *p == inner)?;
                return instruction.operands.get(operand)?.op;
            }
            _ => return None,
        }
    }
    None
}

/// Whether an operation writes its result over one of its operands that `is_last` says is read for
/// the last time and is as large.
pub(super) fn may_share(program: &Program, op: OpId, is_last: impl Fn(OpId) -> bool) -> bool {
    let Some(instruction) = program.get(op) else {
        return false;
    };
    let Shape::Array(result) = &instruction.shape else {
        return false;
    };
    let elementwise = instruction.opcode.is_elementwise() || instruction.opcode.is_transcendental();
    let fusion = instruction.opcode == "fusion"
        && instruction.attributes.fusion_kind == Some(FusionKind::Loop);
    if !elementwise && !fusion {
        return false;
    }
    let body = program.body_of(op);
    instruction
        .operands
        .iter()
        .enumerate()
        .any(|(at, operand)| {
            let Some(reads) = operand.op.filter(|reads| is_last(*reads)) else {
                return false;
            };
            let same = program
                .get(reads)
                .and_then(|i| i.shape.as_array())
                .is_some_and(|array| alike(array, result));
            same && (elementwise || body.is_some_and(|body| reads_in_order(program, body, at)))
        })
}

/// Whether a fusion reads each element of an operand only for the element of the result that lies
/// at the same place.
fn reads_in_order(program: &Program, body: &Computation, operand: usize) -> bool {
    let Some(parameter) = body.parameters.get(operand) else {
        return false;
    };
    let mut waiting = vec![*parameter];
    let mut looked = 0;
    while let Some(op) = waiting.pop() {
        for user in program.users(op) {
            looked += 1;
            let Some(instruction) = program.get(user).filter(|_| looked < 1_000) else {
                return false;
            };
            let opcode = &instruction.opcode;
            let keeps_place = opcode.is_elementwise()
                || opcode.is_transcendental()
                || matches!(opcode.as_str(), "bitcast" | "tuple" | "copy");
            if !keeps_place {
                return false;
            }
            waiting.push(user);
        }
    }
    true
}
