//! Steps get slower as the run goes on.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::progress::series::Trainer;
use profiler::logs::progress::statistics::Times;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{gravest, time};

/// See the card.
#[derive(Debug)]
pub struct StepDrift;

/// How much more the last quarter takes than the first.
const SOME: f64 = 0.05;
const MUCH: f64 = 0.2;

impl Rule for StepDrift {
    fn code(&self) -> &'static str {
        "TL503"
    }

    fn name(&self) -> &'static str {
        "step-drift"
    }

    fn card(&self) -> &'static str {
        include_str!("step_drift.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        // The rate of a progress bar is a running mean.
        let series = (logs.progress.series.iter()).filter(|series| series.trainer != Trainer::Bar);
        let runs = series.flat_map(|series| series.runs());
        let remarks = runs.filter_map(|run| of(logs, &Times::of(run)?));
        gravest(remarks.collect())
    }
}

fn of(logs: &Logs, times: &Times) -> Option<Remark> {
    let (first, last) = times.drift()?;
    let growth = last / first - 1.0;
    if growth < SOME {
        return None;
    }
    let severity = if growth >= MUCH {
        Severity::Medium
    } else {
        Severity::Low
    };
    let lost: f64 = times
        .steady
        .iter()
        .map(|(_, value)| (value - first).max(0.0))
        .sum();
    let ends = if times.in_seconds {
        format!("from {} to {}", time(first), time(last))
    } else {
        format!("from {:.1} to {:.1} a second", 1.0 / first, 1.0 / last)
    };
    let title = format!(
        "steps get slower over the run: {ends} ({:+.1} %), first to last quarter",
        100.0 * growth
    );
    let mut remark = Remark::new(AdviceKind::HostDispatch, severity, title);
    remark.lost_s = times.in_seconds.then_some(lost);
    remark.places = (times.steady.iter().take(1).chain(times.steady.last()))
        .map(|(point, value)| {
            place(
                logs,
                point.at,
                "",
                if times.in_seconds {
                    time(*value)
                } else {
                    format!("{:.1} a second", 1.0 / value)
                },
            )
        })
        .collect();
    remark.evidence = vec![Exhibit::number(
        "growth",
        100.0 * growth,
        "%",
        "medians of the first and the last quarter; the quarters between rise too",
    )];
    remark.advice = [
        "look for what grows: lists of losses or outputs that are kept, caches by shape, sequence lengths of a curriculum, a growing KV cache",
        "compare the compile counts early and late: functions made anew keep every program they had",
        "watch the host's memory and the data loader's workers over the same time",
    ]
    .map(str::to_owned)
    .to_vec();
    Some(remark)
}
