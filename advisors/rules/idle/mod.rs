//! Idle time and the host: why no operation ran.
//!
//! Each gap between programs has one cause, so the rules of this area never claim the same gap.
//! Causes too small for a finding of their own are left to `device_idle`.

pub mod compile_during_capture;
pub mod device_idle;
pub mod host_reads;
pub mod idle_inside;
pub mod input_stall;
pub mod many_small_programs;

use profiler::evidence::host::BetweenIdle;
use profiler::evidence::idle::LAUNCH_FLOOR;
use profiler::evidence::{GapCause, Spread};
use profiler::units::{self, Picos, percent};

use crate::finding::{Basis, Bucket, Claim, Exhibit};
use crate::rule::Context;

/// Idle time that could go, below this share of the time from step to step, is not worth a line.
const MIN_SHARE: f64 = 0.01;

/// The causes that have a rule of their own.
const OWN_RULE: [&[GapCause]; 4] = [
    &[GapCause::Compile],
    &[GapCause::Input, GapCause::Transfer],
    &[GapCause::HostRead],
    &[GapCause::TinyProgram],
];

/// Gaps between programs that share a cause, per step.
struct Gaps<'e> {
    between: &'e BetweenIdle,
    /// Milliseconds a step, mean over cores.
    ms: f64,
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
        Some(Self {
            between,
            // Causes are those of one core, the time is that of all.
            ms: context.capacity_ms(Bucket::IdleBetween) * total.0 as f64
                / between.total_ps.0 as f64,
            count: count as f64 / between.steps.max(1) as f64,
            share,
            median: spread(|gaps| gaps.median_ps).next().unwrap_or_default(),
            longest: spread(|gaps| gaps.max_ps).max().unwrap_or_default(),
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
        (launches * LAUNCH_FLOOR.as_ms()).min(self.ms)
    }

    /// A claim of these gaps, less what is left of them.
    fn claim(&self, left_ms: f64, low_ms: f64, basis: Basis, formula: String) -> Claim {
        Claim {
            expected_ms: self.ms - left_ms,
            low_ms,
            high_ms: self.ms,
            upper_bound_ms: self.ms,
            basis,
            formula,
            buckets: vec![Bucket::IdleBetween],
        }
    }

    /// `0.700 ms of each 1.03 ms from step to step`.
    fn title_part(&self) -> String {
        format!(
            "{} of each {} from step to step",
            units::ms(self.ms),
            Picos(self.between.window_ps.0 / self.between.steps.max(1) as u64)
        )
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
