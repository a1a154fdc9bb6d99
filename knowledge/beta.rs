//! Quantiles of a Beta distribution, for the uncertainty of a rate that was counted.

/// Steps of the integration. The density is smooth, so the quantiles of all shapes in use are good
/// to four digits, far beyond what the counts deserve.
const STEPS: u32 = 4096;

/// The points below which `shares` of a Beta(`a`, `b`) distribution lie, for `a` and `b` above 1.
///
/// The density `x^(a-1) (1-x)^(b-1)` is bounded then, so a midpoint sum over the unit interval is
/// enough; its logarithm is taken relative to the mode so that large counts do not underflow.
pub(crate) fn quantiles<const N: usize>(a: f64, b: f64, shares: [f64; N]) -> [f64; N] {
    let width = 1.0 / f64::from(STEPS);
    let log_density = |x: f64| (a - 1.0) * x.ln() + (b - 1.0) * (1.0 - x).ln();
    let peak = log_density(((a - 1.0) / (a + b - 2.0)).clamp(width, 1.0 - width));
    let density = |step: u32| (log_density((f64::from(step) + 0.5) * width) - peak).exp();
    let total: f64 = (0..STEPS).map(density).sum();
    shares.map(|share| {
        let wanted = share.clamp(0.0, 1.0) * total;
        let mut below = 0.0;
        for step in 0..STEPS {
            let here = density(step);
            if below + here >= wanted {
                let part = if here > 0.0 {
                    (wanted - below) / here
                } else {
                    0.0
                };
                return (f64::from(step) + part) * width;
            }
            below += here;
        }
        1.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_closed_forms() {
        // Beta(2, 1) has the distribution function x², up to the density's end at 1.
        let [low, median] = quantiles(2.0, 1.0 + 1e-9, [0.05, 0.5]);
        assert!((low - 0.05_f64.sqrt()).abs() < 1e-3, "{low}");
        assert!((median - 0.5_f64.sqrt()).abs() < 1e-3, "{median}");
        // Beta(2, 2) has 3x² - 2x³: one half at one half, 0.15625 at one quarter.
        let [quarter, half] = quantiles(2.0, 2.0, [0.15625, 0.5]);
        assert!((quarter - 0.25).abs() < 1e-4, "{quarter}");
        assert!((half - 0.5).abs() < 1e-4, "{half}");
    }

    #[test]
    fn many_counts_give_the_normal_interval_around_the_rate() {
        let (a, b) = (40_000.0_f64, 60_000.0_f64);
        let deviation = (0.4_f64 * 0.6 / (a + b)).sqrt();
        let [low, high] = quantiles(a, b, [0.05, 0.95]);
        assert!((low - (0.4 - 1.645 * deviation)).abs() < 2e-4, "{low}");
        assert!((high - (0.4 + 1.645 * deviation)).abs() < 2e-4, "{high}");
    }
}
