//! How long bytes take through HBM: the floor under everything that only moves data.

use knowledge::efficiency::{Reachable, Work, reachable};

use crate::rule::Context;

/// The HBM bandwidth of a device and what share of it well-made streams reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HbmRate {
    peak_gb_per_s: f64,
    shares: &'static Reachable,
}

impl HbmRate {
    /// The rate of the run's chip; `None` where the chip is not known.
    pub(crate) fn of(context: &Context<'_>) -> Option<Self> {
        let evidence = context.evidence;
        let peak = evidence.peaks.hbm_gb_per_s.as_ref()?.value;
        let generation = evidence.chip.as_ref()?.generation;
        let shares = reachable(Work::HbmStream, generation).reachable;
        (peak > 0.0).then_some(Self {
            peak_gb_per_s: peak,
            shares,
        })
    }

    /// Milliseconds that bytes take at the rate that sound streams reach.
    pub(crate) fn ms(&self, bytes: f64) -> f64 {
        self.at(bytes, self.shares.typical)
    }

    /// Milliseconds at the best rate that was seen.
    pub(crate) fn best_ms(&self, bytes: f64) -> f64 {
        self.at(bytes, self.shares.high)
    }

    /// The rate in words, for formulas: `1343 GB/s (82 % of 1638)`.
    pub(crate) fn words(&self) -> String {
        format!(
            "{:.0} GB/s ({:.0} % of {:.0})",
            self.peak_gb_per_s * self.shares.typical,
            100.0 * self.shares.typical,
            self.peak_gb_per_s
        )
    }

    fn at(&self, bytes: f64, share: f64) -> f64 {
        bytes / (self.peak_gb_per_s * share) / 1e6
    }
}
