//! A program's instruction as an operation of a session.

use crate::program::cost::Cost;
use crate::program::instruction::{FusionKind, Instruction};
use crate::program::shape::MemorySpace;
use crate::program::{OpId as HloId, Program};
use crate::session::{MemoryAccess, ModuleId, Op};

/// XProf's numbers of memories.
const MEMORIES: [(MemorySpace, u64); 2] = [(MemorySpace::Hbm, 1), (MemorySpace::Vmem, 3)];

/// The operation that an instruction is.
pub(super) fn op_of(
    program: &Program,
    id: HloId,
    instruction: &Instruction,
    module: ModuleId,
    cost: &Cost,
) -> Op {
    let lines = program.source(id);
    let source = lines
        .first()
        .map(|line| format!("{}:{}", line.file, line.line));
    let metadata = &instruction.metadata;
    let traffic = &cost.traffic;
    let mut accesses = Vec::new();
    // XProf has no number for the host's memory: with a part left out the rest would mislead.
    if traffic.host().total().0 == 0 {
        for (space, number) in MEMORIES {
            let moved = traffic.of(space);
            for (write, bytes) in [(false, moved.read_padded.0), (true, moved.written_padded.0)] {
                if bytes > 0 {
                    accesses.push(MemoryAccess {
                        write,
                        space: number,
                        bytes,
                    });
                }
            }
        }
    }
    let bytes = traffic.iter().fold(0u64, |sum, (_, moved)| {
        sum.saturating_add(moved.total_padded().0)
    });
    let kernel_flops = cost.kernel.as_ref().and_then(|kernel| kernel.flops);
    let flops = cost.flops.max(kernel_flops.unwrap_or(0.0)) as u64;
    Op {
        module: Some(module),
        symbol_id: Some(id.index() as u64 + 1),
        name: instruction.name.clone(),
        category: category(program, id, instruction),
        framework_op: metadata.op_name.clone(),
        source: source.unwrap_or_else(|| match metadata.source_file.as_str() {
            "" => String::new(),
            file => format!("{file}:{}", metadata.source_line),
        }),
        deduplicated_name: metadata.deduplicated_name.clone(),
        shape: instruction.shape.to_string(),
        flops: Some(flops),
        model_flops: Some(flops),
        bytes_accessed: Some(bytes),
        accesses,
        ..Op::default()
    }
}

/// XProf's category of an instruction, for those that matter here.
fn category(program: &Program, id: HloId, instruction: &Instruction) -> String {
    let opcode = instruction.opcode.as_str();
    let body = program.body_of(id);
    let inside = |wanted: &[&str]| {
        body.is_some_and(|body| {
            body.ops()
                .filter_map(|op| program.get(op))
                .any(|i| wanted.iter().any(|name| i.opcode.as_str() == *name))
        })
    };
    let called = body.map_or("", |body| body.name.as_str());
    match (opcode, instruction.attributes.fusion_kind) {
        ("fusion", _) if called.starts_with("all-reduce-scatter") => "all-reduce-scatter fusion",
        ("fusion", _) if called.starts_with("async_collective_fusion") => "async-collective fusion",
        ("fusion", _) if inside(&["convolution", "dot"]) => "convolution fusion",
        ("fusion", Some(FusionKind::Loop)) => "loop fusion",
        ("fusion", Some(FusionKind::Output)) => "output fusion",
        ("fusion", Some(FusionKind::Input)) => "input fusion",
        ("fusion", _) => "custom fusion",
        ("copy" | "transpose" | "reshape", _) => "data formatting",
        _ => opcode,
    }
    .to_owned()
}
