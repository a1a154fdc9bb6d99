//! That and how a session was predicted: who compiled, for what, by which prices, and how sure.
//!
//! A predicted time is never shown as a measured one: whoever shows a time of a session asks for
//! its [`Prediction`] and shows the band beside it.

use serde::{Deserialize, Serialize};

use crate::compiler::pricer::{OpKind, Price, PriceBasis};
use crate::program::liveness::MemoryEstimate;
use crate::session::{ModuleId, OpId};

/// A time with its error band, picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// The lower end.
    pub low_ps: u64,
    /// What is expected.
    pub time_ps: u64,
    /// The upper end.
    pub high_ps: u64,
}

impl Band {
    /// How far the lower and the upper end are off, as shares of the time: `(-0.2, 0.3)`.
    #[must_use]
    pub fn relative(&self) -> (f64, f64) {
        let time = self.time_ps.max(1) as f64;
        (
            (self.low_ps as f64 - time) / time,
            (self.high_ps as f64 - time) / time,
        )
    }

    /// The band in words: `±12 %`, or `-8 % to +35 %` where it is lopsided.
    #[must_use]
    pub fn words(&self) -> String {
        let (low, high) = self.relative();
        let (low, high) = ((low * 100.0).round() + 0.0, (high * 100.0).round() + 0.0);
        if self.time_ps == 0 || (low == 0.0 && high == 0.0) {
            return "no error band is known".to_owned();
        }
        if -low == high {
            format!("±{high:.0} %")
        } else {
            let sign = if low < 0.0 { "" } else { "+" };
            format!("{sign}{low:.0} % to +{high:.0} %")
        }
    }
}

/// How the time of one operation was predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpPrediction {
    /// The time that it takes the core in one run of its program, all executions.
    pub run: Band,
    /// Executions in one run of its program.
    pub executions: u64,
    /// What the time was made from. Of the end of an asynchronous operation: that of its start.
    pub basis: PriceBasis,
    /// What kind of work it was priced as.
    pub kind: OpKind,
}

impl OpPrediction {
    /// Adds an execution (or several, at the price of all of them).
    pub(crate) fn add(&mut self, band: Band, executions: u64, price: &Price) {
        self.run.low_ps = self.run.low_ps.saturating_add(band.low_ps);
        self.run.time_ps = self.run.time_ps.saturating_add(band.time_ps);
        self.run.high_ps = self.run.high_ps.saturating_add(band.high_ps);
        self.executions = self.executions.saturating_add(executions);
        self.basis = price.basis;
        self.kind = price.kind;
    }
}

/// One run of a program, predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPrediction {
    /// The program.
    pub module: ModuleId,
    /// Its time.
    pub time: Band,
    /// Its memory, where its schedule tells.
    pub memory: Option<MemoryEstimate>,
}

/// What was compiled and how it was priced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The compiler's build, as `libtpu 0.0.50.1`; empty where the program came compiled.
    pub compiler: String,
    /// What it was compiled for, as `v6e-4`, or the chip alone.
    pub target: String,
    /// What the prices are from: a calibration and its version, or `roofline`.
    pub prices: String,
    /// Whether the times are the least that the chip allows, and no estimates.
    pub is_lower_bound: bool,
}

/// How a session was predicted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// What was compiled and how it was priced.
    pub provenance: Provenance,
    /// By operation of the session, in its order.
    pub ops: Vec<OpPrediction>,
    /// By program, in the order in which they run.
    pub runs: Vec<RunPrediction>,
}

impl Prediction {
    /// The prediction of an operation.
    #[must_use]
    pub fn op(&self, op: OpId) -> Option<&OpPrediction> {
        self.ops.get(op as usize)
    }

    /// The prediction of a program's run.
    #[must_use]
    pub fn run(&self, module: ModuleId) -> Option<&RunPrediction> {
        self.runs.iter().find(|run| run.module == module)
    }

    /// The time of the program that takes the most, with its band: what a step takes.
    #[must_use]
    pub fn step(&self) -> Option<Band> {
        let longest = self.runs.iter().reduce(|best, next| {
            if next.time.time_ps > best.time.time_ps {
                next
            } else {
                best
            }
        });
        longest.map(|run| run.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(low_ps: u64, time_ps: u64, high_ps: u64) -> String {
        Band {
            low_ps,
            time_ps,
            high_ps,
        }
        .words()
    }

    #[test]
    fn a_band_is_told_by_how_far_its_ends_are_off() {
        assert_eq!(words(88, 100, 112), "±12 %");
        assert_eq!(words(92, 100, 135), "-8 % to +35 %");
        assert_eq!(words(100, 100, 150), "+0 % to +50 %");
        assert_eq!(words(100, 100, 100), "no error band is known");
        assert_eq!(words(0, 0, 0), "no error band is known");
    }
}
