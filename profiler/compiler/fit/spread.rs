//! From the errors of left-out samples to bands: of a program's time and of a ratio of two.

use std::collections::BTreeMap;

use crate::compiler::calibration::Spread;
use crate::compiler::cost_model::program_price::Parts;
use crate::compiler::fit::{LeftOut, Sample};
use crate::compiler::pricer::OpKind;

/// The share of what was measured that a band holds.
const COVERAGE: f64 = 0.9;
/// Shares of time that differ by less count as alike.
const ALIKE: f64 = 0.05;
/// A kind that no sample holds has the spread of all samples times this.
const UNSEEN: f64 = 2.0;
/// Of a kind in few samples the spread is pulled towards that of all samples, as if so many programs
/// of it had been seen with that spread.
const PRIOR_PROGRAMS: f64 = 2.0;
/// No spread is smaller than this: the measurements themselves move by about a percent.
const LEAST: f64 = 0.01;

/// A left-out sample: its error and where its time goes.
struct Seen<'a> {
    name: &'a str,
    set: &'a str,
    /// ln(measured / predicted).
    error: f64,
    kinds: BTreeMap<OpKind, f64>,
}

pub(super) fn spread(samples: &[Sample], left_out: &[LeftOut], parts: &[Parts]) -> Spread {
    let rows = samples.iter().zip(left_out).zip(parts);
    let seen: Vec<Seen<'_>> = rows
        .filter(|((sample, _), _)| sample.weight > 0.0)
        .map(|((_, left_out), parts)| {
            let total = parts.total.max(1.0);
            let kinds = parts.kinds.iter();
            Seen {
                name: &left_out.name,
                set: &left_out.set,
                error: -(left_out.error() + 1.0).max(1e-6).ln(),
                kinds: kinds.map(|(kind, time)| (*kind, time / total)).collect(),
            }
        })
        .collect();
    let pooled = root_mean_square(&seen, |_| 1.0, None);
    let of = |kinds: &[OpKind]| {
        let share = |s: &Seen<'_>| kinds.iter().filter_map(|kind| s.kinds.get(kind)).sum();
        root_mean_square(&seen, share, Some(pooled))
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
        .map(|s| s.error.abs() / spread.of_shares(&s.kinds));
    spread.band_factor = quantile(programs.collect());
    let pairs: Vec<(f64, f64)> = pairs(&seen)
        .map(|(a, b)| {
            (
                (a.error - b.error).abs(),
                spread.of_ratio(&a.kinds, &b.kinds),
            )
        })
        .collect();
    let alike: Vec<f64> = pairs
        .iter()
        .filter(|(_, spread)| *spread < ALIKE * pooled)
        .map(|(error, _)| error * error)
        .collect();
    let mean = alike.iter().sum::<f64>() / alike.len().max(1) as f64;
    spread.ratio_floor = mean.sqrt().max(LEAST);
    let ratios = pairs
        .iter()
        .map(|(error, differing)| error / (spread.ratio_floor + differing));
    spread.ratio_factor = quantile(ratios.collect());
    spread
}

/// Pairs of different programs of one set.
fn pairs<'a>(seen: &'a [Seen<'a>]) -> impl Iterator<Item = (&'a Seen<'a>, &'a Seen<'a>)> {
    let with_earlier = |(i, one)| seen.iter().take(i).map(move |other| (one, other));
    seen.iter()
        .enumerate()
        .flat_map(with_earlier)
        .filter(|(a, b): &(&Seen<'_>, &Seen<'_>)| a.set == b.set && a.name != b.name)
}

/// The weighted root mean square error, pulled towards `prior`.
fn root_mean_square(
    seen: &[Seen<'_>],
    weight: impl Fn(&Seen<'_>) -> f64,
    prior: Option<f64>,
) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for s in seen {
        sum += weight(s) * s.error * s.error;
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
