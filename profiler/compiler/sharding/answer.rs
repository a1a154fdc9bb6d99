//! The end of a search: what to do, and why not something else.

use serde::Serialize;

use crate::compiler::sharding::evaluate::Outcome;
use crate::compiler::sharding::print::Printed;
use crate::compiler::sharding::problem::Problem;
use crate::compiler::sharding::search::{Entry, History, Pruned, Search, Stop};
use crate::units::{Bytes, Picos, percent};

/// Runners-up that are told.
const MAX_OTHERS: usize = 10;

/// What a search found.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The fastest candidate that fits; none where no candidate compiled and fits.
    pub choice: Option<Choice>,
    /// The next best, the fastest first.
    pub others: Vec<Choice>,
    /// Candidates in all.
    pub candidates: usize,
    /// Candidates that were compiled, also in earlier runs.
    pub compiled: usize,
    /// Candidates that were not, and why.
    pub pruned: Pruned,
    /// Why the search ended.
    pub stop: Stop,
}

/// A candidate, priced.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// Its key.
    pub candidate: String,
    /// Its mesh: `fsdp=2 x tensor=2`.
    pub mesh: String,
    /// What it takes on each device.
    pub outcome: Outcome,
    /// The least memory that its arguments take.
    pub argument_memory: Bytes,
    /// The least time that it could take.
    pub least_time: Picos,
    /// What it is good and bad at, against the choice; of the choice against the runner-up.
    pub why: Vec<String>,
    /// How its arguments lie.
    pub sharding: Printed,
}

impl Answer {
    /// Sums a search up.
    #[must_use]
    pub fn new(problem: &Problem, search: &Search, history: &History, stop: Stop) -> Self {
        let ranking = search.ranking(history);
        let best = ranking.first().copied();
        let choice = best.map(|best| {
            let why = ranking.get(1).map_or_else(Vec::new, |second| {
                against(best.1, second.1, "the runner-up")
            });
            Choice::new(problem, best.0, best.1, why)
        });
        let others = ranking
            .iter()
            .skip(1)
            .take(MAX_OTHERS)
            .map(|(entry, outcome)| {
                let why = best.map_or_else(Vec::new, |best| against(outcome, best.1, "the choice"));
                Choice::new(problem, entry, outcome, why)
            });
        Self {
            choice,
            others: others.collect(),
            candidates: search.entries().len(),
            compiled: history.records.len(),
            pruned: search.pruned(history),
            stop,
        }
    }
}

impl Choice {
    fn new(problem: &Problem, entry: &Entry, outcome: &Outcome, why: Vec<String>) -> Self {
        Self {
            candidate: entry.key.clone(),
            mesh: entry.candidate.mesh(problem).to_string(),
            outcome: outcome.clone(),
            argument_memory: entry.bounds.memory,
            least_time: entry.bounds.time(),
            why,
            sharding: Printed::new(problem, &entry.candidate.sharding(problem)),
        }
    }
}

/// Where a candidate differs from another one, the largest difference in time first.
fn against(this: &Outcome, other: &Outcome, name: &str) -> Vec<String> {
    let share = |part: Picos, of: Picos| (part.0 as f64 - of.0 as f64) / other.time.0.max(1) as f64;
    let more = |share: f64| if share < 0.0 { "less" } else { "more" };
    let mut parts = [
        (
            share(this.collective_time, other.collective_time),
            "time in collectives",
            this.collective_time,
            other.collective_time,
        ),
        (
            share(this.compute_time(), other.compute_time()),
            "time in everything else",
            this.compute_time(),
            other.compute_time(),
        ),
    ];
    parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    let mut why: Vec<String> = parts
        .iter()
        .filter(|(share, ..)| share.abs() >= 0.001)
        .map(|(share, what, this, other)| {
            format!(
                "{} {what} than {name}: {this} against {other}, {} of its step",
                more(*share),
                percent(share.abs())
            )
        })
        .collect();
    let mut axes: Vec<&String> = this
        .collective_bytes
        .keys()
        .chain(other.collective_bytes.keys())
        .collect();
    axes.sort_unstable();
    axes.dedup();
    for axis in axes {
        let of = |outcome: &Outcome| {
            outcome
                .collective_bytes
                .get(axis)
                .copied()
                .unwrap_or_default()
        };
        let (ours, theirs) = (of(this), of(other));
        if ours != theirs {
            why.push(format!("sends {ours} along {axis}, {name} {theirs}"));
        }
    }
    if this.peak_memory != other.peak_memory {
        let (ours, theirs) = (this.peak_memory, other.peak_memory);
        why.push(format!("needs {ours} of HBM, {name} {theirs}"));
    }
    why
}
