//! Random numbers that cost a good part of the step.

use knowledge::advice::AdviceKind;
use profiler::evidence::{OpClass, OpProfile};
use profiler::units::{self, Picos, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::share_of_step;
use crate::rules::layout::group::{Group, groups, origin, times, worthwhile};
use crate::rules::memory::hbm::HbmRate;

/// See the card.
#[derive(Debug)]
pub struct RandomNumbers;

/// Executions a step from which a generator looks like one call for each example.
const MANY: f64 = 64.0;
/// And shorter than this.
const SHORT_PS: f64 = 20e6;

impl Rule for RandomNumbers {
    fn code(&self) -> &'static str {
        "TT706"
    }

    fn name(&self) -> &'static str {
        "random-number-cost"
    }

    fn card(&self) -> &'static str {
        include_str!("random_number_cost.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let Some(rate) = HbmRate::of(context) else {
            return Vec::new();
        };
        let random = context
            .ops_above(0.0, |op| is_random(context, op))
            .map(|op| (origin(context, op), op));
        let groups = groups(random, |op| op.step_self_ms());
        worthwhile(context, groups)
            .filter_map(|group| draft(context, &group, &rate))
            .collect()
    }
}

/// Generators alone or fused: not matmuls that have dropout fused to them.
fn is_random(context: &Context<'_>, op: &OpProfile) -> bool {
    let framework = context.op(op).framework_op.trim_end_matches(':');
    let generates = [
        "threefry2x32",
        "random_bits",
        "rng_bit_generator",
        "random_gamma",
    ]
    .iter()
    .any(|name| framework.contains(name));
    op.class == OpClass::Random
        || (generates && matches!(op.class, OpClass::Elementwise | OpClass::Other))
}

fn draft(
    context: &Context<'_>,
    group: &Group<String, &OpProfile>,
    rate: &HbmRate,
) -> Option<Draft> {
    // A generator in hardware writes bits as fast as memory takes them.
    let bytes = |op: &OpProfile| {
        let shape = op.instruction.as_ref().map(|i| i.shape.padded_bytes().0);
        shape.unwrap_or(0) as f64 * op.step_occurrences
    };
    let floor = rate.ms(group.members.iter().map(|op| bytes(op)).sum());
    let expected_ms = group.sum - floor;
    if expected_ms <= 0.0 {
        return None;
    }
    let many = group
        .members
        .iter()
        .any(|op| op.step_occurrences >= MANY && op.mean_ps() < SHORT_PS);
    let mut evidence = vec![share_of_step(
        context,
        "time making random numbers",
        group.sum,
    )];
    for op in group.members.iter().take(3) {
        evidence.push(Exhibit::text(
            context.op(op).name.clone(),
            format!(
                "{}, {} each{}",
                times(op.step_occurrences),
                Picos(op.mean_ps() as u64),
                op.result()
                    .map(|a| format!(", makes {a}"))
                    .unwrap_or_default()
            ),
            context.op(op).framework_op.trim_end_matches(':').to_owned(),
        ));
    }
    let mut advice = Vec::new();
    if many {
        advice.push("draw all random numbers of the batch at once: vmap over keys makes one generator call for each example, one after another".to_owned());
    }
    advice.push("use the hardware's generator: jax.config.update(\"jax_default_prng_impl\", \"rbg\") (or keys from jax.random.key(seed, impl=\"rbg\")) instead of threefry".to_owned());
    Some(Draft {
        title: format!(
            "random numbers at {}: {} of each {} step ({})",
            group.key,
            units::ms(group.sum),
            context.evidence.step_time(),
            percent(context.share(group.sum)),
        ),
        kind: AdviceKind::OpSubstitution,
        ops: group.members.iter().map(|op| op.id).collect(),
        evidence,
        claim: Some(Claim {
            expected_ms,
            low_ms: 0.0,
            high_ms: group.sum,
            upper_bound_ms: group.sum,
            basis: Basis::Modelled,
            formula: format!(
                "{:.3} ms less {floor:.3} ms to write the numbers at {}",
                group.sum,
                rate.words()
            ),
            buckets: group.members.iter().map(|op| Bucket::Op(op.id)).collect(),
        }),
        advice,
        caveats: vec![
            "rbg gives other numbers than threefry, and other ones again on another number of devices: runs are not reproducible across them".to_owned(),
            "under vmap over keys rbg was slower, not faster: batch first".to_owned(),
        ],
    })
}
