//! Iteratively reweighted least squares: steps that move all constants at once.
//!
//! Single constants and pairs cannot follow a narrow valley in which several must move together.
//! Least squares in the logarithms can; weighing each error by its inverse makes the squares into
//! absolute values.

use crate::compiler::calibration::Constants;
use crate::compiler::fit::Sample;
use crate::compiler::fit::search::{PULL, Problem, clamped, distances};

const N: usize = Constants::COUNT;
type Vector = [f64; N];

/// Steps that are tried.
const MAX_STEPS: usize = 40;
/// Errors below this weigh no more than it: one percent.
const LEAST_ERROR: f64 = 0.01;
/// The distance in logarithms over which slopes are taken.
const DISTANCE: f64 = 1e-3;
/// How much a step is held back at first, as in Levenberg's and Marquardt's method.
const DAMPING: f64 = 1e-3;
/// How much more a step is held back after one that did not help, and less after one that did.
const CHANGE: f64 = 4.0;
/// No step moves a constant by more than this factor's logarithm: 35 %.
const LONGEST: f64 = 0.3;

/// Constants that fit at least as well as the start.
pub(super) fn improve(problem: &Problem<'_>, start: &Constants) -> Constants {
    let mut best = *start;
    let mut least = problem.loss(&best);
    let mut damping = DAMPING;
    for _ in 0..MAX_STEPS {
        let Some(step) = step(problem, &best, damping) else {
            break;
        };
        let mut values = best.to_array();
        for (value, by) in values.iter_mut().zip(step) {
            *value *= by.clamp(-LONGEST, LONGEST).exp();
        }
        let tried = clamped(values);
        let found = problem.loss(&tried);
        if found < least {
            (best, least) = (tried, found);
            damping /= CHANGE;
        } else {
            damping *= CHANGE;
        }
    }
    best
}

/// The step in the logarithms of the constants.
fn step(problem: &Problem<'_>, at: &Constants, damping: f64) -> Option<Vector> {
    let error = |sample: &Sample, constants: &Constants| {
        (sample.predicted(constants) / sample.measured()).ln()
    };
    let mut near = [*at; N];
    for (i, moved) in near.iter_mut().enumerate() {
        let mut values = at.to_array();
        *values.get_mut(i)? *= DISTANCE.exp();
        *moved = Constants::from_array(values);
    }
    let mut matrix = [[0.0; N]; N];
    let mut right = [0.0; N];
    let mut weights = 0.0;
    for sample in problem.counted() {
        weights += sample.weight;
        let here = error(sample, at);
        let weight = sample.weight / here.abs().max(LEAST_ERROR);
        let slopes = near.map(|moved| (error(sample, &moved) - here) / DISTANCE);
        for ((row, sum), slope) in matrix.iter_mut().zip(&mut right).zip(slopes) {
            *sum -= weight * slope * here;
            for (cell, other) in row.iter_mut().zip(slopes) {
                *cell += weight * slope * other;
            }
        }
    }
    let distances = distances(at, &problem.prior);
    for (i, row) in matrix.iter_mut().enumerate() {
        let cell = row.get_mut(i)?;
        let distance = *distances.get(i)?;
        let weight = weights * PULL / distance.abs().max(LEAST_ERROR);
        *right.get_mut(i)? -= weight * distance;
        *cell += weight;
        *cell += damping * *cell + f64::MIN_POSITIVE;
    }
    solve(matrix, right)
}

/// Solves a positive definite system by elimination.
fn solve(mut matrix: [Vector; N], mut right: Vector) -> Option<Vector> {
    for pivot in 0..N {
        let row = *matrix.get(pivot)?;
        let by = *row.get(pivot)?;
        let value = *right.get(pivot)?;
        if by.abs() < f64::MIN_POSITIVE || !by.is_finite() {
            return None;
        }
        for other in (0..N).filter(|other| *other != pivot) {
            let target = matrix.get_mut(other)?;
            let factor = *target.get(pivot)? / by;
            for (cell, with) in target.iter_mut().zip(row) {
                *cell -= factor * with;
            }
            *right.get_mut(other)? -= factor * value;
        }
    }
    let mut solution = [0.0; N];
    for (i, slot) in solution.iter_mut().enumerate() {
        *slot = right.get(i)? / matrix.get(i)?.get(i)?;
    }
    solution
        .iter()
        .all(|value| value.is_finite())
        .then_some(solution)
}
