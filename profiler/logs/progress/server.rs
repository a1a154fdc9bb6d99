//! What servers say: throughput, requests, the KV cache, compilations after warm-up.

use crate::logs::progress::number::{leading, named};
use crate::logs::{At, Line};

/// Points that are kept.
const MAX_POINTS: usize = 200_000;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
}

impl Server {
    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
        }
    }
}

/// A line on the state of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerPoint {
    /// Where.
    pub at: At,
    /// Which server.
    pub server: Server,
    /// Generated tokens a second.
    pub generated_per_s: f64,
    /// Prompt tokens a second, where the line says so.
    pub prompt_per_s: Option<f64>,
    /// Requests that run and that wait.
    pub running: Option<f64>,
    /// Requests that wait.
    pub waiting: Option<f64>,
    /// The part of the KV cache that is in use, a fraction.
    pub cache_usage: Option<f64>,
    /// Programs that had to be compiled for this batch, where the line says so.
    pub cache_misses: Option<f64>,
}

/// A compilation after the warm-up, which vLLM takes for an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateCompile {
    /// Where.
    pub at: At,
    /// The line's text from the message on.
    pub text: String,
}

/// What servers say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerLog {
    /// Lines on their state.
    pub points: Vec<ServerPoint>,
    /// Compilations after the warm-up, the first of them.
    pub late_compiles: Vec<LateCompile>,
    /// Times of whole warm-ups, in seconds, with their lines.
    pub warm_ups: Vec<(At, f64)>,
}

impl ServerLog {
    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.late_compiles.is_empty() && self.warm_ups.is_empty()
    }

    /// Takes over what another text says.
    pub(super) fn merge(&mut self, other: Self) {
        self.points.extend(other.points);
        self.late_compiles.extend(other.late_compiles);
        self.warm_ups.extend(other.warm_ups);
    }
}

/// Reads lines of servers.
#[derive(Debug, Default)]
pub(super) struct ServerReader {
    pub(super) log: ServerLog,
}

impl ServerReader {
    /// Reads a line; whether it was a server's.
    pub(super) fn line(&mut self, line: Line<'_>) -> bool {
        const LATE: &str = "Recompilation after warm up is detected";
        const MAX_LATE: usize = 64;
        let text = line.text;
        if let Some(at) = text.find(LATE) {
            if self.log.late_compiles.len() < MAX_LATE {
                let text = text
                    .get(at..)
                    .unwrap_or_default()
                    .chars()
                    .take(200)
                    .collect();
                self.log
                    .late_compiles
                    .push(LateCompile { at: line.at, text });
            }
            return true;
        }
        if let Some((_, rest)) = text.split_once("Compilation finished in") {
            let time = rest.trim_start().trim_start_matches("in ").trim_start();
            if let Some((seconds, _)) = leading(time).filter(|(s, _)| s.is_finite() && *s >= 0.0)
                && self.log.warm_ups.len() < 1024
            {
                self.log.warm_ups.push((line.at, seconds));
            }
            return true;
        }
        let found = vllm(line).or_else(|| sglang(line));
        let Some(point) = found else {
            return false;
        };
        if self.log.points.len() < MAX_POINTS {
            self.log.points.push(point);
        }
        true
    }
}

fn vllm(line: Line<'_>) -> Option<ServerPoint> {
    let text = line.text;
    let generated = finite(named(text, "Avg generation throughput"))?;
    let usage = named(text, "KV cache usage").or_else(|| named(text, "cache usage"));
    Some(ServerPoint {
        at: line.at,
        server: Server::Vllm,
        generated_per_s: generated,
        prompt_per_s: finite(named(text, "Avg prompt throughput")),
        running: finite(named(text, "Running")),
        waiting: finite(named(text, "Waiting").or_else(|| named(text, "Pending"))),
        cache_usage: finite(usage).map(|percent| percent / 100.0),
        cache_misses: None,
    })
}

fn sglang(line: Line<'_>) -> Option<ServerPoint> {
    let text = line.text;
    if !text.contains("Decode batch") {
        return None;
    }
    Some(ServerPoint {
        at: line.at,
        server: Server::Sglang,
        generated_per_s: finite(named(text, "gen throughput (token/s)"))?,
        prompt_per_s: None,
        running: finite(named(text, "#running-req")),
        waiting: finite(named(text, "#queue-req")),
        cache_usage: finite(named(text, "token usage")),
        cache_misses: finite(named(text, "#cache_miss")),
    })
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value >= 0.0)
}
