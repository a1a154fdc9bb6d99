//! Steps wait for input, as the trainer itself says.

use knowledge::advice::AdviceKind;
use profiler::logs::progress::series::Point;
use profiler::logs::progress::statistics::median;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::time;

/// See the card.
#[derive(Debug)]
pub struct InputWait;

/// Parts of a step that wait.
const SOME: f64 = 0.05;
const MUCH: f64 = 0.3;
const MIN_LINES: usize = 5;

impl Rule for InputWait {
    fn code(&self) -> &'static str {
        "TL508"
    }

    fn name(&self) -> &'static str {
        "input-wait"
    }

    fn card(&self) -> &'static str {
        include_str!("input_wait.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let told = |point: &&Point| point.input_seconds.is_some() && point.seconds.is_some();
        let points: Vec<&Point> = logs
            .progress
            .series
            .iter()
            .flat_map(|series| &series.points)
            .filter(told)
            .collect();
        let waits: Vec<f64> = points
            .iter()
            .filter_map(|point| point.input_seconds)
            .collect();
        let steps: Vec<f64> = points.iter().filter_map(|point| point.seconds).collect();
        let (wait, step) = (median(&waits), median(&steps));
        let share = wait / step.max(f64::MIN_POSITIVE);
        let Some(first) = points
            .first()
            .filter(|_| points.len() >= MIN_LINES && share >= SOME)
        else {
            return Vec::new();
        };
        let severity = if share >= MUCH {
            Severity::High
        } else {
            Severity::Medium
        };
        let title = format!(
            "steps wait {} of {} for input ({:.0} %)",
            time(wait),
            time(step),
            100.0 * share
        );
        let mut remark = Remark::new(AdviceKind::InputPipeline, severity, title);
        remark.lost_s = Some(waits.iter().sum());
        remark.places = vec![place(logs, first.at, "", "the first line")];
        remark.evidence = vec![Exhibit::number(
            "step lines",
            points.len() as f64,
            "",
            "medians over these lines",
        )];
        remark.advice = [
            "more workers in the loader (grain_worker_count, num_workers), and prefetching to the device",
            "move decoding, tokenizing and packing out of the run, and keep the data near the hosts",
        ]
        .map(str::to_owned)
        .to_vec();
        vec![remark]
    }
}
