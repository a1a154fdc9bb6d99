//! How often things run: trip counts of loops, and from them executions of computations.
//!
//! Where the compiler left no `known_trip_count`, the loop's integers are run: the condition and
//! what it depends on, nothing else.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::program::dtype::DType;
use crate::program::instruction::{CallRole, Instruction};
use crate::program::opcode::AsyncPart;
use crate::program::{Computation, ComputationId, OpId, Program};

/// How often a computation runs in one run of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executions {
    /// How often; 0 for functions that a reduce or sort applies to elements.
    pub count: u64,
    /// Whether a loop with an unknown trip count was taken to run once, or a branch to be taken.
    pub assumed: bool,
}

/// Loops that run longer are unknown: real ones are over layers, chunks or steps.
const MAX_TRIPS: u64 = 100_000;
/// Operations that one loop may take to run its integers.
const MAX_STEPS: u64 = 2_000_000;
/// Operations between a value and the constant or parameter that it comes from.
const MAX_DEPTH: usize = 64;

impl Program {
    /// How often a `while` runs its body, where the compiler or the loop's integers tell.
    #[must_use]
    pub fn trip_count(&self, op: OpId) -> Option<u64> {
        let instruction = self
            .get(op)
            .filter(|instruction| instruction.opcode == "while")?;
        instruction.known_trip_count().or_else(|| {
            let callee = |role| {
                let (_, id) = self.called(op).find(|&(called, _)| called == role)?;
                self.computation(id)
            };
            let (body, condition) = (callee(CallRole::Body)?, callee(CallRole::Condition)?);
            Loop {
                integers: Integers {
                    program: self,
                    steps: 0,
                },
                body,
                condition,
            }
            .trips(*self.operands(op).next().as_ref()?)
        })
    }

    /// How often each computation runs in one run of the program, by its position.
    #[must_use]
    pub fn executions(&self) -> Vec<Executions> {
        let count = self.computations.len();
        let mut executions = vec![Executions::default(); count];
        let Some(entry) = self.entry else {
            return executions;
        };
        if let Some(entry) = executions.get_mut(entry.0 as usize) {
            entry.count = 1;
        }
        let calls: Vec<Vec<(ComputationId, u64, bool)>> = self
            .computations
            .iter()
            .map(|computation| self.calls_of(computation))
            .collect();
        // Callers before callees; what calls itself is never reached.
        let mut waiting = vec![0usize; count];
        for (callee, ..) in calls.iter().flatten() {
            waiting[callee.0 as usize] += 1;
        }
        let mut ready: Vec<usize> = (0..count).filter(|&id| waiting[id] == 0).collect();
        while let Some(id) = ready.pop() {
            let caller = executions[id];
            for &(callee, factor, assumed) in &calls[id] {
                let callee = callee.0 as usize;
                let sum = &mut executions[callee];
                let times = caller.count.saturating_mul(factor);
                sum.count = sum.count.saturating_add(times);
                sum.assumed |= times > 0 && (assumed || caller.assumed);
                waiting[callee] -= 1;
                if waiting[callee] == 0 {
                    ready.push(callee);
                }
            }
        }
        executions
    }

    /// Whether the ops of a computation run as ops of their own: those of the entry, of loops,
    /// branches and calls. All others are part of the fusion, asynchronous op or reduction that
    /// calls them, and so is their cost.
    #[must_use]
    pub fn has_own_ops(&self, id: ComputationId) -> bool {
        let by_control_flow = |&(caller, role): &(OpId, CallRole)| match role {
            CallRole::Body | CallRole::Condition | CallRole::Branch => true,
            CallRole::Calls | CallRole::Applies => self
                .get(caller)
                .is_some_and(|op| matches!(op.opcode.as_str(), "call" | "call-start")),
        };
        self.entry == Some(id)
            || self
                .computation(id)
                .is_some_and(|found| found.callers.iter().any(by_control_flow))
    }

    /// The computations that one execution of a computation runs, how often, and whether that is
    /// assumed.
    fn calls_of(&self, computation: &Computation) -> Vec<(ComputationId, u64, bool)> {
        let mut calls = Vec::new();
        for op in computation.ops() {
            let Some(instruction) = self.get(op).filter(|i| !i.called.is_empty()) else {
                continue;
            };
            let trips = self.trip_count(op);
            for (role, callee) in self.called(op) {
                let (factor, assumed) = match role {
                    CallRole::Body => (trips.unwrap_or(1), trips.is_none()),
                    CallRole::Condition => {
                        (trips.map_or(1, |n| n.saturating_add(1)), trips.is_none())
                    }
                    CallRole::Branch => (1, true),
                    CallRole::Calls | CallRole::Applies => {
                        (u64::from(runs(instruction, role)), false)
                    }
                };
                calls.push((callee, factor, assumed));
            }
        }
        calls
    }
}

/// Whether a called computation runs as a whole rather than for each element, and here rather
/// than at the start of the same asynchronous op.
fn runs(instruction: &Instruction, role: CallRole) -> bool {
    match instruction.opcode.async_part() {
        Some((part, "async" | "call")) => part == AsyncPart::Start,
        Some(_) => false,
        None => role == CallRole::Calls || instruction.opcode == "call",
    }
}

struct Loop<'a> {
    integers: Integers<'a>,
    body: &'a Computation,
    condition: &'a Computation,
}

/// The loop's state: the integers in its tuple, as far as they are known.
type State = FxHashMap<usize, i64>;

impl Loop<'_> {
    fn trips(mut self, start: OpId) -> Option<u64> {
        let (condition, body) = (self.condition.root?, self.body.root?);
        let needed = self.needed(condition, body)?;
        let mut state = State::default();
        for &slot in &needed {
            let mut outside = Frame::default();
            if let Some(value) = self.integers.element(start, slot, &mut outside, 0) {
                state.insert(slot, value);
            }
        }
        for trips in 0..=MAX_TRIPS {
            let mut frame = Frame::of_loop(state);
            if self.integers.value(condition, &mut frame, 0)? == 0 {
                return Some(trips);
            }
            let mut next = State::default();
            frame.known.clear();
            for &slot in &needed {
                if let Some(value) = self.integers.element(body, slot, &mut frame, 0) {
                    next.insert(slot, value);
                }
            }
            state = next;
        }
        None
    }

    /// The slots of the tuple that the condition depends on, through any number of iterations.
    fn needed(&mut self, condition: OpId, body: OpId) -> Option<BTreeSet<usize>> {
        let mut needed = BTreeSet::new();
        self.integers
            .slots(condition, &mut needed, &mut BTreeSet::new(), 0)?;
        let mut open: Vec<usize> = needed.iter().copied().collect();
        while let Some(slot) = open.pop() {
            let mut read = BTreeSet::new();
            let root = self.integers.program.get(body)?;
            let source = match root.opcode.as_str() {
                "tuple" => root.operands.get(slot)?.op?,
                _ => body,
            };
            self.integers
                .slots(source, &mut read, &mut BTreeSet::new(), 0)?;
            open.extend(read.into_iter().filter(|&slot| needed.insert(slot)));
        }
        Some(needed)
    }
}

/// The parameters of a computation that is being run, and what is known of its ops.
#[derive(Default)]
struct Frame {
    /// The elements of the one tuple parameter of a loop.
    state: Option<State>,
    /// The parameters of a fusion or call.
    parameters: Vec<Option<i64>>,
    known: FxHashMap<OpId, Option<i64>>,
}

impl Frame {
    fn of_loop(state: State) -> Self {
        Self {
            state: Some(state),
            ..Self::default()
        }
    }
}

/// Runs scalar integer ops.
struct Integers<'a> {
    program: &'a Program,
    steps: u64,
}

impl<'a> Integers<'a> {
    fn step(&mut self, op: OpId, depth: usize) -> Option<&'a Instruction> {
        self.steps += 1;
        let allowed = self.steps <= MAX_STEPS && depth <= MAX_DEPTH;
        self.program.get(op).filter(|_| allowed)
    }

    /// The slots of the loop's tuple that an op's value depends on.
    fn slots(
        &mut self,
        op: OpId,
        slots: &mut BTreeSet<usize>,
        seen: &mut BTreeSet<OpId>,
        depth: usize,
    ) -> Option<()> {
        if !seen.insert(op) {
            return Some(());
        }
        let instruction = self.step(op, depth)?;
        let is_scalar = instruction
            .shape
            .as_array()
            .is_some_and(|array| array.elements() == 1);
        if instruction.opcode == "get-tuple-element" && is_scalar {
            let source = instruction.operands.first()?.op?;
            if self
                .program
                .get(source)
                .is_some_and(|source| source.opcode == "parameter")
            {
                slots.insert(usize::try_from(instruction.attributes.tuple_index?).ok()?);
                return Some(());
            }
        }
        for operand in self.program.operands(op) {
            self.slots(operand, slots, seen, depth + 1)?;
        }
        Some(())
    }

    /// An element of an op whose result is a tuple.
    fn element(&mut self, op: OpId, index: usize, frame: &mut Frame, depth: usize) -> Option<i64> {
        let instruction = self.step(op, depth)?;
        let operand = |i: usize| instruction.operands.get(i)?.op;
        match instruction.opcode.as_str() {
            "tuple" => self.value(operand(index)?, frame, depth + 1),
            "parameter" => frame.state.as_ref()?.get(&index).copied(),
            "copy" | "opt-barrier" | "bitcast" => {
                self.element(operand(0)?, index, frame, depth + 1)
            }
            "fusion" | "call" => {
                let (root, mut inner) = self.enter(op, instruction, frame, depth)?;
                self.element(root, index, &mut inner, depth + 1)
            }
            _ => None,
        }
    }

    fn enter(
        &mut self,
        op: OpId,
        instruction: &Instruction,
        frame: &mut Frame,
        depth: usize,
    ) -> Option<(OpId, Frame)> {
        let root = self.program.body_of(op)?.root?;
        let mut inner = Frame::default();
        for operand in &instruction.operands {
            let value = operand
                .op
                .and_then(|operand| self.value(operand, frame, depth + 1));
            inner.parameters.push(value);
        }
        Some((root, inner))
    }

    /// The value of a scalar op.
    fn value(&mut self, op: OpId, frame: &mut Frame, depth: usize) -> Option<i64> {
        if let Some(&known) = frame.known.get(&op) {
            return known;
        }
        let instruction = self.step(op, depth)?;
        let array = instruction
            .shape
            .as_array()
            .filter(|array| array.elements() == 1)?;
        let value = self
            .compute(op, instruction, frame, depth)
            .map(|v| wrap(v, array.dtype));
        frame.known.insert(op, value);
        value
    }

    fn compute(
        &mut self,
        op: OpId,
        instruction: &Instruction,
        frame: &mut Frame,
        depth: usize,
    ) -> Option<i64> {
        let attributes = &instruction.attributes;
        let operand = |i: usize| instruction.operands.get(i)?.op;
        match instruction.opcode.as_str() {
            "constant" => return literal(&attributes.literal),
            "parameter" => {
                let number = usize::try_from(attributes.parameter_number?).ok()?;
                return frame.parameters.get(number).copied().flatten();
            }
            "get-tuple-element" => {
                let index = usize::try_from(attributes.tuple_index?).ok()?;
                return self.element(operand(0)?, index, frame, depth + 1);
            }
            "fusion" | "call" => {
                let (root, mut inner) = self.enter(op, instruction, frame, depth)?;
                return self.value(root, &mut inner, depth + 1);
            }
            "and" | "or" => {
                // One side may decide alone.
                let mut side = |i| self.value(operand(i)?, frame, depth + 1);
                let is_and = instruction.opcode == "and";
                return match (side(0), side(1)) {
                    (Some(a), Some(b)) => Some(if is_and { a & b } else { a | b }),
                    (Some(0), _) | (_, Some(0)) if is_and => Some(0),
                    _ => None,
                };
            }
            _ => {}
        }
        let a = self.value(operand(0)?, frame, depth + 1)?;
        if let "convert" | "bitcast" | "bitcast-convert" | "copy" | "reshape" | "broadcast" =
            instruction.opcode.as_str()
        {
            return Some(a);
        }
        match instruction.opcode.as_str() {
            "negate" => return a.checked_neg(),
            "not" => return Some(!a),
            _ => {}
        }
        if instruction.opcode == "select" {
            return self.value(operand(if a != 0 { 1 } else { 2 })?, frame, depth + 1);
        }
        let b = self.value(operand(1)?, frame, depth + 1)?;
        match instruction.opcode.as_str() {
            "add" => Some(a.wrapping_add(b)),
            "subtract" => Some(a.wrapping_sub(b)),
            "multiply" => Some(a.wrapping_mul(b)),
            "divide" => a.checked_div(b),
            "remainder" => a.checked_rem(b),
            "minimum" => Some(a.min(b)),
            "maximum" => Some(a.max(b)),
            "xor" => Some(a ^ b),
            "compare" => compare(&attributes.direction, a, b),
            _ => None,
        }
    }
}

fn compare(direction: &str, a: i64, b: i64) -> Option<i64> {
    let holds = match direction {
        "EQ" => a == b,
        "NE" => a != b,
        "LT" => a < b,
        "LE" => a <= b,
        "GT" => a > b,
        "GE" => a >= b,
        _ => return None,
    };
    Some(i64::from(holds))
}

fn literal(text: &str) -> Option<i64> {
    match text.trim_matches(['{', '}', ' ']) {
        "true" => Some(1),
        "false" => Some(0),
        number => number.parse().ok(),
    }
}

/// The value as its type holds it.
fn wrap(value: i64, dtype: DType) -> i64 {
    match dtype {
        DType::Pred => value & 1,
        DType::S8 => i64::from(value as i8),
        DType::S16 => i64::from(value as i16),
        DType::S32 => i64::from(value as i32),
        DType::U8 => i64::from(value as u8),
        DType::U16 => i64::from(value as u16),
        DType::U32 => i64::from(value as u32),
        _ => value,
    }
}

#[cfg(test)]
#[path = "trips_tests.rs"]
mod tests;
