//! Many collectives so small that only their latency counts.

use knowledge::advice::AdviceKind;
use profiler::units::{self, Bytes};

use crate::finding::{Basis, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::collectives::{Group, count, small_repeated};

/// See the card.
#[derive(Debug)]
pub struct SmallRepeatedCollectives;

/// Joining pairs is the least that combining can do: half of the latency goes.
const PAIRED: f64 = 0.5;

impl Rule for SmallRepeatedCollectives {
    fn code(&self) -> &'static str {
        "TT402"
    }

    fn name(&self) -> &'static str {
        "small-repeated-collectives"
    }

    fn card(&self) -> &'static str {
        include_str!("small_repeated_collectives.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        small_repeated(context)
            .iter()
            .map(|group| draft(context, group))
            .collect()
    }
}

fn draft(context: &Context<'_>, group: &Group<'_>) -> Draft {
    let exposed_ms = group.exposed_ms();
    let transfer_ms = group.transfer_ms();
    let executions = group.executions();
    let payload = group
        .members
        .iter()
        .filter_map(|member| member.payload_bytes)
        .fold(0.0, f64::max);
    let floor_ms = group.wire_floor_ms(context);
    let latency_ms = (transfer_ms - floor_ms.unwrap_or(0.0)).max(0.0);
    let each_us = 1e3 * transfer_ms / executions.max(1.0);
    let mut exhibits = group.time_exhibits(context);
    exhibits.push(Exhibit::number(
        "executions",
        executions,
        "per step",
        "mean over cores",
    ));
    exhibits.push(Exhibit::number(
        "time of one",
        each_us,
        "us",
        "transfer time over executions, on the core that waits least",
    ));
    exhibits.push(Exhibit::text(
        "largest payload",
        Bytes(payload as u64).to_string(),
        "shapes of the instructions, without padding",
    ));
    if let Some(floor) = floor_ms {
        exhibits.push(Exhibit::number(
            "least time on the wire",
            floor,
            "ms/step",
            "wire bytes over the ICI peak: the rest is latency",
        ));
    }
    exhibits.extend(group.traffic_exhibits(context));
    exhibits.extend(group.source_exhibits());
    Draft {
        title: format!(
            "{} small {} over {}: {} of each {} step is latency",
            count(executions),
            group.kind.name(),
            group.axis,
            units::ms(latency_ms),
            context.evidence.step_time(),
        ),
        kind: AdviceKind::Resharding,
        ops: group.ops(context),
        evidence: exhibits,
        claim: Some(Claim {
            expected_ms: PAIRED * latency_ms,
            low_ms: 0.0,
            high_ms: latency_ms,
            upper_bound_ms: exposed_ms,
            basis: Basis::Modelled,
            formula: format!(
                "{} executions of {each_us:.1} us, of which {} a step is latency; half of them joined with another saves half",
                count(executions),
                units::ms(latency_ms),
            ),
            buckets: group.buckets(context),
        }),
        advice: vec![
            "avoid them: small arrays (scales, biases, norms, statistics) are cheaper replicated than sharded; shard them like the tensor that they belong to, or not at all"
                .to_owned(),
            "join them: stack the small arrays of a layer, or of all layers, and exchange them once"
                .to_owned(),
            "verify that the number of executions a step falls, not only their time".to_owned(),
        ],
        caveats: vec![
            "sums that each layer's next step needs (the statistics of a norm over a sharded axis) can be neither joined over layers nor avoided without other sharding"
                .to_owned(),
        ],
    }
}
