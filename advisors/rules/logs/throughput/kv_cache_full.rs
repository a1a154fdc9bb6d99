//! Requests wait because the KV cache is full.

use knowledge::advice::AdviceKind;
use profiler::logs::progress::server::ServerPoint;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{MAX_PLACES, counted};

/// See the card.
#[derive(Debug)]
pub struct KvCacheFull;

/// Use of the cache from which it is full, and the part of the lines from which that is no moment.
const FULL: f64 = 0.95;
const OFTEN: f64 = 0.2;
const MIN_LINES: usize = 3;

impl Rule for KvCacheFull {
    fn code(&self) -> &'static str {
        "TL505"
    }

    fn name(&self) -> &'static str {
        "kv-cache-full"
    }

    fn card(&self) -> &'static str {
        include_str!("kv_cache_full.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let all = &logs.progress.server.points;
        let full: Vec<&ServerPoint> = (all.iter())
            .filter(|p| {
                p.cache_usage.is_some_and(|usage| usage >= FULL)
                    && p.waiting.is_some_and(|waiting| waiting > 0.0)
            })
            .collect();
        let share = full.len() as f64 / all.len().max(1) as f64;
        let Some(first) = full.first().filter(|_| full.len() >= MIN_LINES) else {
            return Vec::new();
        };
        let waiting = full.iter().filter_map(|p| p.waiting).fold(0.0, f64::max);
        let severity = if share >= OFTEN {
            Severity::Medium
        } else {
            Severity::Low
        };
        let title = format!(
            "the KV cache is full while requests wait, in {} of {}: up to {waiting} wait",
            full.len(),
            counted(all.len() as u64, "line"),
        );
        let mut remark = Remark::new(AdviceKind::DecodeBatch, severity, title);
        remark.places = (full.iter().take(MAX_PLACES))
            .map(|p| {
                place(
                    logs,
                    p.at,
                    "",
                    format!(
                        "{:.1} % full, {} wait",
                        100.0 * p.cache_usage.unwrap_or(0.0),
                        p.waiting.unwrap_or(0.0)
                    ),
                )
            })
            .collect();
        remark.evidence = vec![Exhibit::number(
            "running at the first",
            first.running.unwrap_or(0.0),
            "requests",
            "the line itself",
        )];
        remark.advice = [
            "give the cache more memory: a higher gpu_memory_utilization / mem-fraction-static, smaller weights (fp8, int8), more chips a replica",
            "an fp8 KV cache halves what a token takes; a head dimension of 64 may be padded to 128 by the kernel",
            "or let fewer requests in (max_num_seqs), which keeps those that run from being preempted",
        ]
        .map(str::to_owned)
        .to_vec();
        vec![remark]
    }
}
