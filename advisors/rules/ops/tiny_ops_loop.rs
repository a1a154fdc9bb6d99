//! Loops of many short iterations.

use std::collections::{BTreeMap, BTreeSet};

use knowledge::advice::AdviceKind;
use profiler::evidence::{OpClass, OpProfile};
use profiler::session::OpId;
use profiler::units::{self, Picos, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::share_of_step;
use crate::rules::layout::group::{MAX_FINDINGS, origin, times};

/// See the card.
#[derive(Debug)]
pub struct TinyOpsLoop;

/// A loop below this share of the step is not worth a change.
const MIN_SHARE: f64 = 0.02;
/// Iterations from which a loop is long.
const MIN_TRIPS: f64 = 32.0;
/// Operations shorter than this are mostly start-up: nothing streams in so little time.
const SHORT_OP_PS: f64 = 10e6;
/// Longer iterations do real work: layers of a model take hundreds of microseconds.
const SHORT_ITERATION_PS: f64 = 50e6;
/// What batching such a loop gained in the published case: 10 to 50 times.
const LEAST_SPEEDUP: f64 = 10.0;
const BEST_SPEEDUP: f64 = 50.0;

impl Rule for TinyOpsLoop {
    fn code(&self) -> &'static str {
        "TT703"
    }

    fn name(&self) -> &'static str {
        "tiny-ops-loop"
    }

    fn card(&self) -> &'static str {
        include_str!("tiny_ops_loop.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let mut loops: Vec<Loop<'_>> = loops(context)
            .into_iter()
            .filter(|found| {
                context.share(found.ms) >= MIN_SHARE
                    && found.trips() >= MIN_TRIPS
                    && found.mean_op_ps() < SHORT_OP_PS
                    && found.iteration_ps() < SHORT_ITERATION_PS
            })
            .collect();
        loops.sort_by(|a, b| b.ms.total_cmp(&a.ms).then(a.op.id.cmp(&b.op.id)));
        loops
            .iter()
            .take(MAX_FINDINGS)
            .map(|found| draft(context, found))
            .collect()
    }
}

/// Executions and self time in picoseconds of each operation in a loop.
type Inside = BTreeMap<OpId, (u64, u64)>;

/// A loop with what runs directly in it, on one core over the whole capture.
#[derive(Debug)]
struct Loop<'a> {
    op: &'a OpProfile,
    executions: f64,
    /// Executions and self time of each operation inside.
    inside: Inside,
    /// Self time a step of what is inside, in milliseconds.
    ms: f64,
}

impl Loop<'_> {
    fn count(&self) -> f64 {
        self.inside.values().map(|(count, _)| *count as f64).sum()
    }

    fn total_ps(&self) -> f64 {
        self.inside.values().map(|(_, ps)| *ps as f64).sum()
    }

    /// Iterations of one execution: how often what runs most often in it ran.
    fn trips(&self) -> f64 {
        let most = self.inside.values().map(|(count, _)| *count).max();
        most.unwrap_or(0) as f64 / self.executions.max(1.0)
    }

    fn mean_op_ps(&self) -> f64 {
        self.total_ps() / self.count().max(1.0)
    }

    fn iteration_ps(&self) -> f64 {
        self.total_ps() / (self.trips() * self.executions).max(1.0)
    }
}

/// Loops of the first core by what is nested in them in time.
fn loops<'a>(context: &Context<'a>) -> Vec<Loop<'a>> {
    let evidence = context.evidence;
    let is_loop = |id: OpId| {
        evidence.op(id).is_some_and(|op| {
            op.class == OpClass::ControlFlow
                && (context.op(op).category == "while"
                    || op.instruction.as_ref().is_some_and(|i| i.opcode == "while"))
        })
    };
    let whiles: BTreeSet<OpId> = evidence
        .ops
        .iter()
        .map(|op| op.id)
        .filter(|id| is_loop(*id))
        .collect();
    let Some((_, device)) = evidence.session.analysed_cores().next() else {
        return Vec::new();
    };
    if whiles.is_empty() {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..device.ops.id.len()).collect();
    let start = |i: usize| device.ops.start_ps.get(i).copied().unwrap_or(0);
    let length = |i: usize| device.ops.duration_ps.get(i).copied().unwrap_or(0);
    order.sort_by_key(|&i| (start(i), std::cmp::Reverse(length(i))));
    // Loops that are open, innermost last, each with its end.
    let mut open: Vec<(u64, OpId)> = Vec::new();
    let mut found: BTreeMap<OpId, (u64, Inside)> = BTreeMap::new();
    for i in order {
        let Some(&id) = device.ops.id.get(i) else {
            continue;
        };
        while open.last().is_some_and(|(end, _)| start(i) >= *end) {
            open.pop();
        }
        if whiles.contains(&id) {
            found.entry(id).or_default().0 += 1;
            open.push((start(i).saturating_add(length(i)), id));
        } else if let Some((_, parent)) = open.last() {
            let own = device.op_self_ps.get(i).copied().unwrap_or(0);
            let inside = &mut found.entry(*parent).or_default().1;
            let sum = inside.entry(id).or_default();
            sum.0 += 1;
            sum.1 = sum.1.saturating_add(own);
        }
    }
    found
        .into_iter()
        .filter_map(|(id, (executions, inside))| {
            let op = evidence.op(id)?;
            let ms = inside.keys().filter_map(|id| evidence.op(*id));
            let ms = ms.map(OpProfile::step_self_ms).sum();
            Some(Loop {
                op,
                executions: executions as f64,
                inside,
                ms,
            })
        })
        .collect()
}

fn draft(context: &Context<'_>, found: &Loop<'_>) -> Draft {
    let evidence = context.evidence;
    let has = |wanted: &dyn Fn(&OpProfile) -> bool| {
        found
            .inside
            .keys()
            .filter_map(|id| evidence.op(*id))
            .any(wanted)
    };
    let matmuls = has(&|op| op.class == OpClass::Matmul);
    let updates = has(&|op| matches!(op.class, OpClass::DynamicUpdateSlice | OpClass::Scatter));
    // Only for this kind is there a published measurement.
    let batched = updates && !matmuls;
    let saved = |speedup: f64| found.ms * (1.0 - 1.0 / speedup);
    let claim = batched.then(|| Claim {
        expected_ms: saved(LEAST_SPEEDUP),
        low_ms: 0.0,
        high_ms: saved(BEST_SPEEDUP),
        upper_bound_ms: found.ms,
        basis: Basis::LookedUp,
        formula: format!(
            "{:.3} ms x (1 - 1/{LEAST_SPEEDUP}); a mask in place of such a loop was {LEAST_SPEEDUP} to {BEST_SPEEDUP} times as fast on v4",
            found.ms
        ),
        buckets: found.inside.keys().map(|id| Bucket::Op(*id)).collect(),
    });
    let mut ops: Vec<OpId> = found.inside.keys().copied().collect();
    ops.insert(0, found.op.id);
    let advice = if batched {
        vec![
            "a vmapped dynamic_update_slice or scatter becomes a loop over the batch: write it as a where() with a one-hot or iota mask over the whole array".to_owned(),
            "or unroll it where the batch is small".to_owned(),
        ]
    } else {
        vec![
            "take out of the loop what does not depend on the iteration before: one large matmul over all positions instead of one for each".to_owned(),
            "do several iterations at once: lax.scan(..., unroll=8), or a chunked or associative form of the recurrence".to_owned(),
        ]
    };
    let mut caveats = Vec::new();
    if !batched {
        caveats.push(
            "no saving is estimated: it depends on what the iterations need of each other"
                .to_owned(),
        );
    }
    Draft {
        title: format!(
            "a loop of {:.0} iterations of {} each at {}: {} of each {} step ({})",
            found.trips(),
            Picos(found.iteration_ps() as u64),
            origin(context, found.op),
            units::ms(found.ms),
            evidence.step_time(),
            percent(context.share(found.ms)),
        ),
        kind: AdviceKind::OpSubstitution,
        ops,
        evidence: vec![
            share_of_step(context, "time in the loop", found.ms),
            Exhibit::text(
                "operations in an iteration",
                format!(
                    "{}, {} each on average; the loop runs {} a step",
                    found.inside.len(),
                    Picos(found.mean_op_ps() as u64),
                    times(found.op.step_occurrences),
                ),
                "spans nested in the loop's, first core",
            ),
        ],
        claim,
        advice,
        caveats,
    }
}
