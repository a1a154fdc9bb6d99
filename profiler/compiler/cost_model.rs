//! Calibrated times of a program's operations, and of the whole program.
//!
//! ```text
//! optimized HLO ─> Work (each part at the chip's peak) ── Constants ──> Price of an operation
//!                                                         Runs ───────> ProgramPrice
//! ```
//!
//! No single figure of the compiler is a time. Its cycles are right for matrix products and far too
//! many where a memory bounds the operation; bytes over bandwidth are right there and say nothing of
//! products. So an operation takes the longest of three: its arithmetic, its HBM bytes, its bytes
//! to the host. Arithmetic is
//!
//! * of a matmul or convolution: its products at the MXUs' peak, and on top the larger of what the
//!   compiler estimates beyond them and of the vector work fused to them;
//! * of a kernel: the cycles of its instruction bundles where they were counted, else its products
//!   and its vector work, one after the other, as far as its shapes or its author tell;
//! * of anything else: the compiler's estimate, scaled down; without one its vector work.
//!
//! Collectives are not priced here, nor what the host does, nor where the links are shared.

pub mod program_price;
pub mod rates;
pub mod runs;
pub mod vector;
pub mod work;

use crate::chip::ChipFacts;
use crate::compiler::calibration::{Calibration, Constants};
use crate::compiler::cost_model::program_price::ProgramPrice;
use crate::compiler::cost_model::rates::Rates;
use crate::compiler::cost_model::runs::Runs;
use crate::compiler::cost_model::work::Work;
use crate::compiler::pricer::{OpKind, Price, PriceBasis, Pricer};
use crate::program::cost;
use crate::program::{ComputationId, OpId, Program};

/// The calibrated cost model of one program on one device.
#[derive(Debug)]
pub struct CostModel<'a> {
    program: &'a Program,
    costs: cost::CostModel<'a>,
    rates: Rates,
    calibration: &'a Calibration,
}

impl<'a> CostModel<'a> {
    /// A model of that program on a device of that chip.
    #[must_use]
    pub fn new(program: &'a Program, facts: &ChipFacts, calibration: &'a Calibration) -> Self {
        Self {
            program,
            costs: cost::CostModel::new(program),
            rates: Rates::of(facts),
            calibration,
        }
    }

    /// The time of one run of the whole program.
    #[must_use]
    pub fn total(&mut self) -> ProgramPrice {
        let works = works(self.program, &mut self.costs, &self.rates);
        ProgramPrice::of(&works, self.calibration)
    }
}

impl Pricer for CostModel<'_> {
    fn price(&mut self, op: OpId) -> Price {
        let work = Work::of(self.program, &mut self.costs, &self.rates, op);
        let (time, basis) = time_of(&work, &self.calibration.constants);
        let band = self.calibration.band(work.kind);
        Price {
            time_ps: picos(time),
            low_ps: picos(time / band),
            high_ps: picos(time * band),
            basis,
            kind: work.kind,
        }
    }
}

/// The work of a program's operations, with how often each runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramWork {
    /// Operations that take time, in the program's order.
    pub ops: Vec<(Work, f64)>,
    /// How computations run.
    pub runs: Runs,
    /// Collectives that one run starts: they are not priced.
    pub collectives: f64,
}

impl ProgramWork {
    /// The work of a program on a device of that chip: what [`crate::compiler::fit`] fits to.
    #[must_use]
    pub fn of(program: &Program, facts: &ChipFacts) -> Self {
        works(
            program,
            &mut cost::CostModel::new(program),
            &Rates::of(facts),
        )
    }

    /// Whether any of it is a kernel.
    #[must_use]
    pub fn has_kernels(&self) -> bool {
        self.ops.iter().any(|(work, _)| work.kind == OpKind::Kernel)
    }
}

fn works(program: &Program, costs: &mut cost::CostModel<'_>, rates: &Rates) -> ProgramWork {
    let mut found = ProgramWork {
        runs: Runs::of(program),
        ..ProgramWork::default()
    };
    let computations = (0u32..).map(ComputationId).zip(&program.computations);
    for (id, computation) in computations {
        let count = found.runs.count(id);
        if count <= 0.0 || !program.has_own_ops(id) {
            continue;
        }
        for op in computation.ops() {
            let work = Work::of(program, costs, rates, op);
            if work.kind == OpKind::Collective {
                found.collectives += count;
            }
            if !work.is_free {
                found.ops.push((work, count));
            }
        }
    }
    found
}

/// The expected picoseconds of one execution, and which part of the work they are made from. Of the
/// start of an asynchronous operation: of all that it moves.
#[must_use]
pub fn time_of(work: &Work, constants: &Constants) -> (f64, PriceBasis) {
    if work.is_free {
        let basis = match work.kind {
            OpKind::Collective => PriceBasis::Unknown,
            _ => PriceBasis::Free,
        };
        return (0.0, basis);
    }
    let arithmetic = arithmetic(work, constants);
    let parts = [
        (work.hbm_ps / constants.hbm, PriceBasis::HbmBytes),
        (work.host_ps, PriceBasis::Host),
    ];
    parts.into_iter().fold(
        arithmetic,
        |longest, part| {
            if part.0 > longest.0 { part } else { longest }
        },
    )
}

fn arithmetic(work: &Work, constants: &Constants) -> (f64, PriceBasis) {
    match work.kind {
        OpKind::Matmul | OpKind::Convolution => {
            let estimate = work.estimate_ps.unwrap_or(0.0);
            let excess = match work.kind {
                OpKind::Convolution => constants.convolution_excess,
                _ => constants.matmul_excess,
            };
            let beyond = excess * (estimate - work.products_ps).max(0.0);
            let fused = constants.epilogue * work.vector_ps;
            let basis = match work.estimate_ps {
                Some(_) => PriceBasis::Cycles,
                None => PriceBasis::Roofline,
            };
            (constants.mxu * work.products_ps + beyond.max(fused), basis)
        }
        OpKind::Kernel => {
            let both = work.products_ps + work.vector_ps;
            let (time, basis) = match work.estimate_ps {
                // The compiler estimates no kernel; it counts its bundles where it was told to.
                Some(counted) => (counted, PriceBasis::Kernel),
                None if both > 0.0 => (both, PriceBasis::Roofline),
                None => (0.0, PriceBasis::Unknown),
            };
            (constants.kernel * time, basis)
        }
        _ if work.is_async => (0.0, PriceBasis::HbmBytes),
        _ => match work.estimate_ps {
            Some(estimate) => (constants.vector * estimate, PriceBasis::Cycles),
            None => (work.vector_ps, PriceBasis::Roofline),
        },
    }
}

/// Whole picoseconds; no time is longer than 11 days.
fn picos(ps: f64) -> u64 {
    ps.clamp(0.0, 1e18).round() as u64
}

#[cfg(test)]
#[path = "cost_model/tests.rs"]
pub(crate) mod tests;
