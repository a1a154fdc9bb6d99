//! How much of the chips' peak a run uses: MFU, and HFU with what is computed again.

use serde::Serialize;

use super::quantity::{Part, TokenRate};
use crate::chip::ChipFacts;

/// Chips of one generation.
#[derive(Clone, Copy, Debug)]
pub struct Fleet<'a> {
    /// What they are.
    pub chip: &'a ChipFacts,
    /// How many.
    pub chips: u64,
}

impl Fleet<'_> {
    /// Devices on a chip, as JAX counts them.
    #[must_use]
    pub fn devices_per_chip(&self) -> u64 {
        u64::from(self.chip.devices_per_chip.value.max(1))
    }

    /// Devices.
    #[must_use]
    pub fn devices(&self) -> u64 {
        self.chips.saturating_mul(self.devices_per_chip())
    }

    /// TensorCores.
    #[must_use]
    pub fn cores(&self) -> u64 {
        let per_chip = u64::from(self.chip.tensor_cores_per_chip.value.max(1));
        self.chips.saturating_mul(per_chip)
    }

    /// Parts of a kind.
    #[must_use]
    pub fn parts(&self, part: Part) -> u64 {
        match part {
            Part::Job => 1,
            Part::Chip => self.chips,
            Part::Device => self.devices(),
            Part::Core => self.cores(),
        }
    }

    /// Peak of all chips in FLOP/s for a dtype.
    #[must_use]
    pub fn peak_flops(&self, dtype: &str) -> f64 {
        self.chip.peak_tflops_per_chip(dtype).unwrap_or(0.0) * 1e12 * self.chips as f64
    }
}

/// How fast a run is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// Tokens in a step.
    pub tokens_per_step: f64,
    /// Seconds a step.
    pub step_s: f64,
}

impl Speed {
    /// From a step's time in seconds.
    #[must_use]
    pub fn of_step(tokens_per_step: u64, step_s: f64) -> Self {
        Self {
            tokens_per_step: tokens_per_step as f64,
            step_s,
        }
    }

    /// From tokens a second of the job or a part of it.
    #[must_use]
    pub fn of_rate(tokens_per_step: u64, rate: TokenRate, fleet: &Fleet<'_>) -> Self {
        let all = rate.per_second * fleet.parts(rate.part) as f64;
        Self::of_step(tokens_per_step, tokens_per_step as f64 / all)
    }

    /// Tokens a second of each part of a kind.
    #[must_use]
    pub fn tokens_per_s(&self, fleet: &Fleet<'_>, part: Part) -> f64 {
        self.tokens_per_step / self.step_s / fleet.parts(part).max(1) as f64
    }

    /// The share of the peak that FLOPs of a token come to at this speed.
    #[must_use]
    pub fn utilization(&self, flops_per_token: f64, fleet: &Fleet<'_>, dtype: &str) -> f64 {
        let peak = fleet.peak_flops(dtype);
        if peak > 0.0 {
            self.tokens_per_s(fleet, Part::Job) * flops_per_token / peak
        } else {
            0.0
        }
    }
}
