//! All-reduces of whose result each device reads only its part.

use knowledge::advice::AdviceKind;
use profiler::evidence::CollectiveKind;
use profiler::evidence::collectives::{Collective, Consumption};
use profiler::units::{self, percent};

use crate::finding::{Basis, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::collectives::{MIN_SHARE, by_axis, count};

/// See the card.
#[derive(Debug)]
pub struct AllReduceToReduceScatter;

/// A shard may be padded by this much.
const PADDED: f64 = 1.2;

impl Rule for AllReduceToReduceScatter {
    fn code(&self) -> &'static str {
        "TT403"
    }

    fn name(&self) -> &'static str {
        "all-reduce-to-reduce-scatter"
    }

    fn card(&self) -> &'static str {
        include_str!("all_reduce_to_reduce_scatter.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let list = context.evidence.collectives.list.iter();
        let sliced = list.filter(|collective| {
            collective.kind == CollectiveKind::AllReduce && reads_a_shard(collective).is_some()
        });
        by_axis(sliced)
            .iter()
            .filter(|group| context.share(group.exposed_ms()) >= MIN_SHARE)
            .map(|group| draft(context, group))
            .collect()
    }
}

/// What is read of the result, if it is no more than one device's part.
pub(super) fn reads_a_shard(collective: &Collective) -> Option<&Consumption> {
    let size = collective.groups.size.filter(|size| *size > 1)? as f64;
    collective
        .consumption
        .as_ref()
        .filter(|read| read.share <= PADDED / size)
}

fn draft(context: &Context<'_>, group: &super::Group<'_>) -> Draft {
    let exposed_ms = group.exposed_ms();
    let transfer_ms = group.transfer_ms();
    let half_ms = 0.5 * transfer_ms;
    let reads: Vec<&Consumption> = group
        .members
        .iter()
        .filter_map(|member| reads_a_shard(member))
        .collect();
    let share = reads.iter().map(|read| read.share).fold(0.0, f64::max);
    let slices: Vec<&str> = reads
        .iter()
        .flat_map(|read| &read.slices)
        .map(String::as_str)
        .take(4)
        .collect();
    let mut exhibits = group.time_exhibits(context);
    exhibits.push(Exhibit::text(
        "read of each result",
        format!("at most {}, by {}", percent(share), slices.join(", ")),
        "elements of the slices over elements of the result",
    ));
    exhibits.extend(group.traffic_exhibits(context));
    exhibits.extend(group.source_exhibits());
    // Latency stays; where the wire's rate is not known, half of the transfer is taken for it.
    let least_ms = group
        .wire_floor_ms(context)
        .map_or(0.5 * half_ms, |floor| (0.5 * floor).min(half_ms));
    let mut caveats = vec![
        "XLA itself fuses an all-reduce and the slice of its own part where it recognises the pattern (category all-reduce-scatter fusion); where it does not, the slice's offset is often not the device's index"
            .to_owned(),
    ];
    if reads.iter().any(|read| !read.complete) {
        caveats.push(
            "without HLO only readers that are operations of their own are seen; check the program for others"
                .to_owned(),
        );
    }
    Draft {
        title: format!(
            "{} all-reduce over {} feed only slices: a reduce-scatter would send half of {} a step",
            count(group.executions()),
            group.axis,
            units::ms(exposed_ms),
        ),
        kind: AdviceKind::ReduceScatter,
        ops: group.ops(context),
        evidence: exhibits,
        claim: Some(Claim {
            expected_ms: f64::midpoint(least_ms, half_ms),
            low_ms: least_ms,
            high_ms: half_ms,
            upper_bound_ms: exposed_ms,
            basis: Basis::Modelled,
            formula: format!(
                "an all-reduce sends 2(n-1)/n of the payload, a reduce-scatter (n-1)/n: low: half of the least time on the wire, {}; high: half of {} of transfer; expected: the middle, as latency is not halved",
                units::ms(least_ms),
                units::ms(transfer_ms)
            ),
            buckets: group.buckets(context),
        }),
        advice: vec![
            "state the sharding of the result (with_sharding_constraint on the gradient or activation, psum_scatter instead of psum and a slice), so that each device receives only its part"
                .to_owned(),
            "verify in the compiled program that the all-reduce is gone: a reduce-scatter or an all-reduce-scatter fusion stands in its place"
                .to_owned(),
        ],
        caveats,
    }
}
