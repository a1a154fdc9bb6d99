//! Device memory that a compiled program needs, estimated from its schedule alone.
//!
//! The compiler's buffer assignment ([`super::buffers`]) is exact, but only dumps and profiles hold
//! it. What every optimized program has is its schedule and its layouts: a value takes the padded
//! bytes of its layout from the operation that makes it to the last one that reads it. Loops carry
//! their values in place; updates of a slice, and element-by-element operations whose operand is
//! read for the last time, write over it. What fragmentation and alignment add is not seen.

mod inplace;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::program::buffers::{BufferClass, LiveBuffer};
use crate::program::instruction::{CallRole, Instruction};
use crate::program::opcode::AsyncPart;
use crate::program::shape::{Array, MemorySpace, Shape};
use crate::program::{Computation, ComputationId, OpId, Program};
use crate::units::Bytes;

/// Device memory of one run, tile padding included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryEstimate {
    /// Arguments.
    pub arguments: Bytes,
    /// Results, those that are written over an argument included.
    pub outputs: Bytes,
    /// Results that are written over an argument (donated buffers).
    pub aliased: Bytes,
    /// Constants that lie in this memory.
    pub constants: Bytes,
    /// The most that values between operations take at once.
    pub temporaries: Bytes,
    /// What of `arguments`, `outputs` and `temporaries` is padding.
    pub padding: Bytes,
    /// The operation at which the temporaries take most; none where there are none.
    pub at: Option<OpId>,
    /// What is live then, the largest first: arguments, results, temporaries.
    pub live: Vec<LiveBuffer>,
}

impl MemoryEstimate {
    /// The most that the run needs at once, its code apart.
    #[must_use]
    pub fn peak(&self) -> Bytes {
        let sum = [self.outputs, self.constants, self.temporaries]
            .iter()
            .fold(self.arguments.0, |sum, part| sum.saturating_add(part.0));
        Bytes(sum.saturating_sub(self.aliased.0))
    }
}

/// Calls within calls that are followed.
const MAX_DEPTH: usize = 16;
/// Arrays of all values together that are followed: tuples of tuples must end.
const MAX_SLOTS: usize = 4_000_000;
/// Buffers that are listed as live.
const MAX_LIVE: usize = 4096;

impl Program {
    /// The memory of a space that one run needs, from the schedule; none where the program has no
    /// schedule or no entry.
    #[must_use]
    pub fn memory_estimate(&self, space: MemorySpace) -> Option<MemoryEstimate> {
        let entry = self.entry.filter(|_| self.is_scheduled)?;
        let computation = self.computation(entry)?;
        let mut walk = Walk {
            program: self,
            space,
            known: FxHashMap::default(),
            slots: 0,
            constants: 0,
        };
        let peak = walk.peak_of(entry, computation, 0);
        let mut estimate = MemoryEstimate {
            constants: Bytes(walk.constants),
            temporaries: Bytes(peak.bytes),
            at: peak.at,
            ..MemoryEstimate::default()
        };
        let mut live = Vec::new();
        let mut add = |op: OpId, class: BufferClass| -> (u64, u64) {
            let mut sums = (0u64, 0u64);
            let leaves = self.get(op).map(|i| leaves(&i.shape)).unwrap_or_default();
            for (index, leaf) in leaves {
                let size = size_in(leaf, space);
                if size.0 > 0 {
                    sums.0 = sums.0.saturating_add(size.0);
                    sums.1 = sums.1.saturating_add(size.1);
                    live.push(live_buffer(op, index, leaf, class));
                }
            }
            sums
        };
        let mut unpadded = peak.unpadded;
        for parameter in &computation.parameters {
            let (padded, bare) = add(*parameter, BufferClass::Parameter);
            estimate.arguments.0 = estimate.arguments.0.saturating_add(padded);
            unpadded = unpadded.saturating_add(bare);
        }
        let aliased_outputs: BTreeSet<&[i64]> = self
            .parameter_aliases
            .iter()
            .map(|alias| alias.output_index.as_slice())
            .collect();
        let root = computation
            .root
            .and_then(|root| Some((root, self.get(root)?)));
        if let Some((root, instruction)) = root {
            for (index, leaf) in leaves(&instruction.shape) {
                let (padded, bare) = size_in(leaf, space);
                estimate.outputs.0 = estimate.outputs.0.saturating_add(padded);
                unpadded = unpadded.saturating_add(bare);
                if aliased_outputs.contains(index.as_slice()) {
                    estimate.aliased.0 = estimate.aliased.0.saturating_add(padded);
                } else if padded > 0 {
                    live.push(live_buffer(root, index, leaf, BufferClass::Output));
                }
            }
        }
        // Buffers of one operation follow each other: its arrays are listed once.
        let mut arrays: (Option<OpId>, Vec<(Vec<i64>, &Shape)>) = (None, Vec::new());
        for (op, leaf_number) in peak.live {
            if arrays.0 != Some(op) {
                let found = self.get(op).map(|i| leaves(&i.shape));
                arrays = (Some(op), found.unwrap_or_default());
            }
            if let Some((index, leaf)) = arrays.1.get(leaf_number) {
                live.push(live_buffer(op, index.clone(), leaf, BufferClass::Temporary));
            }
        }
        let padded = [estimate.outputs, estimate.temporaries]
            .iter()
            .fold(estimate.arguments.0, |sum, part| sum.saturating_add(part.0));
        estimate.padding = Bytes(padded.saturating_sub(unpadded));
        live.sort_by_key(|buffer| std::cmp::Reverse(buffer.size));
        live.truncate(MAX_LIVE);
        for (id, buffer) in (0i64..).zip(&mut live) {
            buffer.id = id;
        }
        estimate.live = live;
        Some(estimate)
    }
}

fn live_buffer(op: OpId, index: Vec<i64>, leaf: &Shape, class: BufferClass) -> LiveBuffer {
    LiveBuffer {
        id: 0,
        op: Some(op),
        index,
        shape: Some(leaf.clone()),
        size: leaf.padded_bytes(),
        unpadded: leaf.bytes(),
        class,
    }
}

/// The arrays of a shape with where they are in it, and what is no array likewise.
fn leaves(shape: &Shape) -> Vec<(Vec<i64>, &Shape)> {
    fn collect<'s>(shape: &'s Shape, at: &mut Vec<i64>, into: &mut Vec<(Vec<i64>, &'s Shape)>) {
        match shape {
            Shape::Tuple(elements) => {
                for (number, element) in (0i64..).zip(elements) {
                    at.push(number);
                    collect(element, at, into);
                    at.pop();
                }
            }
            leaf => into.push((at.clone(), leaf)),
        }
    }
    let mut all = Vec::new();
    collect(shape, &mut Vec::new(), &mut all);
    all
}

fn count_leaves(shape: &Shape) -> usize {
    match shape {
        Shape::Tuple(elements) => elements.iter().map(count_leaves).sum(),
        _ => 1,
    }
}

/// Bytes with and without padding of an array that lies in that memory.
fn size_in(leaf: &Shape, space: MemorySpace) -> (u64, u64) {
    match leaf.as_array().filter(|a| a.memory_space() == space) {
        Some(array) => (array.padded_bytes().0, array.bytes().0),
        None => (0, 0),
    }
}

/// Where an array lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// In a buffer that the computation was given, or that is none of this memory.
    Outer,
    /// In a buffer that the computation makes.
    Local(usize),
}

/// A buffer that a computation makes.
#[derive(Clone, Copy)]
struct Buffer {
    op: OpId,
    leaf: usize,
    padded: u64,
    unpadded: u64,
    /// Position of the operation that makes it.
    made: usize,
    /// Position of the last operation that reads it.
    last: usize,
    /// Whether it is the computation's result: its caller has the memory for it.
    escapes: bool,
}

/// The most that the values of a computation take at once.
#[derive(Clone, Default)]
struct Peak {
    bytes: u64,
    unpadded: u64,
    at: Option<OpId>,
    /// Makers of the buffers that are live then, with the number of the array in their result.
    live: Vec<(OpId, usize)>,
}

struct Walk<'p> {
    program: &'p Program,
    space: MemorySpace,
    known: FxHashMap<ComputationId, Peak>,
    slots: usize,
    constants: u64,
}

impl<'p> Walk<'p> {
    fn peak_of(&mut self, id: ComputationId, computation: &'p Computation, depth: usize) -> Peak {
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        // Stands in while it is computed, so that a computation that calls itself ends.
        self.known.insert(id, Peak::default());
        if depth >= MAX_DEPTH {
            return Peak::default();
        }
        let mut buffers: Vec<Buffer> = Vec::new();
        let mut values: FxHashMap<OpId, Vec<Slot>> = FxHashMap::default();
        for (position, op) in computation.ops().enumerate() {
            let Some(instruction) = self.program.get(op) else {
                continue;
            };
            let slots = self.value(op, instruction, position, &values, &mut buffers);
            self.slots = self.slots.saturating_add(slots.len());
            if self.slots > MAX_SLOTS {
                break;
            }
            for operand in self.program.operands(op) {
                for slot in values.get(&operand).into_iter().flatten() {
                    if let Slot::Local(buffer) = slot
                        && let Some(buffer) = buffers.get_mut(*buffer)
                    {
                        buffer.last = position;
                    }
                }
            }
            values.insert(op, slots);
        }
        let result = computation.root.and_then(|root| values.get(&root));
        for slot in result.into_iter().flatten() {
            if let Slot::Local(buffer) = slot
                && let Some(buffer) = buffers.get_mut(*buffer)
            {
                buffer.escapes = true;
            }
        }
        let peak = self.sweep(computation, &buffers, &values, depth);
        self.known.insert(id, peak.clone());
        peak
    }

    /// Where the arrays of an operation's result lie.
    fn value(
        &mut self,
        op: OpId,
        instruction: &Instruction,
        position: usize,
        values: &FxHashMap<OpId, Vec<Slot>>,
        buffers: &mut Vec<Buffer>,
    ) -> Vec<Slot> {
        let count = count_leaves(&instruction.shape);
        let operand = |at: usize| {
            let found = instruction.operands.get(at).and_then(|o| o.op);
            found.and_then(|op| values.get(&op)).map(Vec::as_slice)
        };
        let all = || -> Vec<Slot> {
            let operands = (0..instruction.operands.len()).filter_map(operand);
            operands.flatten().copied().collect()
        };
        let same = |slots: Vec<Slot>| (slots.len() == count).then_some(slots);
        let opcode = instruction.opcode.as_str();
        let aliased = match opcode {
            "parameter" => Some(vec![Slot::Outer; count]),
            "constant" => {
                let (padded, _) = size_in(&instruction.shape, self.space);
                self.constants = self.constants.saturating_add(padded);
                Some(vec![Slot::Outer; count])
            }
            "bitcast" | "while" | "opt-barrier" | "add-dependency" | "domain" => {
                same(operand(0).unwrap_or_default().to_vec())
            }
            "tuple" => same(all()),
            "get-tuple-element" => self.element(op, instruction, operand(0).unwrap_or_default()),
            _ => match instruction.opcode.async_part() {
                Some((AsyncPart::Done, base)) => {
                    done(self.program, op, base, operand(0).unwrap_or_default()).and_then(same)
                }
                Some((AsyncPart::Update, _)) => same(operand(0).unwrap_or_default().to_vec()),
                _ => None,
            },
        };
        if let Some(slots) = aliased {
            return slots;
        }
        let given = match instruction.opcode.async_part() {
            Some((AsyncPart::Start, base)) => given(instruction, base, &all()),
            _ => Vec::new(),
        };
        let written_over = inplace::written_over(self.program, op, instruction);
        let written_over: BTreeMap<&[i64], &inplace::Over> = written_over
            .iter()
            .map(|over| (over.result.as_slice(), over))
            .collect();
        leaves(&instruction.shape)
            .into_iter()
            .enumerate()
            .map(|(leaf, (index, shape))| {
                if let Some(slot) = given.get(leaf).copied().flatten() {
                    return slot;
                }
                let over = written_over.get(index.as_slice()).and_then(|over| {
                    let slots = operand(over.operand)?;
                    slots.get(over.leaf).copied()
                });
                if let Some(slot) = over {
                    return slot;
                }
                let (padded, unpadded) = size_in(shape, self.space);
                if padded == 0 {
                    return Slot::Outer;
                }
                buffers.push(Buffer {
                    op,
                    leaf,
                    padded,
                    unpadded,
                    made: position,
                    last: position,
                    escapes: false,
                });
                Slot::Local(buffers.len() - 1)
            })
            .collect()
    }

    fn element(&self, op: OpId, instruction: &Instruction, slots: &[Slot]) -> Option<Vec<Slot>> {
        let wanted = usize::try_from(instruction.attributes.tuple_index?).ok()?;
        let elements = self.program.operand_shape(op, 0)?.elements();
        let before: usize = elements.iter().take(wanted).map(count_leaves).sum();
        let count = count_leaves(elements.get(wanted)?);
        Some(slots.get(before..before + count)?.to_vec())
    }

    fn sweep(
        &mut self,
        computation: &'p Computation,
        buffers: &[Buffer],
        values: &FxHashMap<OpId, Vec<Slot>>,
        depth: usize,
    ) -> Peak {
        let own = |buffer: &&Buffer| !buffer.escapes;
        let mut made: FxHashMap<usize, Vec<&Buffer>> = FxHashMap::default();
        let mut freed: FxHashMap<usize, Vec<&Buffer>> = FxHashMap::default();
        for buffer in buffers.iter().filter(own) {
            made.entry(buffer.made).or_default().push(buffer);
            freed.entry(buffer.last).or_default().push(buffer);
        }
        let mut now = (0u64, 0u64);
        let mut peak = Peak::default();
        let mut peak_position = None;
        let mut inner_live = Vec::new();
        for (position, op) in computation.ops().enumerate() {
            let new = made.get(&position).map(Vec::as_slice).unwrap_or_default();
            let old = freed.get(&position).map(Vec::as_slice).unwrap_or_default();
            for buffer in new {
                now.0 = now.0.saturating_add(buffer.padded);
                now.1 = now.1.saturating_add(buffer.unpadded);
            }
            // An element-by-element operation writes over an operand that nothing reads later.
            let shared = match new {
                [new] => inplace::may_share(self.program, op, |operand| {
                    let slots = values.get(&operand);
                    let slot = slots.and_then(|slots| slots.first().copied());
                    let Some(Slot::Local(at)) = slot else {
                        return false;
                    };
                    buffers.get(at).is_some_and(|buffer| {
                        !buffer.escapes && buffer.last == position && buffer.padded == new.padded
                    })
                }),
                _ => false,
            };
            let saved = if shared { new.first() } else { None };
            let saved = saved.map_or((0, 0), |buffer| (buffer.padded, buffer.unpadded));
            let inner = self.inner(op, depth);
            let bytes = now
                .0
                .saturating_sub(saved.0)
                .saturating_add(inner.as_ref().map_or(0, |inner| inner.bytes));
            if bytes > peak.bytes {
                peak = Peak {
                    bytes,
                    unpadded: now
                        .1
                        .saturating_sub(saved.1)
                        .saturating_add(inner.as_ref().map_or(0, |inner| inner.unpadded)),
                    at: inner.as_ref().and_then(|inner| inner.at).or(Some(op)),
                    live: Vec::new(),
                };
                peak_position = Some(position);
                inner_live = inner.map(|inner| inner.live).unwrap_or_default();
            }
            for buffer in old {
                now.0 = now.0.saturating_sub(buffer.padded);
                now.1 = now.1.saturating_sub(buffer.unpadded);
            }
        }
        if let Some(position) = peak_position {
            let live = buffers
                .iter()
                .filter(own)
                .filter(|buffer| buffer.made <= position && position <= buffer.last)
                .map(|buffer| (buffer.op, buffer.leaf));
            peak.live = live.chain(inner_live).collect();
        }
        peak
    }

    /// What the computations that an operation runs take on top, the largest of them.
    fn inner(&mut self, op: OpId, depth: usize) -> Option<Peak> {
        let program = self.program;
        let instruction = program.get(op)?;
        let runs = matches!(
            instruction.opcode.as_str(),
            "while" | "conditional" | "call" | "call-start" | "async-start"
        );
        if !runs {
            return None;
        }
        let roles = [
            CallRole::Body,
            CallRole::Branch,
            CallRole::Calls,
            CallRole::Applies,
        ];
        let callees: Vec<ComputationId> = program
            .called(op)
            .filter(|(role, _)| roles.contains(role))
            .map(|(_, id)| id)
            .collect();
        callees
            .into_iter()
            .filter_map(|id| Some(self.peak_of(id, program.computation(id)?, depth + 1)))
            .reduce(|best, next| if next.bytes > best.bytes { next } else { best })
    }
}

/// What the start of an asynchronous operation only passes on: its operands, by array of its
/// result.
fn given(instruction: &Instruction, base: &str, operands: &[Slot]) -> Vec<Option<Slot>> {
    let [first, second, ..] = instruction.shape.elements() else {
        return Vec::new();
    };
    let (skipped, passed) = match base {
        // The copy, then what is copied.
        "copy" => (count_leaves(first), count_leaves(second)),
        "all-reduce" => return Vec::new(),
        _ => (0, count_leaves(first)),
    };
    if passed != operands.len() {
        return Vec::new();
    }
    let new = std::iter::repeat_n(None, skipped);
    new.chain(operands.iter().map(|slot| Some(*slot))).collect()
}

/// What the end of an asynchronous operation gives of what its start made.
fn done(program: &Program, op: OpId, base: &str, slots: &[Slot]) -> Option<Vec<Slot>> {
    let started = program.operand_shape(op, 0)?;
    let [first, second, ..] = started.elements() else {
        return Some(slots.to_vec());
    };
    let range = match base {
        "copy" => 0..count_leaves(first),
        "all-reduce" => 0..slots.len(),
        _ => {
            let before = count_leaves(first);
            before..before + count_leaves(second)
        }
    };
    Some(slots.get(range)?.to_vec())
}

/// Whether two arrays take the same memory in the same order.
fn alike(a: &Array, b: &Array) -> bool {
    a.dims == b.dims && a.element_bits() == b.element_bits() && a.layout == b.layout
}

#[cfg(test)]
#[path = "liveness/tests.rs"]
mod tests;
