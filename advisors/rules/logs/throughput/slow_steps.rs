//! Isolated steps that take many times the median.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::progress::series::Trainer;
use profiler::logs::progress::statistics::{Spike, Times};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{MAX_PLACES, counted, gravest, time};

/// See the card.
#[derive(Debug)]
pub struct SlowSteps;

/// Shares of the time that slow steps lose.
const HIGH: f64 = 0.5;
const MEDIUM: f64 = 0.05;
const LOW: f64 = 0.01;
/// Step numbers that are named.
const NAMED: usize = 8;

impl Rule for SlowSteps {
    fn code(&self) -> &'static str {
        "TL502"
    }

    fn name(&self) -> &'static str {
        "slow-steps"
    }

    fn card(&self) -> &'static str {
        include_str!("slow_steps.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        // The rate of a progress bar is a running mean: one slow step shows in many lines.
        let series = logs
            .progress
            .series
            .iter()
            .filter(|series| series.trainer != Trainer::Bar);
        let remarks = series
            .flat_map(|series| series.runs())
            .filter_map(|run| of(logs, &Times::of(run)?));
        gravest(remarks.collect())
    }
}

fn of(logs: &Logs, times: &Times) -> Option<Remark> {
    let spikes = times.spikes();
    let worst = spikes.iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
    let lost: f64 = spikes.iter().map(|spike| spike.value - times.median).sum();
    let share = lost / times.total().max(f64::MIN_POSITIVE);
    let severity = match share {
        s if s >= HIGH => Severity::High,
        s if s >= MEDIUM => Severity::Medium,
        s if s >= LOW => Severity::Low,
        _ => Severity::Info,
    };
    let numbers: Vec<String> = (spikes.iter().take(NAMED))
        .filter_map(|spike| spike.point.step.map(|step| step.to_string()))
        .collect();
    let more = if spikes.len() > NAMED { ", …" } else { "" };
    let period = period(&spikes);
    let why = match period {
        Some(period) => format!("every {period} steps: a checkpoint or an evaluation"),
        None => "at no fixed distance: recompilation, input, or another job on the host".to_owned(),
    };
    let much = if times.in_seconds {
        format!(
            "{} against a median of {}, {} lost ({:.1} % of the run)",
            time(worst.value),
            time(times.median),
            time(lost),
            100.0 * share
        )
    } else {
        format!(
            "{:.1} times the median time of a token, {:.1} % of the run lost",
            worst.value / times.median,
            100.0 * share
        )
    };
    let title = format!(
        "{} of {} are slow (step {}{more}), up to {much}; {why}",
        spikes.len(),
        counted(times.steady.len() as u64, "step"),
        numbers.join(", "),
    );
    let kind = if period.is_some() {
        AdviceKind::HostDispatch
    } else {
        AdviceKind::Recompilation
    };
    let mut remark = Remark::new(kind, severity, title);
    remark.lost_s = times.in_seconds.then_some(lost);
    remark.places = (spikes.iter().take(MAX_PLACES))
        .map(|spike| {
            let label = format!("{:.1} times the median", spike.value / times.median);
            place(logs, spike.point.at, "", label)
        })
        .collect();
    remark.evidence = vec![Exhibit::number(
        "lost",
        100.0 * share,
        "% of the run",
        "time of the slow steps above the median, by the time of all steps after warm-up",
    )];
    remark.advice = if period.is_some() {
        vec![
            "write checkpoints asynchronously (orbax async, torch.distributed.checkpoint.async_save), and less often".to_owned(),
            "let the evaluation run on fewer batches, or elsewhere".to_owned(),
        ]
    } else {
        vec![
            "see whether these steps compile: JAX_LOG_COMPILES=1, PT_XLA_DEBUG=1 or the compile counters beside the step lines; then pad or bucket what varies and keep one branch of the model per run".to_owned(),
            "else look at the input pipeline at these steps (shuffle buffers, shards that end) and at garbage collection".to_owned(),
        ]
    };
    Some(remark)
}

/// The distance of slow steps, where it is always the same or a multiple of the least.
fn period(spikes: &[Spike]) -> Option<u64> {
    let steps: Vec<u64> = spikes.iter().filter_map(|spike| spike.point.step).collect();
    let distances = steps.windows(2).map(|pair| match pair {
        [a, b] => b.saturating_sub(*a),
        _ => 0,
    });
    let distances: Vec<u64> = distances.filter(|distance| *distance > 0).collect();
    let least = distances.iter().copied().min()?;
    let regular = least >= 5
        && distances.len() >= 2
        && distances.iter().all(|distance| distance % least == 0);
    regular.then_some(least)
}
