//! The search for constants: coordinates and pairs of them, in shrinking steps.

use crate::compiler::calibration::Constants;
use crate::compiler::fit::Sample;

/// Factors by which constants are tried larger and smaller, coarse first.
pub(super) const STEPS: [f64; 4] = [1.3, 1.1, 1.03, 1.01];
/// The same where the start is close.
pub(super) const REFINING_STEPS: [f64; 3] = [1.1, 1.03, 1.01];
/// Rounds over all moves at one step.
const MAX_ROUNDS: usize = 20;
/// The factor of a kick.
const KICK: f64 = 1.25;
/// What a round must gain to count; less is noise.
const LEAST_GAIN: f64 = 1e-9;
/// No constant leaves this range, and no share of a bandwidth exceeds 1.
const RANGE: (f64, f64) = (0.01, 5.0);

/// The constants that fit the samples best, as far as the search finds.
///
/// Medians make a rough landscape, so the search is kicked: each constant is set off by
/// [`KICK`] in either way and all follow, and what fits better stays.
pub(super) fn search(samples: &[&Sample], start: &Constants, steps: &[f64]) -> Constants {
    let moves = moves();
    let (mut best, mut least) = descend(samples, start, steps, &moves);
    for kick in moves.iter().filter(|kick| is_single(kick)) {
        let kicked = moved(&best, kick, KICK);
        let (found, loss) = descend(samples, &kicked, &REFINING_STEPS, &moves);
        if loss < least - LEAST_GAIN {
            (best, least) = (found, loss);
        }
    }
    restore_unseen(samples, start, best)
}

/// Moves downhill until no move of the smallest step helps.
fn descend(
    samples: &[&Sample],
    start: &Constants,
    steps: &[f64],
    moves: &[Move],
) -> (Constants, f64) {
    let mut best = *start;
    let mut least = loss(samples, &best);
    for &step in steps {
        for _ in 0..MAX_ROUNDS {
            let before = least;
            for change in moves {
                let tried = moved(&best, change, step);
                let found = loss(samples, &tried);
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

/// A kick may carry a constant away that no sample tells anything of: it goes back to the start.
fn restore_unseen(samples: &[&Sample], start: &Constants, found: Constants) -> Constants {
    let mut values = found.to_array();
    for (i, original) in start.to_array().into_iter().enumerate() {
        let mut tried = values;
        if let Some(value) = tried.get_mut(i) {
            *value = original;
        }
        if loss(samples, &Constants::from_array(tried)) <= loss(samples, &found) {
            values = tried;
        }
    }
    Constants::from_array(values)
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
        *value = (*value * step.powi(*exponent)).clamp(RANGE.0, RANGE.1);
    }
    let mut moved = Constants::from_array(values);
    moved.hbm = moved.hbm.min(1.0);
    moved
}

/// The weighted mean of |ln(predicted / measured)|.
fn loss(samples: &[&Sample], constants: &Constants) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for sample in samples.iter().filter(|sample| sample.weight > 0.0) {
        let error = (sample.predicted(constants) / sample.measured()).ln().abs();
        sum += sample.weight * error;
        weights += sample.weight;
    }
    if weights > 0.0 { sum / weights } else { 0.0 }
}
