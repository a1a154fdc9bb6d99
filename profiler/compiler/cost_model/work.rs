//! What an operation does, as far as that decides its time: the features of the cost model.

use crate::compiler::cost_model::rates::{Rates, over};
use crate::compiler::cost_model::vector::VectorWork;
use crate::compiler::pricer::OpKind;
use crate::program::cost::{Cost, CostModel};
use crate::program::instruction::Instruction;
use crate::program::kernel::AuthorEstimate;
use crate::program::matmul::Matmul;
use crate::program::opcode::AsyncPart;
use crate::program::shape::{Array, Shape};
use crate::program::{Computation, OpId, Program};

/// What one execution of an operation does, each part as the picoseconds that it takes at the
/// device's peak.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// What it is.
    pub kind: OpKind,
    /// The compiler's estimate of the whole operation, in cycles of the TensorCore; absent where it
    /// made none.
    pub estimate_ps: Option<f64>,
    /// Matrix products, on the MXUs.
    pub products_ps: f64,
    /// All other arithmetic, on the vector unit.
    pub vector_ps: f64,
    /// Bytes read and written in HBM, tile padding included.
    pub hbm_ps: f64,
    /// Bytes that cross the link to the host, tile padding included.
    pub host_ps: f64,
    /// Whether it is the start of an asynchronous operation, which others may hide.
    pub is_async: bool,
    /// Whether it takes no time of its own.
    pub is_free: bool,
}

/// Estimates beyond this are the compiler's mark for "no estimate": at 1750 MHz this many cycles
/// are 42 minutes. Gathers that run on a SparseCore carry 2⁶³ − 1.
const MAX_CYCLES: u64 = 1 << 42;
/// Fusions within fusions that are looked into.
const MAX_DEPTH: usize = 8;

impl Work {
    /// What an operation does. `costs` is the model of the same program.
    #[must_use]
    pub fn of(program: &Program, costs: &mut CostModel<'_>, rates: &Rates, op: OpId) -> Self {
        let Some(instruction) = program.get(op) else {
            return Self::free(OpKind::Other);
        };
        let opcode = &instruction.opcode;
        let part = opcode.async_part().map(|(part, _)| part);
        if opcode.is_collective() {
            return Self::free(OpKind::Collective);
        }
        let ends = matches!(part, Some(AsyncPart::Done | AsyncPart::Update));
        if ends || opcode.is_free() || opcode.is_control_flow() {
            return Self::free(OpKind::Other);
        }
        let mut cost = costs.cost(op);
        let mut vector = VectorWork::of(program, op);
        let kind = kind_of(program, op, instruction, &cost);
        if kind == OpKind::Kernel {
            add_softmax_value(&mut cost, &mut vector, program, op, instruction);
            add_stated(&mut cost, &mut vector, instruction);
        }
        let cycles = instruction.estimated_cycles();
        let cycles = cycles.filter(|cycles| *cycles < MAX_CYCLES);
        let hbm = cost.traffic.hbm().total_padded().0 as f64;
        let host = cost.traffic.host().total_padded().0 as f64;
        Self {
            kind,
            estimate_ps: cycles.map(|cycles| over(cycles as f64, rates.cycles)),
            products_ps: rates.products_ps(&cost),
            vector_ps: over(vector.ops, rates.vector_ops)
                + over(vector.transcendentals, rates.transcendentals),
            hbm_ps: over(hbm, rates.hbm_bytes),
            host_ps: over(host, rates.host_bytes),
            is_async: part == Some(AsyncPart::Start),
            is_free: false,
        }
    }

    fn free(kind: OpKind) -> Self {
        Self {
            kind,
            is_free: true,
            ..Self::default()
        }
    }
}

/// The compiler's own kernel for `softmax(scores) · value`, by its shapes: a product, and of each
/// score the maximum, the difference, the exponential and the sum.
fn add_softmax_value(
    cost: &mut Cost,
    vector: &mut VectorWork,
    program: &Program,
    op: OpId,
    call: &Instruction,
) {
    if !call.name.starts_with("online-softmax") {
        return;
    }
    let scores = program.operand_shape(op, 0).and_then(Shape::as_array);
    let depth = call.shape.as_array().and_then(|out| out.dims.last());
    if let (Some(scores), Some(&depth)) = (scores, depth) {
        let scores = scores.elements() as f64;
        cost.matmul_flops = 2.0 * scores * depth as f64;
        vector.ops = 3.0 * scores;
        vector.transcendentals = scores;
    }
}

/// Where shapes tell nothing of a kernel's arithmetic, what its author said of it.
fn add_stated(cost: &mut Cost, vector: &mut VectorWork, call: &Instruction) {
    if cost.matmul_flops > 0.0 {
        return;
    }
    if let Some(stated) = AuthorEstimate::of(call) {
        cost.matmul_flops = stated.flops as f64;
        vector.transcendentals = stated.transcendentals as f64;
    }
}

fn kind_of(program: &Program, op: OpId, instruction: &Instruction, cost: &Cost) -> OpKind {
    let opcode = instruction.opcode.as_str();
    if opcode == "custom-call" {
        let is_kernel = instruction.attributes.custom_call_target == "tpu_custom_call";
        return if is_kernel {
            OpKind::Kernel
        } else {
            OpKind::Other
        };
    }
    if instruction.opcode.async_part().is_some() {
        return OpKind::Copy;
    }
    if cost.matmul_flops > 0.0 {
        return if window_positions(program, op, 0) > 1 {
            OpKind::Convolution
        } else {
            OpKind::Matmul
        };
    }
    let mut found = Found::default();
    found.look_at(program, op, 0);
    found.kind()
}

/// What the operations of a fusion are, or a lone operation is.
#[derive(Default)]
struct Found {
    reduces: bool,
    computes: bool,
    indexes: bool,
}

impl Found {
    fn look_at(&mut self, program: &Program, op: OpId, depth: usize) {
        let Some(instruction) = program.get(op) else {
            return;
        };
        match instruction.opcode.as_str() {
            "fusion" if depth < MAX_DEPTH => {
                let body = program.body_of(op).into_iter().flat_map(Computation::ops);
                body.for_each(|op| self.look_at(program, op, depth + 1));
            }
            "reduce" => self.reduces = true,
            "scatter" | "gather" | "sort" | "reduce-window" | "select-and-scatter" => {
                self.indexes = true;
            }
            "copy"
            | "transpose"
            | "reshape"
            | "broadcast"
            | "slice"
            | "concatenate"
            | "pad"
            | "reverse"
            | "dynamic-slice"
            | "dynamic-update-slice"
            | "iota" => {}
            _ if instruction.opcode.is_free() => {}
            _ => self.computes = true,
        }
    }

    fn kind(&self) -> OpKind {
        match self {
            Self { reduces: true, .. } => OpKind::Reduce,
            Self { indexes: true, .. } => OpKind::Other,
            Self { computes: true, .. } => OpKind::Loop,
            _ => OpKind::Copy,
        }
    }
}

/// Positions of a convolution's window that one output sums over: 1 for a matmul, which the
/// compiler also writes as a convolution. The most of any in a fusion.
fn window_positions(program: &Program, op: OpId, depth: usize) -> u64 {
    let Some(instruction) = program.get(op) else {
        return 0;
    };
    match instruction.opcode.as_str() {
        "fusion" if depth < MAX_DEPTH => {
            let body = program.body_of(op).into_iter().flat_map(Computation::ops);
            body.map(|op| window_positions(program, op, depth + 1))
                .max()
                .unwrap_or(0)
        }
        "convolution" => positions(program, op, instruction).unwrap_or(0),
        _ => 0,
    }
}

fn positions(program: &Program, op: OpId, convolution: &Instruction) -> Option<u64> {
    let array = |i| -> Option<&Array> { program.operand_shape(op, i)?.as_array() };
    let (lhs, rhs) = (array(0)?, array(1)?);
    let attributes = &convolution.attributes;
    let product = Matmul::of_convolution(attributes, lhs, rhs, convolution.shape.as_array()?)?;
    let feature = attributes.convolution.as_deref()?.kernel_input_feature;
    let features = rhs.dims.get(usize::try_from(feature).ok()?)?;
    product.k.checked_div(*features)
}
