//! Prices of which those of collectives come from a model of the links between chips.

use crate::compiler::ici::{Ici, Transfer};
use crate::compiler::pricer::{Price, Pricer, Prices};
use crate::program::{OpId, Program};

/// Prices of operations by one model, of collectives by another.
pub struct LinkPrices<'a> {
    /// Everything that is no collective.
    pub ops: &'a dyn Prices,
    /// The links.
    pub ici: &'a Ici,
}

impl Prices for LinkPrices<'_> {
    fn pricer<'p>(&'p self, program: &'p Program) -> Box<dyn Pricer + 'p> {
        Box::new(LinkPricer {
            program,
            ops: self.ops.pricer(program),
            ici: self.ici,
        })
    }
}

struct LinkPricer<'p> {
    program: &'p Program,
    ops: Box<dyn Pricer + 'p>,
    ici: &'p Ici,
}

impl Pricer for LinkPricer<'_> {
    fn price(&mut self, op: OpId) -> Price {
        match Transfer::of(self.program, op) {
            None => self.ops.price(op),
            Some(transfer) => {
                // What is fused with a collective runs beside it.
                let link = self.ici.price(&transfer);
                let rest = self.ops.price(op);
                if link.time_ps >= rest.time_ps {
                    link
                } else {
                    rest
                }
            }
        }
    }
}
