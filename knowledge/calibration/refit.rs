//! Makes a calibration anew from compiled programs, and writes it down.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use profiler::chip::Generation;
use profiler::compiler::calibration::{Accuracy, Calibration, Constants, PairOrder};
use profiler::compiler::cost_model::ProgramWork;
use profiler::compiler::fit::{Fit, LeftOut, Sample, fit};
use profiler::program::Program;

use crate::calibration::measured;
use crate::chips::chip;

/// A workload as one build of the compiler made it.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The workload's name.
    pub workload: String,
    /// The build of libtpu.
    pub build: String,
    /// The optimized program.
    pub program: Program,
}

/// A calibration made anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Refit {
    /// The calibration. Its accuracy is that for programs of the first build.
    pub calibration: Calibration,
    /// All left-out predictions.
    pub fit: Fit,
}

/// Why no calibration could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefitError {
    /// Nobody published times of that chip.
    #[error(
        "no measured times of {0:?} are known; add them to knowledge/data/calibration with their source"
    )]
    NotMeasured(Generation),
    /// A fit needs more programs.
    #[error(
        "{found} of the {wanted} measured workloads were compiled; a fit needs {least} at least"
    )]
    TooFew {
        /// Programs given that have a measured time.
        found: usize,
        /// Workloads with a measured time.
        wanted: usize,
        /// Least number.
        least: usize,
    },
}

/// Programs that a fit needs: several for each constant.
const LEAST_PROGRAMS: usize = 20;

/// What constants are taken to be where the data say nothing: the compiler and the data sheet at
/// their word, and nothing hidden behind anything else.
const PRIOR: Constants = Constants {
    mxu: 1.0,
    matmul_excess: 1.0,
    convolution_excess: 1.0,
    epilogue: 1.0,
    vector: 1.0,
    hbm: 1.0,
    kernel: 1.0,
};

/// Fits the constants of a generation to programs that one or several builds of the compiler made of
/// its measured workloads. Samples of one workload are left out together.
pub fn refit(generation: Generation, compiled: &[Compiled]) -> Result<Refit, RefitError> {
    let measured = measured(generation).ok_or(RefitError::NotMeasured(generation))?;
    let facts = chip(generation);
    let mut builds: Vec<String> = Vec::new();
    let mut samples = Vec::new();
    for one in compiled {
        let mut workloads = measured.workloads.iter();
        let Some(workload) = workloads.find(|w| w.name == one.workload) else {
            continue;
        };
        let work = ProgramWork::of(&one.program, facts);
        // A kernel that only this build makes was not in the program that was measured.
        if workload.kernel && work.has_kernels() {
            continue;
        }
        if !builds.contains(&one.build) {
            builds.push(one.build.clone());
        }
        samples.push(Sample {
            name: workload.name.clone(),
            set: one.build.clone(),
            work,
            measured_ps: (workload.median_ms * 1e9).round() as u64,
            weight: 1.0,
        });
    }
    if samples.len() < LEAST_PROGRAMS {
        return Err(RefitError::TooFew {
            found: samples.len(),
            wanted: measured.workloads.len(),
            least: LEAST_PROGRAMS,
        });
    }
    let fit = fit(&samples, &PRIOR);
    let first = builds.first().map_or("", String::as_str);
    let calibration = Calibration {
        generation,
        source: measured.source.clone(),
        accuracy: fit.accuracy(first),
        libtpu_builds: builds,
        measured: true,
        constants: rounded(fit.constants),
        spread: fit.spread,
    };
    Ok(Refit { calibration, fit })
}

/// Three digits: the data say no more.
fn rounded(constants: Constants) -> Constants {
    Constants::from_array(
        constants
            .to_array()
            .map(|value| (value * 1e3).round() / 1e3),
    )
}

impl Refit {
    /// The data file.
    #[must_use]
    pub fn toml(&self) -> String {
        let Calibration {
            generation,
            source,
            libtpu_builds,
            measured,
            constants,
            spread,
            accuracy,
        } = &self.calibration;
        let mut out = String::from(
            "# Made by `cargo run -p tpu-tune-knowledge --bin calibrate`; see calibration/README.md.\n\
             # What each figure means stands in profiler/compiler/calibration.rs.\n",
        );
        let builds: Vec<String> = libtpu_builds.iter().map(|b| format!("{b:?}")).collect();
        let name = generation.name();
        let _ = write!(
            out,
            "generation = {name:?}\nsource = {source:?}\nlibtpu_builds = [{}]\nmeasured = {measured}\n",
            builds.join(", ")
        );
        table(
            &mut out,
            "constants",
            &[
                ("mxu", constants.mxu),
                ("matmul_excess", constants.matmul_excess),
                ("convolution_excess", constants.convolution_excess),
                ("epilogue", constants.epilogue),
                ("vector", constants.vector),
                ("hbm", constants.hbm),
                ("kernel", constants.kernel),
            ],
        );
        out.push_str("\n# Spread of ln(measured / predicted) of programs that were left out.\n");
        table(
            &mut out,
            "spread",
            &[
                ("matmul", spread.matmul),
                ("convolution", spread.convolution),
                ("vector", spread.vector),
                ("kernel", spread.kernel),
                ("band_factor", spread.band_factor),
                ("ratio_floor", spread.ratio_floor),
                ("ratio_factor", spread.ratio_factor),
            ],
        );
        let first = libtpu_builds.first().map_or("", String::as_str);
        let _ = write!(
            out,
            "\n# Leave-one-out, programs compiled by libtpu {first}.\n[accuracy]\nprograms = {}\n",
            accuracy.programs
        );
        entries(
            &mut out,
            &[
                ("median_error", accuracy.median_error),
                ("mean_error", accuracy.mean_error),
                ("within_15_percent", accuracy.within_15_percent),
                ("within_30_percent", accuracy.within_30_percent),
            ],
        );
        for (name, pairs) in [
            ("near_pairs", accuracy.near_pairs),
            ("far_pairs", accuracy.far_pairs),
        ] {
            let _ = write!(out, "\n[accuracy.{name}]\npairs = {}\n", pairs.pairs);
            entries(
                &mut out,
                &[("calibrated", pairs.calibrated), ("cycles", pairs.cycles)],
            );
        }
        out
    }

    /// The tables of the documentation: figures by build, then each workload.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        self.summary(&mut out);
        out.push('\n');
        self.coverage(&mut out);
        out.push('\n');
        self.workloads(&mut out);
        out
    }

    fn summary(&self, out: &mut String) {
        out.push_str("| programs compiled by libtpu | programs | median error | mean error | within 15 % | within 30 % | pairs 1.1x to 2x apart in order | pairs further apart in order |\n");
        out.push_str("|---|---|---|---|---|---|---|---|\n");
        for build in &self.calibration.libtpu_builds {
            let Accuracy {
                programs,
                median_error,
                mean_error,
                within_15_percent,
                within_30_percent,
                near_pairs,
                far_pairs,
            } = self.fit.accuracy(build);
            let percent = |share: f64| format!("{:.1} %", share * 100.0);
            let pairs = |order: PairOrder| {
                format!(
                    "{} of {} (raw cycles: {})",
                    percent(order.calibrated),
                    order.pairs,
                    percent(order.cycles)
                )
            };
            let _ = writeln!(
                out,
                "| {build} | {programs} | {} | {} | {} | {} | {} | {} |",
                percent(median_error),
                percent(mean_error),
                percent(within_15_percent),
                percent(within_30_percent),
                pairs(near_pairs),
                pairs(far_pairs)
            );
        }
    }

    fn coverage(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "Of left-out programs {:.0} % lie in the 90 % band of their prediction. Of ratios of two:\n",
            self.fit.time_coverage() * 100.0
        );
        out.push_str("| the two spend in different kinds | pairs | measured ratio in the band | the band goes up by |\n|---|---|---|---|\n");
        for (name, from, to) in [
            ("less than 5 % of their time", 0.0, 0.05),
            ("5 % to 25 %", 0.05, 0.25),
            ("25 % to 60 %", 0.25, 0.6),
            ("more", 0.6, f64::INFINITY),
        ] {
            let found = self.fit.ratio_coverage(from, to);
            let _ = writeln!(
                out,
                "| {name} | {} | {:.0} % | {:.0} % |",
                found.pairs,
                found.inside * 100.0,
                found.median_width * 100.0
            );
        }
    }

    fn workloads(&self, out: &mut String) {
        let builds = &self.calibration.libtpu_builds;
        let mut rows: BTreeMap<&str, BTreeMap<&str, &LeftOut>> = BTreeMap::new();
        let mut order: Vec<&str> = Vec::new();
        for left_out in &self.fit.left_out {
            if !order.contains(&left_out.name.as_str()) {
                order.push(&left_out.name);
            }
            let row = rows.entry(&left_out.name).or_default();
            row.insert(&left_out.set, left_out);
        }
        order.sort_by_key(|name| number(name));
        out.push_str("| workload | measured ms |");
        for build in builds {
            let _ = write!(out, " {build}: predicted ms | error | raw cycles ms |");
        }
        out.push_str("\n|---|---|");
        out.push_str(&"---|---|---|".repeat(builds.len()));
        out.push('\n');
        let ms = |ps: u64| format!("{:.3}", ps as f64 / 1e9);
        for name in order {
            let Some(row) = rows.get(name) else { continue };
            let measured = row.values().next().map_or(0, |l| l.measured_ps);
            let _ = write!(out, "| {name} | {} |", ms(measured));
            for build in builds {
                match row.get(build.as_str()) {
                    Some(l) => {
                        let _ = write!(
                            out,
                            " {} | {:+.1} % | {} |",
                            ms(l.predicted_ps),
                            l.error() * 100.0,
                            ms(l.estimated_ps)
                        );
                    }
                    None => out.push_str(" a kernel | | |"),
                }
            }
            out.push('\n');
        }
    }
}

/// The number that a workload's name starts with.
fn number(name: &str) -> u32 {
    let digits = name.split(|c: char| !c.is_ascii_digit()).next();
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(u32::MAX)
}

fn table(out: &mut String, name: &str, values: &[(&str, f64)]) {
    let _ = write!(out, "\n[{name}]\n");
    entries(out, values);
}

fn entries(out: &mut String, values: &[(&str, f64)]) {
    for (key, value) in values {
        let _ = writeln!(out, "{key} = {value:.4}");
    }
}
