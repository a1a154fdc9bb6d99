//! The time of one run of a program, rolled up from its operations, and of the ratio of two.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::compiler::calibration::{Calibration, Constants};
use crate::compiler::cost_model::{ProgramWork, time_of};
use crate::compiler::pricer::{OpKind, PriceBasis};

/// What one run of a program takes on one device, without collectives.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProgramPrice {
    /// The expected time, in picoseconds.
    pub time_ps: u64,
    /// The lower end of the 90 % band.
    pub low_ps: u64,
    /// The upper end of the 90 % band.
    pub high_ps: u64,
    /// The share of the time by kind of operation; they add up to 1.
    pub kinds: BTreeMap<OpKind, f64>,
    /// The share of the time by what it was made from; they add up to 1.
    pub bases: BTreeMap<PriceBasis, f64>,
    /// Time that HBM needs beyond all operations' time for asynchronous transfers.
    pub exposed_transfers_ps: u64,
    /// Loops whose trip count is not known: they count once.
    pub unknown_trips: usize,
    /// Conditionals with several branches: each branch counts for its equal share.
    pub branches: usize,
    /// Collectives that one run starts: their time is not in here.
    pub collectives: f64,
}

/// How many times as long one program takes as another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RatioBand {
    /// The expected ratio.
    pub ratio: f64,
    /// The lower end of the 90 % band.
    pub low: f64,
    /// The upper end of the 90 % band.
    pub high: f64,
}

/// The parts of a program's time, in picoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parts {
    /// The whole.
    pub(crate) total: f64,
    pub(crate) kinds: BTreeMap<OpKind, f64>,
    bases: BTreeMap<PriceBasis, f64>,
    exposed: f64,
}

/// The whole time alone, in picoseconds, as in [`Parts`].
pub(crate) fn total_ps(work: &ProgramWork, constants: &Constants) -> f64 {
    let (mut total, mut hbm) = (0.0f64, 0.0);
    for (op, count) in &work.ops {
        hbm += count * op.hbm_ps / constants.hbm;
        if !op.is_async {
            total += count * time_of(op, constants).0;
        }
    }
    total.max(hbm)
}

impl Parts {
    /// Operations run one after another; asynchronous transfers run beside them and only cost
    /// what HBM cannot carry in the time of all operations.
    pub(crate) fn of(work: &ProgramWork, constants: &Constants) -> Self {
        let mut parts = Self::default();
        let mut hbm = 0.0;
        for (op, count) in &work.ops {
            hbm += count * op.hbm_ps / constants.hbm;
            if op.is_async {
                continue;
            }
            let (time, basis) = time_of(op, constants);
            let time = time * count;
            parts.total += time;
            *parts.kinds.entry(op.kind).or_default() += time;
            *parts.bases.entry(basis).or_default() += time;
        }
        parts.exposed = (hbm - parts.total).max(0.0);
        if parts.exposed > 0.0 {
            parts.total += parts.exposed;
            *parts.kinds.entry(OpKind::Copy).or_default() += parts.exposed;
            *parts.bases.entry(PriceBasis::HbmBytes).or_default() += parts.exposed;
        }
        parts
    }
}

impl ProgramPrice {
    /// The price of that work.
    #[must_use]
    pub fn of(work: &ProgramWork, calibration: &Calibration) -> Self {
        let parts = Parts::of(work, &calibration.constants);
        let share = |time: f64| {
            if parts.total > 0.0 {
                time / parts.total
            } else {
                0.0
            }
        };
        let kinds: BTreeMap<_, _> = parts.kinds.iter().map(|(k, t)| (*k, share(*t))).collect();
        let bases = parts.bases.iter().map(|(b, t)| (*b, share(*t))).collect();
        let band = calibration.program_band(&kinds);
        Self {
            time_ps: super::picos(parts.total),
            low_ps: super::picos(parts.total / band),
            high_ps: super::picos(parts.total * band),
            kinds,
            bases,
            exposed_transfers_ps: super::picos(parts.exposed),
            unknown_trips: work.runs.unknown_trips,
            branches: work.runs.branches,
            collectives: work.collectives,
        }
    }

    /// This program's time over another's, by the same calibration. Where both spend their time in
    /// the same kinds of operation, the model's bias for these kinds cancels and the band is
    /// narrow; `None` where the other takes no time.
    #[must_use]
    pub fn over(&self, other: &Self, calibration: &Calibration) -> Option<RatioBand> {
        if other.time_ps == 0 {
            return None;
        }
        let ratio = self.time_ps as f64 / other.time_ps as f64;
        let band = calibration.ratio_band(&self.kinds, &other.kinds);
        Some(RatioBand {
            ratio,
            low: ratio / band,
            high: ratio * band,
        })
    }
}
