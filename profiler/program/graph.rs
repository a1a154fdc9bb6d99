//! A program: all instructions of a module in one graph.

use std::collections::VecDeque;
use std::ops::Range;

use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::program::buffers::BufferAssignment;
use crate::program::frames::{SourceLine, StackFrames};
use crate::program::instruction::{CallRole, Instruction, OutputAlias};
use crate::program::shape::Shape;

/// An instruction of a [`Program`]. Ids count up in the order of the file: the instructions of a
/// computation are neighbours, operands before users, and in schedule order where it has one.
pub type OpId = NodeIndex<u32>;

/// A computation of a [`Program`], by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputationId(pub u32);

/// Why one instruction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The later one reads the earlier one's result, as that operand.
    Data {
        /// Position among the operands.
        operand: u32,
    },
    /// The later one must not start before, though it reads nothing.
    Control,
}

/// A computation: a function of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computation {
    /// Its name without `%`.
    pub name: String,
    /// The instruction whose result is the computation's.
    pub root: Option<OpId>,
    /// Its parameters by number.
    pub parameters: Vec<OpId>,
    /// Instructions that call it, with what for.
    pub callers: Vec<(OpId, CallRole)>,
    /// The thread that runs it, as `sparsecore`; empty for the main one.
    pub execution_thread: String,
    ops: Range<u32>,
}

impl Computation {
    /// Its instructions, in order.
    pub fn ops(&self) -> impl ExactSizeIterator<Item = OpId> + DoubleEndedIterator + use<> {
        (self.ops.start as usize..self.ops.end as usize).map(NodeIndex::new)
    }
}

/// An HLO module.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The module's name.
    pub name: String,
    /// Its computations, in the order of the file: callees before callers.
    pub computations: Vec<Computation>,
    /// The computation that a run starts with.
    pub entry: Option<ComputationId>,
    /// Whether instructions stand in the order in which they run.
    pub is_scheduled: bool,
    /// Devices that the program is partitioned over, where stated.
    pub num_partitions: Option<u64>,
    /// Replicas of the program, where stated.
    pub replica_count: Option<u64>,
    /// Results that overwrite a parameter (donated buffers); `operand` is the parameter's number.
    pub parameter_aliases: Vec<OutputAlias>,
    /// Source lines.
    pub frames: StackFrames,
    /// Which memory it needs, where the proto tells.
    pub buffers: Option<BufferAssignment>,
    graph: DiGraph<Instruction, Edge, u32>,
    names: FxHashMap<String, OpId>,
    ids: FxHashMap<i64, OpId>,
    computation_names: FxHashMap<String, ComputationId>,
}

/// What a reader found, before names are resolved.
#[derive(Default)]
pub(crate) struct ProgramParts {
    pub(crate) name: String,
    pub(crate) computations: Vec<ComputationParts>,
    pub(crate) is_scheduled: bool,
    pub(crate) num_partitions: Option<u64>,
    pub(crate) replica_count: Option<u64>,
    pub(crate) parameter_aliases: Vec<OutputAlias>,
    pub(crate) frames: StackFrames,
}

/// A computation as a reader found it.
#[derive(Default)]
pub(crate) struct ComputationParts {
    pub(crate) name: String,
    pub(crate) is_entry: bool,
    pub(crate) execution_thread: String,
    pub(crate) instructions: Vec<Instruction>,
}

impl Program {
    /// Builds the graph and resolves names. Names that lead nowhere stay unresolved.
    pub(crate) fn assemble(parts: ProgramParts) -> Self {
        let mut program = Self {
            name: parts.name,
            is_scheduled: parts.is_scheduled,
            num_partitions: parts.num_partitions,
            replica_count: parts.replica_count,
            parameter_aliases: parts.parameter_aliases,
            frames: parts.frames,
            ..Self::default()
        };
        for computation in parts.computations {
            program.add_computation(computation);
        }
        // A lone computation is the entry; a real module says which.
        if program.entry.is_none() && program.computations.len() == 1 {
            program.entry = Some(ComputationId(0));
        }
        program.link_callers();
        program
    }

    fn add_computation(&mut self, parts: ComputationParts) {
        // petgraph panics beyond its index type; a file that large cannot be a program.
        const MAX_OPS: usize = (u32::MAX - 1) as usize;
        let id = ComputationId(u32::try_from(self.computations.len()).unwrap_or(u32::MAX));
        let start = self.graph.node_count();
        let mut local: FxHashMap<String, OpId> = FxHashMap::default();
        let mut root = None;
        let mut parameters = Vec::new();
        for instruction in parts.instructions {
            if self.graph.node_count() >= MAX_OPS {
                break;
            }
            let name = instruction.name.clone();
            if let Some(number) = instruction.attributes.parameter_number {
                parameters.push((number, NodeIndex::new(self.graph.node_count())));
            }
            let (proto_id, is_root) = (instruction.id, instruction.is_root);
            let op = self.graph.add_node(instruction);
            if let Some(proto_id) = proto_id {
                self.ids.entry(proto_id).or_insert(op);
            }
            if is_root {
                root = Some(op);
            }
            self.names.entry(name.clone()).or_insert(op);
            local.insert(name, op);
        }
        let end = self.graph.node_count();
        for index in start..end {
            self.link_operands(NodeIndex::new(index), &local);
        }
        parameters.sort_unstable();
        let last = (end > start).then(|| NodeIndex::new(end - 1));
        self.computation_names
            .entry(parts.name.clone())
            .or_insert(id);
        if parts.is_entry && self.entry.is_none() {
            self.entry = Some(id);
        }
        self.computations.push(Computation {
            name: parts.name,
            // Printers put the root last; without a mark the last one is it.
            root: root.or(last),
            parameters: parameters.into_iter().map(|(_, op)| op).collect(),
            callers: Vec::new(),
            execution_thread: parts.execution_thread,
            ops: start as u32..end as u32,
        });
    }

    fn link_operands(&mut self, user: OpId, local: &FxHashMap<String, OpId>) {
        let Some(instruction) = self.graph.node_weight_mut(user) else {
            return;
        };
        let mut edges = Vec::with_capacity(instruction.operands.len());
        for (number, operand) in (0u32..).zip(&mut instruction.operands) {
            operand.op = local.get(&operand.name).copied();
            if let Some(op) = operand.op {
                edges.push((op, Edge::Data { operand: number }));
            }
        }
        for name in &instruction.control_predecessors {
            if let Some(&op) = local.get(name) {
                edges.push((op, Edge::Control));
            }
        }
        for (op, edge) in edges {
            self.graph.add_edge(op, user, edge);
        }
    }

    fn link_callers(&mut self) {
        for index in 0..self.graph.node_count() {
            let op = NodeIndex::new(index);
            let calls: Vec<_> = self.called(op).collect();
            for (role, computation) in calls {
                if let Some(callee) = self.computations.get_mut(computation.0 as usize) {
                    callee.callers.push((op, role));
                }
            }
        }
    }

    /// The graph itself: instructions, with an edge from each operand to its user.
    #[must_use]
    pub fn graph(&self) -> &DiGraph<Instruction, Edge, u32> {
        &self.graph
    }

    /// Number of instructions in all computations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.graph.node_count()
    }

    /// Whether it has no instruction.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All instructions with their ids, in the order of the file.
    pub fn ops(&self) -> impl Iterator<Item = (OpId, &Instruction)> {
        self.graph
            .node_weights()
            .enumerate()
            .map(|(i, op)| (NodeIndex::new(i), op))
    }

    /// The instruction with that id; none for an id of another program.
    #[must_use]
    pub fn get(&self, op: OpId) -> Option<&Instruction> {
        self.graph.node_weight(op)
    }

    /// The instruction of that name, with or without `%`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<OpId> {
        self.names.get(name.trim_start_matches('%')).copied()
    }

    /// The instruction with that id in the proto.
    #[must_use]
    pub fn find_id(&self, id: i64) -> Option<OpId> {
        self.ids.get(&id).copied()
    }

    /// A computation by its id.
    #[must_use]
    pub fn computation(&self, id: ComputationId) -> Option<&Computation> {
        self.computations.get(id.0 as usize)
    }

    /// The computation of that name, with or without `%`.
    #[must_use]
    pub fn find_computation(&self, name: &str) -> Option<ComputationId> {
        self.computation_names
            .get(name.trim_start_matches('%'))
            .copied()
    }

    /// The entry computation.
    #[must_use]
    pub fn entry_computation(&self) -> Option<&Computation> {
        self.computation(self.entry?)
    }

    /// The computation that holds an instruction.
    #[must_use]
    pub fn computation_of(&self, op: OpId) -> Option<ComputationId> {
        let index = u32::try_from(op.index()).ok()?;
        let after = self.computations.partition_point(|c| c.ops.end <= index);
        self.computations
            .get(after)?
            .ops
            .contains(&index)
            .then_some(ComputationId(after as u32))
    }

    /// The computations that an instruction calls, with what for.
    pub fn called(&self, op: OpId) -> impl Iterator<Item = (CallRole, ComputationId)> + '_ {
        self.get(op)
            .into_iter()
            .flat_map(|instruction| &instruction.called)
            .filter_map(|call| Some((call.role, self.find_computation(&call.computation)?)))
    }

    /// The computation that a fusion, call or async op runs as its own work.
    #[must_use]
    pub fn body_of(&self, op: OpId) -> Option<&Computation> {
        let wanted = |role| matches!(role, CallRole::Calls | CallRole::Applies);
        let (_, id) = self.called(op).find(|&(role, _)| wanted(role))?;
        self.computation(id)
    }

    /// The instructions that read an instruction's result, each once, in order.
    #[must_use]
    pub fn users(&self, op: OpId) -> Vec<OpId> {
        let data = self.graph.edges_directed(op, Direction::Outgoing);
        let mut users: Vec<_> = data
            .filter(|e| matches!(e.weight(), Edge::Data { .. }))
            .map(|e| e.target())
            .collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    /// The instructions that an instruction reads, by operand; those not in the program are left
    /// out.
    pub fn operands(&self, op: OpId) -> impl Iterator<Item = OpId> + '_ {
        self.get(op)
            .into_iter()
            .flat_map(|i| i.operands.iter().filter_map(|o| o.op))
    }

    /// The type of an operand: that of the instruction that makes it, else what the text says.
    #[must_use]
    pub fn operand_shape(&self, op: OpId, operand: usize) -> Option<&Shape> {
        let operand = self.get(op)?.operands.get(operand)?;
        let made = operand.op.and_then(|op| self.get(op)).map(|i| &i.shape);
        made.or(operand.shape.as_ref())
    }

    /// The instructions within `depth` edges of one, in either direction, in order.
    #[must_use]
    pub fn neighbourhood(&self, op: OpId, depth: usize) -> Vec<OpId> {
        let mut seen = FxHashSet::default();
        let mut near = Vec::new();
        let mut queue = VecDeque::new();
        if self.get(op).is_some() {
            seen.insert(op);
            queue.push_back((op, 0));
        }
        while let Some((op, distance)) = queue.pop_front() {
            near.push(op);
            if distance < depth {
                for next in self.graph.neighbors_undirected(op) {
                    if seen.insert(next) {
                        queue.push_back((next, distance + 1));
                    }
                }
            }
        }
        near.sort_unstable();
        near
    }

    /// The source lines of an instruction, the innermost call first: from the stack frames, else
    /// from its own metadata.
    #[must_use]
    pub fn source(&self, op: OpId) -> Vec<SourceLine<'_>> {
        let Some(instruction) = self.get(op) else {
            return Vec::new();
        };
        let metadata = &instruction.metadata;
        let stack = self.frames.resolve(metadata.stack_frame_id);
        if stack.is_empty() && !metadata.source_file.is_empty() {
            return vec![SourceLine {
                file: &metadata.source_file,
                line: metadata.source_line,
                function: "",
            }];
        }
        stack
    }
}
