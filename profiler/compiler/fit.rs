//! Fits the constants of the cost model to measured times, and says how well they predict what
//! they were not fitted to.
//!
//! Pure and deterministic: a search for the least mean of |ln(predicted / measured)|. That measure takes a factor of two too much and too
//! little for equally wrong, and lets single outliers pull the constants little.

mod reweighted;
mod search;
mod spread;

use std::collections::{BTreeMap, BTreeSet};

use crate::compiler::calibration::{Accuracy, Constants, PairOrder, Spread, difference};
use crate::compiler::cost_model::ProgramWork;
use crate::compiler::cost_model::program_price::{Parts, total_ps};
use crate::compiler::cost_model::runs::Runs;
use crate::compiler::cost_model::work::Work;
use crate::compiler::fit::search::Problem;
use crate::compiler::pricer::OpKind;

/// Something whose time was measured: a program, or a single operation of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What it is. Samples of one name are left out together: they are the same program, made by
    /// several builds of the compiler.
    pub name: String,
    /// Which set it belongs to, as the build of the compiler; accuracy is told by set.
    pub set: String,
    /// What it does.
    pub work: ProgramWork,
    /// The time that was measured, in picoseconds.
    pub measured_ps: u64,
    /// How much it counts; 0 for what is only predicted.
    pub weight: f64,
}

impl Sample {
    /// A single operation of a trace: its work and its measured time. Weigh it by its share of the
    /// time, so that the constants are right where the time goes.
    #[must_use]
    pub fn of_op(name: &str, work: Work, measured_ps: u64, weight: f64) -> Self {
        let work = ProgramWork {
            ops: vec![(work, 1.0)],
            runs: Runs::default(),
            collectives: 0.0,
        };
        Self {
            name: name.to_owned(),
            set: String::new(),
            work,
            measured_ps,
            weight,
        }
    }

    /// Its time by those constants, in picoseconds; at least one, so that ratios exist.
    fn predicted(&self, constants: &Constants) -> f64 {
        total_ps(&self.work, constants).max(1.0)
    }

    /// The sum of the compiler's own estimates, in picoseconds.
    fn estimated(&self) -> f64 {
        let ops = self.work.ops.iter();
        ops.map(|(work, count)| work.estimate_ps.unwrap_or(0.0) * count)
            .sum()
    }

    fn measured(&self) -> f64 {
        self.measured_ps.max(1) as f64
    }

    /// Its prediction by constants that were fitted without it.
    fn left_out(&self, without: &Constants) -> LeftOut {
        let parts = Parts::of(&self.work, without);
        let total = parts.total.max(1.0);
        LeftOut {
            name: self.name.clone(),
            set: self.set.clone(),
            measured_ps: self.measured_ps,
            predicted_ps: total.round() as u64,
            estimated_ps: self.estimated().round() as u64,
            kinds: parts.kinds.iter().map(|(k, t)| (*k, t / total)).collect(),
        }
    }
}

/// A sample's prediction by constants that were fitted without it.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// The sample's name.
    pub name: String,
    /// The sample's set.
    pub set: String,
    /// Measured, in picoseconds.
    pub measured_ps: u64,
    /// Predicted without it, in picoseconds.
    pub predicted_ps: u64,
    /// The sum of the compiler's own estimates, in picoseconds.
    pub estimated_ps: u64,
    /// The shares of the predicted time by kind of operation.
    pub kinds: BTreeMap<OpKind, f64>,
}

impl LeftOut {
    /// predicted / measured − 1.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted_ps as f64 / self.measured_ps.max(1) as f64 - 1.0
    }

    /// ln(measured / predicted).
    fn log_error(&self) -> f64 {
        -(self.error() + 1.0).max(1e-6).ln()
    }
}

/// The result of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The constants that fit all samples best.
    pub constants: Constants,
    /// How far predictions of left-out samples are off.
    pub spread: Spread,
    /// Every sample, predicted without it, in the order of the samples.
    pub left_out: Vec<LeftOut>,
}

impl Fit {
    /// How well the left-out samples of one set were predicted.
    #[must_use]
    pub fn accuracy(&self, set: &str) -> Accuracy {
        let of_set: Vec<&LeftOut> = self.left_out.iter().filter(|l| l.set == set).collect();
        accuracy(&of_set)
    }

    /// The share of left-out programs whose measured time lies in the band of their prediction.
    #[must_use]
    pub fn time_coverage(&self) -> f64 {
        let inside = self.left_out.iter().filter(|left_out| {
            let band = self.spread.band_factor * self.spread.of_shares(&left_out.kinds);
            left_out.log_error().abs() <= band
        });
        inside.count() as f64 / self.left_out.len().max(1) as f64
    }

    /// How the bands of ratios hold, for pairs of left-out programs of one set whose shares of
    /// time differ by at least `from` and less than `to`, of 0 for alike to 1 for none in common.
    #[must_use]
    pub fn ratio_coverage(&self, from: f64, to: f64) -> RatioCoverage {
        let counted: Vec<&LeftOut> = self.left_out.iter().collect();
        let mut found = RatioCoverage::default();
        let mut widths = Vec::new();
        for (one, other) in spread::pairs(&counted) {
            if !(from..to).contains(&difference(&one.kinds, &other.kinds)) {
                continue;
            }
            let band = self.spread.ratio_factor * self.spread.of_ratio(&one.kinds, &other.kinds);
            found.pairs += 1;
            found.inside += f64::from(u8::from(
                (one.log_error() - other.log_error()).abs() <= band,
            ));
            widths.push(band.exp() - 1.0);
        }
        found.inside /= found.pairs.max(1) as f64;
        widths.sort_by(f64::total_cmp);
        found.median_width = widths.get(widths.len() / 2).copied().unwrap_or(0.0);
        found
    }
}

/// How often the measured ratio of two programs lies in the band of the predicted one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RatioCoverage {
    /// Pairs.
    pub pairs: usize,
    /// The share of them whose measured ratio lies in the band.
    pub inside: f64,
    /// Half the middle band's width: 0.1 where it goes up by 10 %.
    pub median_width: f64,
}

/// Fits constants to samples. Of constants that fit alike those nearest to the prior are taken, and
/// constants that no sample tells anything of stay there.
#[must_use]
pub fn fit(samples: &[Sample], prior: &Constants) -> Fit {
    let all: Vec<&Sample> = samples.iter().collect();
    let solve = |samples: &[&Sample]| {
        let prior = *prior;
        Problem { samples, prior }.solve()
    };
    let constants = solve(&all);
    let names: BTreeSet<&str> = samples.iter().map(|sample| sample.name.as_str()).collect();
    let mut left_out = vec![None; samples.len()];
    for name in names {
        let others: Vec<&Sample> = samples.iter().filter(|s| s.name != name).collect();
        let without = solve(&others);
        for (slot, sample) in left_out.iter_mut().zip(samples) {
            if sample.name == name {
                *slot = Some(sample.left_out(&without));
            }
        }
    }
    let left_out: Vec<LeftOut> = left_out.into_iter().flatten().collect();
    let counted: Vec<&LeftOut> = left_out
        .iter()
        .zip(samples)
        .filter(|(_, sample)| sample.weight > 0.0)
        .map(|(left_out, _)| left_out)
        .collect();
    let spread = spread::spread(&counted);
    Fit {
        constants,
        spread,
        left_out,
    }
}

fn accuracy(left_out: &[&LeftOut]) -> Accuracy {
    let mut errors: Vec<f64> = left_out.iter().map(|l| l.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    let count = errors.len();
    if count == 0 {
        return Accuracy::default();
    }
    let within = |limit: f64| errors.iter().filter(|e| **e <= limit).count() as f64 / count as f64;
    let middle = |at: usize| errors.get(at).copied().unwrap_or(0.0);
    Accuracy {
        programs: count,
        median_error: (middle((count - 1) / 2) + middle(count / 2)) / 2.0,
        mean_error: errors.iter().sum::<f64>() / count as f64,
        within_15_percent: within(0.15),
        within_30_percent: within(0.30),
        near_pairs: order(left_out, 1.1, 2.0),
        far_pairs: order(left_out, 2.0, f64::INFINITY),
    }
}

/// The order of pairs whose measured times are from `from` to below `to` times apart.
fn order(left_out: &[&LeftOut], from: f64, to: f64) -> PairOrder {
    let mut pairs = 0usize;
    let (mut calibrated, mut cycles) = (0.0, 0.0);
    for (i, one) in left_out.iter().enumerate() {
        for other in left_out.iter().take(i) {
            let (a, b) = (
                one.measured_ps.max(1) as f64,
                other.measured_ps.max(1) as f64,
            );
            if !(from..to).contains(&(a / b).max(b / a)) {
                continue;
            }
            pairs += 1;
            // Equal predictions say nothing: half of such pairs are right by chance.
            let right = |x: u64, y: u64| match x == y {
                true => 0.5,
                false => f64::from(u8::from((x > y) == (a > b))),
            };
            calibrated += right(one.predicted_ps, other.predicted_ps);
            cycles += right(one.estimated_ps, other.estimated_ps);
        }
    }
    let share = |right: f64| right / pairs.max(1) as f64;
    PairOrder {
        pairs,
        calibrated: share(calibrated),
        cycles: share(cycles),
    }
}

#[cfg(test)]
#[path = "fit/tests.rs"]
mod tests;
