//! How many bytes a collective moves, between whom, and over what.

use super::{Fabric, Groups};
use crate::evidence::class::CollectiveKind;
use crate::evidence::{Evidence, OpProfile};
use crate::program::instruction::Instruction;
use crate::program::opcode::AsyncPart;
use crate::program::shape::Shape;

/// The sizes that a collective's instructions state, in bytes without padding.
pub(super) struct Shapes {
    operand: Option<f64>,
    result: Option<f64>,
}

fn bytes(shape: &Shape) -> Option<f64> {
    let bytes = shape.bytes().0;
    (bytes > 0).then_some(bytes as f64)
}

impl Shapes {
    pub(super) fn of(evidence: &Evidence<'_>, kind: CollectiveKind, ops: &[&OpProfile]) -> Self {
        let first = ops.first();
        let last = ops.last();
        let start = first.and_then(|op| op.instruction.as_ref());
        let is_start = matches!(
            start.and_then(|i| i.opcode.async_part()),
            Some((AsyncPart::Start, _))
        );
        let operand = first.and_then(|op| operand_bytes(evidence, op));
        let end =
            last.and_then(|op| op.instruction.as_ref())
                .and_then(|i| match i.opcode.async_part() {
                    // A start's own type also lists its operands and what it needs for itself.
                    Some((AsyncPart::Start, _)) => None,
                    _ => bytes(&i.shape),
                });
        let alone = start.filter(|_| is_start && end.is_none()).and_then(|i| {
            // (operand, result, …), but an all-reduce-start has the result's type.
            match (kind, i.shape.elements()) {
                (CollectiveKind::AllReduce, _) => bytes(&i.shape),
                (_, [_, result, ..]) => bytes(result),
                _ => None,
            }
        });
        Self {
            operand,
            result: end.or(alone),
        }
    }

    /// The payload of one execution, see [`super::Collective::payload_bytes`].
    pub(super) fn payload(&self, kind: CollectiveKind, size: Option<u64>) -> Option<f64> {
        let size = size.map(|n| n as f64);
        match kind {
            CollectiveKind::AllGather => self
                .result
                .or_else(|| self.operand.zip(size).map(|(b, n)| b * n)),
            CollectiveKind::ReduceScatter => self
                .operand
                .or_else(|| self.result.zip(size).map(|(b, n)| b * n)),
            _ => self.result.or(self.operand),
        }
    }

    fn ratio(&self) -> Option<f64> {
        let (operand, result) = self.operand.zip(self.result)?;
        Some(if operand > result {
            operand / result
        } else {
            result / operand
        })
    }
}

fn operand_bytes(evidence: &Evidence<'_>, op: &OpProfile) -> Option<f64> {
    let instruction = op.instruction.as_ref()?;
    let program = op
        .hlo
        .and_then(|(program, id)| Some((&evidence.session.programs.get(program)?.program, id)));
    let mut sum = 0.0;
    for (position, operand) in instruction.operands.iter().enumerate() {
        let shape = operand
            .shape
            .as_ref()
            .or_else(|| program.and_then(|(program, id)| program.operand_shape(id, position)));
        sum += bytes(shape?)?;
    }
    (sum > 0.0).then_some(sum)
}

/// Bytes that each device sends in a ring.
pub(super) fn wire_bytes(kind: CollectiveKind, payload: f64, size: Option<u64>) -> Option<f64> {
    let others = || {
        let n = size.filter(|n| *n > 1)? as f64;
        Some((n - 1.0) / n)
    };
    Some(match kind {
        CollectiveKind::AllReduce => 2.0 * others()? * payload,
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => {
            others()? * payload
        }
        CollectiveKind::CollectivePermute | CollectiveKind::CollectiveBroadcast => payload,
    })
}

/// Who takes part: what the instruction says, or the program, else what the shapes tell.
pub(super) fn groups_of(evidence: &Evidence<'_>, ops: &[&OpProfile], shapes: &Shapes) -> Groups {
    let session = evidence.session;
    for op in ops {
        let devices = devices_of(evidence, op);
        if let Some(found) = op
            .instruction
            .as_ref()
            .and_then(|i| stated_groups(i, devices))
        {
            return found;
        }
        let Some((program, id)) = op.hlo else {
            continue;
        };
        let Some(program) = session.programs.get(program).map(|p| &p.program) else {
            continue;
        };
        let inner = program.body_of(id).into_iter().flat_map(|body| body.ops());
        let found = [id]
            .into_iter()
            .chain(inner)
            .filter_map(|op| program.get(op))
            .find_map(|i| stated_groups(i, devices));
        if let Some(found) = found {
            return found;
        }
    }
    shapes.ratio().map(Groups::from_ratio).unwrap_or_default()
}

fn stated_groups(instruction: &Instruction, devices: Option<u64>) -> Option<Groups> {
    let attributes = &instruction.attributes;
    if !attributes.source_target_pairs.is_empty() {
        return Some(Groups::of_pairs(&attributes.source_target_pairs));
    }
    let groups = attributes.replica_groups.as_ref()?;
    Some(Groups::stated(groups, devices))
}

/// How many devices the program of an op runs on.
fn devices_of(evidence: &Evidence<'_>, op: &OpProfile) -> Option<u64> {
    let session = evidence.session;
    let program = op
        .hlo
        .and_then(|(program, _)| session.programs.get(program));
    let stated = program.and_then(|p| {
        let partitions = p.program.num_partitions?;
        partitions.checked_mul(p.program.replica_count.unwrap_or(1))
    });
    stated.or_else(|| {
        let recorded = session.tensor_cores().count() as u64;
        (recorded > 1).then_some(recorded)
    })
}

/// What the bytes travel over.
pub(super) fn fabric(evidence: &Evidence<'_>, ops: &[&OpProfile], groups: &Groups) -> Fabric {
    let dcn = ops.iter().any(|op| {
        let op = evidence.session.op(op.id);
        [&op.name, &op.category, &op.framework_op]
            .iter()
            .any(|text| text.contains("megascale") || text.contains("dcn"))
    });
    if dcn {
        return Fabric::Dcn;
    }
    let per_chip = evidence
        .chip
        .as_ref()
        .map_or(1, |chip| u64::from(chip.facts.devices_per_chip.value));
    // Devices of a chip are numbered next to each other.
    let neighbours = groups.stride == Some(1) && groups.shift.is_none();
    match groups.size {
        Some(size) if size > 1 && size <= per_chip && neighbours => Fabric::OnChip,
        _ => Fabric::Ici,
    }
}
