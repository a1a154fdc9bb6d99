//! All-gathers of whose result each device keeps only a part: a change of sharding by way of a
//! whole copy.

use knowledge::advice::AdviceKind;
use profiler::evidence::CollectiveKind;
use profiler::units::{self, percent};

use crate::finding::{Basis, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::collectives::all_reduce_to_reduce_scatter::reads_a_shard;
use crate::rules::collectives::{Group, MIN_SHARE, by_axis, count};

/// See the card.
#[derive(Debug)]
pub struct FullResharding;

impl Rule for FullResharding {
    fn code(&self) -> &'static str {
        "TT405"
    }

    fn name(&self) -> &'static str {
        "full-resharding"
    }

    fn card(&self) -> &'static str {
        include_str!("full_resharding.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let list = context.evidence.collectives.list.iter();
        // Only where every reader is known: a gathered weight has readers enough.
        let resharded = list.filter(|collective| {
            collective.kind == CollectiveKind::AllGather
                && reads_a_shard(collective).is_some_and(|read| read.complete)
        });
        by_axis(resharded)
            .iter()
            .filter(|group| context.share(group.exposed_ms()) >= MIN_SHARE)
            .map(|group| draft(context, group))
            .collect()
    }
}

fn draft(context: &Context<'_>, group: &Group<'_>) -> Draft {
    let exposed_ms = group.exposed_ms();
    let transfer_ms = group.transfer_ms();
    let size = group
        .members
        .first()
        .and_then(|member| member.groups.size)
        .unwrap_or(1)
        .max(1) as f64;
    let saved_ms = transfer_ms * (1.0 - 1.0 / size);
    let share = group
        .members
        .iter()
        .filter_map(|member| reads_a_shard(member))
        .map(|read| read.share)
        .fold(0.0, f64::max);
    let mut exhibits = group.time_exhibits(context);
    exhibits.push(Exhibit::number(
        "kept of each result",
        100.0 * share,
        "%",
        "elements of the slices that read it over elements of the result",
    ));
    exhibits.extend(group.traffic_exhibits(context));
    exhibits.extend(group.source_exhibits());
    Draft {
        title: format!(
            "{} all-gather over {} are sliced again: {} a step to keep {}",
            count(group.executions()),
            group.axis,
            units::ms(exposed_ms),
            percent(share),
        ),
        kind: AdviceKind::Resharding,
        ops: group.ops(context),
        evidence: exhibits,
        claim: Some(Claim {
            expected_ms: saved_ms,
            low_ms: 0.5 * saved_ms,
            high_ms: transfer_ms,
            upper_bound_ms: exposed_ms,
            basis: Basis::Modelled,
            formula: format!(
                "an all-to-all of the parts sends 1/n of what the all-gather does: {} of transfer times (1 - 1/{size:.0}); with one sharding on both sides nothing is sent",
                units::ms(transfer_ms)
            ),
            buckets: group.buckets(context),
        }),
        advice: vec![
            "use one sharding on both sides of this line, or constrain the array in between so that the change is an all-to-all or a permute of parts"
                .to_owned(),
            "look for the partitioner's warning about an involuntary full rematerialization in the compile log: it names the operation"
                .to_owned(),
        ],
        caveats: vec![
            "an all-to-all crosses more hops than a ring, so on long axes it gains less than its bytes say"
                .to_owned(),
        ],
    }
}
