//! What an instruction costs: arithmetic and bytes, from its shapes alone.
//!
//! Within a [`Program`] a fusion is looked into; an instruction that stands alone in a trace
//! gives what its operands and result tell, marked [`Basis::Shapes`].
//!
//! We differ from XProf where its figures mislead: a copy is counted once, at its start, not
//! again at its end; host memory is not HBM; a `while`'s cost is that of the ops in its body.

use rustc_hash::FxHashMap;

use crate::program::instruction::{CallRole, FusionKind, Instruction};
use crate::program::kernel::Kernel;
use crate::program::matmul::{Basis, Matmul};
use crate::program::movement::movement;
use crate::program::opcode::AsyncPart;
use crate::program::shape::Shape;
use crate::program::traffic::Traffic;
use crate::program::{Computation, ComputationId, OpId, Program};
use crate::units::Bytes;

/// What one execution of an instruction costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// All arithmetic except transcendental functions, in FLOPs: two for each multiply-add of a
    /// matmul, one for each element that an elementwise operation makes.
    pub flops: f64,
    /// The part of `flops` that multiplies matrices.
    pub matmul_flops: f64,
    /// Transcendental functions, one for each element.
    pub transcendentals: f64,
    /// Bytes moved.
    pub traffic: Traffic,
    /// Bytes of buffers that a custom call updates in place: it may touch any part of them.
    pub in_place: Bytes,
    /// The products in it, the first [`MAX_MATMULS`] of them.
    pub matmuls: Vec<Matmul>,
    /// What is known of a custom call by its name and shapes.
    pub kernel: Option<Kernel>,
    /// How the figures were come by.
    pub basis: Basis,
}

/// What one run of a program costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunCost {
    /// As in [`Cost`].
    pub flops: f64,
    /// As in [`Cost`].
    pub matmul_flops: f64,
    /// As in [`Cost`].
    pub transcendentals: f64,
    /// As in [`Cost`].
    pub traffic: Traffic,
    /// The weakest basis of any part.
    pub basis: Basis,
    /// Whether a loop of unknown length was counted once, or every branch.
    pub assumed: bool,
}

/// Products that a [`Cost`] lists one by one.
pub const MAX_MATMULS: usize = 32;
/// Calls within calls that are followed.
const MAX_DEPTH: usize = 16;

impl Cost {
    fn add_work(&mut self, other: &Self) {
        self.flops += other.flops;
        self.matmul_flops += other.matmul_flops;
        self.transcendentals += other.transcendentals;
        let room = MAX_MATMULS.saturating_sub(self.matmuls.len());
        self.matmuls.extend(other.matmuls.iter().take(room));
    }

    fn add_matmul(&mut self, matmul: Matmul) {
        self.flops += matmul.flops;
        self.matmul_flops += matmul.flops;
        self.basis = self.basis.max(matmul.basis);
        if self.matmuls.len() < MAX_MATMULS {
            self.matmuls.push(matmul);
        }
    }
}

/// The cost of an instruction that stands alone, as in a trace's `long_name`.
#[must_use]
pub fn lone_cost(instruction: &Instruction) -> Cost {
    CostModel {
        program: None,
        bodies: FxHashMap::default(),
    }
    .cost_of(instruction, None, 0)
}

/// The product in a lone fusion, by its shapes; see [`Matmul::of_shapes`].
#[must_use]
pub fn lone_matmul(fusion: &Instruction) -> Option<Matmul> {
    let shapes = fusion
        .operands
        .iter()
        .filter_map(|operand| operand.shape.as_ref());
    Matmul::of_shapes(
        &fusion.shape,
        &shapes.filter_map(Shape::as_array).collect::<Vec<_>>(),
    )
}

/// Costs of a program's instructions. It remembers what it found of computations, so one model
/// serves all instructions.
#[derive(Debug)]
pub struct CostModel<'a> {
    program: Option<&'a Program>,
    /// The summed arithmetic of computations.
    bodies: FxHashMap<ComputationId, Cost>,
}

impl<'a> CostModel<'a> {
    /// A model of that program.
    #[must_use]
    pub fn new(program: &'a Program) -> Self {
        Self {
            program: Some(program),
            bodies: FxHashMap::default(),
        }
    }

    /// The cost of one execution of an instruction; nothing for an id of another program.
    ///
    /// A fusion or the start of an asynchronous op has the cost of its computation; a `while`,
    /// `call` or `conditional` has none, as the ops that it runs have their own.
    #[must_use]
    pub fn cost(&mut self, op: OpId) -> Cost {
        let instruction = self.program.and_then(|program| program.get(op));
        instruction.map_or_else(Cost::default, |found| self.cost_of(found, Some(op), 0))
    }

    /// The cost of one run of the whole program: each op as often as it runs. Loops whose trip
    /// count is not known count once and branches all, which `assumed` says.
    #[must_use]
    pub fn run(&mut self) -> RunCost {
        let mut run = RunCost::default();
        let Some(program) = self.program else {
            return run;
        };
        for (id, executions) in (0u32..).map(ComputationId).zip(program.executions()) {
            let Some(computation) = program.computation(id).filter(|_| program.has_own_ops(id))
            else {
                continue;
            };
            let times = executions.count;
            run.assumed |= executions.assumed;
            for op in computation.ops() {
                let cost = self.cost(op);
                run.flops += cost.flops * times as f64;
                run.matmul_flops += cost.matmul_flops * times as f64;
                run.transcendentals += cost.transcendentals * times as f64;
                run.traffic.add_times(&cost.traffic, times);
                run.basis = run.basis.max(cost.basis);
            }
        }
        run
    }

    fn cost_of(&mut self, instruction: &Instruction, op: Option<OpId>, depth: usize) -> Cost {
        let mut cost = self.arithmetic(instruction, op, depth);
        let moved = movement(self.program, instruction, op);
        cost.traffic = moved.traffic;
        cost.in_place = moved.in_place;
        cost.basis = cost.basis.max(moved.basis);
        cost
    }

    /// All of a cost but its bytes.
    fn arithmetic(&mut self, instruction: &Instruction, op: Option<OpId>, depth: usize) -> Cost {
        let mut cost = Cost::default();
        let shape = |i| operand_shape(self.program, instruction, i);
        let array = |i| shape(i).and_then(Shape::as_array);
        let made = elements(&instruction.shape);
        match instruction.opcode.as_str() {
            "dot" | "convolution" | "ragged-dot" => {
                if let (Some(lhs), Some(rhs), Some(out)) =
                    (array(0), array(1), instruction.shape.as_array())
                {
                    let attributes = &instruction.attributes;
                    let found = match instruction.opcode.as_str() {
                        "dot" => Matmul::of_dot(attributes, lhs, rhs, out),
                        "ragged-dot" => Matmul::of_grouped(lhs, rhs, out),
                        _ => Matmul::of_convolution(attributes, lhs, rhs, out),
                    };
                    found.into_iter().for_each(|matmul| cost.add_matmul(matmul));
                }
            }
            "fusion" => match op.and_then(|op| self.callee(op)) {
                Some(body) => cost.add_work(&self.body(body, depth)),
                None => lone_fusion(&mut cost, instruction),
            },
            "custom-call" => {
                cost.kernel = Kernel::of(self.program, instruction);
                if let Some((flops, kernel)) =
                    cost.kernel.as_ref().and_then(|k| Some((k.flops?, k)))
                {
                    cost.flops = flops;
                    cost.matmul_flops = flops;
                    cost.basis = kernel.basis;
                }
            }
            // The elements that go in, less one for each that comes out.
            "reduce" => {
                let read = shape(0).map_or(0.0, elements);
                cost.flops = (read - made).max(0.0) * self.applied(op, depth);
            }
            "reduce-window" | "select-and-scatter" => {
                let window: f64 = instruction
                    .attributes
                    .window
                    .iter()
                    .map(|dim| dim.size as f64)
                    .product();
                let sources = if instruction.opcode == "reduce-window" {
                    made
                } else {
                    shape(1).map_or(0.0, elements)
                };
                cost.flops = sources * (window - 1.0).max(0.0) * self.applied(op, depth);
            }
            "all-reduce" | "reduce-scatter" | "map" => {
                cost.flops = made * self.applied(op, depth);
            }
            "all-reduce-start" | "reduce-scatter-start" => {
                cost.flops = shape(0).map_or(0.0, elements) * self.applied(op, depth);
            }
            "scatter" => {
                let updates =
                    shape(instruction.operands.len().saturating_sub(1)).map_or(0.0, elements);
                cost.flops = updates * self.applied(op, depth);
            }
            "sort" => {
                let dim = instruction.attributes.dimensions.first().copied();
                let keys = array(0).and_then(|a| a.dims.get(usize::try_from(dim?).ok()?).copied());
                let each = array(0).map_or(0.0, |a| a.elements() as f64);
                cost.flops = each * (keys.unwrap_or(1).max(1) as f64).log2().ceil();
            }
            _ if instruction.opcode.is_elementwise() => cost.flops = made,
            _ if instruction.opcode.is_transcendental() => cost.transcendentals = made,
            _ => {
                let starts = matches!(instruction.opcode.async_part(), Some((AsyncPart::Start, _)))
                    && instruction.calls(CallRole::Calls).is_some();
                if let Some(body) = op.filter(|_| starts).and_then(|op| self.callee(op)) {
                    cost.add_work(&self.body(body, depth));
                }
            }
        }
        cost
    }

    fn callee(&self, op: OpId) -> Option<ComputationId> {
        let called = self.program?.called(op).next()?;
        matches!(called.0, CallRole::Calls | CallRole::Applies).then_some(called.1)
    }

    /// The arithmetic of all ops of a computation.
    fn body(&mut self, id: ComputationId, depth: usize) -> Cost {
        if let Some(known) = self.bodies.get(&id) {
            return known.clone();
        }
        let mut sum = Cost::default();
        let Some(program) = self.program.filter(|_| depth < MAX_DEPTH) else {
            return sum;
        };
        // Stands in while it is computed, so that a computation that calls itself ends.
        self.bodies.insert(id, Cost::default());
        for op in program
            .computation(id)
            .into_iter()
            .flat_map(Computation::ops)
        {
            if let Some(instruction) = program.get(op) {
                let work = self.arithmetic(instruction, Some(op), depth + 1);
                sum.add_work(&work);
                sum.basis = sum.basis.max(work.basis);
            }
        }
        self.bodies.insert(id, sum.clone());
        sum
    }

    /// Operations in the function of a reduce and its like: at least one.
    fn applied(&mut self, op: Option<OpId>, depth: usize) -> f64 {
        let callee = op.and_then(|op| self.callee(op));
        callee.map_or(1.0, |id| {
            let body = self.body(id, depth);
            (body.flops + body.transcendentals).max(1.0)
        })
    }
}

/// What a fusion without its body shows: its product, or one operation for each element.
fn lone_fusion(cost: &mut Cost, fusion: &Instruction) {
    let multiplies = fusion.attributes.fusion_kind == Some(FusionKind::Output)
        || ["convolution", "dot", "einsum"]
            .iter()
            .any(|hint| fusion.name.contains(hint));
    cost.basis = Basis::Shapes;
    match lone_matmul(fusion).filter(|_| multiplies) {
        Some(matmul) => cost.add_matmul(matmul),
        None if fusion.attributes.fusion_kind == Some(FusionKind::Loop) => {
            cost.flops = elements(&fusion.shape);
        }
        None => {}
    }
}

fn elements(shape: &Shape) -> f64 {
    shape
        .arrays()
        .into_iter()
        .map(|array| array.elements() as f64)
        .sum()
}

/// The type of an operand: that of the instruction that makes it, else what the text says.
pub(super) fn operand_shape<'a>(
    program: Option<&'a Program>,
    instruction: &'a Instruction,
    operand: usize,
) -> Option<&'a Shape> {
    let operand = instruction.operands.get(operand)?;
    let made = operand
        .op
        .zip(program)
        .and_then(|(op, program)| program.get(op));
    made.map(|made| &made.shape).or(operand.shape.as_ref())
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
