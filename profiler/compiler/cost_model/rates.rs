//! What a device does at its peaks: the yardstick of all constants.

use crate::chip::ChipFacts;
use crate::evidence::peaks::{Peak, Peaks};
use crate::program::cost::Cost;

/// Peak rates of one device, per picosecond.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// TensorCore cycles, of one core.
    pub cycles: f64,
    /// HBM bytes.
    pub hbm_bytes: f64,
    /// Bytes over the link to the host, in one direction.
    pub host_bytes: f64,
    /// Operations of the vector unit, one for each element.
    pub vector_ops: f64,
    /// Transcendental functions, one for each element.
    pub transcendentals: f64,
    peaks: Peaks,
}

/// Vector operations that a TensorCore starts in a cycle: the compiler's instruction bundles have
/// four slots for arithmetic.
const VECTOR_SLOTS: f64 = 4.0;
/// Transcendental functions that it starts in a cycle: the bundles have one slot for them.
const TRANSCENDENTAL_SLOTS: f64 = 1.0;
/// Assumed where a chip's clock is not known; those of all generations since v4 are above 1 GHz.
const CLOCK_MHZ: f64 = 1000.0;

impl Rates {
    /// The rates of one device of a chip.
    #[must_use]
    pub fn of(facts: &ChipFacts) -> Self {
        let peaks = Peaks::of_facts(facts);
        let clock = facts.clock_mhz.as_ref().map_or(CLOCK_MHZ, |mhz| mhz.value) * 1e-6;
        let devices = f64::from(facts.devices_per_chip.value.max(1));
        let cores = f64::from(facts.tensor_cores_per_chip.value.max(1)) / devices;
        let lanes = f64::from(facts.lanes.value) * f64::from(facts.sublanes.value);
        let bytes = |peak: &Option<Peak>| peak.as_ref().map_or(0.0, |peak| peak.value * 1e-3);
        Self {
            cycles: clock,
            hbm_bytes: bytes(&peaks.hbm_gb_per_s),
            host_bytes: bytes(&peaks.pcie_gb_per_s),
            vector_ops: cores * lanes * VECTOR_SLOTS * clock,
            transcendentals: cores * lanes * TRANSCENDENTAL_SLOTS * clock,
            peaks,
        }
    }

    /// What an operation's matrix products take at the peak of their operands' types.
    #[must_use]
    pub fn products_ps(&self, cost: &Cost) -> f64 {
        let products = cost.matmuls.iter();
        let products = products.map(|product| (product.lhs.name(), product.rhs.name()));
        let tflops = self
            .peaks
            .product_tflops(products)
            .or_else(|| self.peaks.matmul_tflops("bf16"));
        over(cost.matmul_flops, tflops.unwrap_or(0.0))
    }
}

/// What so much work takes at that rate; nothing where the rate is not known.
pub(super) fn over(work: f64, rate: f64) -> f64 {
    if rate > 0.0 {
        work.max(0.0) / rate
    } else {
        0.0
    }
}
