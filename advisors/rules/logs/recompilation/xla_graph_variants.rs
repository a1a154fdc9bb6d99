//! Many graphs are compiled from one Python line.

use std::collections::{BTreeMap, BTreeSet};

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::xla_metrics::analysis::{Analysis, AnalysisKind};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{MAX_PLACES, counted};

/// See the card.
#[derive(Debug)]
pub struct XlaGraphVariants;

/// A line with more graphs than this compiles again and again.
const SOME: usize = 3;
const MANY: usize = 10;

impl Rule for XlaGraphVariants {
    fn code(&self) -> &'static str {
        "TL123"
    }

    fn name(&self) -> &'static str {
        "xla-graph-variants"
    }

    fn card(&self) -> &'static str {
        include_str!("xla_graph_variants.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let analyses = &logs.xla_metrics.analyses;
        if analyses.is_empty() {
            return Vec::new();
        }
        let mut lines: BTreeMap<String, Vec<&Analysis>> = BTreeMap::new();
        for analysis in analyses
            .iter()
            .filter(|a| a.kind == AnalysisKind::Compilation)
        {
            lines.entry(source(analysis)).or_default().push(analysis);
        }
        let mut found: Vec<(String, Vec<&Analysis>)> = lines
            .into_iter()
            .filter(|(_, compiled)| variants(compiled) > SOME)
            .collect();
        found.sort_by_key(|(line, compiled)| (std::cmp::Reverse(variants(compiled)), line.clone()));
        if found.is_empty() {
            return vec![healthy(logs, analyses)];
        }
        vec![varying(logs, &found)]
    }
}

fn source(analysis: &Analysis) -> String {
    analysis
        .frame()
        .map_or_else(String::new, |frame| frame.source.clone())
}

fn variants(compiled: &[&Analysis]) -> usize {
    let hashes: BTreeSet<&str> = compiled.iter().map(|a| a.hash.as_str()).collect();
    hashes.len()
}

fn varying(logs: &Logs, found: &[(String, Vec<&Analysis>)]) -> Remark {
    let most = found.first().map_or(0, |(_, compiled)| variants(compiled));
    let all: usize = found.iter().map(|(_, compiled)| variants(compiled)).sum();
    let (line, _) = found
        .first()
        .map_or(("", 0), |(line, c)| (line.as_str(), c.len()));
    let others = match found.len() {
        0 | 1 => String::new(),
        lines => format!(" ({all} at {lines} lines together)"),
    };
    let severity = if most >= MANY {
        Severity::High
    } else {
        Severity::Medium
    };
    let title = format!(
        "{most} different graphs were compiled at {line}{others}: shapes or scalars change there from step to step"
    );
    let mut remark = Remark::new(AdviceKind::Recompilation, severity, title);
    for (line, compiled) in found.iter().take(MAX_PLACES) {
        let Some(last) = compiled.last() else {
            continue;
        };
        remark.places.push(place(
            logs,
            last.at,
            "Compilation Cause",
            format!("{} graphs from {line}", variants(compiled)),
        ));
        let inputs: BTreeSet<u64> = compiled.iter().filter_map(|a| a.inputs).collect();
        let inputs: Vec<String> = inputs.iter().take(6).map(u64::to_string).collect();
        remark.evidence.push(Exhibit::text(
            line.clone(),
            format!(
                "{} graphs, cause: {}, graph inputs: {}",
                variants(compiled),
                last.cause,
                inputs.join(", ")
            ),
            "Compilation Analysis lines, hashes counted once",
        ));
    }
    remark.advice = [
        "look at the line for shapes that come from data: pad or bucket the batch, drop the ragged last one",
        "where the number of graph inputs or outputs differs too, another branch of Python code ran: keep one, or decide on the device with torch.where",
        "where the cause is a read of a tensor's value, remove the read first: it cuts the graph into more pieces that each have their variants",
    ]
    .map(str::to_owned)
    .to_vec();
    remark
}

/// Nothing is compiled again: what the analyses say otherwise.
fn healthy(logs: &Logs, analyses: &[Analysis]) -> Remark {
    let of = |kind: AnalysisKind| analyses.iter().filter(move |a| a.kind == kind);
    let compiled: Vec<&Analysis> = of(AnalysisKind::Compilation).collect();
    let executed = of(AnalysisKind::Execution).count() as u64;
    let shown = compiled.first().copied().or(analyses.first());
    let cause = shown.map(|a| a.cause.clone()).unwrap_or_default();
    let frame = shown.map(source).unwrap_or_default();
    let verdict = if cause.contains("access tensor value") {
        "a value was read there"
    } else {
        "as expected"
    };
    let title = format!(
        "{} compiled, {}; the cause is {cause}, at {frame}: {verdict}",
        counted(variants(&compiled) as u64, "graph"),
        counted(executed, "execution"),
    );
    let mut remark = Remark::new(AdviceKind::Recompilation, Severity::Info, title);
    if let Some(shown) = shown {
        remark.places = vec![place(logs, shown.at, &shown.cause, "")];
        let (inputs, outputs) = (shown.inputs.unwrap_or(0), shown.outputs.unwrap_or(0));
        remark.evidence.push(Exhibit::text(
            format!("graph {}", shown.hash),
            format!("{inputs} inputs, {outputs} outputs"),
            "Graph Info",
        ));
        for (name, size) in &shown.sizes {
            remark.evidence.push(Exhibit::text(
                name.clone(),
                size.clone(),
                "Post Compilation Analysis",
            ));
        }
    }
    remark
}
