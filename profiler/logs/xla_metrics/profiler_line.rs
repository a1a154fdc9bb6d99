//! Lines of `pt-xla-profiler`, which PyTorch/XLA prints with `PT_XLA_DEBUG=1`.

use std::collections::BTreeMap;

use crate::logs::xla_metrics::quantity::{self, Quantity};
use crate::logs::{At, Line};

/// What stands in each of these lines.
pub(super) const MARK: &str = "pt-xla-profiler:";
/// Names and operations that are kept.
const MAX_NAMES: usize = 1000;
/// Bytes of a name that are kept.
const MAX_NAME: usize = 160;

/// Something that happens too often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TooFrequent {
    /// The line with the largest count.
    pub at: At,
    /// The count that it states, from the start of the run on.
    pub counts: u64,
    /// The steps that it states.
    pub steps: u64,
    /// Lines that say so.
    pub lines: u64,
    /// The count and the steps of the first of these lines.
    pub first: (u64, u64),
    /// The count and the steps of the last of them.
    pub last: (u64, u64),
}

impl TooFrequent {
    /// How much the count grew in each step between the first and the last line; `None` where no
    /// steps passed between them.
    #[must_use]
    pub fn growth(&self) -> Option<f64> {
        let steps = self
            .last
            .1
            .checked_sub(self.first.1)
            .filter(|steps| *steps > 0)?;
        Some(self.last.0.saturating_sub(self.first.0) as f64 / steps as f64)
    }
}

/// An operation of the run that took too long.
#[derive(Clone, Debug, PartialEq)]
pub struct TooSlow {
    /// The line with the longest time.
    pub at: At,
    /// The longest time in seconds.
    pub seconds: f64,
    /// The time as the text has it.
    pub text: String,
}

/// What the lines say together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfilerLines {
    /// By metric: what is too frequent.
    pub too_frequent: BTreeMap<String, TooFrequent>,
    /// By metric: what is too slow.
    pub too_slow: BTreeMap<String, TooSlow>,
    /// Operations that are not lowered, and where that is said first.
    pub not_lowered: BTreeMap<String, At>,
}

impl ProfilerLines {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.too_frequent.is_empty() && self.too_slow.is_empty() && self.not_lowered.is_empty()
    }

    /// Reads a line.
    pub(super) fn line(&mut self, line: Line<'_>) {
        let Some((_, said)) = line.text.split_once(MARK) else {
            return;
        };
        if let Some((name, counts)) = said.split_once(" too frequent:") {
            let mut numbers = counts
                .split_whitespace()
                .filter_map(|word| word.parse::<u64>().ok());
            let (Some(counts), Some(steps)) = (numbers.next(), numbers.next()) else {
                return;
            };
            let name = short(name);
            if self.too_frequent.len() >= MAX_NAMES && !self.too_frequent.contains_key(name) {
                return;
            }
            let entry = self.too_frequent.entry(name.to_owned()).or_default();
            if entry.lines == 0 {
                entry.first = (counts, steps);
            }
            entry.last = (counts, steps);
            entry.lines += 1;
            if counts > entry.counts {
                (entry.at, entry.counts, entry.steps) = (line.at, counts, steps);
            }
        } else if let Some((name, longest)) = said.split_once(" too slow:") {
            let Some((_, time)) = longest.split_once(" took ") else {
                return;
            };
            let text = quantity::figure(time).trim_end_matches('.');
            let Some(seconds) = quantity::parse(text).and_then(Quantity::seconds) else {
                return;
            };
            let name = short(name);
            if self.too_slow.len() >= MAX_NAMES && !self.too_slow.contains_key(name) {
                return;
            }
            self.slower(
                name,
                TooSlow {
                    at: line.at,
                    seconds,
                    text: text.to_owned(),
                },
            );
        } else if let Some((_, ops)) = said.split_once("not lowered:") {
            let ops = ops.split([',', ' ']).filter(|op| op.contains("::"));
            for op in ops {
                if self.not_lowered.len() >= MAX_NAMES {
                    break;
                }
                let op = short(op.trim_end_matches('.')).to_owned();
                self.not_lowered.entry(op).or_insert(line.at);
            }
        }
    }

    fn slower(&mut self, name: &str, found: TooSlow) {
        let known = self
            .too_slow
            .get(name)
            .is_some_and(|known| known.seconds >= found.seconds);
        if !known {
            self.too_slow.insert(name.to_owned(), found);
        }
    }

    /// Takes over what another text says.
    pub(super) fn merge(&mut self, other: Self) {
        for (name, found) in other.too_frequent {
            let entry = self.too_frequent.entry(name).or_default();
            let lines = entry.lines + found.lines;
            if found.counts > entry.counts {
                *entry = found;
            }
            entry.lines = lines;
        }
        for (name, found) in other.too_slow {
            self.slower(&name, found);
        }
        for (op, at) in other.not_lowered {
            self.not_lowered.entry(op).or_insert(at);
        }
    }
}

/// The last bytes of a name, at most as many as are kept.
fn short(name: &str) -> &str {
    let name = name.trim();
    let from = name.len().saturating_sub(MAX_NAME);
    let from = (from..=name.len()).find(|at| name.is_char_boundary(*at));
    from.and_then(|from| name.get(from..)).unwrap_or_default()
}
