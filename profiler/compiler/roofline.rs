//! Prices by the roofline: the least that the chip's peaks allow.
//!
//! Every operation takes the longest of its FLOPs over the peak, its HBM bytes over the HBM
//! bandwidth, and for a collective its bytes on the wire over ICI. Real runs take longer.

use crate::chip::ChipFacts;
use crate::compiler::ici::Transfer;
use crate::compiler::pricer::{OpKind, Price, PriceBasis, Pricer, Prices};
use crate::evidence::peaks::{Peak, Peaks};
use crate::program::cost::CostModel;
use crate::program::{OpId, Program};

/// The peaks of a chip's device.
#[derive(Clone, Debug)]
pub struct RooflinePrices {
    peaks: Peaks,
}

impl RooflinePrices {
    /// Of a chip.
    #[must_use]
    pub fn new(facts: &ChipFacts) -> Self {
        Self {
            peaks: Peaks::of_facts(facts),
        }
    }
}

impl Prices for RooflinePrices {
    fn pricer<'p>(&'p self, program: &'p Program) -> Box<dyn Pricer + 'p> {
        Box::new(RooflinePricer {
            program,
            model: CostModel::new(program),
            peaks: &self.peaks,
        })
    }
}

/// Prices the operations of one program.
struct RooflinePricer<'p> {
    program: &'p Program,
    model: CostModel<'p>,
    peaks: &'p Peaks,
}

impl Pricer for RooflinePricer<'_> {
    fn price(&mut self, op: OpId) -> Price {
        let cost = self.model.cost(op);
        let flops = cost.matmul_flops + cost.kernel.as_ref().and_then(|k| k.flops).unwrap_or(0.0);
        let products = cost.matmuls.iter();
        let compute = self
            .peaks
            .product_tflops(products.map(|m| (m.lhs.name(), m.rhs.name())))
            .or_else(|| self.peaks.matmul_tflops("bf16"))
            .map_or(0.0, |peak| flops / peak);
        let rate = |bytes: f64, peak: &Option<Peak>| {
            peak.as_ref().map_or(0.0, |peak| bytes * 1e3 / peak.value)
        };
        let bytes = |moved: crate::program::traffic::SpaceTraffic| moved.total_padded().0 as f64;
        let hbm = rate(bytes(cost.traffic.hbm()), &self.peaks.hbm_gb_per_s);
        let host = rate(bytes(cost.traffic.host()), &self.peaks.pcie_gb_per_s);
        let transfer = Transfer::of(self.program, op);
        let wire = transfer.as_ref().map_or(0.0, |transfer| {
            rate(transfer.wire_bytes(), &self.peaks.ici_gb_per_s)
        });
        let least = compute.max(hbm).max(host).max(wire).min(1e18) as u64;
        let kind = if transfer.is_some() {
            OpKind::Collective
        } else if cost.kernel.is_some() {
            OpKind::Kernel
        } else if cost.matmul_flops > 0.0 {
            OpKind::Matmul
        } else {
            OpKind::Other
        };
        Price::exact(least, PriceBasis::Roofline, kind)
    }
}
