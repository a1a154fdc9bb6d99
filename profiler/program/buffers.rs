//! The compiler's buffer assignment, and the peak of memory that it comes to.
//!
//! The peak is found as XProf's memory viewer finds it: the trace of the compiler's own heap
//! simulation is replayed, and buffers that live throughout (parameters, results, constants) are
//! added.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::program::shape::{MemorySpace, Shape};
use crate::program::{OpId, Program};
use crate::units::Bytes;

/// Which buffers a program needs and where the compiler put them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BufferAssignment {
    /// Values that need memory.
    pub logical: Vec<LogicalBuffer>,
    /// Blocks of memory that they were put into.
    pub allocations: Vec<Allocation>,
    /// Heap simulations, in the order of the proto.
    pub traces: Vec<Vec<HeapEvent>>,
}

/// A value that needs memory.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalBuffer {
    /// Its id.
    pub id: i64,
    /// Bytes, tile padding included.
    pub size: Bytes,
    /// The instruction that makes it.
    pub op: Option<OpId>,
    /// Where in that instruction's result.
    pub index: Vec<i64>,
    /// Where it lives.
    pub space: MemorySpace,
}

/// What a block of memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BufferClass {
    /// An argument of the program.
    Parameter,
    /// A result of the program.
    Output,
    /// A constant.
    Constant,
    /// Scratch of a thread.
    ThreadLocal,
    /// Values between ops.
    Temporary,
}

/// A block of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// Its number.
    pub index: i64,
    /// Bytes.
    pub size: Bytes,
    /// What it holds.
    pub class: BufferClass,
    /// Which parameter, for one.
    pub parameter: Option<u64>,
    /// Where it lives.
    pub space: MemorySpace,
    /// Ids of the logical buffers in it.
    pub buffers: Vec<i64>,
}

/// A step of the heap simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapEvent {
    /// What happens.
    pub kind: HeapEventKind,
    /// To which logical buffer.
    pub buffer: i64,
    /// At which instruction.
    pub op: Option<OpId>,
}

/// What happens in a step of the heap simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapEventKind {
    /// The buffer takes memory.
    Alloc,
    /// It is no longer needed.
    Free,
    /// It takes over the memory of another.
    ShareWith(i64),
}

/// The point at which a program needs most memory of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct PeakMemory {
    /// The most that temporaries take at once.
    pub heap: Bytes,
    /// The same without tile padding.
    pub heap_unpadded: Bytes,
    /// Blocks that live throughout: parameters, results, constants.
    pub indefinite: Bytes,
    /// The instruction at which the peak is reached; none where there are no temporaries.
    pub at: Option<OpId>,
    /// What is live then: blocks that live throughout first, then temporaries in program order.
    pub live: Vec<LiveBuffer>,
}

impl PeakMemory {
    /// All memory in use at the peak.
    #[must_use]
    pub fn total(&self) -> Bytes {
        Bytes(self.heap.0.saturating_add(self.indefinite.0))
    }

    /// The same without the padding of temporaries; that of parameters stays in, as in XProf.
    #[must_use]
    pub fn total_unpadded(&self) -> Bytes {
        Bytes(self.heap_unpadded.0.saturating_add(self.indefinite.0))
    }
}

/// A buffer in use at the peak.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveBuffer {
    /// The logical buffer's id.
    pub id: i64,
    /// The instruction that makes it.
    pub op: Option<OpId>,
    /// Where in that instruction's result.
    pub index: Vec<i64>,
    /// Its type, where the instruction is known.
    pub shape: Option<Shape>,
    /// Bytes, tile padding included.
    pub size: Bytes,
    /// Bytes of its elements alone.
    pub unpadded: Bytes,
    /// What the block that it lies in holds.
    pub class: BufferClass,
}

impl Program {
    /// The peak of memory in a space; none where the program has no buffer assignment or nothing
    /// lives there.
    #[must_use]
    pub fn peak_memory(&self, space: MemorySpace) -> Option<PeakMemory> {
        self.buffers.as_ref()?.peak(space, self)
    }
}

/// A table's pointer for each element of a tuple.
const POINTER_BYTES: u64 = 8;

impl BufferAssignment {
    /// Bytes of all blocks in a memory space, by what they hold.
    #[must_use]
    pub fn totals(&self, space: MemorySpace) -> BTreeMap<BufferClass, Bytes> {
        let mut totals = BTreeMap::new();
        for allocation in self.allocations.iter().filter(|a| a.space == space) {
            let sum: &mut Bytes = totals.entry(allocation.class).or_default();
            sum.0 = sum.0.saturating_add(allocation.size.0);
        }
        totals
    }

    /// The peak of memory in a space; none where nothing lives there.
    #[must_use]
    pub fn peak(&self, space: MemorySpace, program: &Program) -> Option<PeakMemory> {
        let index = Index::new(self);
        let in_space: Vec<_> = self
            .allocations
            .iter()
            .filter(|a| a.space == space)
            .collect();
        if in_space.is_empty() {
            return None;
        }
        let mut peak = PeakMemory {
            heap: Bytes(0),
            heap_unpadded: Bytes(0),
            indefinite: Bytes(0),
            at: None,
            live: Vec::new(),
        };
        // Scratch of a thread is in registers or on a stack of its own.
        for allocation in in_space
            .iter()
            .filter(|a| !matches!(a.class, BufferClass::Temporary | BufferClass::ThreadLocal))
        {
            let held = allocation.buffers.iter().filter_map(|id| index.buffer(*id));
            // The largest of the buffers that share the block stands for it, the first of equals.
            let largest = held.reduce(|best, next| if next.size > best.size { next } else { best });
            if let Some(buffer) = largest.filter(|buffer| buffer.size.0 > 0) {
                peak.indefinite.0 = peak.indefinite.0.saturating_add(allocation.size.0);
                peak.live.push(live(buffer, allocation.class, program));
            }
        }
        if let Some(events) = self.trace_of(space, &in_space, &index) {
            self.replay(events, &index, program, &mut peak);
        }
        (peak.total().0 > 0).then_some(peak)
    }

    /// The heap simulation of a memory space: that of its first temporary block, else the one
    /// with most events there. The proto's own link between them cannot be relied on.
    fn trace_of(
        &self,
        space: MemorySpace,
        in_space: &[&Allocation],
        index: &Index<'_>,
    ) -> Option<&[HeapEvent]> {
        let block_of = |events: &[HeapEvent]| index.block(events.first()?.buffer);
        let of_block = |wanted: &Allocation| {
            let is_wanted = |block: &Allocation| block.index == wanted.index;
            self.traces
                .iter()
                .rev()
                .find(|events| block_of(events).is_some_and(is_wanted))
        };
        let temporaries = in_space
            .iter()
            .filter(|a| a.class == BufferClass::Temporary);
        if let Some(events) = temporaries.copied().find_map(of_block) {
            return Some(events);
        }
        let events_here = |events: &Vec<HeapEvent>| {
            let here = |e: &&HeapEvent| index.buffer(e.buffer).is_some_and(|b| b.space == space);
            events.iter().filter(here).count()
        };
        let counted = self
            .traces
            .iter()
            .map(|events| (events_here(events), events));
        let best = counted.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.filter(|(count, _)| *count > 0)
            .map(|(_, events)| events.as_slice())
    }

    fn replay(
        &self,
        events: &[HeapEvent],
        index: &Index<'_>,
        program: &Program,
        peak: &mut PeakMemory,
    ) {
        let mut heap = Heap::default();
        let mut peak_at = None;
        for (at, event) in events.iter().enumerate() {
            heap.step(event, index, program);
            if heap.size > peak.heap.0 {
                peak.heap = Bytes(heap.size);
                peak.heap_unpadded = Bytes(heap.unpadded);
                peak.at = event.op;
                peak_at = Some(at);
            }
        }
        // A second run to the peak finds what is live there without a copy at every new peak.
        let Some(peak_at) = peak_at else { return };
        let mut heap = Heap::default();
        for event in events.iter().take(peak_at + 1) {
            heap.step(event, index, program);
        }
        for id in heap.live.values() {
            if let Some(buffer) = index.buffer(*id) {
                let class = index
                    .block(*id)
                    .map_or(BufferClass::Temporary, |block| block.class);
                peak.live.push(live(buffer, class, program));
            }
        }
    }
}

/// Buffers by id, and the block that each lies in.
struct Index<'a> {
    buffers: FxHashMap<i64, &'a LogicalBuffer>,
    blocks: FxHashMap<i64, &'a Allocation>,
}

impl<'a> Index<'a> {
    fn new(assignment: &'a BufferAssignment) -> Self {
        let mut blocks = FxHashMap::default();
        for allocation in &assignment.allocations {
            blocks.extend(allocation.buffers.iter().map(|&id| (id, allocation)));
        }
        Self {
            buffers: assignment.logical.iter().map(|b| (b.id, b)).collect(),
            blocks,
        }
    }

    fn buffer(&self, id: i64) -> Option<&'a LogicalBuffer> {
        self.buffers.get(&id).copied()
    }

    fn block(&self, id: i64) -> Option<&'a Allocation> {
        self.blocks.get(&id).copied()
    }
}

/// The state of a replayed heap. Buffers that share memory count once, under the id of the one
/// that took it first, until the last of them is freed.
#[derive(Default)]
struct Heap {
    size: u64,
    unpadded: u64,
    /// Ids of buffers that hold memory, by when they took it.
    live: BTreeMap<u64, i64>,
    taken: FxHashMap<i64, u64>,
    references: FxHashMap<i64, i64>,
    shares: FxHashMap<i64, i64>,
    clock: u64,
}

impl Heap {
    fn step(&mut self, event: &HeapEvent, index: &Index<'_>, program: &Program) {
        let owner = self.owner(event.buffer);
        match event.kind {
            HeapEventKind::Alloc => {
                *self.references.entry(owner).or_default() += 1;
                self.take(event.buffer, index, program);
            }
            HeapEventKind::Free => {
                let count = self.references.entry(owner).or_default();
                *count -= 1;
                if *count == 0 {
                    self.release(owner, index, program);
                }
            }
            HeapEventKind::ShareWith(other) => {
                if other != event.buffer {
                    self.shares.insert(event.buffer, other);
                }
                let owner = self.owner(event.buffer);
                let count = self.references.entry(owner).or_default();
                *count += 1;
                // It was freed before: the memory is taken again.
                if *count == 1 {
                    self.take(owner, index, program);
                }
            }
        }
    }

    fn owner(&self, mut id: i64) -> i64 {
        // Chains are short; a cycle in a damaged file must end.
        for _ in 0..64 {
            match self.shares.get(&id) {
                Some(&next) => id = next,
                None => break,
            }
        }
        id
    }

    fn take(&mut self, id: i64, index: &Index<'_>, program: &Program) {
        let Some(buffer) = index.buffer(id) else {
            return;
        };
        self.clock += 1;
        if let Some(before) = self.taken.insert(id, self.clock) {
            self.live.remove(&before);
        }
        self.live.insert(self.clock, id);
        self.size = self.size.saturating_add(buffer.size.0);
        self.unpadded = self.unpadded.saturating_add(unpadded(buffer, program).0);
    }

    fn release(&mut self, id: i64, index: &Index<'_>, program: &Program) {
        let Some(buffer) = index.buffer(id) else {
            return;
        };
        if let Some(when) = self.taken.remove(&id) {
            self.live.remove(&when);
        }
        self.size = self.size.saturating_sub(buffer.size.0);
        self.unpadded = self.unpadded.saturating_sub(unpadded(buffer, program).0);
    }
}

fn shape_of<'a>(buffer: &LogicalBuffer, program: &'a Program) -> Option<&'a Shape> {
    let result = &program.get(buffer.op?)?.shape;
    buffer.index.iter().try_fold(result, |shape, &i| {
        shape.elements().get(usize::try_from(i).ok()?)
    })
}

/// Bytes of the elements alone; a tuple is a table of pointers.
fn unpadded(buffer: &LogicalBuffer, program: &Program) -> Bytes {
    match shape_of(buffer, program) {
        Some(Shape::Tuple(elements)) => Bytes(elements.len() as u64 * POINTER_BYTES),
        Some(shape) => shape.bytes(),
        None => buffer.size,
    }
}

fn live(buffer: &LogicalBuffer, class: BufferClass, program: &Program) -> LiveBuffer {
    LiveBuffer {
        id: buffer.id,
        op: buffer.op,
        index: buffer.index.clone(),
        shape: shape_of(buffer, program).cloned(),
        size: buffer.size,
        unpadded: unpadded(buffer, program),
        class,
    }
}
