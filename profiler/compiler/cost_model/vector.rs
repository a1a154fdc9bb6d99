//! How much an operation asks of the vector unit.
//!
//! Unlike FLOPs, which count what the program states, this counts what the unit does: a window
//! that slides over a long axis is summed in steps of doubling length, not anew for each position.

use crate::program::instruction::CallRole;
use crate::program::shape::Shape;
use crate::program::{OpId, Program};

/// Operations of the vector unit, each for one element.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VectorWork {
    /// Cheap arithmetic.
    pub ops: f64,
    /// Transcendental functions.
    pub transcendentals: f64,
}

/// Fusions within fusions that are looked into.
const MAX_DEPTH: usize = 8;
/// Instructions that are looked at for one operation; real fusions have hundreds.
const MAX_LOOKS: usize = 20_000;

impl VectorWork {
    /// The work of one execution of an operation, a fusion's being that of its body.
    #[must_use]
    pub fn of(program: &Program, op: OpId) -> Self {
        let mut work = Self::default();
        let mut looks = MAX_LOOKS;
        work.add(program, op, 0, &mut looks);
        work
    }

    fn add(&mut self, program: &Program, op: OpId, depth: usize, looks: &mut usize) {
        let Some(instruction) = program.get(op).filter(|_| *looks > 0) else {
            return;
        };
        *looks -= 1;
        let made = elements(Some(&instruction.shape));
        let read = |operand| elements(program.operand_shape(op, operand));
        match instruction.opcode.as_str() {
            "fusion" if depth < MAX_DEPTH => {
                for inner in program.body_of(op).into_iter().flat_map(|body| body.ops()) {
                    self.add(program, inner, depth + 1, looks);
                }
            }
            "reduce" => self.ops += read(0) * applied(program, op),
            "reduce-window" | "select-and-scatter" => {
                let window = instruction.attributes.window.iter();
                let window: f64 = window.map(|dim| dim.size.max(1) as f64).product();
                let sources = made.max(read(0));
                self.ops += sources * (1.0 + window.log2().ceil()) * applied(program, op);
            }
            "scatter" => {
                let updates = instruction.operands.len().saturating_sub(1);
                self.ops += read(updates) * applied(program, op);
            }
            "sort" => {
                let dim = instruction.attributes.dimensions.first().copied();
                let keys = program.operand_shape(op, 0).and_then(Shape::as_array);
                let keys =
                    keys.and_then(|keys| keys.dims.get(usize::try_from(dim?).ok()?).copied());
                // A bitonic network: each of log² / 2 rounds compares all.
                let rounds = (keys.unwrap_or(1).max(1) as f64).log2().ceil();
                self.ops += read(0) * rounds * (rounds + 1.0) / 2.0;
            }
            _ if instruction.opcode.is_elementwise() => self.ops += made,
            _ if instruction.opcode.is_transcendental() => self.transcendentals += made,
            _ => {}
        }
    }
}

/// Operations in the function that a reduction applies: at least one.
fn applied(program: &Program, op: OpId) -> f64 {
    let callee = program
        .called(op)
        .find(|(role, _)| *role == CallRole::Applies);
    let body = callee.and_then(|(_, callee)| program.computation(callee));
    let ops = body.into_iter().flat_map(|body| body.ops());
    let ops = ops.filter_map(|op| program.get(op));
    let count = ops.filter(|op| !op.opcode.is_free()).count();
    count.max(1) as f64
}

/// Elements of the largest array in a type: of a reduction's several operands one.
fn elements(shape: Option<&Shape>) -> f64 {
    let arrays = shape.map(Shape::arrays).unwrap_or_default();
    let counts = arrays.into_iter().map(|array| array.elements());
    counts.max().unwrap_or(0) as f64
}
