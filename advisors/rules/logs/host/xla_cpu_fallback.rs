//! Operations that PyTorch/XLA runs on the CPU.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;
use profiler::logs::At;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::host::substitutes::substitute;
use crate::rules::logs::place;
use crate::rules::logs::words::{MAX_PLACES, count, counted};

/// See the card.
#[derive(Debug)]
pub struct XlaCpuFallback;

/// Fallbacks that are no operation: a value is read.
const READS: [&str; 2] = ["aten::_local_scalar_dense", "aten::item"];
/// Calls from which it is no matter of the start alone.
const MANY: u64 = 10;
/// Operations that are named in the title.
const NAMED: usize = 4;

impl Rule for XlaCpuFallback {
    fn code(&self) -> &'static str {
        "TL221"
    }

    fn name(&self) -> &'static str {
        "xla-cpu-fallback"
    }

    fn card(&self) -> &'static str {
        include_str!("xla_cpu_fallback.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let metrics = &logs.xla_metrics;
        let mut ops: BTreeMap<&str, (u64, At)> = BTreeMap::new();
        for (op, at) in &metrics.profiler.not_lowered {
            ops.insert(op, (0, *at));
        }
        let mut steps = 0;
        for report in metrics
            .sequences()
            .iter()
            .filter_map(|reports| reports.last())
        {
            steps += report.steps().unwrap_or(0);
            let fallbacks = report.counters.iter().filter(|(name, counter)| {
                name.starts_with("aten::") && !READS.contains(&name.as_str()) && counter.value > 0
            });
            for (name, counter) in fallbacks {
                let entry = ops.entry(name).or_insert((0, counter.at));
                entry.0 += counter.value;
                entry.1 = counter.at;
            }
        }
        if ops.is_empty() {
            return Vec::new();
        }
        let mut ops: Vec<(&str, (u64, At))> = ops.into_iter().collect();
        ops.sort_by_key(|(op, (calls, _))| (std::cmp::Reverse(*calls), *op));
        let calls: u64 = ops.iter().map(|(_, (calls, _))| calls).sum();
        let said = !metrics.profiler.not_lowered.is_empty();
        let each_step = steps > 0 && calls * 2 >= steps;
        let severity = if said || calls >= MANY || each_step {
            Severity::High
        } else {
            Severity::Low
        };
        let named: Vec<String> = (ops.iter().take(NAMED))
            .map(|(op, (calls, _))| {
                if *calls > 0 {
                    format!("{op} ({})", count(*calls))
                } else {
                    (*op).to_owned()
                }
            })
            .collect();
        let more = match ops.len().saturating_sub(NAMED) {
            0 => String::new(),
            rest => format!(" and {rest} more"),
        };
        let verb = if ops.len() == 1 { "is" } else { "are" };
        let in_steps = if steps > 0 && calls > 0 {
            format!(" in {}", counted(steps, "step"))
        } else {
            String::new()
        };
        let title = format!(
            "{} {verb} not lowered and run on the CPU{in_steps}: {}{more}",
            counted(ops.len() as u64, "operation"),
            named.join(", "),
        );
        let mut remark = Remark::new(AdviceKind::OpSubstitution, severity, title);
        for (op, (calls, at)) in ops.iter().take(MAX_PLACES) {
            let label = if *calls > 0 {
                counted(*calls, "call")
            } else {
                "not lowered".to_owned()
            };
            remark.places.push(place(logs, *at, op, label));
        }
        for (op, (calls, _)) in ops.iter().filter(|(_, (calls, _))| *calls > 0).take(16) {
            remark.evidence.push(Exhibit::number(
                *op,
                *calls as f64,
                "calls",
                "aten:: counters count what runs on the CPU",
            ));
        }
        for (op, _) in ops.iter().take(MAX_PLACES) {
            if let Some(instead) = substitute(op) {
                remark.advice.push(format!("{op}: {instead}"));
            }
        }
        remark.advice.push("each call copies its inputs to the host and its result back, and cuts the graph in two: replace it, or move it out of the step".to_owned());
        if remark.advice.len() == 1 {
            remark.advice.push(
                "a newer PyTorch/XLA may lower it; else write it from operations that are lowered"
                    .to_owned(),
            );
        }
        vec![remark]
    }
}
