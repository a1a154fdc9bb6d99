//! Out-of-memory reports of HBM, VMEM and scoped VMEM.
//!
//! ```text
//! message.rs   the sentence: which memory, how much was wanted, how much there was
//! table.rs     what stands below it: totals, parts, the largest allocations
//! padding.rs   which axis of an allocation pads, and what would not
//! reader.rs    both, line by line, the same report printed twice counted once
//! ```

mod message;
mod padding;
mod reader;
mod size;
mod table;
#[cfg(test)]
mod tests;

pub(in crate::logs) use padding::shapes_in;
pub use padding::{Arrangement, PaddedAxis, Padding, Rearranged, Role};
pub(super) use reader::Reader;
pub use size::Size;
pub use table::{Row, Utilization};

use crate::logs::At;
use crate::program::shape::Array;

/// A memory of the chip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Space {
    /// The chip's main memory.
    #[default]
    Hbm,
    /// The core's vector memory.
    Vmem,
    /// The core's scalar memory.
    Smem,
    /// Another, by its name.
    Other(String),
}

impl Space {
    fn parse(name: &str) -> Self {
        let name = name.trim().to_ascii_lowercase();
        match name.as_str() {
            "hbm" => Self::Hbm,
            "vmem" => Self::Vmem,
            "smem" => Self::Smem,
            _ => Self::Other(name.chars().take(32).collect()),
        }
    }

    /// The name for people.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Hbm => "HBM",
            Self::Vmem => "VMEM",
            Self::Smem => "SMEM",
            Self::Other(name) => name,
        }
    }
}

/// Why memory ran out, with the figures of the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cause {
    /// The text has a table of a program's memory, but not the sentence above it.
    #[default]
    TableOnly,
    /// The compiler: a program needs more than there is.
    Capacity {
        /// What it needs.
        used: Size,
        /// What there is.
        capacity: Size,
        /// By how much it is exceeded, where the text says so.
        over: Option<Size>,
        /// Whether an early check of the compiler said so, before buffers were placed: then there
        /// is no table.
        early: bool,
    },
    /// The compiler: a kernel needs more scoped memory than its limit.
    Scoped {
        /// What it needs.
        size: Size,
        /// The limit.
        limit: Size,
        /// By how much it is exceeded.
        over: Size,
    },
    /// The compiler: one buffer of a kernel is larger than the memory.
    Single {
        /// The buffer.
        size: Size,
        /// The memory.
        capacity: Size,
        /// Its shape as printed.
        shape: String,
        /// What it is for, as printed.
        tag: String,
    },
    /// Run time: a program's memory is reserved as one region at the bottom.
    Reserve {
        /// What is wanted.
        wanted: Size,
        /// What is free in all.
        free: Size,
        /// What is reserved already.
        reserved: Option<Size>,
        /// The largest region that can be reserved.
        reservable: Size,
    },
    /// Run time: a buffer is allocated.
    Allocate {
        /// What is wanted.
        wanted: Size,
        /// What is free in all.
        free: Size,
        /// The largest free region, where the text says so.
        contiguous: Option<Size>,
    },
}

/// One buffer of the list of the largest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// Where it stands.
    pub at: At,
    /// What it takes.
    pub size: Option<Size>,
    /// The framework's operator, as printed.
    pub operator: String,
    /// The array, with its layout.
    pub shape: Option<Array>,
    /// Bytes of its elements.
    pub unpadded: Option<Size>,
    /// Bytes of padding.
    pub extra: Option<Size>,
    /// What it takes over the bytes of its elements, as the report states it.
    pub expansion: Option<f64>,
    /// The HLO instruction, as printed.
    pub label: String,
    /// `HLO temp`, `parameter`, `scoped` …
    pub kind: String,
}

impl Allocation {
    /// Whether it holds registers that did not fit.
    #[must_use]
    pub fn is_register_spill(&self) -> bool {
        self.label.contains("spill slots")
    }
}

/// A report that memory ran out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutOfMemory {
    /// Where it begins.
    pub at: At,
    /// Where the same report stands again; the first ones.
    pub again: Vec<At>,
    /// How often it stands in the texts.
    pub count: u64,
    /// The line at which it begins.
    pub text: String,
    /// Which memory.
    pub space: Space,
    /// Why.
    pub cause: Cause,
    /// The program or kernel that the text names; may be empty.
    pub program: String,
    /// `Total hbm usage >=`.
    pub total: Option<Size>,
    /// Its rows: what is reserved, the program, arguments.
    pub totals: Vec<Row>,
    /// `Program hbm requirement`.
    pub requirement: Option<Size>,
    /// Its rows: global, scoped, temporaries.
    pub parts: Vec<Row>,
    /// How well the temporaries use what they take.
    pub utilization: Option<Utilization>,
    /// The largest allocations, as listed.
    pub allocations: Vec<Allocation>,
}

impl OutOfMemory {
    /// The size of a row of the totals.
    #[must_use]
    pub fn row(&self, name: &str) -> Option<&Size> {
        let rows = self.totals.iter().chain(&self.parts);
        rows.filter(|row| row.name == name)
            .find_map(|row| row.size.as_ref())
    }

    /// The spill slots of the register allocator among the allocations, the largest first.
    #[must_use]
    pub fn register_spills(&self) -> Option<&Allocation> {
        self.allocations
            .iter()
            .filter(|allocation| allocation.is_register_spill())
            .max_by_key(|allocation| allocation.size.as_ref().map(|size| size.bytes))
    }

    fn has_table(&self) -> bool {
        let sized = |a: &Allocation| a.size.is_some() || a.unpadded.is_some();
        self.total.is_some() || self.requirement.is_some() || self.allocations.iter().any(sized)
    }
}

/// All reports, each once, in the order of the texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryReports {
    /// The reports.
    pub reports: Vec<OutOfMemory>,
    /// Reports that were left out because there are too many different ones.
    pub left_out: u64,
}

impl MemoryReports {
    /// Different reports that are kept.
    const MAX_REPORTS: usize = 256;
    /// Repetitions of one report whose places are kept.
    const MAX_AGAIN: usize = 8;

    fn add(&mut self, report: OutOfMemory) {
        let known = self.reports.iter_mut().find(|known| {
            known.cause == report.cause
                && known.space == report.space
                && known.program == report.program
                && (!known.has_table()
                    || !report.has_table()
                    || known.requirement == report.requirement)
                && (report.cause != Cause::TableOnly || known.allocations == report.allocations)
        });
        let Some(known) = known else {
            if self.reports.len() < Self::MAX_REPORTS {
                self.reports.push(report);
            } else {
                self.left_out += 1;
            }
            return;
        };
        known.count += 1;
        if known.again.len() < Self::MAX_AGAIN {
            known.again.push(report.at);
        }
        if !known.has_table() && report.has_table() {
            let OutOfMemory {
                total,
                totals,
                requirement,
                parts,
                utilization,
                allocations,
                ..
            } = report;
            known.total = total;
            known.totals = totals;
            known.requirement = requirement;
            known.parts = parts;
            known.utilization = utilization;
            known.allocations = allocations;
        }
    }
}
