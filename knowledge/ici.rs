//! How fast collectives run over ICI: latencies and shares of the links' bandwidth.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use profiler::chip::{Generation, Sourced};
use profiler::compiler::ici::{IciCalibration, Reached};
use serde::Deserialize;

const FILE: &str = "ici.toml";
const TEXT: &str = include_str!("data/ici.toml");

/// The key of the figures for generations and kinds that were not measured.
const POOLED: &str = "any";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    latency: Latency,
    /// By generation, then by the collective's name.
    efficiency: BTreeMap<String, BTreeMap<String, Reached>>,
    on_chip: BTreeMap<String, Reached>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Latency {
    start_us: Sourced<f64>,
    hop_us: Sourced<f64>,
}

/// What is known of collectives on a generation; pooled figures where it was not measured.
///
/// ```
/// let v6e = knowledge::ici::calibration(profiler::chip::Generation::V6e);
/// assert!(v6e.by_kind["all-reduce"].typical < v6e.any.typical);
/// ```
#[must_use]
pub fn calibration(generation: Generation) -> IciCalibration {
    let file = file();
    let own = file.efficiency.get(generation.name());
    let pooled = file.efficiency.get(POOLED);
    let of_kind = |kind: &str| {
        own.and_then(|kinds| kinds.get(kind))
            .or_else(|| pooled.and_then(|kinds| kinds.get(kind)))
    };
    let mut by_kind: BTreeMap<String, Reached> = own.cloned().unwrap_or_default();
    by_kind.remove(POOLED);
    IciCalibration {
        start_us: file.latency.start_us.value,
        hop_us: file.latency.hop_us.value,
        any: of_kind(POOLED)
            .cloned()
            .expect("the tests find the pooled figures"),
        by_kind,
        on_chip_gb_per_s: file.on_chip.get(generation.name()).cloned(),
    }
}

fn file() -> &'static File {
    static PARSED: LazyLock<File> =
        LazyLock::new(|| crate::parse(FILE, TEXT).expect("the tests parse this built-in file"));
    &PARSED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generation_has_ordered_shares_with_sources() {
        for generation in Generation::ALL {
            let found = calibration(generation);
            for reached in found.by_kind.values().chain([&found.any]) {
                assert!(0.0 < reached.low && reached.low <= reached.typical);
                assert!(reached.typical <= reached.high && reached.high <= 1.0);
                assert!(reached.source.len() >= 20, "{generation:?}");
            }
        }
    }

    #[test]
    fn the_file_names_only_generations_and_collectives() {
        let known = |name: &str| Generation::ALL.iter().any(|g| g.name() == name);
        for (generation, kinds) in &file().efficiency {
            assert!(known(generation) || generation == POOLED, "{generation}");
            for kind in kinds.keys() {
                let found = profiler::evidence::CollectiveKind::find(kind);
                assert!(found.is_some_and(|k| k.name() == kind) || kind == POOLED);
            }
        }
        assert!(file().on_chip.keys().all(|name| known(name)));
    }
}
