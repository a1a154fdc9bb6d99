//! Whether two sets of step times differ by more than their own spread.

use serde::Serialize;

use crate::evidence::steps::{CoreSteps, Step};
use crate::evidence::{Evidence, Spread};
use crate::units::Picos;

/// Fewer steps on either side tell nothing: of five and five, wholly apart, chance makes one in
/// 126 (rank test), of three and three one in ten.
const MIN_STEPS: usize = 5;
/// A shift that chance makes less often than this is one.
const RARE: f64 = 0.01;

/// Order statistics of step times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of steps.
    pub count: usize,
    /// 10th percentile, nearest rank, ms.
    pub p10_ms: f64,
    /// Median, ms.
    pub median_ms: f64,
    /// 90th percentile, nearest rank, ms.
    pub p90_ms: f64,
}

/// What the times tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The ranges from p10 to p90 do not overlap.
    Apart,
    /// They overlap, but a rank test finds a shift.
    Shifted,
    /// The difference is within the spread.
    WithinSpread,
    /// There are too few steps to tell.
    TooFewSteps,
}

/// Step times of two runs compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first run.
    pub before: Distribution,
    /// The second run.
    pub after: Distribution,
    /// Difference of the medians, second less first, ms.
    pub delta_ms: f64,
    /// The same as a share of the first run's median.
    pub delta_share: f64,
    /// What the times tell.
    pub verdict: Verdict,
    /// How often chance alone would part the ranks so far (Mann-Whitney, two-sided, normal
    /// approximation, ties corrected); absent where there are too few steps.
    pub chance: Option<f64>,
    /// The verdict in words.
    pub words: String,
}

impl Comparison {
    /// Compares times in any order.
    #[must_use]
    pub fn of(mut before: Vec<Picos>, mut after: Vec<Picos>) -> Self {
        before.sort_unstable();
        after.sort_unstable();
        let (old, new) = (Distribution::of(&before), Distribution::of(&after));
        let enough = before.len() >= MIN_STEPS && after.len() >= MIN_STEPS;
        let chance = enough.then(|| rank_test(&before, &after));
        let apart = old.p90_ms < new.p10_ms || new.p90_ms < old.p10_ms;
        let verdict = match chance {
            None => Verdict::TooFewSteps,
            Some(_) if apart => Verdict::Apart,
            Some(chance) if chance < RARE => Verdict::Shifted,
            Some(_) => Verdict::WithinSpread,
        };
        let delta_ms = new.median_ms - old.median_ms;
        Self {
            before: old,
            after: new,
            delta_ms,
            delta_share: if old.median_ms > 0.0 {
                delta_ms / old.median_ms
            } else {
                0.0
            },
            verdict,
            chance,
            words: words(verdict, chance, old.count, new.count),
        }
    }
}

fn words(verdict: Verdict, chance: Option<f64>, before: usize, after: usize) -> String {
    let odds = match chance.unwrap_or(1.0) {
        chance if chance < 0.0001 => "p < 0.0001".to_owned(),
        chance if chance < 0.01 => format!("p = {chance:.4}"),
        chance => format!("p = {chance:.2}"),
    };
    match verdict {
        Verdict::Apart => format!(
            "larger than the spread within each run: p10 to p90 of the two do not overlap (rank test: {odds})"
        ),
        Verdict::Shifted => format!(
            "smaller than the spread of single steps, but a shift over all of them (rank test: {odds})"
        ),
        Verdict::WithinSpread => {
            format!(
                "not told apart: within the spread of the steps of each run (rank test: {odds})"
            )
        }
        Verdict::TooFewSteps => format!(
            "too few whole steps to tell from chance: {before} and {after}, where {MIN_STEPS} of each are needed"
        ),
    }
}

impl Distribution {
    /// Of sorted times.
    fn of(sorted: &[Picos]) -> Self {
        let rank = |tenths: usize| {
            let rank = (sorted.len() * tenths).div_ceil(10).max(1) - 1;
            sorted.get(rank).map_or(0.0, |time| time.as_ms())
        };
        Self {
            count: sorted.len(),
            p10_ms: rank(1),
            median_ms: Spread::of(sorted.iter().copied()).median_ps.as_ms(),
            p90_ms: rank(9),
        }
    }
}

/// Of the k-th whole step the slowest core's duration, for as many as all cores have.
pub(super) fn step_times(evidence: &Evidence<'_>) -> Vec<Picos> {
    let cores = &evidence.steps.cores;
    let count = cores.iter().map(CoreSteps::count).min().unwrap_or(0);
    let mut slowest = vec![Picos(0); count];
    for core in cores {
        for (slot, step) in slowest.iter_mut().zip(core.whole()) {
            *slot = (*slot).max(step.duration());
        }
    }
    slowest
}

/// From start to start on the core whose steps are slowest; none below two steps.
pub(super) fn periods(evidence: &Evidence<'_>) -> Option<Vec<Picos>> {
    let median = |core: &&CoreSteps| Spread::of(core.whole().map(Step::duration)).median_ps;
    let core = evidence.steps.cores.iter().max_by_key(median)?;
    let starts: Vec<u64> = core.whole().map(|step| step.start_ps).collect();
    let periods = starts.windows(2).map(|pair| match pair {
        [a, b] => Picos(b.saturating_sub(*a)),
        _ => Picos(0),
    });
    (starts.len() > 1).then(|| periods.collect())
}

/// Mann and Whitney's rank test of two sorted lists, two-sided: how often chance parts them so
/// far. Normal approximation with correction for ties and continuity.
fn rank_test(a: &[Picos], b: &[Picos]) -> f64 {
    let mut all: Vec<(Picos, bool)> = a.iter().map(|time| (*time, true)).collect();
    all.extend(b.iter().map(|time| (*time, false)));
    all.sort_unstable();
    let (n, m) = (a.len() as f64, b.len() as f64);
    let total = n + m;
    let (mut ranks, mut ties, mut seen) = (0.0, 0.0, 0.0);
    for tied in all.chunk_by(|x, y| x.0 == y.0) {
        let count = tied.len() as f64;
        let rank = seen + (count + 1.0) / 2.0;
        ranks += rank * tied.iter().filter(|(_, first)| *first).count() as f64;
        ties += count * (count * count - 1.0);
        seen += count;
    }
    let u = ranks - n * (n + 1.0) / 2.0;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    two_sided(distance)
}

/// The share of a normal distribution further than `z` deviations from its mean: Abramowitz and
/// Stegun's formula 7.1.26, good to 1.5e-7.
fn two_sided(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    (polynomial * (-x * x).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::{Comparison, Verdict};
    use crate::units::Picos;

    fn ms(values: &[u64]) -> Vec<Picos> {
        values.iter().map(|v| Picos(v * 1_000_000_000)).collect()
    }

    #[test]
    fn steps_that_never_overlap_are_apart() {
        let comparison = Comparison::of(ms(&[10, 11, 12, 11, 10]), ms(&[21, 20, 22, 20, 21]));
        assert_eq!(comparison.verdict, Verdict::Apart);
        assert_eq!(comparison.delta_ms, 10.0);
        assert!((comparison.delta_share - 10.0 / 11.0).abs() < 1e-12);
        // The exact two-sided chance of five and five wholly apart is 2 / 252.
        let chance = comparison.chance.expect("enough steps");
        assert!((0.005..0.015).contains(&chance), "{chance}");
    }

    #[test]
    fn equal_steps_are_not_told_apart() {
        let times: Vec<u64> = (100..140).collect();
        let comparison = Comparison::of(ms(&times), ms(&times));
        assert_eq!(comparison.verdict, Verdict::WithinSpread);
        assert!(comparison.chance.expect("enough steps") > 0.99);
        let constant = Comparison::of(ms(&[7; 9]), ms(&[7; 9]));
        assert_eq!(constant.chance, Some(1.0));
    }

    #[test]
    fn a_small_shift_of_many_steps_is_seen() {
        let before: Vec<u64> = (1_000..1_100).collect();
        let after: Vec<u64> = before.iter().map(|time| time + 30).collect();
        let comparison = Comparison::of(ms(&before), ms(&after));
        assert_eq!(comparison.verdict, Verdict::Shifted);
        assert!(
            comparison.words.contains("p < 0.0001"),
            "{}",
            comparison.words
        );
    }

    #[test]
    fn few_steps_tell_nothing() {
        let comparison = Comparison::of(ms(&[10, 10, 10]), ms(&[20, 20, 20]));
        assert_eq!(comparison.verdict, Verdict::TooFewSteps);
        assert_eq!(comparison.chance, None);
        let nothing = Comparison::of(Vec::new(), Vec::new());
        assert_eq!(nothing.verdict, Verdict::TooFewSteps);
        assert_eq!(nothing.before.median_ms, 0.0);
    }
}
