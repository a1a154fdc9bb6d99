//! Calibrations of the compiler's figures: for each measured chip the constants of the cost model,
//! and the measured times that they were made from.
//!
//! `calibration/README.md` tells how they were made, how well they predict, and what badly.

mod refit;

use std::sync::LazyLock;

use profiler::chip::Generation;
use profiler::compiler::calibration::Calibration;
use serde::Deserialize;

pub use refit::{Compiled, Refit, RefitError, refit};

/// Measured chips: the calibration, and what it was made from.
const V6E: (&str, &str) = (
    "calibration/v6e.toml",
    include_str!("data/calibration/v6e.toml"),
);
const V6E_MEASURED: (&str, &str) = (
    "calibration/v6e_measured.toml",
    include_str!("data/calibration/v6e_measured.toml"),
);

/// Measured times of whole programs on one chip.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The chip.
    pub generation: Generation,
    /// Who measured, how, and where it is published.
    pub source: String,
    /// The programs, in the suite's order.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
}

/// A program and its measured time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The suite's name; the program is `calibration/programs/<name>.mlir.gz`.
    pub name: String,
    /// The median device time of one run, in milliseconds.
    pub median_ms: f64,
    /// Whether newer builds of the compiler make a kernel of its attention: another program than
    /// the measured one, so it counts only as the build of the measurement compiles it.
    #[serde(default)]
    pub kernel: bool,
}

/// The calibration of a generation. Of a chip that was not measured: v6e's ratios to its own peaks
/// and clock, with bands twice as wide.
///
/// ```
/// use knowledge::calibration::calibration;
/// use profiler::chip::Generation;
///
/// let (v6e, v5p) = (calibration(Generation::V6e), calibration(Generation::V5p));
/// assert!(v6e.measured && v6e.accuracy.median_error < 0.08);
/// assert!(!v5p.measured && v5p.spread.matmul > v6e.spread.matmul);
/// ```
#[must_use]
pub fn calibration(generation: Generation) -> Calibration {
    static V6E_PARSED: LazyLock<Calibration> =
        LazyLock::new(|| crate::parse(V6E.0, V6E.1).expect("the tests parse this built-in file"));
    V6E_PARSED.for_chip(generation)
}

/// The measured times that a generation's calibration was made from; absent where none are public.
#[must_use]
pub fn measured(generation: Generation) -> Option<&'static Measured> {
    static MEASURED: LazyLock<Measured> = LazyLock::new(|| {
        crate::parse(V6E_MEASURED.0, V6E_MEASURED.1).expect("the tests parse this built-in file")
    });
    (MEASURED.generation == generation).then_some(&*MEASURED)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_measured_workload_has_its_program_and_the_source_is_cited() {
        let measured = measured(Generation::V6e).expect("v6e was measured");
        assert_eq!(measured.workloads.len(), 48);
        assert!(measured.source.contains("999e01e"));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("calibration/programs");
        for workload in &measured.workloads {
            let program = folder.join(format!("{}.mlir.gz", workload.name));
            assert!(program.is_file(), "{} has no program", workload.name);
            assert!(workload.median_ms > 0.0);
        }
        assert_eq!(measured.workloads.iter().filter(|w| w.kernel).count(), 5);
    }

    #[test]
    fn the_committed_calibration_predicts_what_it_was_not_fitted_to() {
        let found = calibration(Generation::V6e);
        let accuracy = found.accuracy;
        assert!(accuracy.programs >= 43);
        assert!(accuracy.median_error <= 0.08, "{accuracy:?}");
        assert!(accuracy.within_30_percent >= 0.88, "{accuracy:?}");
        for pairs in [accuracy.near_pairs, accuracy.far_pairs] {
            assert!(pairs.pairs > 200);
            assert!(pairs.calibrated > pairs.cycles, "{pairs:?}");
        }
        assert!(found.source.contains("JAXBench"));
    }

    #[test]
    fn chips_and_builds_that_were_not_measured_have_wider_bands() {
        let v6e = calibration(Generation::V6e);
        let known = v6e.libtpu_builds.first().expect("builds are named");
        assert_eq!(v6e.for_build(known), v6e);
        assert!(v6e.for_build("9.9").spread.vector > v6e.spread.vector);
        for generation in Generation::ALL {
            let found = calibration(generation);
            assert_eq!(found.generation, generation);
            assert_eq!(found.measured, generation == Generation::V6e);
            assert_eq!(found.constants, v6e.constants);
        }
    }
}
