//! Operations that only move data, and what they move it for.
//!
//! ```text
//! all operations ──> movers ──┬─> around a kernel        (TT601)
//!                             ├─> a whole buffer, as it was (TT602)
//!                             ├─> an argument, relaid    (TT602)
//!                             ├─> a loop's stack         (TT605)
//!                             └─> the rest               (TT603)
//! ```
//!
//! Each mover has one role, so no two of these rules speak of the same operation.

use profiler::evidence::{CopyRoute, Evidence, OpClass, OpProfile};
use profiler::program::instruction::{CallRole, Instruction};
use profiler::program::opcode::Opcode;
use profiler::program::shape::{Array, MemorySpace};
use profiler::program::{self, Program};
use profiler::session::OpId;

use crate::rule::Context;
use crate::rules::layout::group::base_name;
use crate::rules::layout::kernels::Kernels;

/// What a mover is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It feeds or reads this custom call, or stands in the function that wraps it.
    Kernel(OpId),
    /// It copies a buffer within HBM and leaves its layout as it was.
    WholeCopy {
        /// Whether the buffer is an argument of the program.
        argument: bool,
    },
    /// It gives an argument of the program another layout.
    ArgumentRelayout,
    /// Within a loop it copies the array that the loop writes a slice of.
    LoopStack {
        /// Bytes that an iteration writes, where the program tells.
        slice_bytes: Option<u64>,
    },
    /// None of these.
    Plain,
}

/// An operation that only moves data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mover<'a> {
    /// The operation.
    pub(crate) op: &'a OpProfile,
    /// What it reads: its largest operand.
    pub(crate) from: Option<&'a Array>,
    /// What it makes.
    pub(crate) to: Option<&'a Array>,
    /// What it is for.
    pub(crate) role: Role,
}

/// Smaller results are scalars and tables: moving them costs no more than any instruction.
const MIN_BYTES: u64 = 4096;
/// Instructions that a walk back may pass.
const MAX_WALK: usize = 64;

impl Mover<'_> {
    /// The change in words: `copy bf16[8,64]{1,0} to {0,1}`, one memory space named where it
    /// changes.
    pub(crate) fn pattern(&self) -> String {
        // XLA names a fusion after what is in it.
        let opcode = match &self.op.instruction {
            Some(instruction) if instruction.opcode == "fusion" => base_name(&instruction.name),
            Some(instruction) => instruction.opcode.as_str(),
            None => "copy",
        };
        match (self.from, self.to) {
            (Some(from), Some(to)) => format!("{opcode} {from} to {}", target(from, to)),
            (None, Some(to)) => format!("{opcode} to {to}"),
            _ => opcode.to_owned(),
        }
    }

    /// Self time a step in milliseconds.
    pub(crate) fn ms(&self) -> f64 {
        self.op.step_self_ms()
    }

    /// Bytes that a step reads and writes, in any memory of the device.
    pub(crate) fn step_bytes(&self) -> f64 {
        let size = |array: Option<&Array>| array.map_or(0.0, |a| a.padded_bytes().0 as f64);
        (size(self.from) + size(self.to)) * self.op.step_occurrences
    }
}

/// The result as far as it differs from what is read.
fn target(from: &Array, to: &Array) -> String {
    match (&to.layout, from.dims == to.dims && from.dtype == to.dtype) {
        (Some(layout), true) => layout.to_string(),
        _ => to.to_string(),
    }
}

/// All movers of a step, longest first.
pub(crate) fn movers<'a>(context: &Context<'a>) -> Vec<Mover<'a>> {
    let evidence = context.evidence;
    let kernels = Kernels::of(evidence);
    evidence
        .ops
        .iter()
        .filter(|op| op.step_self_ps > 0.0 && is_mover(evidence, op))
        .filter_map(|op| {
            let to = op.result();
            if to.is_some_and(|to| to.padded_bytes().0 < MIN_BYTES) {
                return None;
            }
            let from = operand_arrays(evidence, op)
                .into_iter()
                .max_by_key(|array| array.padded_bytes());
            let mover = Mover {
                op,
                from,
                to,
                role: Role::Plain,
            };
            Some(Mover {
                role: role(evidence, &kernels, &mover),
                ..mover
            })
        })
        .collect()
}

/// The array operands of an operation.
pub(crate) fn operand_arrays<'a>(evidence: &'a Evidence<'_>, op: &'a OpProfile) -> Vec<&'a Array> {
    let Some(instruction) = &op.instruction else {
        return Vec::new();
    };
    let program = hlo(evidence, op);
    (0..instruction.operands.len())
        .filter_map(|i| {
            let stated = instruction.operands.get(i)?.shape.as_ref();
            let made = program.and_then(|(program, id)| program.operand_shape(id, i));
            stated.or(made)?.as_array()
        })
        .collect()
}

/// The program that an operation is in and its place there, where the session has HLO.
pub(crate) fn hlo<'a>(
    evidence: &'a Evidence<'_>,
    op: &OpProfile,
) -> Option<(&'a Program, program::OpId)> {
    let (program, id) = op.hlo?;
    Some((&evidence.session.programs.get(program)?.program, id))
}

/// Whether an operation only moves data: by its class, by what is fused in it, or, without HLO,
/// by the names that XLA gives such fusions.
pub(crate) fn is_mover(evidence: &Evidence<'_>, op: &OpProfile) -> bool {
    let Some(instruction) = &op.instruction else {
        return op.class == OpClass::DataFormatting;
    };
    match instruction.opcode.as_str() {
        "copy" | "transpose" | "reshape" | "pad" | "slice" | "concatenate" => true,
        "fusion" => match hlo(evidence, op).and_then(|(program, id)| fused(program, id)) {
            Some(moves) => moves,
            None => names_a_move(evidence, op, instruction),
        },
        _ => false,
    }
}

/// Whether a fusion's body does nothing but move; `None` without a body.
fn fused(program: &Program, id: program::OpId) -> Option<bool> {
    let body = program.body_of(id)?;
    let mut changes_layout = false;
    for op in body.ops() {
        match program.get(op)?.opcode.as_str() {
            "copy" | "transpose" | "pad" | "concatenate" => changes_layout = true,
            "bitcast" | "reshape" | "slice" | "parameter" | "constant" | "get-tuple-element"
            | "tuple" => {}
            _ => return Some(false),
        }
    }
    Some(changes_layout)
}

/// XLA names a fusion after what is in it: `copy_bitcast_fusion`. It writes a concatenation as
/// pads and a maximum.
fn names_a_move(evidence: &Evidence<'_>, op: &OpProfile, fusion: &Instruction) -> bool {
    let words: Vec<&str> = base_name(&fusion.name).split(['_', '-']).collect();
    let moves = words
        .iter()
        .any(|word| matches!(*word, "copy" | "transpose" | "pad" | "concatenate"));
    let framework = evidence
        .session
        .op(op.id)
        .framework_op
        .trim_end_matches(':');
    let concatenates = framework.ends_with("/concatenate");
    moves
        && words.iter().all(|word| match *word {
            "copy" | "transpose" | "pad" | "concatenate" | "bitcast" | "reshape" | "fusion" => true,
            "maximum" => concatenates,
            _ => false,
        })
}

fn role(evidence: &Evidence<'_>, kernels: &Kernels<'_>, mover: &Mover<'_>) -> Role {
    let argument = reads_argument(evidence, mover.op);
    let (Some(from), Some(to)) = (mover.from, mover.to) else {
        return kernel_role(evidence, kernels, mover);
    };
    let is_copy = mover
        .op
        .instruction
        .as_ref()
        .is_some_and(|instruction| instruction.opcode == "copy");
    let in_hbm = |array: &Array| array.memory_space() == MemorySpace::Hbm;
    let from_hbm = in_hbm(from) || passes_vmem(evidence, mover.op);
    if is_copy && same_layout(from, to) && from_hbm && in_hbm(to) {
        return match loop_stack(evidence, mover.op, to) {
            Some(slice_bytes) => Role::LoopStack { slice_bytes },
            None => Role::WholeCopy { argument },
        };
    }
    match kernel_role(evidence, kernels, mover) {
        Role::Plain if argument && !same_layout(from, to) => Role::ArgumentRelayout,
        role => role,
    }
}

/// Whether all that an operation reads was brought from HBM into VMEM for it alone: a copy within
/// HBM by way of VMEM.
fn passes_vmem(evidence: &Evidence<'_>, op: &OpProfile) -> bool {
    let mut producers = evidence.producers_of(op);
    let (Some(made), None) = (producers.next(), producers.next()) else {
        return false;
    };
    made.class == OpClass::AsyncCopy(CopyRoute::HbmToVmem) && evidence.users_of(made).count() == 1
}

fn kernel_role(evidence: &Evidence<'_>, kernels: &Kernels<'_>, mover: &Mover<'_>) -> Role {
    kernels
        .served_by(evidence, mover.op)
        .map_or(Role::Plain, Role::Kernel)
}

fn same_layout(from: &Array, to: &Array) -> bool {
    from.dtype == to.dtype
        && from.dims == to.dims
        && from.major_to_minor() == to.major_to_minor()
        && match (&from.layout, &to.layout) {
            (Some(from), Some(to)) => from.tiles == to.tiles,
            _ => false,
        }
}

/// Whether an operation reads an argument of the program. Without HLO two things tell together:
/// the operand has the name of no operation, and what JAX notes of the copy is the argument's
/// path (`params['embed']`) or nothing.
fn reads_argument(evidence: &Evidence<'_>, op: &OpProfile) -> bool {
    if let Some((program, id)) = hlo(evidence, op) {
        let mut at = id;
        for _ in 0..MAX_WALK {
            let Some(next) = program.operands(at).next() else {
                return false;
            };
            match program.get(next).map(|i| i.opcode.as_str()) {
                Some("parameter") => {
                    return program.computation_of(next) == program.entry;
                }
                Some("bitcast" | "opt-barrier" | "get-tuple-element") => at = next,
                _ => return false,
            }
        }
        return false;
    }
    let Some(operand) = op.instruction.as_ref().and_then(|i| i.operands.first()) else {
        return false;
    };
    let framework = evidence
        .session
        .op(op.id)
        .framework_op
        .trim_end_matches(':');
    let base = base_name(&operand.name);
    let is_an_op = Opcode::new(base).is_known()
        || Opcode::new(&base.replace('_', "-")).is_known()
        || base.ends_with("fusion");
    !framework.contains('/')
        && (!is_an_op || base == "param" || base == "parameter")
        && evidence.find_op(op.module, &operand.name).is_none()
}

/// Whether a copy stands in a loop and copies what a dynamic-update-slice of that loop made; with
/// the bytes of the update where they are known.
fn loop_stack(evidence: &Evidence<'_>, op: &OpProfile, stack: &Array) -> Option<Option<u64>> {
    let looped = in_loop(evidence, op);
    let (program, id) = match hlo(evidence, op) {
        Some(place) => place,
        None => {
            let made = evidence.producers_of(op).next()?;
            let update = made.class == OpClass::DynamicUpdateSlice;
            return (looped && update).then_some(None);
        }
    };
    let mut at = id;
    for _ in 0..MAX_WALK {
        at = program.operands(at).next()?;
        let made = program.get(at)?;
        match made.opcode.as_str() {
            "bitcast" | "get-tuple-element" | "opt-barrier" => {}
            "fusion" | "dynamic-update-slice" => {
                let bytes = update_bytes(program, at, stack)?;
                return looped.then_some(Some(bytes));
            }
            _ => return None,
        }
    }
    None
}

/// Bytes that a dynamic-update-slice, alone or in a fusion, writes into an array of that shape.
fn update_bytes(program: &Program, id: program::OpId, stack: &Array) -> Option<u64> {
    let update = |id: program::OpId| {
        let made = program.get(id)?;
        let fits = made.opcode == "dynamic-update-slice"
            && made.shape.as_array().is_some_and(|a| a.dims == stack.dims);
        let update = program.operand_shape(id, 1).filter(|_| fits)?;
        Some(update.bytes().0)
    };
    update(id).or_else(|| program.body_of(id)?.ops().find_map(update))
}

/// Whether an operation runs in the body of a loop.
pub(crate) fn in_loop(evidence: &Evidence<'_>, op: &OpProfile) -> bool {
    if evidence
        .session
        .op(op.id)
        .framework_op
        .contains("while/body")
    {
        return true;
    }
    let computation = hlo(evidence, op).and_then(|(program, id)| {
        let computation = program.computation_of(id)?;
        program.computation(computation)
    });
    computation.is_some_and(|computation| {
        computation
            .callers
            .iter()
            .any(|(_, role)| *role == CallRole::Body)
    })
}
