//! One kernel or fusion as the compiler scheduled it.

use serde::Serialize;

use crate::compiler::llo::control::Control;
use crate::compiler::llo::simulate::Run;
use crate::compiler::llo::utilization::{UNITS, Unit, Utilization};

/// What the cycles of a schedule rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CycleBasis {
    /// The kernel's control flow was run: each bundle counts as often as it is issued.
    Run,
    /// Bundles times literal loop bounds: predicated regions count as run.
    Static,
}

/// A loop of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScheduledLoop {
    /// First bundle of its body.
    pub start: u32,
    /// Last bundle of its body.
    pub end: u32,
    /// The literal that its exit test compares with. A grid's loop counts two more than its
    /// steps, for the stages of its pipeline of transfers.
    pub bound: Option<u64>,
    /// How often the body runs each time the loop is entered, on average; `None` where its end
    /// depends on data, and then it counts as run once.
    pub trips: Option<f64>,
}

/// A stretch of bundles that a forward branch skips or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PredicatedRegion {
    /// First bundle that the branch skips.
    pub start: u32,
    /// The bundle that it leads to.
    pub end: u32,
    /// How often the region runs.
    pub entered: u64,
    /// How often it is skipped.
    pub skipped: u64,
}

/// The static schedule of an HLO instruction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelSchedule {
    /// Name of the HLO instruction, as `attention.1`.
    pub instruction: String,
    /// Bundles in the listing.
    pub bundles: u64,
    /// What `busy_cycles` rest on.
    pub basis: CycleBasis,
    /// Cycles in which a bundle is issued or a delay passes.
    pub busy_cycles: u64,
    /// Cycles in which it waits for transfers from or to HBM.
    pub wait_cycles: u64,
    /// Bundles times literal loop bounds, whatever `basis` is.
    pub static_cycles: u64,
    /// Its loops, by the bundle they end at.
    pub loops: Vec<ScheduledLoop>,
    /// Loops whose end depends on data.
    pub unknown_trip_loops: u64,
    /// Branches and transfers that depend on data, as often as they were met; each counts as run.
    pub unknown_decisions: u64,
    /// Regions that branches skip.
    pub regions: Vec<PredicatedRegion>,
    /// Bytes that it reads from HBM, blocks that it reads again included.
    pub hbm_read_bytes: u64,
    /// Bytes that it writes to HBM.
    pub hbm_written_bytes: u64,
    /// Transfers that it starts.
    pub transfers: u64,
    /// Slots in the listing that store a spilled vector register.
    pub spill_slots: u64,
    /// Slots in the listing that load one back.
    pub fill_slots: u64,
    /// Share of each unit's slots in use while busy, in the order of [`Unit::ALL`].
    pub slot_use: [f64; UNITS],
    /// The unit whose slots are used most, spills and fills aside.
    pub bottleneck: Option<Unit>,
}

impl KernelSchedule {
    /// Cycles from start to end.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.busy_cycles.saturating_add(self.wait_cycles)
    }

    /// Share of a unit's slots in use while busy, 0 to 1.
    #[must_use]
    pub fn slots_of(&self, unit: Unit) -> f64 {
        self.slot_use.get(unit as usize).copied().unwrap_or(0.0)
    }

    pub(super) fn new(
        instruction: String,
        control: &Control,
        run: &Run,
        utilization: Option<&Utilization>,
    ) -> Self {
        let static_cycles = control.static_cycles();
        let (basis, busy_cycles, wait_cycles) = if run.complete {
            (CycleBasis::Run, run.busy, run.waiting)
        } else {
            (CycleBasis::Static, static_cycles, 0)
        };
        let listed = utilization.map_or([0; UNITS], |table| table.slots(None));
        let slot_use = utilization.map_or([0.0; UNITS], |table| {
            let matches = table.rows.len() == run.issued.len();
            match basis {
                CycleBasis::Run if matches => {
                    shares(table, table.slots(Some(&run.issued)), busy_cycles)
                }
                // How often each bundle runs is not known: each once.
                _ => shares(table, listed, control.cycles.last().copied().unwrap_or(0)),
            }
        });
        Self {
            instruction,
            bundles: control.bundles() as u64,
            basis,
            busy_cycles,
            wait_cycles,
            static_cycles,
            loops: loops(control, run),
            unknown_trip_loops: run.unknown_loops.iter().filter(|unknown| **unknown).count() as u64,
            unknown_decisions: run.unknown_decisions,
            regions: regions(control, run),
            hbm_read_bytes: run.hbm_read_bytes,
            hbm_written_bytes: run.hbm_written_bytes,
            transfers: run.transfers,
            spill_slots: listed[Unit::Spill as usize],
            fill_slots: listed[Unit::Fill as usize],
            slot_use,
            bottleneck: bottleneck(&slot_use),
        }
    }
}

fn loops(control: &Control, run: &Run) -> Vec<ScheduledLoop> {
    let mut loops = Vec::new();
    for (index, edge) in control.loops.iter().enumerate() {
        let (again, left) = run.loops.get(index).copied().unwrap_or((0, 0));
        let unknown = run.unknown_loops.get(index).copied().unwrap_or(true);
        loops.push(ScheduledLoop {
            start: edge.start,
            end: edge.end,
            bound: edge.bound,
            trips: (left > 0 && !unknown).then(|| (again + left) as f64 / left as f64),
        });
    }
    loops
}

fn regions(control: &Control, run: &Run) -> Vec<PredicatedRegion> {
    let mut regions = Vec::new();
    for (operation, (skipped, entered)) in &run.branches {
        if let Some(branch) = control.branches.get(operation) {
            regions.push(PredicatedRegion {
                start: branch.last + 1,
                end: branch.target,
                entered: *entered,
                skipped: *skipped,
            });
        }
    }
    regions
}

fn shares(table: &Utilization, slots: [u64; UNITS], cycles: u64) -> [f64; UNITS] {
    let mut shares = [0.0; UNITS];
    for ((share, slots), capacity) in shares.iter_mut().zip(slots).zip(table.capacity) {
        let all = cycles as f64 * f64::from(capacity);
        if all > 0.0 {
            *share = slots as f64 / all;
        }
    }
    shares
}

fn bottleneck(slot_use: &[f64; UNITS]) -> Option<Unit> {
    Unit::ALL
        .into_iter()
        .filter(|unit| !matches!(unit, Unit::Fill | Unit::Spill))
        .map(|unit| (unit, slot_use.get(unit as usize).copied().unwrap_or(0.0)))
        .filter(|(_, share)| *share > 0.0)
        // The first of equals, so that the answer is stable.
        .reduce(|most, next| if next.1 > most.1 { next } else { most })
        .map(|(unit, _)| unit)
}
