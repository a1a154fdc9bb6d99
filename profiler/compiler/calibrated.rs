//! The prices that predictions are made with: the calibrated cost model on the device, and the
//! model of the links between devices.

use crate::chip::ChipFacts;
use crate::compiler::calibration::Calibration;
use crate::compiler::cost_model::CostModel;
use crate::compiler::ici::{Ici, Transfer};
use crate::compiler::pricer::{OpKind, Price, Pricer, Prices};
use crate::program::{OpId, Program};

/// Calibrated prices on one slice.
#[derive(Clone, Debug)]
pub struct Calibrated<'a> {
    /// The chip.
    pub facts: &'a ChipFacts,
    /// The cost model's constants for it.
    pub calibration: &'a Calibration,
    /// The slice's links; none where the chip's are not published.
    pub ici: Option<Ici>,
}

impl Prices for Calibrated<'_> {
    fn pricer<'p>(&'p self, program: &'p Program) -> Box<dyn Pricer + 'p> {
        Box::new(Both {
            program,
            device: CostModel::new(program, self.facts, self.calibration),
            ici: self.ici.as_ref(),
        })
    }
}

struct Both<'p> {
    program: &'p Program,
    device: CostModel<'p>,
    ici: Option<&'p Ici>,
}

impl Pricer for Both<'_> {
    fn price(&mut self, op: OpId) -> Price {
        let own = self.device.price(op);
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
