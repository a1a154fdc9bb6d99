//! From the errors of left-out samples to bands: of a program's time and of a ratio of two.

use crate::compiler::calibration::{Spread, difference};
use crate::compiler::fit::LeftOut;
use crate::compiler::pricer::OpKind;

/// The share of what was measured that a band holds.
const COVERAGE: f64 = 0.9;
/// Programs that spend less of their time in different kinds count as alike.
const ALIKE: f64 = 0.05;
/// A kind that no sample holds has the spread of all samples times this.
const UNSEEN: f64 = 2.0;
/// Of a kind in few samples the spread is pulled towards that of all samples, as if so many programs
/// of it had been seen with that spread.
const PRIOR_PROGRAMS: f64 = 2.0;
/// No spread is smaller than this: the measurements themselves move by about a percent.
const LEAST: f64 = 0.01;

/// The spreads that left-out samples show.
pub(super) fn spread(seen: &[&LeftOut]) -> Spread {
    let pooled = root_mean_square(seen, |_| 1.0, None);
    let of = |kinds: &[OpKind]| {
        let share = |s: &LeftOut| kinds.iter().filter_map(|kind| s.kinds.get(kind)).sum();
        root_mean_square(seen, share, Some(pooled))
    };
    let mut spread = Spread {
        matmul: of(&[OpKind::Matmul]),
        convolution: of(&[OpKind::Convolution]),
        vector: of(&[OpKind::Loop, OpKind::Reduce, OpKind::Copy, OpKind::Other]),
        kernel: of(&[OpKind::Kernel]),
        band_factor: 1.0,
        ratio_floor: 0.0,
        ratio_factor: 1.0,
    };
    let programs = seen
        .iter()
        .map(|s| s.log_error().abs() / spread.of_shares(&s.kinds));
    spread.band_factor = quantile(programs.collect());
    let pairs: Vec<(f64, f64, f64)> = pairs(seen)
        .map(|(a, b)| {
            (
                (a.log_error() - b.log_error()).abs(),
                spread.of_ratio(&a.kinds, &b.kinds),
                difference(&a.kinds, &b.kinds),
            )
        })
        .collect();
    let alike: Vec<f64> = pairs
        .iter()
        .filter(|(.., difference)| *difference < ALIKE)
        .map(|(error, ..)| error * error)
        .collect();
    let mean = alike.iter().sum::<f64>() / alike.len().max(1) as f64;
    spread.ratio_floor = mean.sqrt().max(LEAST);
    let ratios = pairs
        .iter()
        .map(|(error, differing, _)| error / (spread.ratio_floor + differing));
    spread.ratio_factor = quantile(ratios.collect());
    spread
}

/// Pairs of different programs of one set.
pub(super) fn pairs<'a>(
    seen: &'a [&'a LeftOut],
) -> impl Iterator<Item = (&'a LeftOut, &'a LeftOut)> {
    seen.iter()
        .enumerate()
        .flat_map(|(i, one)| seen.iter().take(i).map(move |other| (*one, *other)))
        .filter(|(a, b)| a.set == b.set && a.name != b.name)
}

/// The weighted root mean square error, pulled towards `prior`.
fn root_mean_square(
    seen: &[&LeftOut],
    weight: impl Fn(&LeftOut) -> f64,
    prior: Option<f64>,
) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for s in seen {
        sum += weight(s) * s.log_error().powi(2);
        weights += weight(s);
    }
    match prior {
        Some(prior) if weights <= 0.0 => UNSEEN * prior,
        Some(prior) => {
            sum += PRIOR_PROGRAMS * prior * prior;
            (sum / (weights + PRIOR_PROGRAMS)).sqrt().max(LEAST)
        }
        None => (sum / weights.max(1.0)).sqrt().max(LEAST),
    }
}

/// The value that [`COVERAGE`] of all values do not exceed; 1 where there are none.
fn quantile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * COVERAGE).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(1.0)
}
