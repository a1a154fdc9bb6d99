//! Of several configurations that were measured, one is far slower.

use knowledge::advice::AdviceKind;
use profiler::logs::progress::comparison::{Comparison, Row};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::MAX_PLACES;

/// See the card.
#[derive(Debug)]
pub struct SlowConfiguration;

/// How many times slower than the best one has to be.
const SLOWER: f64 = 1.5;
const MUCH_SLOWER: f64 = 2.0;
/// Words of operations that are slow on a TPU.
const SLOW_OPS: [&str; 9] = [
    "scatter", "sort", "top-k", "topk", "top_k", "top-p", "gather", "nonzero", "sampling",
];

impl Rule for SlowConfiguration {
    fn code(&self) -> &'static str {
        "TL506"
    }

    fn name(&self) -> &'static str {
        "slow-configuration"
    }

    fn card(&self) -> &'static str {
        include_str!("slow_configuration.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let all = logs.progress.comparisons.iter();
        all.filter_map(|comparison| {
            let (best, worst) = ends(comparison)?;
            let ratio = best.value / worst.value;
            if ratio < SLOWER {
                return None;
            }
            let label = worst.label.to_lowercase();
            // "No sampling" names what it does without.
            let slow_op = SLOW_OPS.iter().find(|op| label.contains(**op) && !label.starts_with("no "));
            let severity = match slow_op {
                Some(_) if ratio >= MUCH_SLOWER => Severity::High,
                Some(_) => Severity::Medium,
                None => Severity::Info,
            };
            let kind = if slow_op.is_some() { AdviceKind::OpSubstitution } else { AdviceKind::CaptureQuality };
            let unit = comparison.unit;
            let title = format!(
                "{}: {} {unit}, {ratio:.1} times less than {} ({} {unit})",
                worst.label, worst.value, best.label, best.value
            );
            let mut remark = Remark::new(kind, severity, title);
            for row in comparison.rows.iter().take(MAX_PLACES) {
                remark.places.push(place(logs, row.at, &row.label, format!("{} {unit}", row.value)));
                remark.evidence.push(Exhibit::number(row.label.clone(), row.value, unit, "the text"));
            }
            remark.places.sort_by_key(|place| place.line != worst.at.line);
            remark.advice = if slow_op.is_some() {
                vec![
                    "replace sorts and scatters in the sampler by thresholds: find the k-th or top-p threshold and mask what is below it; nothing is sorted back or scattered".to_owned(),
                    "skip sampling work that a batch does not ask for (greedy requests alone need an argmax)".to_owned(),
                ]
            } else {
                vec!["take profiles of both and compare them: tpu-tune diff A B".to_owned()]
            };
            Some(remark)
        })
        .collect()
    }
}

fn ends(comparison: &Comparison) -> Option<(&Row, &Row)> {
    let positive = || comparison.rows.iter().filter(|row| row.value > 0.0);
    let best = positive().max_by(|a, b| a.value.total_cmp(&b.value))?;
    let worst = positive().min_by(|a, b| a.value.total_cmp(&b.value))?;
    Some((best, worst))
}
