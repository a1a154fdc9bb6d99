//! Runs the control flow of a kernel: the scalar unit decides every loop, branch and transfer, and
//! its program is in the listing, so the course of a kernel follows from the text alone wherever
//! it does not depend on data.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use crate::compiler::llo::control::Control;
use crate::compiler::llo::memory::{Channel, Memory};
use crate::compiler::llo::operation::{
    Action, CORE_NUMBER, Function, Guard, Operand, Register, Relation, Route, operand_index,
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

type Value = Option<i64>;

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

impl Machine<'_> {
    fn go(&mut self, step_limit: u64) {
        let control = self.control;
        let bundles = control.bundles() as u32;
        let at = |bundle: u32| control.cycles.get(bundle as usize).copied().unwrap_or(0);
        // Stretches of bundles are counted at their ends alone.
        let mut issues = vec![0_i64; control.bundles() + 1];
        let mut stretch = |from: u32, to: u32| {
            for (bundle, change) in [(from, 1), (to, -1)] {
                if let Some(count) = issues.get_mut(bundle as usize) {
                    *count += change;
                }
            }
        };
        let loop_of: BTreeMap<u32, usize> = (control.loops.iter().enumerate())
            .map(|(index, (operation, _))| (*operation, index))
            .collect();
        let mut leaving = vec![false; control.loops.len()];
        let mut start = 0_u32;
        let mut next = 0_usize;
        let mut jump: Option<(u32, u32)> = None;
        let mut steps = 0_u64;
        let mut busy = 0_u64;
        loop {
            let operation = control.operations.get(next);
            if let Some((last, target)) = jump
                && operation.is_none_or(|operation| operation.bundle > last)
            {
                stretch(start, last + 1);
                busy = busy.saturating_add(at(last + 1).saturating_sub(at(start)));
                start = target;
                jump = None;
                next = control
                    .operations
                    .partition_point(|operation| operation.bundle < target);
                continue;
            }
            let Some(operation) = operation else {
                stretch(start, bundles);
                busy = busy.saturating_add(at(bundles).saturating_sub(at(start)));
                self.run.complete = true;
                break;
            };
            steps += 1;
            if steps > step_limit {
                break;
            }
            let index = next as u32;
            next += 1;
            let holds = self.holds(operation.guard);
            if !matches!(operation.action, Action::Branch(_)) {
                let passed = at(operation.bundle).saturating_sub(at(start));
                self.step(&operation.action, holds, busy.saturating_add(passed));
                continue;
            }
            let Some(branch) = control.branches.get(&index) else {
                continue;
            };
            // What is not known leaves loops and runs regions.
            let mut taken = holds.unwrap_or(false);
            if holds.is_none() {
                self.run.unknown_decisions += 1;
                if let Some(left) = branch.exits.and_then(|l| leaving.get_mut(l as usize)) {
                    *left = true;
                }
            }
            if let Some(around) = loop_of.get(&index).copied() {
                let unknown = std::mem::take(&mut leaving[around]) || holds.is_none();
                taken &= !unknown;
                self.run.unknown_loops[around] |= unknown;
                let (again, left) = &mut self.run.loops[around];
                *(if taken { again } else { left }) += 1;
            } else {
                let (skipped, entered) = self.run.branches.entry(index).or_default();
                *(if taken { skipped } else { entered }) += 1;
            }
            // A branch in the delay slots of another that is taken does not count.
            if taken && jump.is_none() {
                jump = Some((branch.last, branch.target));
            }
        }
        self.run.busy = busy;
        let mut count = 0_i64;
        self.run.issued = issues
            .iter()
            .take(control.bundles())
            .map(|change| {
                count += change;
                count.max(0) as u64
            })
            .collect();
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
        let (a, b) = (get(0), get(1));
        // A predicate can be known though one of its operands is not.
        match function {
            Function::PredicateAnd => return and(a, b),
            Function::PredicateNotAnd => return not(and(a, b)),
            Function::PredicateOr => return not(and(not(a), not(b))),
            Function::PredicateNot => return not(a),
            Function::Select => {
                let (yes, no) = (b, get(2));
                return match a {
                    Some(0) => no,
                    Some(_) => yes,
                    None => yes.filter(|_| yes == no),
                };
            }
            Function::Same => return a,
            _ => {}
        }
        let (a, b) = (a?, b?);
        let word = |value: i64| Some(i64::from(value as i32));
        let (unsigned_a, unsigned_b) = (a as u32, b as u32);
        match function {
            Function::Add => word(a.wrapping_add(b)),
            Function::Subtract => word(a.wrapping_sub(b)),
            Function::Multiply => word(a.wrapping_mul(b)),
            Function::ShiftLeft => word(i64::from(unsigned_a.checked_shl(unsigned_b).unwrap_or(0))),
            Function::ShiftRight => {
                word(i64::from(unsigned_a.checked_shr(unsigned_b).unwrap_or(0)))
            }
            Function::ShiftRightSigned => word(i64::from((a as i32) >> unsigned_b.min(31))),
            Function::And => word(a & b),
            Function::Or => word(a | b),
            Function::Xor => word(a ^ b),
            Function::Min { signed: true } => Some(a.min(b)),
            Function::Max { signed: true } => Some(a.max(b)),
            Function::Min { signed: false } => word(i64::from(unsigned_a.min(unsigned_b))),
            Function::Max { signed: false } => word(i64::from(unsigned_a.max(unsigned_b))),
            Function::Address => Some(a.wrapping_add(b)),
            Function::Carry => Some(i64::from(unsigned_a.checked_add(unsigned_b).is_none())),
            Function::PredicateXor => Some(i64::from((a != 0) != (b != 0))),
            Function::Compare { relation, signed } => {
                let order = if signed {
                    a.cmp(&b)
                } else {
                    unsigned_a.cmp(&unsigned_b)
                };
                let holds = match relation {
                    Relation::Equal => order.is_eq(),
                    Relation::NotEqual => order.is_ne(),
                    Relation::Less => order.is_lt(),
                    Relation::LessOrEqual => order.is_le(),
                    Relation::Greater => order.is_gt(),
                    Relation::GreaterOrEqual => order.is_ge(),
                };
                Some(i64::from(holds))
            }
            _ => None,
        }
    }
}

fn and(a: Value, b: Value) -> Value {
    match (a, b) {
        (Some(0), _) | (_, Some(0)) => Some(0),
        (Some(_), Some(_)) => Some(1),
        _ => None,
    }
}

fn not(a: Value) -> Value {
    a.map(|value| i64::from(value == 0))
}
