//! Kernels, and which of them an operation works for.

use profiler::evidence::{Evidence, OpClass, OpProfile};
use profiler::program::{self, Program};
use profiler::session::OpId;

use crate::rule::Context;
use crate::rules::layout::group::base_name;
use crate::rules::layout::movers::{hlo, is_mover};

/// Operations that a search may look at.
const MAX_SEEN: usize = 64;
/// Movers that may lie between an operation and the kernel that it serves.
const MAX_HOPS: usize = 3;

/// The kernels that ran, and when each operation ran first.
#[derive(Debug)]
pub(crate) struct Kernels<'a> {
    ops: Vec<&'a OpProfile>,
    /// By kernel, the framework's path of the function that wraps it.
    scopes: Vec<Option<&'a str>>,
    /// By operation, on the first core.
    starts: Vec<u64>,
}

impl<'a> Kernels<'a> {
    /// Of all programs that ran.
    pub(crate) fn of(evidence: &'a Evidence<'_>) -> Self {
        let ops: Vec<&OpProfile> = evidence.ops.iter().filter(|op| is_kernel(op)).collect();
        let mut starts = Vec::new();
        if !ops.is_empty()
            && let Some((_, device)) = evidence.session.analysed_cores().next()
        {
            starts = vec![u64::MAX; evidence.session.ops.len()];
            for (start, _, id) in device.ops.iter() {
                if let Some(first) = starts.get_mut(id as usize) {
                    *first = start.min(*first);
                }
            }
        }
        let scopes = ops.iter().map(|kernel| scope(evidence, kernel)).collect();
        Self {
            ops,
            scopes,
            starts,
        }
    }

    /// The kernel that an operation works for: one whose wrapping function it stands in, or one
    /// that reads what it makes or makes what it reads, with nothing but movers between.
    pub(crate) fn served_by(&self, evidence: &Evidence<'_>, op: &OpProfile) -> Option<OpId> {
        if self.ops.is_empty() {
            return None;
        }
        self.in_scope(evidence, op)
            .or_else(|| near_kernel(evidence, self, op, true))
            .or_else(|| near_kernel(evidence, self, op, false))
    }

    /// The kernel whose wrapping function an operation stands in: `jit(attention)/transpose`
    /// beside `jit(attention)/kernel/pallas_call`.
    fn in_scope(&self, evidence: &Evidence<'_>, op: &OpProfile) -> Option<OpId> {
        let framework = evidence.session.op(op.id).framework_op.as_str();
        let inside = |scope: &str| {
            framework
                .strip_prefix(scope)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        let (kernel, _) = self
            .ops
            .iter()
            .zip(&self.scopes)
            .find(|(kernel, scope)| kernel.module == op.module && scope.is_some_and(inside))?;
        Some(kernel.id)
    }

    fn first_start(&self, op: OpId) -> u64 {
        self.starts.get(op as usize).copied().unwrap_or(u64::MAX)
    }
}

/// The framework's path of the function that wraps a kernel; none where that is the whole program,
/// a loop's body or another wrapper of everything.
fn scope<'a>(evidence: &'a Evidence<'_>, kernel: &OpProfile) -> Option<&'a str> {
    const EVERYTHING: [&str; 4] = ["body", "eval_jaxpr", "shard_map", "checkpoint"];
    let path = &evidence.session.op(kernel.id).framework_op;
    // The last two parts are the kernel's name and `pallas_call`.
    let (scope, _) = path.rsplit_once('/')?.0.rsplit_once('/')?;
    let (_, last) = scope.rsplit_once('/')?;
    (!EVERYTHING.contains(&last)).then_some(scope)
}

/// Whether an operation is a kernel that somebody wrote: a custom call that is not the
/// compiler's own.
pub(crate) fn is_kernel(op: &OpProfile) -> bool {
    op.class == OpClass::CustomCall
        && op.instruction.as_ref().is_some_and(|instruction| {
            let target = instruction.attributes.custom_call_target.as_str();
            target.is_empty() || target == "tpu_custom_call"
        })
}

/// Whether a kernel computes attention. Kernels of attention want heads before positions (or
/// pages), which projections do not make: the transposes between them are inherent.
pub(crate) fn is_attention(context: &Context<'_>, kernel: &OpProfile) -> bool {
    let of = context.op(kernel);
    let name = format!("{} {}", of.name, of.framework_op).to_ascii_lowercase();
    [
        "attention",
        "attn",
        "splash",
        "flash",
        "mha",
        "mqa",
        "rpa-",
        "rpa_",
        "paged",
    ]
    .iter()
    .any(|word| name.contains(word))
}

/// The nearest kernel that reads what an operation makes (`forward`) or makes what it reads, with
/// nothing but movers between.
fn near_kernel(
    evidence: &Evidence<'_>,
    kernels: &Kernels<'_>,
    op: &OpProfile,
    forward: bool,
) -> Option<OpId> {
    match hlo(evidence, op) {
        Some((program, id)) => near_in_program(evidence, program, op, id, forward),
        None => near_in_trace(evidence, kernels, op, forward),
    }
}

fn near_in_program(
    evidence: &Evidence<'_>,
    program: &Program,
    op: &OpProfile,
    id: program::OpId,
    forward: bool,
) -> Option<OpId> {
    let mut seen = vec![id];
    let mut ring = vec![(id, 0usize)];
    while let Some((at, hops)) = ring.pop() {
        let next: Vec<program::OpId> = if forward {
            program.users(at)
        } else {
            program.operands(at).collect()
        };
        for near in next {
            let Some(instruction) = program.get(near) else {
                continue;
            };
            if seen.contains(&near) || seen.len() >= MAX_SEEN {
                continue;
            }
            seen.push(near);
            let ran = evidence.find_op(op.module, &instruction.name);
            if let Some(kernel) = ran.filter(|ran| is_kernel(ran)) {
                return Some(kernel.id);
            }
            match instruction.opcode.as_str() {
                "bitcast" | "get-tuple-element" | "copy-start" | "copy-done" => {
                    ring.insert(0, (near, hops));
                }
                _ if hops < MAX_HOPS && ran.is_some_and(|ran| is_mover(evidence, ran)) => {
                    ring.insert(0, (near, hops + 1));
                }
                _ => {}
            }
        }
    }
    None
}

fn near_in_trace(
    evidence: &Evidence<'_>,
    kernels: &Kernels<'_>,
    op: &OpProfile,
    forward: bool,
) -> Option<OpId> {
    let mut seen = vec![op.id];
    let mut ring = vec![op];
    for _ in 0..=MAX_HOPS {
        let mut next = Vec::new();
        for at in ring {
            let near: Vec<&OpProfile> = if forward {
                evidence.users_of(at).collect()
            } else {
                evidence.producers_of(at).collect()
            };
            if let Some(kernel) = near.iter().find(|near| is_kernel(near)) {
                return Some(kernel.id);
            }
            // A trace shows no bitcasts: what nobody reads by name may be read through one.
            if forward
                && near.is_empty()
                && let Some(kernel) = through_bitcast(evidence, kernels, at)
            {
                return Some(kernel);
            }
            for near in near {
                if seen.len() < MAX_SEEN && !seen.contains(&near.id) && is_mover(evidence, near) {
                    seen.push(near.id);
                    next.push(near);
                }
            }
        }
        ring = next;
    }
    None
}

/// A kernel with an operand that nothing in the trace makes and that is as large as this result,
/// of the same type and in the same memory.
fn through_bitcast(evidence: &Evidence<'_>, kernels: &Kernels<'_>, op: &OpProfile) -> Option<OpId> {
    let made = op.result()?;
    let fits = |kernel: &OpProfile| {
        let operands = kernel.instruction.iter().flat_map(|i| &i.operands);
        operands
            .filter(|operand| base_name(&operand.name) == "bitcast")
            .filter(|operand| evidence.find_op(kernel.module, &operand.name).is_none())
            .filter_map(|operand| operand.shape.as_ref()?.as_array())
            .any(|array| {
                array.dtype == made.dtype
                    && array.elements() == made.elements()
                    && array.padded_bytes() == made.padded_bytes()
                    && array.memory_space() == made.memory_space()
            })
    };
    let made_at = kernels.first_start(op.id);
    kernels
        .ops
        .iter()
        .filter(|kernel| kernel.module == op.module && fits(kernel))
        .min_by_key(|kernel| {
            let start = kernels.first_start(kernel.id);
            // The next one; those that ran before read something else.
            (start < made_at, start, kernel.id)
        })
        .map(|kernel| kernel.id)
}
