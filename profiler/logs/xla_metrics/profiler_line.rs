//! Lines of `pt-xla-profiler`, which PyTorch/XLA prints with `PT_XLA_DEBUG=1`.

use std::collections::BTreeMap;

use crate::logs::{At, Line};

/// What stands in each of these lines.
pub(super) const MARK: &str = "pt-xla-profiler:";
/// Names and operations that are kept.
const MAX_NAMES: usize = 1000;

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
}

/// What the lines say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfilerLines {
    /// By metric: what is too frequent.
    pub too_frequent: BTreeMap<String, TooFrequent>,
    /// Operations that are not lowered, and where that is said first.
    pub not_lowered: BTreeMap<String, At>,
}

impl ProfilerLines {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.too_frequent.is_empty() && self.not_lowered.is_empty()
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
            let name = name.trim();
            if self.too_frequent.len() >= MAX_NAMES && !self.too_frequent.contains_key(name) {
                return;
            }
            let entry = self.too_frequent.entry(name.to_owned()).or_default();
            entry.lines += 1;
            if counts > entry.counts {
                (entry.at, entry.counts, entry.steps) = (line.at, counts, steps);
            }
        } else if let Some((_, ops)) = said.split_once("not lowered:") {
            let ops = ops.split([',', ' ']).filter(|op| op.contains("::"));
            for op in ops {
                if self.not_lowered.len() >= MAX_NAMES {
                    break;
                }
                let op = op.trim_end_matches('.').to_owned();
                self.not_lowered.entry(op).or_insert(line.at);
            }
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
        for (op, at) in other.not_lowered {
            self.not_lowered.entry(op).or_insert(at);
        }
    }
}
