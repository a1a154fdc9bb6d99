//! Steps that are few, or differ: which step do the figures speak of?

use profiler::evidence::steps::CoreSteps;
use profiler::evidence::{Spread, StepBasis};
use profiler::units::{Picos, percent};

use crate::finding::{Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::capture::{Remark, is_measured};

/// See the card.
#[derive(Debug)]
pub struct UnsteadySteps;

/// Fewer whole steps make no distribution.
const FEW: usize = 4;
/// 90th percentile over median from which steps are unsteady.
const UNSTEADY: f64 = 1.1;
/// A step this many medians long is a spike.
const SPIKE: f64 = 1.5;
/// Change over the capture that counts as drift.
const DRIFT: f64 = 0.05;

impl Rule for UnsteadySteps {
    fn code(&self) -> &'static str {
        "TT106"
    }

    fn name(&self) -> &'static str {
        "unsteady-steps"
    }

    fn card(&self) -> &'static str {
        include_str!("unsteady_steps.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let steps = &context.evidence.steps;
        let count = steps.count();
        if !is_measured(context) || steps.basis == StepBasis::WholeCapture || count < 2 {
            return Vec::new();
        }
        if count < FEW {
            let remark = Remark::new(format!(
                "only {count} whole steps: their median is a rough figure, and how steady they are is not known"
            ));
            return vec![
                remark
                    .advise("capture five to ten steps after the warm-up")
                    .draft(),
            ];
        }
        let slowest = steps
            .cores
            .iter()
            .max_by_key(|core| Spread::of(core.whole().map(|step| step.duration())).median_ps);
        slowest
            .and_then(|core| unsteady(context, core))
            .into_iter()
            .collect()
    }
}

/// How steps differ.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    /// They get longer or shorter.
    Drift { first: Picos, last: Picos },
    /// A few are much longer than the rest, which agree.
    Spikes { count: usize, longest: Picos },
    /// There are two kinds.
    TwoKinds {
        short: Picos,
        long: Picos,
        long_share: f64,
    },
    /// None of these.
    Scattered,
}

impl Pattern {
    fn of(durations: &[Picos]) -> Option<Self> {
        let all = Spread::of(durations.iter().copied());
        let median = all.median_ps.0.max(1) as f64;
        let drift = Self::drift(durations);
        if drift.is_some() {
            return drift;
        }
        let limit = median * SPIKE;
        let (spikes, rest): (Vec<Picos>, Vec<Picos>) =
            durations.iter().partition(|time| time.0 as f64 >= limit);
        let rest = Spread::of(rest);
        let rest_agrees = (rest.p90_ps.0 as f64) <= UNSTEADY * rest.median_ps.0 as f64;
        if !spikes.is_empty() && spikes.len() * 6 <= durations.len() && rest_agrees {
            return Some(Self::Spikes {
                count: spikes.len(),
                longest: all.max_ps,
            });
        }
        if (all.p90_ps.0 as f64) <= UNSTEADY * median && spikes.is_empty() {
            return None;
        }
        Some(Self::two_kinds(durations, median).unwrap_or(Self::Scattered))
    }

    /// The last third lies wholly above or below the first, but for a quarter of each.
    fn drift(durations: &[Picos]) -> Option<Self> {
        let third = durations.len() / 3;
        if third < 2 {
            return None;
        }
        let sorted = |part: &[Picos]| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part
        };
        let first = sorted(&durations[..third]);
        let last = sorted(&durations[durations.len() - third..]);
        let low = |part: &[Picos]| part[part.len() / 4];
        let high = |part: &[Picos]| part[part.len() - 1 - part.len() / 4];
        let above = |a: Picos, b: Picos| a.0 as f64 > (1.0 + DRIFT / 2.0) * b.0 as f64;
        let apart = above(low(&last), high(&first)) || above(low(&first), high(&last));
        let (from, to) = (Spread::of(first).median_ps, Spread::of(last).median_ps);
        let change = to.0 as f64 / from.0.max(1) as f64 - 1.0;
        (apart && change.abs() > DRIFT).then_some(Self::Drift {
            first: from,
            last: to,
        })
    }

    /// Two groups with more between them than within either.
    fn two_kinds(durations: &[Picos], median: f64) -> Option<Self> {
        let mut sorted = durations.to_vec();
        sorted.sort_unstable();
        let few = (sorted.len() / 7).max(2);
        let split = (few..=sorted.len().saturating_sub(few)).max_by_key(|at| {
            sorted[*at - 1..]
                .get(1)
                .map_or(0, |b| b.0 - sorted[*at - 1].0)
        })?;
        let (short, long) = sorted.split_at(split);
        let extent = |part: &[Picos]| part.last()?.0.checked_sub(part.first()?.0);
        let between = long.first()?.0 - short.last()?.0;
        let clear = between > extent(short)?.max(extent(long)?) && between as f64 > DRIFT * median;
        clear.then(|| Self::TwoKinds {
            short: Spread::of(short.iter().copied()).median_ps,
            long: Spread::of(long.iter().copied()).median_ps,
            long_share: long.len() as f64 / sorted.len() as f64,
        })
    }
}

fn unsteady(context: &Context<'_>, core: &CoreSteps) -> Option<Draft> {
    let durations: Vec<Picos> = core.whole().map(|step| step.duration()).collect();
    let spread = Spread::of(durations.iter().copied());
    let (title, advice) = match Pattern::of(&durations)? {
        Pattern::Drift { first, last } => (
            format!(
                "steps drift from {first} to {last} over the capture: the median is of neither"
            ),
            "let it run until it is steady and capture then; if it never is, see what grows (sequence length, cache, garbage on the host)",
        ),
        Pattern::Spikes { count, longest } => (
            format!(
                "{count} of {} steps take up to {longest} where the median is {}",
                spread.count, spread.median_ps
            ),
            "look at what happens there (checkpoint, logging, evaluation, compilation): the figures here are those of the usual step",
        ),
        Pattern::TwoKinds {
            short,
            long,
            long_share,
        } => (
            format!(
                "there are two kinds of steps: {} take {long}, the others {short}",
                percent(long_share)
            ),
            "tell them apart (gradient accumulation, prefill and decode, two shapes) and compare like with like: figures here mix both",
        ),
        Pattern::Scattered => (
            format!(
                "steps differ: {} to {} around a median of {}",
                spread.min_ps, spread.max_ps, spread.median_ps
            ),
            "compare medians of many steps before and after a change, never single ones",
        ),
    };
    let plane = context
        .evidence
        .session
        .devices
        .get(core.device)
        .map(|device| &device.plane);
    let mut remark = Remark::new(title).advise(advice);
    remark.evidence = vec![Exhibit::text(
        "steps",
        format!(
            "{} whole: {} to {}, 90th percentile {:.2} times the median",
            spread.count,
            spread.min_ps,
            spread.max_ps,
            spread.p90_ps.0 as f64 / spread.median_ps.0.max(1) as f64
        ),
        format!(
            "durations on {}",
            plane.map_or("the slowest core", String::as_str)
        ),
    )];
    Some(remark.draft())
}
