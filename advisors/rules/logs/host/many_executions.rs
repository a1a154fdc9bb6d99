//! A step is cut into many executions.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::xla_metrics::report::Report;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{counted, of_last_reports, per, time};

/// See the card.
#[derive(Debug)]
pub struct ManyExecutions;

/// Executions a step from which a step is cut up, and from which it is in pieces.
const SOME: f64 = 1.8;
const MANY: f64 = 4.0;
/// Fewer steps than this are the start.
const MIN_STEPS: u64 = 5;

impl Rule for ManyExecutions {
    fn code(&self) -> &'static str {
        "TL223"
    }

    fn name(&self) -> &'static str {
        "xla-many-executions"
    }

    fn card(&self) -> &'static str {
        include_str!("many_executions.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        of_last_reports(context, of)
    }
}

fn of(logs: &Logs, report: &Report) -> Option<Remark> {
    let execute = report.execute()?;
    let steps = report.steps().filter(|steps| *steps >= MIN_STEPS)?;
    let each = execute.samples as f64 / steps as f64;
    if each < SOME {
        return None;
    }
    let severity = if each >= MANY {
        Severity::High
    } else {
        Severity::Medium
    };
    let title = format!(
        "{} in {}: {} executions a step instead of one",
        counted(execute.samples, "execution"),
        counted(steps, "step"),
        per(each),
    );
    let mut remark = Remark::new(AdviceKind::HostDispatch, severity, title);
    remark.places = vec![place(
        logs,
        execute.at,
        "Metric: ExecuteTime",
        format!("TotalSamples: {}", execute.samples),
    )];
    if let Some(middle) = execute.percentile(50.0) {
        remark.evidence.push(Exhibit::text(
            "median execution",
            time(middle),
            "ExecuteTime's percentiles",
        ));
    }
    remark.evidence.push(Exhibit::number(
        "MarkStep",
        steps as f64,
        "steps",
        "a counter of the report",
    ));
    remark.advice = [
        "find what cuts the graph with PT_XLA_DEBUG=1: reads of values, operations that run on the CPU, mark_step inside the step",
        "call torch_xla.sync() once, right after the optimizer's step and before callbacks and logging",
    ]
    .map(str::to_owned)
    .to_vec();
    remark.caveats =
        vec!["evaluation and gradient accumulation have executions of their own".to_owned()];
    Some(remark)
}
