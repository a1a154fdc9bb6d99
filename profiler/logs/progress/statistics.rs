//! Statistics of step times: the steady part, spikes, drift.

use crate::logs::progress::series::Point;

/// A run without fewer steps than this says nothing of spikes.
const MIN_FOR_SPIKES: usize = 8;
/// A run with fewer steps than this says nothing of drift.
const MIN_FOR_DRIFT: usize = 20;
/// At most so many first steps are warm-up.
const MAX_WARM_UP: usize = 10;
/// A step that takes this many times the median is no ordinary one.
const SPIKE: f64 = 1.8;

/// The middle of values; 0 where there are none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// A percentile of values by linear interpolation; 0 where there are none.
#[must_use]
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let low = sorted.get(at as usize).copied().unwrap_or(0.0);
    let high = sorted
        .get((at as usize + 1).min(last))
        .copied()
        .unwrap_or(low);
    low + (high - low) * at.fract()
}

/// Whether a first step is none of the steady ones: it compiles, or it returns before the device is
/// done and so seems to take next to nothing.
fn is_warm_up(value: f64, typical: f64) -> bool {
    value > 1.3 * typical || value < 0.5 * typical
}

/// A slow step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spike {
    /// Its line.
    pub point: Point,
    /// Its time in seconds, or its time a token where only the rate is known.
    pub value: f64,
}

/// What the times of a run say.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Whether times are seconds; else they are relative: the inverse of tokens or samples a second.
    pub in_seconds: bool,
    /// Steps that were left out as warm-up, with their time.
    pub warm_up: Vec<f64>,
    /// The steady steps with their lines.
    pub steady: Vec<(Point, f64)>,
    /// The median of the steady steps.
    pub median: f64,
    /// Their 10th and 90th percentile.
    pub p10: f64,
    /// Their 90th percentile.
    pub p90: f64,
}

impl Times {
    /// Of the lines of a run; `None` where they have no times.
    #[must_use]
    pub fn of(points: &[Point]) -> Option<Self> {
        let in_seconds = points.iter().any(|point| point.seconds.is_some());
        let value = |point: &Point| {
            let value = if in_seconds {
                point.seconds?
            } else {
                1.0 / point.tokens_per_s.or(point.samples_per_s)?
            };
            (value.is_finite() && value > 0.0).then_some((*point, value))
        };
        let all: Vec<(Point, f64)> = points.iter().filter_map(value).collect();
        let values: Vec<f64> = all.iter().map(|(_, value)| *value).collect();
        if values.is_empty() {
            return None;
        }
        let typical = median(&values);
        let limit = MAX_WARM_UP.min(values.len() / 4);
        let warm = values
            .iter()
            .take(limit)
            .take_while(|value| is_warm_up(**value, typical));
        let warm = warm.count();
        let steady: Vec<(Point, f64)> = all.get(warm..).unwrap_or_default().to_vec();
        let values: Vec<f64> = steady.iter().map(|(_, value)| *value).collect();
        Some(Self {
            in_seconds,
            warm_up: all.iter().take(warm).map(|(_, value)| *value).collect(),
            median: median(&values),
            p10: percentile(&values, 0.1),
            p90: percentile(&values, 0.9),
            steady,
        })
    }

    /// The sum of the steady steps.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.steady.iter().map(|(_, value)| value).sum()
    }

    /// Steps far above the median, where they are few.
    #[must_use]
    pub fn spikes(&self) -> Vec<Spike> {
        if self.steady.len() < MIN_FOR_SPIKES {
            return Vec::new();
        }
        let deviations: Vec<f64> = (self.steady.iter())
            .map(|(_, value)| (value - self.median).abs())
            .collect();
        // Six standard deviations of a normal distribution, by the median absolute deviation.
        let noise = 6.0 * 1.4826 * median(&deviations);
        let limit = (SPIKE * self.median).max(self.median + noise);
        let spikes: Vec<Spike> = (self.steady.iter())
            .filter(|(_, value)| *value > limit)
            .map(|(point, value)| Spike {
                point: *point,
                value: *value,
            })
            .collect();
        if spikes.len() * 4 > self.steady.len() {
            return Vec::new();
        }
        spikes
    }

    /// How much later steps take than earlier ones: the medians of the first and of the last
    /// quarter, where the quarters between them go the same way.
    #[must_use]
    pub fn drift(&self) -> Option<(f64, f64)> {
        if self.steady.len() < MIN_FOR_DRIFT {
            return None;
        }
        let values: Vec<f64> = self.steady.iter().map(|(_, value)| *value).collect();
        let quarter = values.len() / 4;
        let medians: Vec<f64> = values.chunks(quarter.max(1)).take(4).map(median).collect();
        let &[first, second, third, last] = medians.as_slice() else {
            return None;
        };
        let deviations: Vec<f64> = values
            .chunks(quarter.max(1))
            .zip(&medians)
            .flat_map(|(part, middle)| part.iter().map(move |value| (value - middle).abs()))
            .collect();
        let noise = 1.4826 * median(&deviations);
        let rises = first <= second && second <= third && third <= last && last > first;
        (rises && last - first > 2.0 * noise).then_some((first, last))
    }
}
