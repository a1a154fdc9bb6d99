//! What share of a peak good programs reach: the ceiling that a saving is measured against.
//!
//! Nothing runs at 100 % of the data sheet. A rule that takes the peak for the ceiling promises
//! savings that nobody gets; one that takes what well-made ops were measured to reach promises what
//! is there to be had. Where a generation was not measured the figures pooled over the measured ones
//! stand in, and say so.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use profiler::chip::Generation;
use serde::{Deserialize, Serialize};

const FILE: &str = "efficiency.toml";
const TEXT: &str = include_str!("data/efficiency.toml");

/// A kind of work, by what bounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Matmuls: share of the peak FLOP/s of the operands' dtype.
    Matmul,
    /// Ops that stream through HBM: share of the HBM bandwidth.
    HbmStream,
    /// Attention kernels: share of the peak bf16 FLOP/s, a causal mask halving the FLOPs counted.
    Attention,
    /// Collectives of a MiB and more a shard: share of what the links in use carry one way.
    Collective,
}

impl Work {
    /// All kinds of work.
    pub const ALL: [Self; 4] = [
        Self::Matmul,
        Self::HbmStream,
        Self::Attention,
        Self::Collective,
    ];
}

/// Shares of a peak that well-made ops reach, each in 0 to 1.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reachable {
    /// The unfavourable end of sound shapes.
    pub low: f64,
    /// The middle.
    pub typical: f64,
    /// The best seen.
    pub high: f64,
    /// Where it was measured.
    pub source: String,
}

/// What was measured on a generation, or pooled over those that were measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    /// The shares.
    pub reachable: &'static Reachable,
    /// Whether they were measured on this very generation.
    pub measured: bool,
}

/// What share of its peak a kind of work reaches on a generation.
///
/// ```
/// use knowledge::efficiency::{Work, reachable};
/// use profiler::chip::Generation;
///
/// let v6e = reachable(Work::Matmul, Generation::V6e);
/// assert!(v6e.measured && v6e.reachable.high > 0.9);
/// assert!(!reachable(Work::Matmul, Generation::V3).measured);
/// ```
#[must_use]
pub fn reachable(work: Work, generation: Generation) -> Ceiling {
    let shares = shares()
        .get(&work)
        .expect("the tests find every kind of work in the file");
    match shares.get(generation.name()) {
        Some(own) => Ceiling {
            reachable: own,
            measured: true,
        },
        None => Ceiling {
            reachable: shares
                .get(POOLED)
                .expect("the tests find the pooled figures of each kind"),
            measured: false,
        },
    }
}

/// The key of the figures for generations that were not measured.
const POOLED: &str = "any";

/// By kind of work, then by generation's name or [`POOLED`].
fn shares() -> &'static BTreeMap<Work, BTreeMap<String, Reachable>> {
    static SHARES: LazyLock<BTreeMap<Work, BTreeMap<String, Reachable>>> =
        LazyLock::new(|| crate::parse(FILE, TEXT).expect("the tests parse this built-in file"));
    &SHARES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_work_has_a_ceiling_on_every_generation() {
        for work in Work::ALL {
            for generation in Generation::ALL {
                let Reachable {
                    low,
                    typical,
                    high,
                    source,
                } = reachable(work, generation).reachable;
                assert!(
                    0.0 < *low && low < typical && typical < high && *high < 1.0,
                    "{work:?}"
                );
                assert!(
                    source.len() >= 20,
                    "{work:?} on {generation:?} cites only '{source}'"
                );
            }
        }
    }

    #[test]
    fn the_file_names_only_generations_and_pools_what_it_measured() {
        for (work, shares) in shares() {
            let pooled = shares.get(POOLED).expect("each kind has pooled figures");
            for (name, own) in shares {
                let known = Generation::ALL
                    .iter()
                    .any(|generation| generation.name() == name);
                assert!(known || name == POOLED, "{work:?}: no generation '{name}'");
                assert!(
                    own.high <= pooled.high,
                    "{work:?} on {name}: the pool misses its best"
                );
            }
        }
    }

    #[test]
    fn figures_are_those_that_were_measured() {
        let v6e = reachable(Work::HbmStream, Generation::V6e);
        // A real elementwise fusion: 1263 of 1525.5 GiB/s.
        let seen = 1263.0 / 1525.5;
        assert!(v6e.measured);
        assert!(v6e.reachable.low < seen && seen < v6e.reachable.high);

        let tpu7x = reachable(Work::Matmul, Generation::Tpu7x).reachable;
        assert!((tpu7x.low - 893.0 / 1153.5).abs() < 0.01);
        assert!((tpu7x.high - 1114.0 / 1153.5).abs() < 0.01);
    }
}
