//! Work that is done twice to save memory of which there is enough.

use knowledge::advice::AdviceKind;
use profiler::evidence::{MemoryUse, OpClass, OpProfile};
use profiler::units::{self, Bytes, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::share_of_step;
use crate::rules::memory::hbm::HbmRate;
use crate::rules::memory::room;

/// See the card.
#[derive(Debug)]
pub struct RematWithFreeHbm;

/// Recomputation below this share of the step is not worth a change.
const MIN_SHARE: f64 = 0.01;
/// With less than this part of the memory free, the recomputation is what makes the step fit.
const MIN_FREE: f64 = 0.08;
/// The part of the free memory that may be spent.
const SPENDABLE: f64 = 0.9;

impl Rule for RematWithFreeHbm {
    fn code(&self) -> &'static str {
        "TT801"
    }

    fn name(&self) -> &'static str {
        "remat-with-free-hbm"
    }

    fn card(&self) -> &'static str {
        include_str!("remat_with_free_hbm.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let ops: Vec<&OpProfile> = context
            .ops_above(0.0, |op| op.step_self_ps > 0.0 && is_remat(context, op))
            .collect();
        let ms = total_ms(&ops);
        let memory = context.evidence.memory();
        let full = memory.is_some_and(|memory| 1.0 - memory.fullness() < MIN_FREE);
        if full || context.share(ms) < MIN_SHARE {
            return Vec::new();
        }
        vec![draft(context, &ops, ms, memory)]
    }
}

fn total_ms(ops: &[&OpProfile]) -> f64 {
    ops.iter().map(|op| op.step_self_ms()).sum()
}

/// Whether an operation repeats what was computed before, by `jax.checkpoint` or by the compiler.
fn is_remat(context: &Context<'_>, op: &OpProfile) -> bool {
    context.op(op).is_recomputed()
}

fn by_compiler(context: &Context<'_>, op: &OpProfile) -> bool {
    context.op(op).name.contains(".remat")
}

fn draft(context: &Context<'_>, ops: &[&OpProfile], ms: f64, memory: Option<MemoryUse>) -> Draft {
    // Products are what pays to keep: dear to compute, small to store.
    let products: Vec<&OpProfile> = ops
        .iter()
        .copied()
        .filter(|op| matches!(op.class, OpClass::Matmul | OpClass::CustomCall))
        .filter(|op| !by_compiler(context, op))
        .collect();
    let products_ms = total_ms(&products);
    let kept: f64 = products.iter().map(|op| result_bytes(op)).sum();
    let fits = memory.map(|memory| {
        let spendable = SPENDABLE * memory.free_bytes() as f64;
        if kept > 0.0 {
            (spendable / kept).min(1.0)
        } else {
            1.0
        }
    });
    // The forward pass may have to write what is kept where it could fuse it away; the backward
    // pass reads it as it now reads what it recomputed.
    let traffic_ms = HbmRate::of(context).map_or(0.0, |rate| rate.ms(kept));
    let gain_ms = (products_ms - traffic_ms).max(0.0);
    let compiler_ms: f64 = ops
        .iter()
        .filter(|op| by_compiler(context, op))
        .map(|op| op.step_self_ms())
        .sum();

    let mut evidence = vec![
        share_of_step(context, "time recomputing", ms),
        Exhibit::text(
            "of that matmuls and kernels of the program's own choice",
            format!(
                "{}, with results of {} a step",
                units::ms(products_ms),
                Bytes(kept as u64)
            ),
            "results in memory, tile padding included, times their executions",
        ),
    ];
    if compiler_ms > 0.0 {
        evidence.push(Exhibit::text(
            "of that by the compiler's own choice",
            units::ms(compiler_ms),
            "instructions with .remat in their name: XLA recomputes when a program would not fit",
        ));
    }
    evidence.extend(memory.as_ref().map(room::exhibit));
    let mut caveats = vec![
        "free memory may be worth more as a larger batch: with the same policy, 8 to 12 a device gained 9.0 % on TPU7x (295 B parameters)".to_owned(),
    ];
    caveats.extend(memory.as_ref().and_then(room::caveat));
    if compiler_ms > 0.0 {
        caveats.push(
            "what XLA recomputes of its own accord is in no saving: it does so where a program would not fit otherwise".to_owned(),
        );
    }
    let own: Vec<&OpProfile> = ops
        .iter()
        .copied()
        .filter(|op| !by_compiler(context, op))
        .collect();
    let own_ms = total_ms(&own);
    let claim = fits.filter(|_| own_ms > 0.0).map(|part| Claim {
        expected_ms: part * gain_ms,
        low_ms: 0.0,
        high_ms: own_ms,
        upper_bound_ms: own_ms,
        basis: Basis::Modelled,
        formula: format!(
            "recomputed matmuls and kernels, {products_ms:.3} ms, less {traffic_ms:.3} ms to write their results, times the part of them that fits into nine tenths of what is free ({part:.2})"
        ),
        buckets: own.iter().map(|op| Bucket::Op(op.id)).collect(),
    });
    let mut advice = Vec::new();
    if fits.is_none() {
        caveats.insert(
            0,
            format!(
                "no saving is claimed: how much memory is free is not known, as the profile has neither memory events nor the compiler's buffers; the results of the matmuls and kernels are {}",
                Bytes(kept as u64)
            ),
        );
        advice.push("find out how much memory is free at the peak: compiled.memory_analysis(), or a capture with memory events; recomputation of a program that would not fit otherwise must stay".to_owned());
    }
    advice.extend([
        "keep the results of matmuls and attention and recompute the rest: jax.checkpoint with policy dots_with_no_batch_dims_saveable or save_only_these_names (MaxText: remat_policy save_qkv_proj, minimal)".to_owned(),
        "compile the candidates without running them: compiled.memory_analysis() tells to the byte whether one fits".to_owned(),
    ]);
    let title = match memory {
        Some(memory) => format!(
            "{} of each {} step ({}) recomputes activations while {} of {} HBM are free",
            units::ms(ms),
            context.evidence.step_time(),
            percent(context.share(ms)),
            Bytes(memory.free_bytes()),
            Bytes(memory.capacity_bytes),
        ),
        None => format!(
            "{} of each {} step ({}) recomputes activations",
            units::ms(ms),
            context.evidence.step_time(),
            percent(context.share(ms)),
        ),
    };
    Draft {
        title,
        kind: AdviceKind::Remat,
        ops: ops.iter().map(|op| op.id).collect(),
        evidence,
        claim,
        advice,
        caveats,
    }
}

/// Bytes of an operation's results in a step, in memory.
fn result_bytes(op: &OpProfile) -> f64 {
    let shape = op
        .instruction
        .as_ref()
        .map(|instruction| &instruction.shape);
    shape.map_or(0.0, |shape| shape.padded_bytes().0 as f64) * op.step_occurrences
}
