//! Executions that a read of a tensor's value forced, by Python line.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;
use profiler::logs::xla_metrics::analysis::{Analysis, AnalysisKind};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{MAX_PLACES, counted};

/// See the card.
#[derive(Debug)]
pub struct GraphCuts;

/// The part of the executions from which a step is cut.
const SOME: f64 = 0.2;
const MIN: usize = 3;

impl Rule for GraphCuts {
    fn code(&self) -> &'static str {
        "TL225"
    }

    fn name(&self) -> &'static str {
        "xla-graph-cuts"
    }

    fn card(&self) -> &'static str {
        include_str!("graph_cuts.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let executed: Vec<&Analysis> = (logs.xla_metrics.analyses.iter())
            .filter(|analysis| analysis.kind == AnalysisKind::Execution)
            .collect();
        let cuts: Vec<&Analysis> = (executed.iter().copied())
            .filter(|analysis| analysis.cause.contains("access tensor value"))
            .collect();
        let mut lines: BTreeMap<&str, Vec<&Analysis>> = BTreeMap::new();
        for cut in &cuts {
            let line = cut.frame().map_or("", |frame| frame.source.as_str());
            lines.entry(line).or_default().push(cut);
        }
        let share = cuts.len() as f64 / executed.len().max(1) as f64;
        if cuts.len() < MIN || share < SOME {
            return Vec::new();
        }
        let mut lines: Vec<(&str, Vec<&Analysis>)> = lines.into_iter().collect();
        lines.sort_by_key(|(line, cuts)| (std::cmp::Reverse(cuts.len()), *line));
        let first = lines.first().map_or("", |(line, _)| *line);
        let more = match lines.len() {
            0 | 1 => String::new(),
            all => format!(" and {}", counted(all as u64 - 1, "other line")),
        };
        let title = format!(
            "{} of {} happened because a tensor's value was read, at {first}{more}",
            cuts.len(),
            counted(executed.len() as u64, "execution"),
        );
        let severity = if share >= 0.5 {
            Severity::High
        } else {
            Severity::Medium
        };
        let mut remark = Remark::new(AdviceKind::HostDispatch, severity, title);
        for (line, cuts) in lines.iter().take(MAX_PLACES) {
            let Some(last) = cuts.last() else { continue };
            remark.places.push(place(
                logs,
                last.at,
                &last.cause,
                format!("{} from {line}", counted(cuts.len() as u64, "execution")),
            ));
            remark.evidence.push(Exhibit::number(
                *line,
                cuts.len() as f64,
                "executions",
                "Execution Analysis with this cause",
            ));
        }
        remark.advice = [
            "read values only after torch_xla.sync(), and every N steps",
            "replace branches and sizes that depend on values by torch.where and fixed sizes",
        ]
        .map(str::to_owned)
        .to_vec();
        vec![remark]
    }
}
