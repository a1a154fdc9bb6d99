//! PyTorch/XLA compiles in many steps.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::xla_metrics::report::Report;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{counted, gravest, per, time};

/// See the card.
#[derive(Debug)]
pub struct XlaRecompilation;

/// A report of fewer compilations than this may be of the warm-up alone.
const MIN_COMPILES: u64 = 4;
/// Compilations for each execution from which a run recompiles, and from which it does nothing else.
const SOME: f64 = 0.1;
const MOST: f64 = 0.4;
/// The part of the time that compilations take from which it matters.
const SOME_TIME: f64 = 0.3;
/// One compilation that takes this part of all is another trouble: a late variant.
const ONE_DOMINATES: f64 = 0.95;

impl Rule for XlaRecompilation {
    fn code(&self) -> &'static str {
        "TL120"
    }

    fn name(&self) -> &'static str {
        "xla-recompilation"
    }

    fn card(&self) -> &'static str {
        include_str!("xla_recompilation.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let sequences = logs.xla_metrics.sequences();
        let mut remarks: Vec<Remark> = sequences
            .iter()
            .filter_map(|reports| between(logs, reports).or_else(|| within(logs, reports.last()?)))
            .collect();
        remarks.extend(said(logs));
        gravest(remarks)
            .into_iter()
            .map(|mut remark| {
                remark.evidence.extend(said_exhibit(logs));
                remark
            })
            .collect()
    }
}

/// Compilations between the first and the last report of a run.
fn between(logs: &Logs, reports: &[Report]) -> Option<Remark> {
    let (first, last) = (reports.first()?, reports.last()?);
    if reports.len() < 2 {
        return None;
    }
    let (before, after) = (first.compile()?, last.compile()?);
    let compiles = after
        .samples
        .checked_sub(before.samples)
        .filter(|grown| *grown > 0)?;
    let lost = (after.seconds() - before.seconds()).max(0.0);
    let executions = last.execute().zip(first.execute());
    let executions = executions.map(|(last, first)| {
        (
            last.samples.saturating_sub(first.samples),
            (last.seconds() - first.seconds()).max(0.0),
        )
    });
    let grew = reports.windows(2).filter(|pair| match pair {
        [a, b] => a.compile().map(|c| c.samples) < b.compile().map(|c| c.samples),
        _ => false,
    });
    let grew = grew.count() as u64;
    let intervals = reports.len() as u64 - 1;
    let ratio = executions.map(|(count, _)| compiles as f64 / count.max(1) as f64);
    let share = executions.map(|(_, time)| lost / (lost + time).max(1e-9));
    let often = ratio.is_none_or(|ratio| ratio >= SOME) && (compiles > 1 || grew > 1);
    let severity = if often && share.is_none_or(|share| share >= SOME_TIME) {
        Severity::High
    } else if share.is_some_and(|share| share < 0.02) {
        Severity::Low
    } else {
        Severity::Medium
    };
    let from_to = format!(
        "CompileTime went from {} to {} between the first and the last of {} reports",
        before.samples,
        after.samples,
        reports.len()
    );
    let title = match executions {
        Some((count, _)) => format!(
            "{} after the first report, {} in {}: {from_to}",
            counted(compiles, "compilation"),
            time(lost),
            counted(count, "execution"),
        ),
        None => format!(
            "{} after the first report, {}: {from_to}",
            counted(compiles, "compilation"),
            time(lost)
        ),
    };
    let mut remark = remark(severity, title, lost, last);
    remark.places = vec![
        place(
            logs,
            after.at,
            "Metric: CompileTime",
            format!("{} by now", counted(after.samples, "compilation")),
        ),
        place(
            logs,
            before.at,
            "Metric: CompileTime",
            format!("{} by now", counted(before.samples, "compilation")),
        ),
    ];
    remark.evidence.insert(
        0,
        Exhibit::text(
            "reports with new compilations",
            format!("{grew} of {intervals}"),
            "CompileTime's TotalSamples, compared from report to report",
        ),
    );
    Some(remark)
}

/// Compilations of a single report, against its executions.
fn within(logs: &Logs, report: &Report) -> Option<Remark> {
    let compile = report.compile()?;
    if compile.samples < MIN_COMPILES {
        return None;
    }
    let lost = compile.seconds();
    let execute = report.execute();
    if compile
        .largest()
        .is_some_and(|largest| largest > ONE_DOMINATES * lost)
    {
        return None;
    }
    let count = counted(compile.samples, "compilation");
    let (severity, title) = match execute {
        Some(execute) => {
            let ratio = compile.samples as f64 / execute.samples as f64;
            let share = lost / (lost + execute.seconds()).max(1e-9);
            if ratio < SOME || share < SOME_TIME {
                return None;
            }
            let severity = if ratio >= MOST {
                Severity::High
            } else {
                Severity::Medium
            };
            let title = format!(
                "{count} for {}: {} of compiling against {} of executing",
                counted(execute.samples, "execution"),
                time(lost),
                time(execute.seconds()),
            );
            (severity, title)
        }
        None if compile.samples >= 3 * MIN_COMPILES => (
            Severity::Medium,
            format!(
                "{count} took {}, and the text tells of no execution",
                time(lost)
            ),
        ),
        None => return None,
    };
    let mut remark = remark(severity, title, lost, report);
    remark.places = vec![place(logs, compile.at, "Metric: CompileTime", count)];
    Some(remark)
}

/// What `pt-xla-profiler` says.
fn said(logs: &Logs) -> Option<Remark> {
    let found = logs.xla_metrics.profiler.too_frequent.get("CompileTime")?;
    let ratio = found.counts as f64 / found.steps.max(1) as f64;
    // A count that stands still while steps go on is that of the warm-up.
    let stands = found.growth() == Some(0.0);
    let severity = match ratio {
        _ if stands => Severity::Info,
        r if r >= 0.5 => Severity::High,
        _ => Severity::Medium,
    };
    let title = format!(
        "CompileTime too frequent: {} in {}, {} a step{}",
        counted(found.counts, "compilation"),
        counted(found.steps, "step"),
        per(ratio),
        if stands {
            ", and no more since: the warm-up"
        } else {
            ""
        },
    );
    let mut remark = Remark::new(AdviceKind::Recompilation, severity, title);
    remark.places = vec![place(
        logs,
        found.at,
        &format!(
            "CompileTime too frequent: {} counts during {} steps",
            found.counts, found.steps
        ),
        "the largest count",
    )];
    remark.advice = advice();
    Some(remark)
}

fn said_exhibit(logs: &Logs) -> Option<Exhibit> {
    let found = logs.xla_metrics.profiler.too_frequent.get("CompileTime")?;
    Some(Exhibit::text(
        "pt-xla-profiler",
        format!(
            "{} counts during {} steps, said {} times",
            found.counts, found.steps, found.lines
        ),
        "lines of pt-xla-profiler",
    ))
}

fn remark(severity: Severity, title: String, lost: f64, report: &Report) -> Remark {
    let mut remark = Remark::new(AdviceKind::Recompilation, severity, title);
    remark.lost_s = Some(lost);
    if let Some(compile) = report.compile() {
        remark.evidence.push(Exhibit::text(
            "CompileTime",
            format!("{} samples, {}", compile.samples, compile.total_text),
            "the metrics report",
        ));
        if let Some(middle) = compile.percentile(50.0) {
            remark.evidence.push(Exhibit::number(
                "median compilation",
                middle,
                "s",
                "its percentiles",
            ));
        }
    }
    if let Some(execute) = report.execute() {
        remark.evidence.push(Exhibit::text(
            "ExecuteTime",
            format!("{} samples, {}", execute.samples, execute.total_text),
            "the metrics report",
        ));
    }
    let counters = ["UncachedCompile", "CachedCompile", "MarkStep"];
    for name in counters.iter().filter(|name| report.count(name) > 0) {
        remark.evidence.push(Exhibit::number(
            *name,
            report.count(name) as f64,
            "",
            "a counter of the report",
        ));
    }
    remark.advice = advice();
    remark.caveats = vec![
        "the first steps have to compile: two reports, some steps apart, tell warm-up from recompilation".to_owned(),
    ];
    remark
}

fn advice() -> Vec<String> {
    [
        "pad or bucket the axis that varies (batch, sequence, number of boxes), drop the ragged last batch",
        "find what changes the graph with PT_XLA_DEBUG=1: it prints the Python line of each compilation; look for Python scalars, branches on tensor values and ops with data-dependent sizes there",
        "end each step with torch_xla.sync() (xm.mark_step()), so that graphs do not grow from step to step",
    ]
    .map(str::to_owned)
    .to_vec()
}
