//! Kernels scored from the compiler's final schedule, without a TPU.
//!
//! ```text
//! *-final_bundles.txt ──> text ──> operation ──> control ──> simulate ──┐
//!                         bundles  scalar slots  what the    every loop │
//!                                                course      and branch ├─> KernelSchedule ──> Score
//! *-final_hlo-static-per-bundle-utilization.txt ──> utilization ────────┘
//! ```
//!
//! libtpu writes these listings when [`bundle_flags`] stand in `LIBTPU_INIT_ARGS`: for each HLO
//! instruction every VLIW bundle, which is one cycle of the TensorCore. The scalar unit's program
//! is in them too, so how often each bundle runs follows by running that program: grid loops,
//! causal blocks that are skipped, transfers that a block index that stays the same makes
//! unnecessary. Transfers are served by a model of HBM, so that waits for them count.
//!
//! Pure: takes the names and contents of files. It does not know what vector instructions compute,
//! contention on the interconnect, or values that come from data: loops that end by them count as
//! run once, regions as run, and the schedule says how many there were.

use std::collections::BTreeMap;

use crate::compiler::llo::control::Control;
use crate::compiler::llo::utilization::Utilization;
use crate::note::Notes;

mod arithmetic;
mod control;
mod flags;
mod memory;
mod operation;
mod schedule;
pub mod score;
mod simulate;
#[cfg(test)]
mod tests;
mod text;
mod utilization;

pub use flags::{UNKNOWN_FLAG_MESSAGE, bundle_flags, is_bundle_file};
pub use memory::Memory;
pub use schedule::{CycleBasis, KernelSchedule, PredicatedRegion, ScheduledLoop};
pub use simulate::KnownScalars;
pub use utilization::Unit;

/// What a reader of listings must be told.
#[derive(Clone, Debug)]
pub struct Setting {
    /// HBM of the chip that the program was compiled for.
    pub memory: Memory,
    /// Constant integer operands by instruction and operand number, where the program holds them:
    /// a kernel that looks up its blocks in them then has a known course.
    pub scalars: BTreeMap<String, KnownScalars>,
    /// Scalar instructions after which a run gives up.
    pub step_limit: u64,
}

impl Setting {
    /// Nothing known of operands, and runs of at most a second or two.
    #[must_use]
    pub fn new(memory: Memory) -> Self {
        Self {
            memory,
            scalars: BTreeMap::new(),
            step_limit: 200_000_000,
        }
    }
}

/// Reads the schedules in the files of a dump, sorted by instruction.
pub fn read(
    files: impl IntoIterator<Item = (String, String)>,
    setting: &Setting,
) -> (Vec<KernelSchedule>, Notes) {
    let mut notes = Notes::default();
    let mut kernels: BTreeMap<(String, String), (Option<Control>, Option<Utilization>)> =
        BTreeMap::new();
    for (name, text) in files {
        let Some((instruction, module, kind)) = flags::parse(&name) else {
            continue;
        };
        let kernel = kernels
            .entry((instruction.to_owned(), module.to_owned()))
            .or_default();
        match kind {
            flags::Kind::Bundles => kernel.0 = Some(Control::read(&text, &mut notes)),
            flags::Kind::Utilization => kernel.1 = Utilization::read(&text, &mut notes),
        }
    }
    let none = KnownScalars::new();
    let mut schedules = Vec::new();
    for ((instruction, _), (control, utilization)) in kernels {
        let Some(control) = control.filter(|control| control.bundles() > 0) else {
            notes.warn(
                "llo-no-bundles",
                "a kernel's listing of bundles is missing or empty: it has no schedule",
            );
            continue;
        };
        let known = setting.scalars.get(&instruction).unwrap_or(&none);
        let run = simulate::run(&control, &setting.memory, known, setting.step_limit);
        if !run.complete {
            notes.warn(
                "llo-run-limit",
                "a kernel's control flow did not come to its end: its cycles are bundles times \
                 loop bounds, and waits are not counted",
            );
        }
        let schedule = KernelSchedule::new(instruction, &control, &run, utilization.as_ref());
        schedules.push(schedule);
    }
    (schedules, notes)
}
