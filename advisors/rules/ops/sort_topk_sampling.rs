//! Sorts and top-k: what samplers and routers spend their time on.

use knowledge::advice::AdviceKind;
use profiler::evidence::{OpClass, OpProfile};
use profiler::units::{self, Picos, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::share_of_step;
use crate::rules::layout::group::{Group, groups, origin, times, worthwhile};
use crate::rules::layout::movers::operand_arrays;
use crate::rules::ops::scatter_gather_slow::is_scatters_sort;

/// See the card.
#[derive(Debug)]
pub struct SortTopk;

/// Speed-ups that were published for top-k without a sort: a router's on v6e and TPU7x, 4.6 to 25.
const LEAST_SPEEDUP: f64 = 4.6;
const BEST_SPEEDUP: f64 = 25.0;

impl Rule for SortTopk {
    fn code(&self) -> &'static str {
        "TT702"
    }

    fn name(&self) -> &'static str {
        "sort-topk-sampling"
    }

    fn card(&self) -> &'static str {
        include_str!("sort_topk_sampling.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let sorts = context
            .ops_above(0.0, |op| is_sort(op) && !is_scatters_sort(context, op))
            .map(|op| (origin(context, op), op));
        let groups = groups(sorts, |op| op.step_self_ms());
        worthwhile(context, groups)
            .map(|group| draft(context, &group))
            .collect()
    }
}

fn is_sort(op: &OpProfile) -> bool {
    op.class == OpClass::Sort || is_topk(op)
}

/// Whether the values decide and not their order: top-k, and what samplers do.
fn selects(context: &Context<'_>, op: &OpProfile) -> bool {
    let of = context.op(op);
    let place = format!("{} {}", of.framework_op, of.source).to_ascii_lowercase();
    is_topk(op)
        || ["top_k", "topk", "top_p", "topp"]
            .iter()
            .any(|word| place.contains(word))
        || words(&place).any(|word| {
            matches!(
                word,
                "sample" | "samples" | "sampler" | "sampling" | "nucleus"
            )
        })
}

/// The words of a path: `sample` is none of `upsample`'s.
fn words(place: &str) -> impl Iterator<Item = &str> {
    place.split(|c: char| !c.is_ascii_alphabetic())
}

/// Whether it is a top-k: by the custom call, or by what the framework calls it.
fn is_topk_by_name(context: &Context<'_>, op: &OpProfile) -> bool {
    let of = context.op(op);
    let place = format!("{} {}", of.framework_op, of.source).to_ascii_lowercase();
    is_topk(op) || ["top_k", "topk"].iter().any(|word| place.contains(word))
}

/// XLA's own custom call for `lax.top_k`, which sorts.
fn is_topk(op: &OpProfile) -> bool {
    op.instruction
        .as_ref()
        .is_some_and(|i| i.attributes.custom_call_target == "TopK")
}

fn draft(context: &Context<'_>, group: &Group<String, &OpProfile>) -> Draft {
    let topk = group.members.iter().any(|op| is_topk(op));
    let what = if topk { "top-k" } else { "a sort" };
    let mut evidence = vec![share_of_step(context, "time sorting", group.sum)];
    for op in group.members.iter().take(3) {
        let operand = operand_arrays(context.evidence, op).first().map_or_else(
            || "unknown operands".to_owned(),
            |array| format!("sorts {array}"),
        );
        evidence.push(Exhibit::text(
            context.op(op).name.clone(),
            format!(
                "{}, {} each, {operand}",
                times(op.step_occurrences),
                Picos(op.mean_ps() as u64)
            ),
            context.op(op).framework_op.trim_end_matches(':').to_owned(),
        ));
    }
    let saved = |speedup: f64| group.sum * (1.0 - 1.0 / speedup);
    let selects = group.members.iter().all(|op| selects(context, op));
    // What was published is of top-k: another sort may need more of the order than the first few.
    let all_topk = group.members.iter().all(|op| is_topk_by_name(context, op));
    let claim = (selects && all_topk).then(|| Claim {
        expected_ms: saved(LEAST_SPEEDUP),
        low_ms: 0.0,
        high_ms: saved(BEST_SPEEDUP),
        upper_bound_ms: group.sum,
        basis: Basis::LookedUp,
        formula: format!(
            "{:.3} ms x (1 - 1/{LEAST_SPEEDUP}); top-k without a sort was {LEAST_SPEEDUP} to {BEST_SPEEDUP} times as fast on TPU7x and v6e",
            group.sum
        ),
        buckets: group.members.iter().map(|op| Bucket::Op(op.id)).collect(),
    });
    let mut caveats = vec![
        "where the order of all elements is needed (argsort to group tokens by expert) only a cheaper key helps: fewer bits, or a histogram and prefix sums".to_owned(),
    ];
    if !selects {
        caveats
            .push("no saving is estimated: nothing shows that the order is not needed".to_owned());
    } else if !all_topk {
        caveats.push(
            "no saving is estimated: speed-ups are published for top-k, not for other selections"
                .to_owned(),
        );
    }
    Draft {
        title: format!(
            "{what} at {}: {} of each {} step ({})",
            group.key,
            units::ms(group.sum),
            context.evidence.step_time(),
            percent(context.share(group.sum)),
        ),
        kind: AdviceKind::OpSubstitution,
        ops: group.members.iter().map(|op| op.id).collect(),
        evidence,
        claim,
        advice: vec![
            "sampling (top-k, top-p): find the threshold by bisection over the logits and mask, no order is needed".to_owned(),
            "routing (small k): k rounds of argmax and mask, or a Pallas top-k; lax.approx_max_k where recall below 1 is allowed".to_owned(),
            "keep k a constant of the program: a k that varies recompiles".to_owned(),
        ],
        caveats,
    }
}
