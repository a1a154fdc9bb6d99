//! Runs the control flow of a kernel: the scalar unit decides every loop, branch and transfer, and
//! its program is in the listing, so the course of a kernel follows from the text alone wherever
//! it does not depend on data.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use crate::compiler::llo::arithmetic::{self, Function, Value};
use crate::compiler::llo::control::{Branch, Control};
use crate::compiler::llo::memory::{Channel, Memory};
use crate::compiler::llo::operation::{
    Action, CORE_NUMBER, Guard, Operand, Register, Route, operand_index,
};

/// Integers that a kernel reads from an operand, as the group of each block of rows.
pub type KnownScalars = BTreeMap<u32, Vec<i32>>;

/// Transfers of a flag, flags, and places of scalar memory that are remembered: no kernel comes
/// near them.
const MAX_PENDING: usize = 1 << 12;
const MAX_FLAGS: usize = 1 << 12;
const MAX_SCALARS: usize = 1 << 20;

/// How a kernel ran.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// Whether it came to its end.
    pub complete: bool,
    /// Cycles in which a bundle was issued or a delay passed.
    pub busy: u64,
    /// Cycles waiting for transfers.
    pub waiting: u64,
    /// How often each bundle was issued.
    pub issued: Vec<u64>,
    /// By loop: times around, and times left.
    pub loops: Vec<(u64, u64)>,
    /// Loops whose end depends on what is not known, by index.
    pub unknown_loops: Vec<bool>,
    /// By branch (its operation): taken, and not taken.
    pub branches: BTreeMap<u32, (u64, u64)>,
    /// Branches and transfers that depend on what is not known; they count as run.
    pub unknown_decisions: u64,
    /// Bytes between HBM and the core.
    pub hbm_read_bytes: u64,
    pub hbm_written_bytes: u64,
    pub transfers: u64,
}

struct Machine<'a> {
    control: &'a Control,
    values: Vec<Value>,
    /// Scalar memory by address.
    scalars: FxHashMap<i64, Value>,
    known: &'a KnownScalars,
    channel: Channel,
    /// When the transfers that signal a flag end, and their granules.
    flags: FxHashMap<Value, VecDeque<(u64, u64)>>,
    run: Run,
}

/// Runs a kernel.
pub(super) fn run(
    control: &Control,
    memory: &Memory,
    known: &KnownScalars,
    step_limit: u64,
) -> Run {
    let mut machine = Machine {
        control,
        values: vec![None; control.names.len()],
        // The first core: it has the larger part of a grid that does not divide.
        scalars: FxHashMap::from_iter([(CORE_NUMBER, Some(0))]),
        known,
        channel: Channel::new(*memory),
        flags: FxHashMap::default(),
        run: Run {
            loops: vec![(0, 0); control.loops.len()],
            unknown_loops: vec![false; control.loops.len()],
            ..Run::default()
        },
    };
    machine.go(step_limit);
    machine.run
}

/// Which bundles were issued, as stretches between jumps.
struct Course<'a> {
    control: &'a Control,
    /// Where the current stretch starts.
    start: u32,
    /// Cycles of the stretches before.
    busy: u64,
    /// How the count of issues changes from a bundle to the next.
    changes: Vec<i64>,
}

impl<'a> Course<'a> {
    fn new(control: &'a Control) -> Self {
        Self {
            control,
            start: 0,
            busy: 0,
            changes: vec![0; control.bundles() + 1],
        }
    }

    /// Busy cycles until a bundle of the current stretch.
    fn busy_until(&self, bundle: u32) -> u64 {
        let at = |bundle: u32| self.control.cycles.get(bundle as usize).copied();
        let passed = at(bundle)
            .zip(at(self.start))
            .map_or(0, |(to, from)| to.saturating_sub(from));
        self.busy.saturating_add(passed)
    }

    /// Ends the stretch before bundle `end` and goes on at `target`.
    fn leave(&mut self, end: u32, target: u32) {
        self.busy = self.busy_until(end);
        for (bundle, change) in [(self.start, 1), (end, -1)] {
            if let Some(count) = self.changes.get_mut(bundle as usize) {
                *count += change;
            }
        }
        self.start = target;
    }

    /// How often each bundle was issued.
    fn issued(&self) -> Vec<u64> {
        let mut count = 0_i64;
        let bundles = self.changes.iter().take(self.control.bundles());
        bundles
            .map(|change| {
                count += change;
                count.max(0) as u64
            })
            .collect()
    }
}

impl Machine<'_> {
    fn go(&mut self, step_limit: u64) {
        let control = self.control;
        let mut course = Course::new(control);
        let mut leaving = vec![false; control.loops.len()];
        let mut next = 0_usize;
        let mut jump: Option<Branch> = None;
        for _ in 0..step_limit {
            let operation = control.operations.get(next);
            if let Some(branch) = jump
                && operation.is_none_or(|operation| operation.bundle > branch.last)
            {
                course.leave(branch.last + 1, branch.target);
                jump = None;
                next = control.first_operation(branch.target);
                continue;
            }
            let Some(operation) = operation else {
                let end = control.bundles() as u32;
                course.leave(end, end);
                self.run.complete = true;
                break;
            };
            let index = next as u32;
            next += 1;
            let holds = self.holds(operation.guard);
            if !matches!(operation.action, Action::Branch(_)) {
                self.step(
                    &operation.action,
                    holds,
                    course.busy_until(operation.bundle),
                );
            } else if let Some(branch) = control.branches.get(&index)
                && self.takes(branch, holds, &mut leaving)
                // A branch in the delay slots of another that is taken does not count.
                && jump.is_none()
            {
                jump = Some(*branch);
            }
        }
        self.run.busy = course.busy;
        self.run.issued = course.issued();
    }

    /// Whether a branch is taken. One on what is not known is not: regions run, and `leaving`
    /// keeps in mind that their loop ends when it next would go around.
    fn takes(&mut self, branch: &Branch, holds: Option<bool>, leaving: &mut [bool]) -> bool {
        let run = &mut self.run;
        run.unknown_decisions += u64::from(holds.is_none());
        let taken = holds.unwrap_or(false);
        let Some(around) = branch.around.map(|index| index as usize) else {
            if let Some(left) = branch
                .exits
                .and_then(|index| leaving.get_mut(index as usize))
            {
                *left |= holds.is_none();
            }
            let (skipped, entered) = run.branches.entry(branch.operation).or_default();
            *(if taken { skipped } else { entered }) += 1;
            return taken;
        };
        let left = leaving.get_mut(around).is_some_and(std::mem::take);
        let unknown = left || holds.is_none();
        let taken = taken && !unknown;
        if let Some(loop_unknown) = run.unknown_loops.get_mut(around) {
            *loop_unknown |= unknown;
        }
        if let Some((again, left)) = run.loops.get_mut(around) {
            *(if taken { again } else { left }) += 1;
        }
        taken
    }

    fn step(&mut self, action: &Action, holds: Option<bool>, busy: u64) {
        match action {
            Action::Compute {
                to,
                function,
                operands,
                otherwise,
            } => {
                let value = self.compute(*function, operands);
                let before = otherwise.as_ref().and_then(|operand| self.value(operand));
                let value = match holds {
                    Some(true) => value,
                    Some(false) if otherwise.is_none() => return,
                    Some(false) => before,
                    None if value == before => value,
                    None => None,
                };
                self.set(*to, value);
            }
            Action::Phi { to } => {
                let home = self.control.names.home(*to);
                let value = home.and_then(|home| self.register(home));
                self.set(*to, value);
            }
            Action::Load { to, from } => match holds {
                Some(false) => {}
                _ => {
                    let value = self
                        .value(from)
                        .and_then(|at| self.scalars.get(&at).copied().flatten());
                    self.set(*to, value.filter(|_| holds.is_some()));
                }
            },
            Action::Store { at, value } => {
                if holds == Some(false) {
                    return;
                }
                let value = self.value(value).filter(|_| holds.is_some());
                match self.value(at) {
                    Some(at) if self.scalars.len() < MAX_SCALARS => {
                        self.scalars.insert(at, value);
                    }
                    _ => self.scalars.clear(),
                }
            }
            Action::Transfer {
                route,
                source,
                granules,
                destination,
                flag,
            } => {
                if holds == Some(false) {
                    return;
                }
                self.run.unknown_decisions += u64::from(holds.is_none());
                if *route == Route::ToScalars {
                    let ends = (self.value(source), self.value(destination));
                    self.bring_scalars(ends);
                }
                let granules = self.value(granules).and_then(|g| u64::try_from(g).ok());
                self.transfer(*route, granules.unwrap_or(0), self.value(flag), busy);
            }
            Action::Wait { flag, granules } => {
                if holds == Some(false) {
                    return;
                }
                let granules = self.value(granules).and_then(|g| u64::try_from(g).ok());
                self.wait(self.value(flag), granules.unwrap_or(u64::MAX), busy);
            }
            Action::Branch(_) => {}
        }
    }

    fn transfer(&mut self, route: Route, granules: u64, flag: Value, busy: u64) {
        let bytes = granules.saturating_mul(self.control.granule);
        let run = &mut self.run;
        run.transfers += 1;
        let (read, written) = match route {
            Route::FromHbm | Route::ToScalars => (bytes, 0),
            Route::ToHbm => (0, bytes),
            Route::WithinHbm => (bytes, bytes),
            Route::OnChip => (0, 0),
        };
        run.hbm_read_bytes = run.hbm_read_bytes.saturating_add(read);
        run.hbm_written_bytes = run.hbm_written_bytes.saturating_add(written);
        let now = busy.saturating_add(run.waiting);
        let end = self.channel.transfer(now, read.saturating_add(written));
        if self.flags.len() >= MAX_FLAGS {
            self.flags.clear();
        }
        let pending = self.flags.entry(flag).or_default();
        if pending.len() >= MAX_PENDING {
            pending.pop_front();
        }
        pending.push_back((end, granules));
    }

    fn wait(&mut self, flag: Value, mut granules: u64, busy: u64) {
        let Some(pending) = self.flags.get_mut(&flag) else {
            return;
        };
        while granules > 0
            && let Some((end, moved)) = pending.pop_front()
        {
            self.run.waiting = self.run.waiting.max(end.saturating_sub(busy));
            granules = granules.saturating_sub(moved.max(1));
        }
    }

    /// Puts the known values of an operand where a transfer brings them.
    fn bring_scalars(&mut self, (source, destination): (Value, Value)) {
        let Some(destination) = destination else {
            self.scalars.clear();
            return;
        };
        let values = source
            .and_then(operand_index)
            .and_then(|index| self.known.get(&index));
        for (at, value) in values.into_iter().flatten().enumerate() {
            let at = destination.wrapping_add(at as i64);
            self.scalars.insert(at, Some(i64::from(*value)));
        }
    }

    fn holds(&self, guard: Option<Guard>) -> Option<bool> {
        let Some(guard) = guard else {
            return Some(true);
        };
        self.register(guard.register)
            .map(|value| (value != 0) != guard.negated)
    }

    fn register(&self, register: Register) -> Value {
        self.values.get(register as usize).copied().flatten()
    }

    fn set(&mut self, register: Register, value: Value) {
        let home = self.control.names.home(register);
        for register in [Some(register), home].into_iter().flatten() {
            if let Some(place) = self.values.get_mut(register as usize) {
                *place = value;
            }
        }
    }

    fn value(&self, operand: &Operand) -> Value {
        match operand {
            Operand::Constant(value) => Some(*value),
            Operand::Register(register) => self.register(*register),
            Operand::Sum(constant, registers) => registers.iter().try_fold(*constant, |sum, r| {
                Some(sum.wrapping_add(self.register(*r)?))
            }),
            Operand::Unknown => None,
        }
    }

    fn compute(&self, function: Function, operands: &[Operand]) -> Value {
        let get = |index: usize| operands.get(index).and_then(|operand| self.value(operand));
        arithmetic::evaluate(function, [get(0), get(1), get(2)])
    }
}
