//! How many passes of the MXU a float32 product takes.

use profiler::program::Program;
use profiler::program::instruction::Instruction;

use crate::rule::Context;
use crate::rules::matmul::product::Product;

/// bf16 passes of a float32 product: 1 by default, 3 for `high`, 6 for `highest`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Passes {
    /// How many.
    pub(crate) count: u32,
    /// Whether the program says so or the rate leaves no other choice; else it is the most that
    /// the rate allows.
    pub(crate) certain: bool,
}

/// A rate counts as reaching a bound from this share of it on.
const ROUNDING: f64 = 1.02;

/// Below this share of what six passes allow, passes do not explain the time.
const UNEXPLAINED: f64 = 0.5;

/// The passes of a product of float32: what its program states, else what its rate allows.
pub(crate) fn passes(context: &Context<'_>, product: &Product<'_>) -> Passes {
    if let Some(count) = stated(context, product) {
        return Passes {
            count,
            certain: true,
        };
    }
    // With n passes no product is faster than 1/n of the bf16 peak.
    let share = product.padded_ps / product.time_ps;
    let allows = |count: f64| share * count <= ROUNDING;
    // Slower still, or waiting for HBM: passes are not what it is about.
    let other = share * 6.0 < UNEXPLAINED || product.hbm_ps > UNEXPLAINED * product.time_ps;
    let (count, certain) = if other {
        (1, false)
    } else if allows(6.0) {
        (6, false)
    } else if allows(3.0) {
        (3, false)
    } else {
        (1, true)
    };
    Passes { count, certain }
}

fn stated(context: &Context<'_>, product: &Product<'_>) -> Option<u32> {
    let op = product.op;
    if let Some(count) = op.instruction.as_ref().and_then(of_instruction) {
        return Some(count);
    }
    let (program, id) = op.hlo?;
    let program: &Program = &context.evidence.session.programs.get(program)?.program;
    let body = program.body_of(id)?;
    let inner = body.ops().filter_map(|op| program.get(op));
    inner.filter_map(of_instruction).max()
}

fn of_instruction(instruction: &Instruction) -> Option<u32> {
    if !matches!(instruction.opcode.as_str(), "dot" | "convolution") {
        return None;
    }
    let precision = instruction
        .attributes
        .other
        .iter()
        .find(|(key, _)| key == "operand_precision")
        .map_or("", |(_, value)| value.as_str());
    Some(if precision.contains("highest") {
        6
    } else if precision.contains("high") {
        3
    } else {
        1
    })
}
