//! Samplers built on sort and scatter, by the rates that a text gives.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::launch::Launch;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;

/// See the card.
#[derive(Debug)]
pub struct SamplerRates;

/// A sampler that is slower by less is left alone.
const MIN_RATIO: f64 = 1.2;

impl Rule for SamplerRates {
    fn code(&self) -> &'static str {
        "TL604"
    }

    fn name(&self) -> &'static str {
        "slow-sampler"
    }

    fn card(&self) -> &'static str {
        include_str!("sampler_rates.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let launches = logs.launch.launches.iter();
        launches.filter_map(|launch| remark(logs, launch)).collect()
    }
}

fn remark(logs: &Logs, launch: &Launch) -> Option<Remark> {
    let best = launch
        .rates
        .iter()
        .max_by(|a, b| a.requests_per_s.total_cmp(&b.requests_per_s))?;
    let slow = launch
        .rates
        .iter()
        .filter(|rate| {
            let what = rate.what.to_ascii_lowercase();
            let words = ["top-k", "top-p", "sampl", "sort", "scatter"];
            let without = what.contains("without") || what.contains("no sampling");
            words.iter().any(|word| what.contains(word)) && !without
        })
        .min_by(|a, b| a.requests_per_s.total_cmp(&b.requests_per_s))?;
    let ratio = best.requests_per_s / slow.requests_per_s;
    if !ratio.is_finite() || ratio < MIN_RATIO {
        return None;
    }
    let severity = if ratio >= 2.0 {
        Severity::High
    } else {
        Severity::Medium
    };
    let mut remark = Remark::new(
        AdviceKind::OpSubstitution,
        severity,
        format!(
            "{} serves {} req/s, {} {}: {ratio:.1} times fewer",
            slow.what, slow.requests_per_s, best.what, best.requests_per_s
        ),
    );
    remark.places = vec![place(
        logs,
        slow.at,
        &slow.what,
        format!("{} req/s", slow.requests_per_s),
    )];
    for rate in launch.rates.iter().take(6) {
        remark.evidence.push(Exhibit::number(
            rate.what.clone(),
            rate.requests_per_s,
            "req/s",
            "the text",
        ));
    }
    remark.advice = vec![
        "sample without sort and scatter: find the threshold of top-k and top-p by bisection and mask what is below it".to_owned(),
        "where k is small, take the top k first (jax.lax.top_k, approx_max_k), with a fixed k: each other k is another program".to_owned(),
    ];
    Some(remark)
}
