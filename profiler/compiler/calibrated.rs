//! The prices that predictions are made with: the calibrated cost model on the device, and the
//! model of the links between devices.

use std::collections::BTreeMap;

use crate::chip::ChipFacts;
use crate::compiler::calibration::Calibration;
use crate::compiler::cost_model::CostModel;
use crate::compiler::ici::{Ici, Transfer};
use crate::compiler::llo::score::Score;
use crate::compiler::pricer::{OpKind, Price, PriceBasis, Pricer, Prices};
use crate::program::{OpId, Program};
use crate::units::Picos;

/// Calibrated prices on one slice.
#[derive(Clone, Debug)]
pub struct Calibrated<'a> {
    /// The chip.
    pub facts: &'a ChipFacts,
    /// The cost model's constants for it.
    pub calibration: &'a Calibration,
    /// The slice's links; none where the chip's are not published.
    pub ici: Option<Ici>,
    /// Scores of kernels by the name of their instruction, from their final schedules.
    pub kernels: BTreeMap<String, Score>,
}

impl Prices for Calibrated<'_> {
    fn pricer<'p>(&'p self, program: &'p Program) -> Box<dyn Pricer + 'p> {
        Box::new(Both {
            program,
            device: CostModel::new(program, self.facts, self.calibration),
            ici: self.ici.as_ref(),
            kernels: &self.kernels,
        })
    }
}

struct Both<'p> {
    program: &'p Program,
    device: CostModel<'p>,
    ici: Option<&'p Ici>,
    kernels: &'p BTreeMap<String, Score>,
}

impl Both<'_> {
    /// What the final schedule of a kernel says.
    fn kernel(&self, op: OpId) -> Option<Price> {
        let instruction = self.program.get(op)?;
        if instruction.opcode != "custom-call" {
            return None;
        }
        let score = self.kernels.get(&instruction.name)?;
        Some(Price {
            time_ps: score.time.0,
            low_ps: score.low.0,
            // Where data decides how long it runs nothing bounds it; the double stands for that.
            high_ps: score
                .high
                .unwrap_or(Picos(score.time.0.saturating_mul(2)))
                .0,
            basis: PriceBasis::Kernel,
            kind: OpKind::Kernel,
        })
    }
}

impl Pricer for Both<'_> {
    fn price(&mut self, op: OpId) -> Price {
        let own = match self.kernel(op) {
            Some(price) => price,
            None => self.device.price(op),
        };
        let links = self
            .ici
            .zip(Transfer::of(self.program, op))
            .map(|(ici, transfer)| ici.price(&transfer));
        match links {
            // A fusion that carries a collective takes the longer of the two.
            Some(links) if own.kind == OpKind::Collective || links.time_ps > own.time_ps => links,
            _ => own,
        }
    }
}
