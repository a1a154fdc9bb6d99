//! Fits the constants of the cost model to measured times, and says how well they predict what
//! they were not fitted to.
//!
//! Pure and deterministic: a search by coordinates and by pairs of them, in shrinking steps, for the
//! least mean of |ln(predicted / measured)|. That measure takes a factor of two too much and too
//! little for equally wrong, and lets single outliers pull the constants little.

mod search;
mod spread;

use std::collections::BTreeSet;

use crate::compiler::calibration::{Accuracy, Constants, PairOrder, Spread};
use crate::compiler::cost_model::ProgramWork;
use crate::compiler::cost_model::program_price::Parts;
use crate::compiler::cost_model::runs::Runs;
use crate::compiler::cost_model::work::Work;

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
        Parts::of(&self.work, constants).total.max(1.0)
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
}

impl LeftOut {
    /// predicted / measured − 1.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted_ps as f64 / self.measured_ps.max(1) as f64 - 1.0
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
}

/// Fits constants to samples, from a start that constants keep which no sample tells anything of.
#[must_use]
pub fn fit(samples: &[Sample], start: &Constants) -> Fit {
    let all: Vec<&Sample> = samples.iter().collect();
    let constants = search::search(&all, start, &search::STEPS);
    let names: BTreeSet<&str> = samples.iter().map(|sample| sample.name.as_str()).collect();
    let mut left_out = vec![None; samples.len()];
    let mut parts = vec![None; samples.len()];
    for name in names {
        let others: Vec<&Sample> = samples.iter().filter(|s| s.name != name).collect();
        // It starts where all samples led: it is close, and whatever the sample did to the
        // constants is undone by the same search.
        let without = search::search(&others, &constants, &search::REFINING_STEPS);
        for (i, sample) in samples.iter().enumerate() {
            if sample.name != name {
                continue;
            }
            let priced = Parts::of(&sample.work, &without);
            left_out[i] = Some(LeftOut {
                name: sample.name.clone(),
                set: sample.set.clone(),
                measured_ps: sample.measured_ps,
                predicted_ps: sample.predicted(&without).round() as u64,
                estimated_ps: sample.estimated().round() as u64,
            });
            parts[i] = Some(priced);
        }
    }
    let left_out: Vec<LeftOut> = left_out.into_iter().flatten().collect();
    let parts: Vec<Parts> = parts.into_iter().flatten().collect();
    let spread = spread::spread(samples, &left_out, &parts);
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
    let (mut calibrated, mut cycles) = (0usize, 0usize);
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
            let right = |x: u64, y: u64| usize::from(x != y && (x > y) == (a > b));
            calibrated += right(one.predicted_ps, other.predicted_ps);
            cycles += right(one.estimated_ps, other.estimated_ps);
        }
    }
    let share = |count: usize| count as f64 / pairs.max(1) as f64;
    PairOrder {
        pairs,
        calibrated: share(calibrated),
        cycles: share(cycles),
    }
}

#[cfg(test)]
#[path = "fit/tests.rs"]
mod tests;
