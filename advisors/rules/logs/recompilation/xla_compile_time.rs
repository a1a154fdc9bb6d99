//! Few compilations, but long ones.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::xla_metrics::report::Report;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::recompilation::{
    xla_late_variant::XlaLateVariant, xla_recompilation::XlaRecompilation,
};
use crate::rules::logs::words::{count, counted, of_last_reports, time};

/// See the card.
#[derive(Debug)]
pub struct XlaCompileTime;

/// Compilations that take less in all are not worth a word, in seconds.
const MIN_SECONDS: f64 = 60.0;
/// From here on they are a clear cost.
const LONG_SECONDS: f64 = 120.0;
/// With more executions than this for each compilation the program runs: it compiles once.
const RUNS: u64 = 10;

/// What shortens compilations, and what keeps them.
const SCAN: &str = "scan over equal layers instead of unrolling them: torch_xla.experimental.scan_layers (jax.lax.scan in JAX); for 50 layers compile time went from 178 s to 30 s";
const CACHE: &str = "keep compiled programs between starts: torch_xla.runtime.initialize_cache(path) before the first computation";

impl Rule for XlaCompileTime {
    fn code(&self) -> &'static str {
        "TL122"
    }

    fn name(&self) -> &'static str {
        "xla-long-compile"
    }

    fn card(&self) -> &'static str {
        include_str!("xla_compile_time.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let known = |rule: &dyn Rule| {
            let remarks = rule.check_logs(context);
            remarks
                .iter()
                .any(|remark| remark.severity != Severity::Info)
        };
        if known(&XlaRecompilation) || known(&XlaLateVariant) {
            return Vec::new();
        }
        of_last_reports(context, of)
    }
}

fn of(logs: &Logs, report: &Report) -> Option<Remark> {
    let compile = report.compile()?;
    let total = compile.seconds();
    if total < MIN_SECONDS {
        return None;
    }
    let execute = report.execute();
    let runs = execute.filter(|execute| execute.samples > RUNS.saturating_mul(compile.samples));
    let compiles = counted(compile.samples, "compilation");
    let middle = execute.and_then(|execute| execute.percentile(50.0));
    let mut remark = match (runs, middle) {
        (Some(execute), Some(middle)) => Remark::new(
            AdviceKind::Recompilation,
            Severity::Info,
            format!(
                "{compiles} took {}, then {} ran at {} (median): compiled once, nothing is compiled again",
                time(total),
                counted(execute.samples, "execution"),
                time(middle),
            ),
        ),
        _ => Remark::new(
            AdviceKind::Recompilation,
            if total >= LONG_SECONDS {
                Severity::Medium
            } else {
                Severity::Low
            },
            format!(
                "{compiles} took {}, the longest {}: compiling dominates; equal layers that are unrolled are compiled one by one",
                time(total),
                time(compile.largest().unwrap_or(total)),
            ),
        ),
    };
    remark.lost_s = Some(total);
    remark.places = vec![place(
        logs,
        compile.at,
        "Metric: CompileTime",
        format!("{compiles}, {}", compile.total_text),
    )];
    remark.evidence.push(Exhibit::text(
        "CompileTime",
        format!("{} samples, {}", compile.samples, compile.total_text),
        "the metrics report",
    ));
    let nodes = report
        .metrics
        .get("SyncTensorsGraphSize")
        .or_else(|| report.metrics.get("TensorsGraphSize"));
    if let Some(nodes) = nodes.and_then(|nodes| nodes.percentile(50.0)) {
        remark.evidence.push(Exhibit::text(
            "nodes of the graph",
            count(nodes.max(0.0) as u64),
            "median of the graph sizes in the report",
        ));
    }
    remark.advice = if runs.is_some() {
        vec![CACHE.to_owned()]
    } else {
        vec![SCAN.to_owned(), CACHE.to_owned()]
    };
    if runs.is_none() {
        remark.caveats.push("a scan may cost step time: the compiler no longer fuses across layers (16 to 21 % in a published case); keep the loop if compile time is bearable".to_owned());
    }
    Some(remark)
}
