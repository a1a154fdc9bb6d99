//! What an operation of a compiled program takes: the question that all cost models answer.

use serde::Serialize;

use crate::program::{OpId, Program};

/// What an operation takes, and how sure that is. Picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Price {
    /// The expected time of one execution. Of the start of an asynchronous operation: of the whole
    /// transfer, as if nothing ran beside it.
    pub time_ps: u64,
    /// The lower end of the error band.
    pub low_ps: u64,
    /// The upper end of the error band.
    pub high_ps: u64,
    /// What the time was made from.
    pub basis: PriceBasis,
    /// What the operation is.
    pub kind: OpKind,
}

impl Price {
    /// A price whose band is as wide as its time.
    #[must_use]
    pub fn exact(time_ps: u64, basis: PriceBasis, kind: OpKind) -> Self {
        Self {
            time_ps,
            low_ps: time_ps,
            high_ps: time_ps,
            basis,
            kind,
        }
    }
}

/// What the time of an operation was made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriceBasis {
    /// FLOPs and bytes over the peaks of the chip: the least that it can take.
    #[default]
    Roofline,
    /// Cycles that the compiler estimated or counted in its static schedule.
    Cycles,
    /// HBM bytes over the bandwidth that programs reach.
    HbmBytes,
    /// The instruction bundles of a kernel.
    Kernel,
    /// Bytes over the links between chips.
    Collective,
    /// Bytes over the link to the host.
    Host,
    /// It takes no time of its own.
    Free,
    /// Nothing tells what it takes.
    Unknown,
}

impl PriceBasis {
    /// The basis in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Roofline => "roofline",
            Self::Cycles => "compiler cycles",
            Self::HbmBytes => "HBM bytes",
            Self::Kernel => "kernel bundles",
            Self::Collective => "ICI model",
            Self::Host => "host link",
            Self::Free => "free",
            Self::Unknown => "unknown",
        }
    }
}

/// What kind of work an operation is, as calibrations tell kinds apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpKind {
    /// Matmuls, with what is fused to them.
    Matmul,
    /// Convolutions with a window, with what is fused to them.
    Convolution,
    /// Element by element.
    Loop,
    /// Reductions.
    Reduce,
    /// Moves data and computes nothing.
    Copy,
    /// A custom kernel.
    Kernel,
    /// Chips talk to each other.
    Collective,
    /// Another kind.
    #[default]
    Other,
}

/// A cost model of one program.
pub trait Pricer {
    /// What one execution of an operation takes. Loops, calls and conditionals are not asked
    /// about, only what runs in them; of an asynchronous operation its start.
    fn price(&mut self, op: OpId) -> Price;
}

/// Cost models of programs: what a whole session is priced by.
pub trait Prices {
    /// The cost model of one program.
    fn pricer<'p>(&'p self, program: &'p Program) -> Box<dyn Pricer + 'p>;
}
