//! What a candidate takes at least, whatever the compiler does: enough to leave it out.

use serde::{Deserialize, Serialize};

use crate::chip::ChipFacts;
use crate::compiler::sharding::candidate::Candidate;
use crate::compiler::sharding::problem::{Problem, Role};
use crate::evidence::peaks::{Peak, Peaks};
use crate::units::{Bytes, Picos};

/// What a device can do at most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// FLOPs a second in bf16.
    pub flops_per_s: f64,
    /// Bytes a second that it sends over all its links together.
    pub ici_bytes_per_s: f64,
    /// HBM that a program can use.
    pub hbm_bytes: Bytes,
}

impl Rates {
    /// Of a chip's device, by its published peaks.
    #[must_use]
    pub fn of_chip(facts: &ChipFacts) -> Self {
        let peaks = Peaks::of_facts(facts);
        let value = |peak: &Option<Peak>| {
            let value = peak.as_ref().map(|peak| peak.value);
            // Nothing is known: no bound follows from it.
            value.filter(|value| *value > 0.0).unwrap_or(1e9)
        };
        Self {
            flops_per_s: value(&peaks.bf16_tflops) * 1e12,
            ici_bytes_per_s: value(&peaks.ici_gb_per_s) * 1e9,
            hbm_bytes: Bytes(facts.hbm_usable_bytes_per_device()),
        }
    }
}

/// The least that a candidate takes on each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Arguments, in their parts, without padding.
    pub memory: Bytes,
    /// The products' FLOPs, shared evenly, at the peak.
    pub compute: Picos,
    /// What must cross the mesh axes, over all links at once.
    pub communication: Picos,
}

impl Bounds {
    /// The bounds of a candidate.
    ///
    /// Communication: devices that hold other parts of the batch must agree on the gradients of the
    /// weights that they share. Each receives at least the others' share of them in two bytes an
    /// element, or else the others' data.
    #[must_use]
    pub fn of(problem: &Problem, candidate: &Candidate, rates: &Rates) -> Self {
        let sharding = candidate.sharding(problem);
        let mut memory = 0u64;
        // Per mesh axis nothing is known to be cut twice: the parts of a tensor multiply.
        let mut data = 0.0;
        let ports = problem.signature.arguments.iter().zip(&sharding.arguments);
        let mut split = Vec::new();
        for (index, (port, spec)) in ports.enumerate() {
            let parts = spec.parts(&sharding.mesh).max(1);
            memory = memory.saturating_add(port.bytes().0.div_ceil(parts));
            let elements = port.tensor.as_ref().map_or(0, |tensor| tensor.elements()) as f64;
            match problem.role(index) {
                Role::Parameter => split.push((2.0 * elements, spec)),
                Role::Data => data += port.bytes().0 as f64 / parts as f64,
                Role::OptimizerState | Role::Other => {}
            }
        }
        let mut bytes: f64 = 0.0;
        if problem.trains() {
            for (position, uses) in candidate.uses.iter().enumerate() {
                if uses.data.is_none() {
                    continue;
                }
                let size = sharding.mesh.axes.get(position).map_or(1, |axis| axis.size) as f64;
                let weights: f64 = split
                    .iter()
                    .map(|(bytes, spec)| {
                        let others: f64 = spec
                            .dims
                            .iter()
                            .flatten()
                            .filter(|axis| **axis != position)
                            .filter_map(|axis| sharding.mesh.axes.get(*axis))
                            .map(|axis| axis.size as f64)
                            .product();
                        bytes / others
                    })
                    .sum();
                let gradients = (size - 1.0) / size * weights;
                let inputs = (size - 1.0) * data;
                bytes = bytes.max(gradients.min(inputs));
            }
        }
        let devices = sharding.mesh.devices().max(1) as f64;
        let picos = |ps: f64| Picos(ps.clamp(0.0, 1e18) as u64);
        Self {
            memory: Bytes(memory),
            compute: picos(problem.product_flops / devices * 1e12 / rates.flops_per_s),
            communication: picos(bytes * 1e12 / rates.ici_bytes_per_s),
        }
    }

    /// The least time: the longer of the two.
    #[must_use]
    pub fn time(&self) -> Picos {
        self.compute.max(self.communication)
    }
}
