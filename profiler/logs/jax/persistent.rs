//! The persistent compilation cache: what it gave, lacked, took and refused.

use crate::logs::{At, Line};

/// What stands in its lines.
pub(super) const HIT: &str = "ersistent compilation cache hit for ";
pub(super) const MISS: &str = "PERSISTENT COMPILATION CACHE MISS for ";
pub(super) const NOT_WRITTEN: &str = "because it took < ";
pub(super) const WRITTEN: &str = " to persistent compilation cache with key";

/// What the log says of the persistent cache.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersistentCache {
    /// Programs that it had.
    pub hits: u64,
    /// Programs that it lacked.
    pub misses: u64,
    /// Programs that were written to it.
    pub written: u64,
    /// Programs that compiled too fast to be written.
    pub too_fast: u64,
    /// The time that those took, in seconds.
    pub too_fast_seconds: f64,
    /// The limit below which a program is not written, in seconds.
    pub limit_seconds: Option<f64>,
    /// The first line on a missing program, and on one that was too fast.
    pub first_miss: Option<At>,
    /// The first line on a program that compiled too fast.
    pub first_too_fast: Option<At>,
}

impl PersistentCache {
    /// Whether the log says nothing of it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads a line; of a hit the name of the module.
    pub(super) fn line(&mut self, line: Line<'_>) -> Option<String> {
        let text = line.text;
        if let Some((_, rest)) = text.split_once(HIT) {
            self.hits += 1;
            let name = rest.split('\'').nth(1).unwrap_or_default();
            return Some(name.chars().take(200).collect());
        }
        if text.contains(MISS) {
            self.misses += 1;
            self.first_miss.get_or_insert(line.at);
        } else if text.contains(WRITTEN) {
            self.written += 1;
        } else if let Some((before, rest)) = text.split_once(NOT_WRITTEN)
            && before.contains("Not writing")
        {
            self.too_fast += 1;
            self.first_too_fast.get_or_insert(line.at);
            let number = |text: &str| {
                text.trim_end_matches('s')
                    .parse::<f64>()
                    .ok()
                    .filter(|n| n.is_finite())
            };
            let limit = rest.split_whitespace().next().and_then(number);
            self.limit_seconds = self.limit_seconds.or(limit);
            let took = rest
                .rsplit_once('(')
                .and_then(|(_, took)| number(took.trim().trim_end_matches(')')));
            self.too_fast_seconds += took.unwrap_or(0.0);
        }
        None
    }

    /// Takes over what another text says.
    pub(super) fn merge(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.written += other.written;
        self.too_fast += other.too_fast;
        self.too_fast_seconds += other.too_fast_seconds;
        self.limit_seconds = self.limit_seconds.or(other.limit_seconds);
        self.first_miss = self.first_miss.or(other.first_miss);
        self.first_too_fast = self.first_too_fast.or(other.first_too_fast);
    }
}
