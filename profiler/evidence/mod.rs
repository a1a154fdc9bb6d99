//! What a session shows: steps, time by operation, idle time, costs against the roofline.
//!
//! Everything a rule needs, computed once. Pure and deterministic.

pub mod class;
pub mod clocks;
pub mod collectives;
pub mod compiled_change;
pub mod cores;
pub mod host;
pub mod idle;
pub mod memory;
pub mod ops;
pub mod peaks;
pub mod serving;
pub mod source;
pub mod sparse;
pub mod steps;

use rustc_hash::FxHashMap;

use crate::chip::{ChipFacts, Generation};
use crate::session::{ModuleId, OpId, Session};
use crate::units::Picos;

pub use class::{CollectiveKind, CopyRoute, OpClass};
pub use clocks::Clocks;
pub use collectives::{Collective, Collectives};
pub use cores::{CoreTime, Gap};
pub use host::{GapCause, HostEvidence, HostKind};
pub use idle::InsideIdle;
pub use memory::{MemorySource, MemoryUse};
pub use ops::{BoundBy, OpProfile};
pub use peaks::{Chip, Peaks};
pub use steps::{Spread, StepBasis, Steps};

/// A session and all that follows from it.
#[derive(Clone, Debug)]
pub struct Evidence<'s> {
    /// The session.
    pub session: &'s Session,
    /// The chip, if it is known.
    pub chip: Option<Chip>,
    /// Peaks of one device.
    pub peaks: Peaks,
    /// Where the program repeats itself.
    pub steps: Steps,
    /// Busy and idle time of each core.
    pub cores: Vec<CoreTime>,
    /// The longest gaps, longest first.
    pub gaps: Vec<Gap>,
    /// Operations that ran, longest self time a step first.
    pub ops: Vec<OpProfile>,
    /// Runs of each module that ran, longest total first.
    pub modules: Vec<ModuleRuns>,
    /// Collectives that ran, and the load of each core.
    pub collectives: Collectives,
    /// The clocks of the hosts, aligned where that is possible.
    pub clocks: Clocks,
    /// What the host did, above all while no program ran.
    pub host: HostEvidence,
    /// Where a core waited inside its programs.
    pub inside: Option<InsideIdle>,
    /// Functions that were compiled for several shapes.
    pub families: Vec<serving::Family>,
    /// Changes that were compiled beside the program. Empty unless the caller had it done.
    pub compiled_changes: Vec<compiled_change::CompiledChange>,
    index: Vec<Option<usize>>,
    names: FxHashMap<(Option<ModuleId>, &'s str), usize>,
    users: Vec<Vec<usize>>,
}

/// Operations that are looked at for the nearest source line.
const MAX_NEAR: usize = 64;

/// Runs of one program.
#[derive(Clone, Debug, PartialEq)]
pub struct ModuleRuns {
    /// Which program.
    pub module: ModuleId,
    /// Runs over all cores, and their durations.
    pub time: Spread,
    /// Sum over all cores.
    pub total_ps: Picos,
}

impl<'s> Evidence<'s> {
    /// Gathers the evidence of a session. `facts` are those of all chip generations, `given` is
    /// the chip that the user named.
    #[must_use]
    pub fn gather(session: &'s Session, given: Option<Generation>, facts: &[ChipFacts]) -> Self {
        let chip = Chip::find(session, given, facts);
        let peaks = Peaks::of(session, chip.as_ref());
        let steps = Steps::find(session);
        let idle = idle::core_idle(session, &steps);
        let (cores, gaps) = cores::core_times(session, &idle);
        let ops = ops::op_profiles(session, &steps, &peaks);
        let mut index = vec![None; session.ops.len()];
        for (position, op) in ops.iter().enumerate() {
            index[op.id as usize] = Some(position);
        }
        let names: FxHashMap<_, _> = ops
            .iter()
            .enumerate()
            .map(|(position, op)| ((op.module, session.op(op.id).name.as_str()), position))
            .collect();
        let mut users = vec![Vec::new(); ops.len()];
        for (position, op) in ops.iter().enumerate() {
            for operand in op
                .instruction
                .iter()
                .flat_map(|instruction| &instruction.operands)
            {
                if let Some(producer) = names.get(&(op.module, operand.name.as_str())) {
                    users[*producer].push(position);
                }
            }
        }
        let modules = module_runs(session);
        let clocks = Clocks::align(session, modules.first().map(|runs| runs.module));
        let host = HostEvidence::gather(session, &idle);
        let inside = idle::inside_idle(session, &idle);
        let families = serving::families(session, &modules, &ops);
        let mut evidence = Self {
            session,
            chip,
            peaks,
            steps,
            cores,
            gaps,
            ops,
            modules,
            collectives: Collectives::default(),
            clocks,
            host,
            inside,
            families,
            compiled_changes: Vec::new(),
            index,
            names,
            users,
        };
        evidence.collectives = Collectives::find(&evidence);
        evidence
    }

    /// The profile of an operation, if it ran.
    #[must_use]
    pub fn op(&self, id: OpId) -> Option<&OpProfile> {
        self.index
            .get(id as usize)
            .copied()
            .flatten()
            .and_then(|at| self.ops.get(at))
    }

    /// The operation of that name in that module, if it ran.
    #[must_use]
    pub fn find_op(&self, module: Option<ModuleId>, name: &str) -> Option<&OpProfile> {
        self.names
            .get(&(module, name))
            .and_then(|position| self.ops.get(*position))
    }

    /// The operations that ran and whose results an operation reads, in operand order.
    pub fn producers_of(&self, op: &OpProfile) -> impl Iterator<Item = &OpProfile> {
        let module = op.module;
        let operands = op
            .instruction
            .iter()
            .flat_map(|instruction| &instruction.operands);
        let names: Vec<String> = operands.map(|operand| operand.name.clone()).collect();
        names
            .into_iter()
            .filter_map(move |name| self.find_op(module, &name))
    }

    /// The operations that ran and read an operation's result.
    pub fn users_of(&self, op: &OpProfile) -> impl Iterator<Item = &OpProfile> {
        let position = self.index.get(op.id as usize).copied().flatten();
        let users = position.and_then(|position| self.users.get(position));
        users
            .into_iter()
            .flatten()
            .filter_map(|position| self.ops.get(*position))
    }

    /// The line of the user's code that an operation comes from, see [`source::own_line`].
    #[must_use]
    pub fn source_of(&self, id: OpId) -> Option<&str> {
        source::own_line(self.session.op(id))
    }

    /// The source line of an operation, or of the nearest one that it feeds or reads: the halves
    /// of asynchronous copies have none of their own.
    #[must_use]
    pub fn source_near(&self, op: &OpProfile) -> Option<&str> {
        let mut seen = vec![op.id];
        let mut ring: Vec<&OpProfile> = vec![op];
        for _ in 0..3 {
            if let Some(found) = ring.iter().find_map(|op| self.source_of(op.id)) {
                return Some(found);
            }
            let mut next = Vec::new();
            for op in ring {
                // An array that every operation reads has no nearest user: a few will do.
                let users = self.users_of(op).take(MAX_NEAR);
                for near in users.chain(self.producers_of(op).take(MAX_NEAR)) {
                    if !seen.contains(&near.id) && seen.len() < MAX_NEAR {
                        seen.push(near.id);
                        next.push(near);
                    }
                }
            }
            ring = next;
        }
        ring.iter().find_map(|op| self.source_of(op.id))
    }

    /// Device memory at its fullest, over all devices.
    #[must_use]
    pub fn memory(&self) -> Option<MemoryUse> {
        MemoryUse::of(self.session, self.chip.as_ref())
    }

    /// Bytes of device memory that programs can use: of the run, else of a device of the chip.
    #[must_use]
    pub fn memory_capacity(&self) -> Option<u64> {
        let of_chip = || {
            let chip = self.chip.as_ref()?;
            Some(chip.facts.hbm_usable_bytes_per_device())
        };
        self.memory()
            .map(|memory| memory.capacity_bytes)
            .or_else(of_chip)
    }

    /// The time of a step that shares are of: the window of the whole steps, with what idles
    /// among them, divided by their number, the mean over cores. Amounts per step are means over
    /// the same window, so together they never exceed it.
    #[must_use]
    pub fn step_time(&self) -> Picos {
        Picos(self.mean_per_step(|core| core.window_ps).round() as u64)
    }

    /// A time as a share of the step.
    #[must_use]
    pub fn share_of_step(&self, time_ps: f64) -> f64 {
        let step = self.step_time().0 as f64;
        if step > 0.0 { time_ps / step } else { 0.0 }
    }

    /// A value of each core, averaged per step.
    #[must_use]
    pub fn mean_per_step(&self, of: impl Fn(&CoreTime) -> Picos) -> f64 {
        if self.cores.is_empty() {
            return 0.0;
        }
        let sum: f64 = self
            .cores
            .iter()
            .map(|core| of(core).0 as f64 / core.steps.max(1) as f64)
            .sum();
        sum / self.cores.len() as f64
    }
}

fn module_runs(session: &Session) -> Vec<ModuleRuns> {
    let mut durations: Vec<Vec<Picos>> = vec![Vec::new(); session.modules.len()];
    for (_, device) in session.analysed_cores() {
        for (_, duration, module) in device.modules.iter() {
            if let Some(list) = durations.get_mut(module as usize) {
                list.push(Picos(duration));
            }
        }
    }
    let mut runs: Vec<ModuleRuns> = durations
        .into_iter()
        .enumerate()
        .filter(|(_, list)| !list.is_empty())
        .map(|(module, list)| ModuleRuns {
            module: module as ModuleId,
            total_ps: list.iter().copied().sum(),
            time: Spread::of(list),
        })
        .collect();
    runs.sort_by_key(|run| (std::cmp::Reverse(run.total_ps), run.module));
    runs
}
