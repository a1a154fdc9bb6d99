//! Idle time and the host: why no operation ran.
//!
//! Each gap between programs has one cause, so the rules of this area never claim the same gap.
//! Causes too small for a finding of their own are left to `device_idle`.

pub mod compile_during_capture;
pub mod device_idle_between_programs;
pub mod host_read_in_step;
pub mod idle_inside_programs;
pub mod input_or_transfer_stall;
pub mod many_small_programs;

use profiler::evidence::host::BetweenIdle;
use profiler::evidence::idle::LAUNCH_FLOOR;
use profiler::evidence::{GapCause, Spread};
use profiler::units::{self, Picos, percent};

use crate::finding::{Basis, Bucket, Claim, Exhibit};
use crate::rule::Context;

/// Idle time that could go, below this share of the time from step to step, is not worth a line.
const MIN_SHARE: f64 = 0.01;

/// Where gaps this many times the usual one make half of the time, they are events of their own, as
/// checkpoints: they say nothing of the steps.
const OUTLIER: f64 = 10.0;
/// Among fewer gaps none is usual.
const MIN_GAPS: usize = 3;

/// The causes that have a rule of their own.
const OWN_RULE: [&[GapCause]; 4] = [
    &[GapCause::Compile],
    &[GapCause::Input, GapCause::Transfer],
    &[GapCause::HostRead],
    &[GapCause::TinyProgram],
];

/// Whether fewer than a tenth of the gaps, and far fewer than one a step, make most of the time.
fn is_rare(between: &BetweenIdle) -> bool {
    let gaps = &between.gaps;
    let usual = gaps.p90_ps.0.saturating_mul(gaps.count as u64);
    gaps.count <= between.steps.saturating_mul(2) && usual < between.total_ps.0 / 2
}

/// Gaps between programs that share a cause, per step.
struct Gaps<'e> {
    between: &'e BetweenIdle,
    /// Milliseconds a step, mean over cores.
    ms: f64,
    /// What of `ms` a change can be expected to reach: where a single gap or rare ones, as
    /// of checkpoints, make most of the time, as many gaps of the usual length.
    usual_ms: f64,
    /// Whether such gaps were left out of `usual_ms`: the longest is one of them.
    one_off: bool,
    /// Gaps a step.
    count: f64,
    /// Share of the time from step to step.
    share: f64,
    /// The median gap of the most costly cause.
    median: Picos,
    /// The longest gap.
    longest: Picos,
}

impl<'e> Gaps<'e> {
    /// The gaps of some causes, if there are enough of them for a finding.
    fn of(context: &Context<'e>, causes: &[GapCause]) -> Option<Self> {
        let between = context.evidence.host.between.as_ref()?;
        let times = || {
            between
                .causes
                .iter()
                .filter(|time| causes.contains(&time.cause))
        };
        let total: Picos = times().map(|time| time.total_ps).sum();
        let count: usize = times().map(|time| time.gaps.count).sum();
        let share = between.share(total);
        let floor = Picos(LAUNCH_FLOOR.0.saturating_mul(count as u64));
        if between.share(total.saturating_sub(floor)) < MIN_SHARE {
            return None;
        }
        let spread = |of: fn(&Spread) -> Picos| times().map(move |time| of(&time.gaps));
        let median = spread(|gaps| gaps.median_ps).next().unwrap_or_default();
        let longest = spread(|gaps| gaps.max_ps).max().unwrap_or_default();
        // The cause of a single gap has no usual one: that of all gaps stands for it.
        let usual = median.min(between.gaps.median_ps);
        // A compilation is an event by itself, and its rule says so.
        let one_off = causes != [GapCause::Compile]
            && longest.0 as f64 > OUTLIER * usual.0 as f64
            && between.gaps.count >= MIN_GAPS
            && (longest.0 >= total.0 / 2 || is_rare(between));
        // Causes are those of one core, the time is that of all.
        let ms = context.capacity_ms(Bucket::IdleBetween) * total.0 as f64
            / between.total_ps.0.max(1) as f64;
        let usual_share = (usual.0 as f64 * count as f64 / total.0.max(1) as f64).min(1.0);
        Some(Self {
            between,
            ms,
            usual_ms: if one_off { ms * usual_share } else { ms },
            one_off,
            count: count as f64 / between.steps.max(1) as f64,
            share,
            median,
            longest,
        })
    }

    /// The causes that no rule of their own reports: the host's dispatch and small change.
    fn rest(context: &Context<'e>) -> Option<Self> {
        let mut causes = vec![GapCause::Dispatch];
        for own in OWN_RULE {
            if Self::of(context, own).is_none() {
                causes.extend(own);
            }
        }
        Self::of(context, &causes)
    }

    /// What queued programs need between them all the same, in milliseconds a step.
    fn floor_ms(&self, launches: f64) -> f64 {
        (launches * LAUNCH_FLOOR.as_ms()).min(self.usual_ms)
    }

    /// What goes of the usual gaps once the launches that stay are taken off.
    fn expected_ms(&self, left_ms: f64) -> f64 {
        (self.usual_ms - left_ms).max(0.0)
    }

    /// `50.1 ms`, or what is claimed of it where rare gaps stand out: `0.001 ms of 50.1 ms`.
    fn basis_part(&self) -> String {
        if self.one_off {
            format!(
                "{} of usual gaps among {}",
                units::ms(self.usual_ms),
                units::ms(self.ms)
            )
        } else {
            units::ms(self.ms)
        }
    }

    /// A claim of these gaps, less what is left of them.
    fn claim(&self, left_ms: f64, low_ms: f64, basis: Basis, formula: String) -> Claim {
        Claim {
            expected_ms: self.expected_ms(left_ms),
            low_ms,
            high_ms: self.usual_ms,
            upper_bound_ms: self.ms,
            basis,
            formula,
            buckets: vec![Bucket::IdleBetween],
        }
    }

    /// `0.700 ms of each 1.03 ms from step to step`.
    fn title_part(&self, context: &Context<'_>) -> String {
        let mut part = format!(
            "{} of each {} from step to step",
            units::ms(self.ms),
            context.evidence.step_time()
        );
        if self.one_off {
            part.push_str(&format!(
                ", most of it in rare gaps of up to {}",
                self.longest
            ));
        }
        part
    }

    /// How many, how long, and what the host did meanwhile.
    fn exhibits(&self) -> Vec<Exhibit> {
        let mut exhibits = vec![Exhibit::text(
            "these gaps",
            format!(
                "{:.1} a step, median {}, longest {}; {} of the time",
                self.count,
                self.median,
                self.longest,
                percent(self.share)
            ),
            "stretches without a program among whole steps, core in the middle by idle time",
        )];
        if self.one_off {
            exhibits.push(Exhibit::text(
                "rare gaps stand out",
                format!("up to {}, among {} steps", self.longest, self.between.steps),
                "more than half of their time; the saving counts usual gaps only",
            ));
        }
        let doing: Vec<String> = self
            .between
            .activities
            .iter()
            .take(3)
            .map(|activity| {
                let share = activity.in_gaps_ps.0 as f64 / self.between.total_ps.0.max(1) as f64;
                format!(
                    "{} {} ({})",
                    activity.kind.doing(),
                    percent(share),
                    activity.span
                )
            })
            .collect();
        if !doing.is_empty() {
            exhibits.push(Exhibit::text(
                "the host in all gaps",
                doing.join("; "),
                "host spans, union over threads; kinds overlap",
            ));
        }
        if !self.between.python.is_empty() {
            exhibits.push(Exhibit::text(
                "Python in the gaps",
                self.between.python.join(" > "),
                "frames present in at least half of the gaps' time, outermost first",
            ));
        }
        exhibits
    }

    /// What to say where no thread of the host is in the profile, or none does anything known.
    fn unseen(&self) -> Option<String> {
        self.between.activities.is_empty().then(|| {
            "what the host did is not in the profile: capture with host_tracer_level=2 and python_tracer_level=1".to_owned()
        })
    }
}
