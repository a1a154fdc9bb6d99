//! Collectives: exposed ones, small ones, ones that do too much, and devices that others wait for.

pub mod all_reduce_to_reduce_scatter;
pub mod exposed_collective;
pub mod full_resharding;
pub mod small_repeated_collectives;
pub mod straggler_skew;

use std::collections::BTreeMap;

use profiler::evidence::CollectiveKind;
use profiler::evidence::collectives::{Collective, Fabric, Form};
use profiler::session::OpId;
use profiler::units::{self, Bytes};

use crate::finding::{Bucket, Exhibit};
use crate::rule::Context;

/// Below this share of the step a finding is not worth a line.
const MIN_SHARE: f64 = 0.005;

/// Collectives of one kind along one axis of the mesh.
#[derive(Clone, Debug)]
struct Group<'a> {
    kind: CollectiveKind,
    axis: String,
    members: Vec<&'a Collective>,
}

impl Group<'_> {
    fn sum(&self, of: impl Fn(&Collective) -> f64) -> f64 {
        self.members.iter().map(|member| of(member)).sum()
    }

    fn exposed_ms(&self) -> f64 {
        self.sum(|c| c.exposed_ps) / 1e9
    }

    fn transfer_ms(&self) -> f64 {
        self.sum(|c| c.transfer_ps) / 1e9
    }

    fn executions(&self) -> f64 {
        self.sum(|c| c.count)
    }

    /// Ops that time is spent in.
    fn ops(&self, context: &Context<'_>) -> Vec<OpId> {
        let ops = self.members.iter().flat_map(|member| &member.ops).copied();
        ops.filter(|id| {
            context
                .evidence
                .op(*id)
                .is_some_and(|op| op.step_self_ps > 0.0)
        })
        .collect()
    }

    fn buckets(&self, context: &Context<'_>) -> Vec<Bucket> {
        self.ops(context).into_iter().map(Bucket::Op).collect()
    }

    /// Least time on the wire with every link of the device busy, in milliseconds a step; `None`
    /// where bytes or the peak are not known, or the bytes do not go over ICI.
    fn wire_floor_ms(&self, context: &Context<'_>) -> Option<f64> {
        let each = |member: &&Collective| Some(wire_floor_ps(context, member)? * member.count);
        let sum: Option<f64> = self.members.iter().map(each).sum();
        sum.map(|ps| ps / 1e9)
    }

    /// The time, its share of the step, and what of it is waiting for other cores.
    fn time_exhibits(&self, context: &Context<'_>) -> Vec<Exhibit> {
        let exposed = self.exposed_ms();
        vec![
            Exhibit::number(
                format!("exposed {} time", self.kind.name()),
                exposed,
                "ms/step",
                "sum of the self times of the operations below, mean over cores",
            ),
            Exhibit::number(
                "share of the step",
                100.0 * context.share(exposed),
                "%",
                context.step_base(),
            ),
            Exhibit::number(
                "of that, waiting for cores that come later",
                exposed - self.transfer_ms(),
                "ms/step",
                "of each execution the mean over cores less the core that is fastest",
            ),
        ]
    }

    /// Who talks to whom and how fast.
    fn traffic_exhibits(&self, context: &Context<'_>) -> Vec<Exhibit> {
        let mut exhibits = vec![Exhibit::text(
            "participants",
            self.axis.clone(),
            "replica groups of the instructions, or the sizes of operand and result",
        )];
        let (mut bytes, mut ps) = (0.0, 0.0);
        for member in &self.members {
            if let (Some(rate), Some(wire)) = (member.bus_gb_per_s, member.wire_bytes) {
                bytes += wire * member.count;
                ps += wire * member.count * 1e3 / rate;
            }
        }
        if ps > 0.0 {
            exhibits.push(Exhibit::number(
                "bus bandwidth reached",
                bytes * 1e3 / ps,
                "GB/s",
                wire_formula(self.kind),
            ));
        }
        exhibits.extend(self.peak_exhibit(context));
        exhibits
    }

    fn peak_exhibit(&self, context: &Context<'_>) -> Option<Exhibit> {
        let fabric = self.members.first()?.fabric;
        if fabric != Fabric::Ici {
            return Some(Exhibit::text(
                "path",
                fabric.name(),
                "replica groups and the devices of a chip; no peak is published for it",
            ));
        }
        let peak = context.evidence.peaks.ici_gb_per_s.as_ref()?;
        let dimensions = context
            .evidence
            .chip
            .as_ref()
            .and_then(|chip| chip.facts.ici_dimensions.as_ref())
            .map_or(1, |dimensions| dimensions.value);
        Some(Exhibit::number(
            "ICI peak of a device, all links, one direction",
            peak.value,
            "GB/s",
            format!(
                "{}; a ring along one axis of the torus has 1/{dimensions} of it, and half of that where the slice does not wrap around",
                peak.source
            ),
        ))
    }

    /// The lines of code that cause it, the costliest first.
    fn source_exhibits(&self) -> Vec<Exhibit> {
        /// More lines than this are only counted.
        const LISTED: usize = 4;
        struct Sum {
            exposed_ps: f64,
            count: f64,
            payload: Option<f64>,
        }
        let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
        for member in &self.members {
            let sum = sums.entry(member.source.as_str()).or_insert(Sum {
                exposed_ps: 0.0,
                count: 0.0,
                payload: member.payload_bytes,
            });
            sum.exposed_ps += member.exposed_ps;
            sum.count += member.count;
            sum.payload = match (sum.payload, member.payload_bytes) {
                (Some(a), Some(b)) => Some(a.max(b)),
                (a, b) => a.or(b),
            };
        }
        let mut rows: Vec<(&str, Sum)> = sums.into_iter().collect();
        rows.sort_by(|a, b| {
            b.1.exposed_ps
                .total_cmp(&a.1.exposed_ps)
                .then_with(|| a.0.cmp(b.0))
        });
        let exhibit = |(source, sum): (&str, Sum)| {
            let payload = sum.payload.map_or_else(String::new, |bytes| {
                format!(" of at most {}", Bytes(bytes as u64))
            });
            let what = if source.is_empty() {
                "no source line in the profile"
            } else {
                source
            };
            Exhibit::text(
                what,
                format!(
                    "{} a step in {} executions{payload}",
                    units::ms(sum.exposed_ps / 1e9),
                    count(sum.count),
                ),
                "source line of the collective, or of the nearest operation that has one",
            )
        };
        rows.into_iter().take(LISTED).map(exhibit).collect()
    }
}

/// A count that may be a mean.
fn count(value: f64) -> String {
    if (value - value.round()).abs() < 0.05 {
        // An empty sum of floats is minus zero.
        format!("{:.0}", value.abs())
    } else {
        format!("{value:.1}")
    }
}

/// What wire bytes mean for a kind.
fn wire_formula(kind: CollectiveKind) -> &'static str {
    match kind {
        CollectiveKind::AllReduce => {
            "2(n-1)/n of the payload for each device, over the transfer's time"
        }
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => {
            "(n-1)/n of the payload for each device, over the transfer's time"
        }
        CollectiveKind::CollectivePermute | CollectiveKind::CollectiveBroadcast => {
            "the payload of each device, over the transfer's time"
        }
    }
}

/// Least time of one execution on the wire, in picoseconds.
fn wire_floor_ps(context: &Context<'_>, collective: &Collective) -> Option<f64> {
    let peak = context.evidence.peaks.ici_gb_per_s.as_ref()?;
    if collective.fabric != Fabric::Ici || peak.value <= 0.0 {
        return None;
    }
    Some(collective.wire_bytes? * 1e3 / peak.value)
}

/// Collectives by kind and axis, those with the most exposed time first.
fn by_axis<'a>(some: impl Iterator<Item = &'a Collective>) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<(CollectiveKind, String), Vec<&Collective>> = BTreeMap::new();
    for collective in some.filter(|c| c.form != Form::Carried && c.exposed_ps > 0.0) {
        let key = (collective.kind, collective.groups.to_string());
        groups.entry(key).or_default().push(collective);
    }
    let mut groups: Vec<Group<'_>> = groups
        .into_iter()
        .map(|((kind, axis), members)| Group {
            kind,
            axis,
            members,
        })
        .collect();
    groups.sort_by(|a, b| b.exposed_ms().total_cmp(&a.exposed_ms()));
    groups
}

/// Payloads up to this size are dominated by latency: at 100 GB/s they take 2.6 us, about what
/// the hops and the synchronisation of a collective take.
const SMALL_BYTES: f64 = 256.0 * 1024.0;
/// From so many executions a step small collectives are a pattern.
const MANY: f64 = 8.0;
/// A transfer that takes this many times what the wire needs is dominated by latency.
const LATENCY_FACTOR: f64 = 3.0;

/// Groups of small collectives that are repeated and matter.
fn small_repeated<'a>(context: &Context<'a>) -> Vec<Group<'a>> {
    let is_small = |collective: &&Collective| {
        let latency = wire_floor_ps(context, collective)
            .is_none_or(|floor| collective.transfer_each_ps() > LATENCY_FACTOR * floor);
        latency
            && collective
                .payload_bytes
                .is_some_and(|bytes| bytes <= SMALL_BYTES)
    };
    by_axis(context.evidence.collectives.list.iter().filter(is_small))
        .into_iter()
        .filter(|group| {
            group.executions() >= MANY && context.share(group.exposed_ms()) >= MIN_SHARE
        })
        .collect()
}
