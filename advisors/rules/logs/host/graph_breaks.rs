//! Places where Dynamo ends a graph.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;
use profiler::logs::torch_tpu::Saying;
use profiler::logs::torch_trace::SourceLine;
use profiler::logs::{At, Logs};

use crate::finding::{Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::{count, place, user_place};

/// See the card.
#[derive(Debug)]
pub struct GraphBreaks;

const SHOWN: usize = 6;

impl Rule for GraphBreaks {
    fn code(&self) -> &'static str {
        "TL203"
    }

    fn name(&self) -> &'static str {
        "graph-breaks"
    }

    fn card(&self) -> &'static str {
        include_str!("graph_breaks.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let breaks = breaks(logs);
        if breaks.is_empty() {
            return Vec::new();
        }
        vec![remark(logs, &breaks)]
    }
}

#[derive(Debug)]
struct Break {
    line: SourceLine,
    at: At,
    reason: String,
    count: u64,
}

/// Breaks by line; a TORCH_TRACE log tells the same as TORCH_LOGS.
fn breaks(logs: &Logs) -> Vec<Break> {
    let mut found: BTreeMap<SourceLine, Break> = BTreeMap::new();
    let mut add = |line: &SourceLine, at: At, reason: &str, count: u64| {
        let one = found.entry(line.clone()).or_insert_with(|| Break {
            line: line.clone(),
            at,
            reason: reason.to_owned(),
            count: 0,
        });
        one.count += count;
        if one.reason.is_empty() {
            reason.clone_into(&mut one.reason);
        }
    };
    for one in &logs.torch_trace.graph_breaks {
        add(&one.place, one.at, &one.reason, one.count);
    }
    if logs.torch_trace.graph_breaks.is_empty() {
        for said in logs.torch_tpu.saying(&Saying::GraphBreak) {
            let line = SourceLine::parse(&said.subject).unwrap_or_default();
            add(&line, said.at, &said.detail, said.count);
        }
    }
    let mut found: Vec<Break> = found.into_values().collect();
    found.sort_by(|a, b| b.count.cmp(&a.count).then(a.at.cmp(&b.at)));
    found
}

fn remark(logs: &Logs, breaks: &[Break]) -> Remark {
    let places = match breaks.len() {
        1 => "at one line".to_owned(),
        several => format!("at {several} lines"),
    };
    let first = breaks.first().map_or_else(String::new, |one| {
        let file = one.line.file.rsplit('/').next().unwrap_or_default();
        format!(": {file}:{}, {}", one.line.line, lower(&one.reason))
    });
    let mut remark = Remark::new(
        AdviceKind::HostDispatch,
        Severity::Medium,
        format!("torch.compile breaks its graph {places}{first}"),
    );
    for one in breaks.iter().take(SHOWN) {
        remark
            .places
            .push(user_place(&one.line, lower(&one.reason)));
        remark.evidence.push(count(
            format!("breaks at {}: {}", one.line, one.reason),
            one.count,
            "Dynamo's log, once for each compile",
        ));
    }
    if let Some(one) = breaks.first() {
        remark
            .places
            .push(place(logs, one.at, "", "the first break in the log"));
    }
    let says = |what: &str| {
        breaks
            .iter()
            .any(|one| one.reason.to_lowercase().contains(what))
    };
    if says("data-dependent") || says(".item()") {
        remark.advice.push(
            "a branch or a number read from a tensor ends the graph: use `torch.where`, or `torch.cond` for costly branches".to_owned(),
        );
    }
    if says("print") || says("logging") {
        remark
            .advice
            .push("take `print` and logging out of the compiled function".to_owned());
    }
    remark.advice.push(
        "compile with `fullgraph=True` to make breaks errors, and cure one after another"
            .to_owned(),
    );
    remark
}

fn lower(reason: &str) -> String {
    let mut chars = reason.trim_end_matches(['.', ':']).chars();
    let first = chars.next().map(|c| c.to_lowercase().to_string());
    let short: String = first.unwrap_or_default() + chars.as_str();
    short.chars().take(140).collect()
}
