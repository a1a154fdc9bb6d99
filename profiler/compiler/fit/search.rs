//! The search for constants: coordinates and pairs of them, in shrinking steps.

use crate::compiler::calibration::Constants;
use crate::compiler::fit::{Sample, reweighted};

/// Factors by which constants are tried larger and smaller, coarse first.
const STEPS: [f64; 4] = [1.3, 1.1, 1.03, 1.01];
/// The same after a step that moved all constants.
const FINE_STEPS: [f64; 2] = [1.03, 1.01];
/// Rounds over all moves at one step.
const MAX_ROUNDS: usize = 20;
/// The factor of a kick.
const KICK: f64 = 1.25;
/// What a constant's distance from its prior costs, for each unit of its logarithm. A constant that
/// the samples need at half its prior pays for that where it makes the mean error smaller by 0.14
/// percent points: they decide wherever they say anything.
pub(super) const PULL: f64 = 0.002;
/// What a round must gain to count; less is noise.
const LEAST_GAIN: f64 = 1e-9;
/// No constant leaves this range, and no share of a bandwidth exceeds 1.
const RANGE: (f64, f64) = (0.01, 5.0);

/// What the constants are fitted to.
pub(super) struct Problem<'a> {
    pub(super) samples: &'a [&'a Sample],
    /// Where the search starts and what constants stay at that no sample tells anything of.
    pub(super) prior: Constants,
}

impl Problem<'_> {
    /// The weighted mean of |ln(predicted / measured)|, and a little for each constant's distance
    /// from its prior: of constants that fit alike the nearest is taken.
    pub(super) fn loss(&self, constants: &Constants) -> f64 {
        let (mut sum, mut weights) = (0.0, 0.0);
        for sample in self.counted() {
            let error = (sample.predicted(constants) / sample.measured()).ln().abs();
            sum += sample.weight * error;
            weights += sample.weight;
        }
        let distances = distances(constants, &self.prior).map(f64::abs);
        let pull = PULL * distances.iter().sum::<f64>();
        if weights > 0.0 {
            sum / weights + pull
        } else {
            pull
        }
    }

    pub(super) fn counted(&self) -> impl Iterator<Item = &Sample> {
        let samples = self.samples.iter().copied();
        samples.filter(|sample| sample.weight > 0.0)
    }

    /// The constants that fit best, as far as the search finds.
    ///
    /// Absolute errors make a rough landscape, so the search is kicked: each constant is set off
    /// by [`KICK`] in either way and all follow, and what fits better stays.
    pub(super) fn solve(&self) -> Constants {
        let moves = moves();
        let near = reweighted::improve(self, &self.prior);
        let (mut best, mut least) = self.descend(&near, &STEPS, &moves);
        for kick in moves.iter().filter(|kick| is_single(kick)) {
            let near = reweighted::improve(self, &moved(&best, kick, KICK));
            let (found, loss) = self.descend(&near, &FINE_STEPS, &moves);
            if loss < least - LEAST_GAIN {
                (best, least) = (found, loss);
            }
        }
        self.restored(best, least)
    }

    /// Moves downhill until no move of the smallest step helps.
    fn descend(&self, start: &Constants, steps: &[f64], moves: &[Move]) -> (Constants, f64) {
        let mut best = *start;
        let mut least = self.loss(&best);
        for &step in steps {
            for _ in 0..MAX_ROUNDS {
                let before = least;
                for change in moves {
                    let tried = moved(&best, change, step);
                    let found = self.loss(&tried);
                    if found < least - LEAST_GAIN {
                        (best, least) = (tried, found);
                    }
                }
                if least >= before {
                    break;
                }
            }
        }
        (best, least)
    }

    /// Steps come near the prior and not quite there: what fits no worse there goes back to it.
    fn restored(&self, found: Constants, least: f64) -> Constants {
        let mut values = found.to_array();
        for (i, prior) in self.prior.to_array().into_iter().enumerate() {
            let mut tried = values;
            if let Some(value) = tried.get_mut(i) {
                *value = prior;
            }
            if self.loss(&Constants::from_array(tried)) <= least {
                values = tried;
            }
        }
        Constants::from_array(values)
    }
}

/// ln(constant / prior) of each.
pub(super) fn distances(constants: &Constants, prior: &Constants) -> [f64; Constants::COUNT] {
    let mut distances = constants.to_array();
    for (value, prior) in distances.iter_mut().zip(prior.to_array()) {
        *value = (*value / prior).ln();
    }
    distances
}

type Move = [i32; Constants::COUNT];

/// One constant up or down, or two at once in each way.
fn moves() -> Vec<Move> {
    let mut moves = Vec::new();
    for one in 0..Constants::COUNT {
        for up in [1, -1] {
            let mut change = [0; Constants::COUNT];
            change[one] = up;
            moves.push(change);
            for other in one + 1..Constants::COUNT {
                for up in [1, -1] {
                    let mut both = change;
                    both[other] = up;
                    moves.push(both);
                }
            }
        }
    }
    moves
}

/// Whether a move changes one constant only.
fn is_single(change: &Move) -> bool {
    change.iter().filter(|up| **up != 0).count() == 1
}

fn moved(constants: &Constants, change: &Move, step: f64) -> Constants {
    let mut values = constants.to_array();
    for (value, exponent) in values.iter_mut().zip(change) {
        *value *= step.powi(*exponent);
    }
    clamped(values)
}

/// Constants within their range.
pub(super) fn clamped(values: [f64; Constants::COUNT]) -> Constants {
    let mut constants = Constants::from_array(values.map(|value| value.clamp(RANGE.0, RANGE.1)));
    constants.hbm = constants.hbm.min(1.0);
    constants
}
