//! The search: which candidates are compiled, in which order, and when it is enough.
//!
//! What was found so far is the whole state ([`History`]): the next candidate follows from it and
//! from nothing else, so a search that was stopped goes on where it was.
//!
//! ```text
//! first   the likeliest of every mesh, then the likeliest of all
//! then    the neighbours of the best so far, the likeliest first: one decision changed
//!         where they are all known, those of the second and third best
//! never   what cannot fit in HBM, what cannot be faster than the best so far
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::compiler::sharding::bounds::{Bounds, Rates};
use crate::compiler::sharding::candidate::{Candidate, Space};
use crate::compiler::sharding::estimate::estimate_ps;
use crate::compiler::sharding::evaluate::{Evaluate, Outcome, Verdict};
use crate::compiler::sharding::problem::Problem;
use crate::units::Picos;

/// Of the budget, the part that goes to the likeliest candidates before the search turns local: one
/// in so many.
const SEEDS_OF_BUDGET: usize = 4;
/// How many of the best candidates have their neighbours looked at.
const BEAM: usize = 3;
/// A search goes on for at least this many compiles after the last gain.
const MIN_PATIENCE: usize = 6;

/// How a search is run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchSettings {
    /// Compiles at most, those of earlier runs included.
    pub budget: usize,
    /// What a device can do.
    pub rates: Rates,
}

/// What was found so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// What was searched: the caller's name for program, target, compiler and prices. A history of
    /// something else is not gone on with.
    pub subject: String,
    /// Candidates in the order in which they were evaluated.
    pub records: Vec<Record>,
}

/// A candidate that was evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its key, see [`Candidate::key`].
    pub candidate: String,
    /// What came of it.
    pub verdict: Verdict,
}

impl History {
    /// Outcomes by key; of a candidate that stands twice the last one.
    fn by_key(&self) -> BTreeMap<&str, &Verdict> {
        let records = self.records.iter();
        records
            .map(|record| (record.candidate.as_str(), &record.verdict))
            .collect()
    }
}

/// A candidate with what is known of it before any compile.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The candidate.
    pub candidate: Candidate,
    /// Its key.
    pub key: String,
    /// What it takes at least.
    pub bounds: Bounds,
    /// What it is expected to take, roughly.
    pub estimate: Picos,
}

/// A space, ready to be searched.
#[derive(Clone, Debug)]
pub struct Search {
    entries: Vec<Entry>,
    /// Indices into `entries`, the likeliest first.
    order: Vec<usize>,
    settings: SearchSettings,
    is_exhaustive: bool,
}

/// Why a candidate was not compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Its arguments alone do not fit in HBM.
    pub by_memory: usize,
    /// Its least time is longer than the best one's.
    pub by_time: usize,
    /// The search ended before it came to it.
    pub not_reached: usize,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// Everything that was not ruled out was compiled.
    Exhausted,
    /// The budget is spent.
    Budget,
    /// Nothing better was found for a while, next to the best nor elsewhere.
    Settled,
}

impl Search {
    /// Prepares a space for searching.
    #[must_use]
    pub fn new(problem: &Problem, space: &Space, settings: SearchSettings) -> Self {
        let entries: Vec<Entry> = space
            .candidates
            .iter()
            .map(|candidate| {
                let estimate = estimate_ps(problem, candidate, &settings.rates);
                Entry {
                    key: candidate.key(problem),
                    bounds: Bounds::of(problem, candidate, &settings.rates),
                    estimate: Picos(estimate.clamp(0.0, 1e18) as u64),
                    candidate: candidate.clone(),
                }
            })
            .collect();
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(|index| (entries.get(*index).map(|entry| entry.estimate), *index));
        Self {
            entries,
            order,
            settings,
            is_exhaustive: false,
        }
    }

    /// All candidates.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Evaluates candidates until it is enough.
    ///
    /// # Errors
    /// The evaluator's; what was found until then is in the history.
    pub fn run<E: Evaluate>(
        &self,
        problem: &Problem,
        history: &mut History,
        evaluator: &mut E,
    ) -> Result<Stop, E::Error> {
        loop {
            match self.next(history) {
                Ok(index) => self.evaluate(index, problem, history, evaluator)?,
                Err(stop) => return Ok(stop),
            }
        }
    }

    /// Evaluates one candidate and adds it to the history.
    ///
    /// # Errors
    /// The evaluator's; the history is as it was.
    pub fn evaluate<E: Evaluate>(
        &self,
        index: usize,
        problem: &Problem,
        history: &mut History,
        evaluator: &mut E,
    ) -> Result<(), E::Error> {
        let Some(entry) = self.entries.get(index) else {
            return Ok(());
        };
        let sharding = entry.candidate.sharding(problem);
        let verdict = evaluator.evaluate(&entry.candidate, &sharding)?;
        history.records.push(Record {
            candidate: entry.key.clone(),
            verdict,
        });
        Ok(())
    }

    /// The same space, of which all that can fit is evaluated, whatever is found.
    #[must_use]
    pub fn exhaustive(mut self) -> Self {
        self.is_exhaustive = true;
        self
    }

    /// The candidate to evaluate next, by its index in [`Self::entries`].
    ///
    /// # Errors
    /// Why there is none.
    pub fn next(&self, history: &History) -> Result<usize, Stop> {
        let known = history.by_key();
        let ranked = self.ranked(&known);
        let best = ranked.first().map(|(time, _)| *time);
        let open = |index: &usize| {
            self.entries.get(*index).is_some_and(|entry| {
                !known.contains_key(entry.key.as_str()) && self.may_win(entry, best)
            })
        };
        let left: Vec<usize> = self.order.iter().copied().filter(open).collect();
        let Some(likeliest) = left.first().copied() else {
            return Err(Stop::Exhausted);
        };
        if self.is_exhaustive {
            return Ok(likeliest);
        }
        if known.len() >= self.settings.budget {
            return Err(Stop::Budget);
        }
        // The likeliest of each mesh that was not looked at.
        let seen = |sizes: &[u64]| {
            let mut entries = self.entries.iter();
            entries.any(|e| e.candidate.sizes == sizes && known.contains_key(e.key.as_str()))
        };
        let unseen = left.iter().find(|index| {
            let entry = self.entries.get(**index);
            entry.is_some_and(|entry| !seen(&entry.candidate.sizes))
        });
        if let Some(index) = unseen {
            return Ok(*index);
        }
        let seeds = self.settings.budget.div_ceil(SEEDS_OF_BUDGET);
        if known.len() < seeds || ranked.is_empty() {
            return Ok(likeliest);
        }
        let patience = (self.settings.budget / 3).max(MIN_PATIENCE);
        if since_last_gain(history) >= patience {
            return Err(Stop::Settled);
        }
        for (_, index) in ranked.iter().take(BEAM) {
            let Some(center) = self.entries.get(*index) else {
                continue;
            };
            let near = left.iter().find(|index| {
                let entry = self.entries.get(**index);
                entry.is_some_and(|entry| entry.candidate.distance(&center.candidate) <= 1)
            });
            if let Some(index) = near {
                return Ok(*index);
            }
        }
        Ok(likeliest)
    }

    /// Whether a candidate can fit and can be faster than the best.
    fn may_win(&self, entry: &Entry, best: Option<Picos>) -> bool {
        let is_late = best.is_some_and(|best| entry.bounds.time() >= best);
        entry.bounds.memory <= self.settings.rates.hbm_bytes && (self.is_exhaustive || !is_late)
    }

    /// Priced candidates, the fastest first; equal ones in the order of the space.
    fn ranked(&self, known: &BTreeMap<&str, &Verdict>) -> Vec<(Picos, usize)> {
        let mut ranked: Vec<(Picos, usize)> = self
            .entries
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| match known.get(entry.key.as_str())? {
                Verdict::Priced(outcome)
                    if outcome.peak_memory <= self.settings.rates.hbm_bytes =>
                {
                    Some((outcome.time, index))
                }
                _ => None,
            })
            .collect();
        ranked.sort_unstable();
        ranked
    }

    /// Priced candidates that fit, the fastest first.
    #[must_use]
    pub fn ranking<'a>(&'a self, history: &'a History) -> Vec<(&'a Entry, &'a Outcome)> {
        let known = history.by_key();
        self.ranked(&known)
            .into_iter()
            .filter_map(|(_, index)| {
                let entry = self.entries.get(index)?;
                match known.get(entry.key.as_str())? {
                    Verdict::Priced(outcome) => Some((entry, outcome)),
                    _ => None,
                }
            })
            .collect()
    }

    /// How many candidates were not compiled, and why.
    #[must_use]
    pub fn pruned(&self, history: &History) -> Pruned {
        let known = history.by_key();
        let best = self.ranked(&known).first().map(|(time, _)| *time);
        let mut pruned = Pruned::default();
        for entry in &self.entries {
            if known.contains_key(entry.key.as_str()) {
                continue;
            }
            if entry.bounds.memory > self.settings.rates.hbm_bytes {
                pruned.by_memory += 1;
            } else if !self.may_win(entry, best) {
                pruned.by_time += 1;
            } else {
                pruned.not_reached += 1;
            }
        }
        pruned
    }
}

/// Evaluations since the best time fell last.
fn since_last_gain(history: &History) -> usize {
    let mut best: Option<Picos> = None;
    let mut since = 0;
    for record in &history.records {
        since += 1;
        if let Verdict::Priced(outcome) = &record.verdict
            && best.is_none_or(|best| outcome.time < best)
        {
            best = Some(outcome.time);
            since = 0;
        }
    }
    since
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
