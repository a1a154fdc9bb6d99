//! Scatters and gathers far from the memory's rate.

use knowledge::advice::AdviceKind;
use profiler::evidence::{OpClass, OpProfile};
use profiler::program::dtype::DType;
use profiler::program::instruction::FusionKind;
use profiler::units::{self, Bytes, Picos, percent, with_digits};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::share_of_step;
use crate::rules::layout::group::{Group, groups, origin, times, worthwhile};
use crate::rules::layout::movers::operand_arrays;
use crate::rules::memory::hbm::HbmRate;

/// See the card.
#[derive(Debug)]
pub struct ScatterGather;

/// Operations whose bytes take more than this part of their time at HBM's rate are sound.
const SLOW_BELOW: f64 = 0.3;

impl Rule for ScatterGather {
    fn code(&self) -> &'static str {
        "TT701"
    }

    fn name(&self) -> &'static str {
        "scatter-gather-slow"
    }

    fn card(&self) -> &'static str {
        include_str!("scatter_gather_slow.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let Some(rate) = HbmRate::of(context) else {
            return Vec::new();
        };
        let slow = context
            .ops_above(0.0, |op| is_indexing(context, op))
            .filter_map(|op| {
                let bytes = hbm_bytes(op);
                let floor_ms = rate.ms(bytes * op.step_occurrences);
                (floor_ms < SLOW_BELOW * op.step_self_ms())
                    .then_some((origin(context, op), (op, floor_ms)))
            });
        let groups = groups(slow, |(op, _)| op.step_self_ms());
        worthwhile(context, groups)
            .map(|group| draft(context, &group, &rate))
            .collect()
    }
}

/// Scatters, gathers, and the sorts of indices that XLA puts before a scatter.
fn is_indexing(context: &Context<'_>, op: &OpProfile) -> bool {
    // A framework op has helpers (iota, clamps) that carry its name.
    let indexes = op.instruction.as_ref().is_none_or(|instruction| {
        matches!(instruction.opcode.as_str(), "scatter" | "gather")
            || instruction.attributes.fusion_kind == Some(FusionKind::Custom)
            || ["scatter", "gather"]
                .iter()
                .any(|word| instruction.name.contains(word))
    });
    match op.class {
        OpClass::Scatter | OpClass::Gather => indexes,
        OpClass::Sort => is_scatters_sort(context, op),
        _ => false,
    }
}

/// Whether a sort is part of a scatter.
pub(crate) fn is_scatters_sort(context: &Context<'_>, op: &OpProfile) -> bool {
    let framework = context.op(op).framework_op.trim_end_matches(':');
    framework
        .rsplit('/')
        .next()
        .is_some_and(|last| last.starts_with("scatter"))
}

fn draft(context: &Context<'_>, group: &Group<String, (&OpProfile, f64)>, rate: &HbmRate) -> Draft {
    let floor: f64 = group.members.iter().map(|(_, floor)| floor).sum();
    let scatters = group
        .members
        .iter()
        .any(|(op, _)| op.class != OpClass::Gather);
    let what = if scatters { "scatter" } else { "gather" };
    let mut evidence = vec![share_of_step(context, "time indexing", group.sum)];
    for (op, _) in group.members.iter().take(3) {
        evidence.push(exhibit(context, op));
    }
    let wide_index = group.members.iter().any(|(op, _)| {
        operand_arrays(context.evidence, op)
            .iter()
            .any(|array| array.dtype == DType::S64)
    });
    Draft {
        title: format!(
            "slow {what} at {}: {} of each {} step ({})",
            group.key,
            units::ms(group.sum),
            context.evidence.step_time(),
            percent(context.share(group.sum)),
        ),
        kind: AdviceKind::OpSubstitution,
        ops: group.members.iter().map(|(op, _)| op.id).collect(),
        evidence,
        claim: Some(Claim {
            expected_ms: (group.sum - floor) / 2.0,
            low_ms: 0.0,
            high_ms: group.sum - floor,
            upper_bound_ms: group.sum,
            basis: Basis::Modelled,
            formula: format!(
                "half of {:.3} ms less {floor:.3} ms, which its bytes take at {}: substitutes (one-hot products, masks, segment sums) move more than the indexed bytes",
                group.sum,
                rate.words()
            ),
            buckets: group.members.iter().map(|(op, _)| Bucket::Op(op.id)).collect(),
        }),
        advice: advice(scatters, wide_index),
        caveats: vec![
            "single elements and short rows never reach the memory's rate: each takes a whole tile's row".to_owned(),
            "a one-hot product costs (rows x table) multiplications: it pays for small tables only".to_owned(),
        ],
    }
}

fn advice(scatters: bool, wide_index: bool) -> Vec<String> {
    let mut advice = Vec::new();
    if wide_index {
        advice.push(
            "use 32-bit indices and values: 64-bit scatters run one element at a time".to_owned(),
        );
    }
    if scatters {
        advice.push("say what is known of the indices (indices_are_sorted, unique_indices, mode=\"promise_in_bounds\"); else XLA sorts them or goes one by one".to_owned());
        advice.push("replace it: a where() with a mask or a one-hot product for small tables, sort and segment_sum for large ones".to_owned());
    } else {
        advice.push("gather whole rows along the first dimension: reshape or transpose the table once so that a row is contiguous and a multiple of 128 wide".to_owned());
        advice.push("for small tables or batched indices (take_along_axis) use a one-hot product, a slice, or a mask".to_owned());
    }
    advice.push("on chips with SparseCores large gathers and scatters of rows can run there beside the TensorCore".to_owned());
    advice
}

/// Bytes of one execution in HBM; none where all of it stays in VMEM.
fn hbm_bytes(op: &OpProfile) -> f64 {
    op.cost
        .hbm_bytes
        .filter(|bytes| *bytes > 0.0)
        .unwrap_or(0.0)
}

fn exhibit(context: &Context<'_>, op: &OpProfile) -> Exhibit {
    if op.class == OpClass::Sort {
        return Exhibit::text(
            context.op(op).name.clone(),
            format!(
                "{}, {} each: sorts the indices before the scatter",
                times(op.step_occurrences),
                Picos(op.mean_ps() as u64),
            ),
            "indices_are_sorted=True leaves it out, where it is true",
        );
    }
    let bytes = hbm_bytes(op);
    let result = op
        .result()
        .map(|a| format!(", makes {a}"))
        .unwrap_or_default();
    Exhibit::text(
        context.op(op).name.clone(),
        format!(
            "{}, {} each, {} indexed and moved, {}{result}",
            times(op.step_occurrences),
            Picos(op.mean_ps() as u64),
            Bytes(bytes as u64),
            with_digits(bytes * 1e3 / op.mean_ps().max(1.0), "GB/s"),
        ),
        context.op(op).framework_op.trim_end_matches(':').to_owned(),
    )
}
