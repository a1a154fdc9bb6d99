//! What a collective moves and between whom, read from a program.

use super::{Chain, ChainPart};
use crate::evidence::class::CollectiveKind;
use crate::program::collective::ReplicaGroups;
use crate::program::instruction::Instruction;
use crate::program::opcode::AsyncPart;
use crate::program::shape::Shape;
use crate::program::{OpId, Program};

/// A collective of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Which.
    pub kind: CollectiveKind,
    /// Bytes, tile padding included: an all-gather's result, a reduce-scatter's operand, else the
    /// operand, of one device.
    pub payload_bytes: f64,
    /// The first group: all others are taken to be like it.
    pub group: Vec<i64>,
    /// Of a permute: from whom to whom.
    pub pairs: Vec<(i64, i64)>,
    /// Whether it crosses slices, over the data centre's network.
    pub is_dcn: bool,
}

/// Calls within calls that are followed to the collective.
const MAX_DEPTH: usize = 8;
/// Groups are expanded only up to this size; no slice has more devices.
const MAX_GROUP: u64 = 1 << 16;

impl Transfer {
    /// The collective that an operation is, starts, or runs inside (a fused reduce-scatter). What
    /// only computes beside one, or waits for its end, has none: its start has it.
    #[must_use]
    pub fn of(program: &Program, op: OpId) -> Option<Self> {
        let chain = Chain::of(program, op);
        if chain.is_some_and(|chain| chain.part != ChainPart::Start) {
            return None;
        }
        let mut waiting = vec![(op, 0)];
        let mut looks = 0;
        while let Some((at, depth)) = waiting.pop() {
            let instruction = program.get(at)?;
            if matches!(
                instruction.opcode.async_part(),
                Some((AsyncPart::Done | AsyncPart::Update, _))
            ) {
                continue;
            }
            if instruction.opcode.is_collective() {
                return Self::of_collective(program, at, instruction);
            }
            let enters = matches!(
                instruction.opcode.as_str(),
                "fusion" | "async-start" | "call-start"
            );
            if enters && depth < MAX_DEPTH {
                for inner in program
                    .body_of(at)
                    .into_iter()
                    .flat_map(|body| body.ops().rev())
                {
                    looks += 1;
                    if looks > MAX_GROUP {
                        return None;
                    }
                    waiting.push((inner, depth + 1));
                }
            }
        }
        None
    }

    fn of_collective(program: &Program, op: OpId, instruction: &Instruction) -> Option<Self> {
        let mut kind = CollectiveKind::find(instruction.opcode.as_str())?;
        // The compiler writes a reduce-scatter as an all-reduce of which each device takes a slice.
        let is_scattered = kind == CollectiveKind::AllReduce
            && program.users(op).iter().any(|user| {
                program
                    .get(*user)
                    .is_some_and(|user| user.opcode == "dynamic-slice")
            })
            && program
                .computation_of(op)
                .and_then(|id| program.computation(id))
                .is_some_and(|body| body.name.contains("all-reduce-scatter"));
        if is_scattered {
            kind = CollectiveKind::ReduceScatter;
        }
        let attributes = &instruction.attributes;
        let group = group_of(program, instruction);
        let operands: u64 = (0..instruction.operands.len())
            .filter_map(|at| program.operand_shape(op, at))
            .fold(0, |sum, shape| sum.saturating_add(shape.padded_bytes().0));
        let payload_bytes = match kind {
            CollectiveKind::AllGather => gathered(instruction)
                .unwrap_or_else(|| operands.saturating_mul(group.len().max(1) as u64)),
            _ if operands > 0 => operands,
            _ => instruction.shape.padded_bytes().0,
        };
        Some(Self {
            kind,
            payload_bytes: payload_bytes as f64,
            group,
            pairs: attributes.source_target_pairs.clone(),
            is_dcn: instruction.metadata.op_name.contains("megascale")
                || instruction.name.contains("megascale"),
        })
    }

    /// Devices that take part together.
    #[must_use]
    pub fn group_size(&self) -> u64 {
        self.group.len() as u64
    }

    /// Bytes that each device sends in a ring.
    #[must_use]
    pub fn wire_bytes(&self) -> f64 {
        let devices = self.group.len().max(1) as f64;
        let others = (devices - 1.0) / devices;
        match self.kind {
            CollectiveKind::AllReduce => 2.0 * others * self.payload_bytes,
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll => others * self.payload_bytes,
            CollectiveKind::CollectivePermute | CollectiveKind::CollectiveBroadcast => {
                self.payload_bytes
            }
        }
    }
}

/// What an all-gather makes. Its start has a tuple of operands and results.
fn gathered(instruction: &Instruction) -> Option<u64> {
    let result = match instruction.opcode.async_part() {
        Some((AsyncPart::Start, _)) => instruction.shape.elements().get(1)?,
        _ => &instruction.shape,
    };
    Some(Shape::padded_bytes(result).0).filter(|bytes| *bytes > 0)
}

fn group_of(program: &Program, instruction: &Instruction) -> Vec<i64> {
    let attributes = &instruction.attributes;
    if !attributes.source_target_pairs.is_empty() {
        let pairs = attributes.source_target_pairs.iter();
        let mut members: Vec<i64> = pairs.flat_map(|(from, to)| [*from, *to]).collect();
        members.sort_unstable();
        members.dedup();
        return members;
    }
    let groups = attributes.replica_groups.as_ref();
    let size = groups.map_or(0, ReplicaGroups::group_size);
    let all = || {
        let partitions = program.num_partitions.unwrap_or(1);
        let devices = partitions.saturating_mul(program.replica_count.unwrap_or(1));
        (0..devices.clamp(1, MAX_GROUP).cast_signed()).collect()
    };
    match groups {
        Some(groups) if (1..=MAX_GROUP).contains(&size) => {
            // Devices in an order that is not told still are so many.
            let first = groups.groups().next();
            first.unwrap_or_else(|| (0..size.cast_signed()).collect())
        }
        _ => all(),
    }
}
