//! Evidence that several rules show in the same way.

use profiler::units::{self, Bytes, percent};

use crate::finding::{Bucket, Exhibit};
use crate::rule::Context;
use crate::rules::layout::group::{Group, groups, origin, times};
use crate::rules::layout::movers::Mover;
use crate::rules::memory::hbm::HbmRate;

/// Patterns that a finding shows at most.
const MAX_PATTERNS: usize = 5;

/// The time of the operations and its share of the step, in one line.
pub(crate) fn share_of_step(context: &Context<'_>, what: &str, ms: f64) -> Exhibit {
    Exhibit::text(
        what,
        format!(
            "{} of each step, {}",
            units::ms(ms),
            percent(context.share(ms))
        ),
        format!(
            "sum of the self times of the operations below, mean over cores; a step takes {} with what idles after it",
            context.evidence.step_time()
        ),
    )
}

/// What is expected when copies are to go.
pub(crate) struct Removal {
    /// Milliseconds a step.
    pub(crate) expected_ms: f64,
    /// How it was reckoned.
    pub(crate) words: String,
}

/// The part of a copy's time that is expected to go: its value may have to pass through HBM once
/// more elsewhere, in another layout or a step later.
const GOES: f64 = 0.5;

impl Removal {
    /// Of these copies: all that they take beyond a stream of their bytes, and half of the rest.
    pub(crate) fn of(context: &Context<'_>, movers: &[Mover<'_>]) -> Self {
        let time: f64 = movers.iter().map(Mover::ms).sum();
        let rate = HbmRate::of(context);
        let floor: f64 = movers
            .iter()
            .map(|mover| {
                let bytes = mover.op.cost.hbm_bytes.unwrap_or(0.0).max(0.0);
                let ms = rate.map_or(0.0, |rate| rate.ms(bytes * mover.op.step_occurrences));
                // What is not known of a copy counts as its stream.
                if ms > 0.0 {
                    ms.min(mover.ms())
                } else {
                    mover.ms()
                }
            })
            .sum();
        let expected_ms = time - GOES * floor;
        Self {
            expected_ms,
            words: format!(
                "{time:.3} ms less half of the {floor:.3} ms that their bytes take at the reachable bandwidth, as the values may have to pass once more elsewhere: {expected_ms:.3} ms"
            ),
        }
    }
}

/// What is moved, from which layout to which, by pattern and place.
pub(crate) fn patterns(context: &Context<'_>, movers: &[Mover<'_>]) -> Vec<Exhibit> {
    let keyed = movers
        .iter()
        .map(|mover| ((mover.pattern(), origin(context, mover.op)), mover));
    let groups = groups(keyed, |mover| mover.ms());
    let hidden = groups.len().saturating_sub(MAX_PATTERNS);
    let mut exhibits: Vec<Exhibit> = groups.iter().take(MAX_PATTERNS).map(pattern).collect();
    if hidden > 0 {
        let ms = groups
            .iter()
            .skip(MAX_PATTERNS)
            .map(|group| group.sum)
            .sum();
        exhibits.push(Exhibit::text(
            "other patterns",
            format!("{hidden} more, {} together", units::ms(ms)),
            "grouped by what is moved and where in the source",
        ));
    }
    exhibits
}

fn pattern(group: &Group<(String, String), &Mover<'_>>) -> Exhibit {
    let (pattern, origin) = &group.key;
    let count: f64 = group
        .members
        .iter()
        .map(|mover| mover.op.step_occurrences)
        .sum();
    let bytes: f64 = group.members.iter().map(|mover| mover.step_bytes()).sum();
    Exhibit::text(
        pattern.clone(),
        format!(
            "{} in {}, {} read and written {}",
            times(count),
            units::ms(group.sum),
            Bytes(bytes as u64),
            if count.round() > 1.0 { "in all" } else { "" },
        )
        .trim_end()
        .to_owned(),
        origin.clone(),
    )
}

/// Where the time of movers would come from.
pub(crate) fn buckets(movers: &[Mover<'_>]) -> Vec<Bucket> {
    movers.iter().map(|mover| Bucket::Op(mover.op.id)).collect()
}
