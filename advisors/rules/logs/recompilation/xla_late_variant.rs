//! One compilation is far longer than the others: a variant of the graph that came late.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::xla_metrics::report::Report;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{counted, of_last_reports, time};

/// See the card.
#[derive(Debug)]
pub struct XlaLateVariant;

/// The long compilation in seconds, and how many times the median it is.
const MIN_SECONDS: f64 = 10.0;
const TIMES_MEDIAN: f64 = 50.0;
/// With more executions than this for each compilation it was paid for.
const PAID_FOR: u64 = 10;

impl Rule for XlaLateVariant {
    fn code(&self) -> &'static str {
        "TL121"
    }

    fn name(&self) -> &'static str {
        "xla-late-graph-variant"
    }

    fn card(&self) -> &'static str {
        include_str!("xla_late_variant.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        of_last_reports(context, of)
    }
}

fn of(logs: &Logs, report: &Report) -> Option<Remark> {
    let (compile, execute) = (report.compile()?, report.execute()?);
    let longest = compile.largest()?;
    let middle = compile.percentile(50.0)?;
    let paid = execute.samples > PAID_FOR.saturating_mul(compile.samples);
    if compile.samples < 2 || longest < MIN_SECONDS || longest < TIMES_MEDIAN * middle || paid {
        return None;
    }
    let share = longest / (longest + execute.seconds());
    let severity = if share >= 0.5 {
        Severity::High
    } else {
        Severity::Medium
    };
    let title = format!(
        "one of {} took {}, the median one {}: a variant of the graph that came late, against {} of executing",
        counted(compile.samples, "compilation"),
        time(longest),
        time(middle),
        time(execute.seconds()),
    );
    let mut remark = Remark::new(AdviceKind::Recompilation, severity, title);
    remark.lost_s = Some(longest);
    remark.places = vec![place(
        logs,
        compile.at,
        "Metric: CompileTime",
        format!("{} in all", compile.total_text),
    )];
    remark.evidence = vec![
        Exhibit::text(
            "CompileTime",
            format!("{} samples, {}", compile.samples, compile.total_text),
            "the metrics report",
        ),
        Exhibit::text(
            "ExecuteTime",
            format!("{} samples, {}", execute.samples, execute.total_text),
            "the metrics report",
        ),
    ];
    remark.advice = [
        "run every variant of the step (each branch, sampler, schedule and shape) once before the measured steps",
        "find the Python line of the late compilation with PT_XLA_DEBUG=1, and the branch or scalar that makes another graph there",
        "keep compiled programs between starts: torch_xla.runtime.initialize_cache(path) before the first computation",
    ]
    .map(str::to_owned)
    .to_vec();
    remark.caveats = vec!["a report of the first step alone shows the same: there the long compilation is the ordinary one".to_owned()];
    Some(remark)
}
