//! A server compiles after its warm-up.

use knowledge::advice::AdviceKind;
use profiler::logs::progress::server::ServerPoint;
use profiler::logs::progress::statistics::median;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{MAX_PLACES, counted, per, time};

/// See the card.
#[derive(Debug)]
pub struct ServerRecompilation;

/// The part of the batches with a compilation from which it is no exception.
const OFTEN: f64 = 0.05;

impl Rule for ServerRecompilation {
    fn code(&self) -> &'static str {
        "TL135"
    }

    fn name(&self) -> &'static str {
        "server-recompilation"
    }

    fn card(&self) -> &'static str {
        include_str!("server_recompilation.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let server = &logs.progress.server;
        let mut remarks = Vec::new();
        if let Some(first) = server.late_compiles.first() {
            let title = format!(
                "a graph was compiled after the warm-up ({}): {}",
                counted(server.late_compiles.len() as u64, "time"),
                first.text,
            );
            let mut remark = Remark::new(AdviceKind::Recompilation, Severity::High, title);
            let lines = server.late_compiles.iter().take(MAX_PLACES);
            remark.places = lines
                .map(|line| place(logs, line.at, &line.text, ""))
                .collect();
            remark.advice = advice();
            remarks.push(remark);
        }
        let missed = |point: &&ServerPoint| point.cache_misses.is_some_and(|misses| misses > 0.0);
        let told = server
            .points
            .iter()
            .filter(|point| point.cache_misses.is_some())
            .count();
        let points: Vec<&ServerPoint> = server.points.iter().filter(missed).collect();
        if let Some(first) = points.first() {
            let misses: f64 = points.iter().filter_map(|point| point.cache_misses).sum();
            let speed = |with: bool| {
                let values: Vec<f64> = (server.points.iter())
                    .filter(|point| missed(point) == with && point.cache_misses.is_some())
                    .map(|point| point.generated_per_s)
                    .collect();
                median(&values)
            };
            let share = points.len() as f64 / told.max(1) as f64;
            let severity = if share >= OFTEN {
                Severity::High
            } else {
                Severity::Medium
            };
            let title = format!(
                "{} of {} ran into programs that were not compiled yet, {} misses in all",
                points.len(),
                counted(told as u64, "decode line"),
                per(misses),
            );
            let mut remark = Remark::new(AdviceKind::Recompilation, severity, title);
            remark.places = (points.iter().take(MAX_PLACES))
                .map(|point| {
                    place(
                        logs,
                        point.at,
                        "#cache_miss",
                        format!("{:.2} token/s", point.generated_per_s),
                    )
                })
                .collect();
            remark.evidence = vec![
                Exhibit::number(
                    "median with a miss",
                    speed(true),
                    "token/s",
                    "gen throughput of these lines",
                ),
                Exhibit::number(
                    "running requests at the first",
                    first.running.unwrap_or(0.0),
                    "",
                    "#running-req",
                ),
            ];
            if points.len() < told {
                remark.evidence.push(Exhibit::number(
                    "median without",
                    speed(false),
                    "token/s",
                    "gen throughput of the other lines",
                ));
            }
            remark.advice = advice();
            remarks.push(remark);
        }
        let warm_up: f64 = server.warm_ups.iter().map(|(_, seconds)| seconds).sum();
        if warm_up > 0.0 {
            let title = format!(
                "the warm-up compiled for {} in {}",
                time(warm_up),
                counted(server.warm_ups.len() as u64, "part"),
            );
            let mut remark = Remark::new(AdviceKind::Recompilation, Severity::Info, title);
            remark.places = (server.warm_ups.iter().take(MAX_PLACES))
                .map(|(at, seconds)| place(logs, *at, "Compilation finished", time(*seconds)))
                .collect();
            remark.advice = vec![
                "keep compiled programs between starts (VLLM_XLA_CACHE_PATH, JAX_COMPILATION_CACHE_DIR) on a disk that outlives the server".to_owned(),
            ];
            remarks.push(remark);
        }
        remarks
    }
}

fn advice() -> Vec<String> {
    [
        "pad requests, tokens and sampler inputs to buckets, and compile every bucket in the warm-up (--precompile-bs-paddings, --precompile-token-paddings; vLLM pads num_reqs and num_tokens)",
        "look for inputs that differ from those of the warm-up in dtype, weak type or sharding: they miss in spite of equal shapes",
    ]
    .map(str::to_owned)
    .to_vec()
}
