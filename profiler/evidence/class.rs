//! What an operation is, as the rules see it: one class for each kind of trouble.

use serde::Serialize;

use crate::program::instruction::Instruction;
use crate::program::opcode::AsyncPart;
use crate::program::shape::{Array, MemorySpace, Shape};
use crate::session::Op;

/// A collective operation, whichever way it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveKind {
    /// Every participant gets the sum.
    AllReduce,
    /// Every participant gets all parts.
    AllGather,
    /// Every participant gets its part of the sum.
    ReduceScatter,
    /// Every participant sends a part to every other.
    AllToAll,
    /// Pairs exchange.
    CollectivePermute,
    /// One sends to all.
    CollectiveBroadcast,
}

impl CollectiveKind {
    /// The name that HLO gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllToAll => "all-to-all",
            Self::CollectivePermute => "collective-permute",
            Self::CollectiveBroadcast => "collective-broadcast",
        }
    }

    /// Finds one in an opcode, a category or a fusion's name.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        // `all-reduce-scatter` is XLA's name of an all-reduce fused with the slice of its result.
        const NAMES: [(&str, CollectiveKind); 8] = [
            ("all-reduce-scatter", CollectiveKind::ReduceScatter),
            ("reduce-scatter", CollectiveKind::ReduceScatter),
            ("all-reduce", CollectiveKind::AllReduce),
            ("all-gather", CollectiveKind::AllGather),
            ("ragged-all-to-all", CollectiveKind::AllToAll),
            ("all-to-all", CollectiveKind::AllToAll),
            ("collective-permute", CollectiveKind::CollectivePermute),
            ("collective-broadcast", CollectiveKind::CollectiveBroadcast),
        ];
        NAMES
            .iter()
            .find(|(name, _)| text.contains(name))
            .map(|(_, kind)| *kind)
    }
}

/// Where a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyRoute {
    /// Host memory (`S(5)`) to the device, over PCIe.
    HostToDevice,
    /// The device to host memory (`S(5)`), over PCIe.
    DeviceToHost,
    /// HBM to VMEM: a prefetch that the compiler placed.
    HbmToVmem,
    /// VMEM to HBM.
    VmemToHbm,
    /// Within one memory.
    Within,
}

impl CopyRoute {
    /// Whether the copy crosses PCIe.
    #[must_use]
    pub fn is_host(self) -> bool {
        matches!(self, Self::HostToDevice | Self::DeviceToHost)
    }
}

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpClass {
    /// A matmul or convolution, alone or with work fused to it.
    Matmul,
    /// A collective that blocks, or the half of an asynchronous one.
    Collective(CollectiveKind),
    /// Either half of an asynchronous copy.
    AsyncCopy(CopyRoute),
    /// A copy, transpose or reshape that only moves data.
    DataFormatting,
    /// A custom kernel (Pallas, Mosaic) or another custom call.
    CustomCall,
    /// Element by element, alone or fused.
    Elementwise,
    /// A reduction.
    Reduce,
    /// Writes at computed indices.
    Scatter,
    /// Reads at computed indices.
    Gather,
    /// Sorts, or takes the k largest.
    Sort,
    /// Writes a slice into a larger array.
    DynamicUpdateSlice,
    /// Reads a slice.
    Slice,
    /// Adds zeros around an array.
    Pad,
    /// Random numbers.
    Random,
    /// A loop, a branch or a call: its time is that of the operations inside.
    ControlFlow,
    /// Data from or to the host through the infeed, outfeed, send and recv.
    HostTransfer,
    /// Something else.
    Other,
}

impl OpClass {
    /// A name for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Matmul => "matmul",
            Self::Collective(kind) => kind.name(),
            Self::AsyncCopy(route) if route.is_host() => "host copy",
            Self::AsyncCopy(_) => "async copy",
            Self::DataFormatting => "data formatting",
            Self::CustomCall => "custom call",
            Self::Elementwise => "elementwise",
            Self::Reduce => "reduce",
            Self::Scatter => "scatter",
            Self::Gather => "gather",
            Self::Sort => "sort",
            Self::DynamicUpdateSlice => "dynamic-update-slice",
            Self::Slice => "slice",
            Self::Pad => "pad",
            Self::Random => "random",
            Self::ControlFlow => "control flow",
            Self::HostTransfer => "host transfer",
            Self::Other => "other",
        }
    }

    /// Tells the class from XProf's category, the instruction and the opcodes fused into it.
    #[must_use]
    pub fn of(op: &Op, instruction: Option<&Instruction>, fused: &[&str]) -> Self {
        let category = op.category.as_str();
        let opcode = instruction.map_or("", |i| i.opcode.as_str());
        if let Some(kind) = collective(op, instruction, fused) {
            return Self::Collective(kind);
        }
        if is_async_copy(category, opcode, &op.name) {
            return Self::AsyncCopy(instruction.map_or(CopyRoute::Within, route));
        }
        if let Some(class) = by_category(category) {
            return class;
        }
        let framework = op.framework_op.trim_end_matches(':');
        let framework = framework.rsplit('/').next().unwrap_or_default();
        for name in [opcode]
            .into_iter()
            .chain(fused.iter().copied())
            .chain([framework])
        {
            if let Some(class) = by_opcode(name) {
                return class;
            }
        }
        match category {
            "loop fusion" | "non-fusion elementwise" | "fusion" => Self::Elementwise,
            "output fusion" | "input fusion" => Self::Reduce,
            _ if opcode == "fusion" => Self::Elementwise,
            _ => Self::Other,
        }
    }
}

fn collective(
    op: &Op,
    instruction: Option<&Instruction>,
    fused: &[&str],
) -> Option<CollectiveKind> {
    let opcode = instruction.map_or("", |i| i.opcode.as_str());
    if let Some(kind) = CollectiveKind::find(&op.category).or_else(|| CollectiveKind::find(opcode))
    {
        return Some(kind);
    }
    // A call's own time is that of the operations inside, but one that runs beside the core
    // (`call-start`) stands for them.
    let wrapped = matches!(
        opcode,
        "async-start"
            | "async-done"
            | "async-update"
            | "call-start"
            | "call-done"
            | "call-update"
            | "fusion"
            | "custom-call"
    );
    let named = || CollectiveKind::find(&op.name);
    let inside = || fused.iter().find_map(|name| CollectiveKind::find(name));
    if wrapped && let Some(kind) = named().or_else(inside) {
        return Some(kind);
    }
    let fusion = op.name.starts_with("async-collective-")
        || op.category == "async-collective fusion"
        || op.category.starts_with("async-collective-");
    fusion.then(|| async_fusion(op, instruction))
}

/// What an `async-collective-start`, `-done` or `-fusion` does, where no HLO tells what is inside:
/// as the framework calls it, else as its sizes say.
fn async_fusion(op: &Op, instruction: Option<&Instruction>) -> CollectiveKind {
    /// Below this size an array is a flag or a counter.
    const SMALL: u64 = 1024;
    let framework = op.framework_op.trim_end_matches(':');
    match framework.rsplit('/').next().unwrap_or_default() {
        "all_gather" | "all_gather_invariant" => return CollectiveKind::AllGather,
        "psum" | "psum_invariant" | "pmean" | "pmax" | "pmin" => return CollectiveKind::AllReduce,
        "psum_scatter" | "reduce_scatter" => return CollectiveKind::ReduceScatter,
        "all_to_all" | "ragged_all_to_all" => return CollectiveKind::AllToAll,
        "ppermute" => return CollectiveKind::CollectivePermute,
        _ => {}
    }
    let sizes = |shape: &Shape| -> Vec<u64> {
        let arrays = shape.arrays();
        arrays.iter().map(|array| array.bytes().0).collect()
    };
    let result = instruction.map(|i| sizes(&i.shape)).unwrap_or_default();
    let operands: Vec<u64> = instruction
        .iter()
        .flat_map(|i| &i.operands)
        .filter_map(|operand| operand.shape.as_ref())
        .flat_map(sizes)
        .collect();
    // A done's result is the collective's own; of a start it is the operand, as the tuple that it
    // gives holds both.
    let done = op.name.contains("-done");
    let (own, others) = if done {
        (result, operands)
    } else {
        (operands, result)
    };
    let Some(own) = own.into_iter().max() else {
        // Most that the compiler makes of these are gathers of weights.
        return CollectiveKind::AllGather;
    };
    let differs = |size: &u64| *size >= SMALL && *size != own;
    match others.into_iter().filter(differs).max() {
        Some(other) if (other > own) != done => CollectiveKind::AllGather,
        Some(_) => CollectiveKind::ReduceScatter,
        None => CollectiveKind::AllReduce,
    }
}

fn is_async_copy(category: &str, opcode: &str, name: &str) -> bool {
    matches!(
        category,
        "copy-start" | "copy-done" | "async-start" | "async-done"
    ) || matches!(opcode, "copy-start" | "copy-done")
        || (opcode.starts_with("async-") && (name.starts_with("slice") || name.starts_with("copy")))
}

/// The result and the source of an asynchronous copy in the tuple that its start gives and its
/// done takes: `(destination, source, context)` of `copy-start`, `((sources), destination,
/// context)` of any other operation that was made asynchronous (`async-start` of a slice).
fn ends(tuple: &Shape) -> (Option<&Array>, Option<&Array>) {
    let at = |index: usize| tuple.elements().get(index)?.arrays().first().copied();
    let is_nested = |shape: &Shape| shape.as_array().is_none();
    if tuple.elements().first().is_some_and(is_nested) {
        (at(1), at(0))
    } else {
        (at(0), at(1))
    }
}

/// What an asynchronous copy puts where it goes: a done's result, of a start's tuple the
/// destination.
pub(super) fn copied(instruction: &Instruction) -> Option<&Array> {
    match instruction.opcode.async_part() {
        Some((AsyncPart::Start | AsyncPart::Update, _)) => ends(&instruction.shape).0,
        _ => instruction.shape.arrays().first().copied(),
    }
}

/// Where a copy goes, from the memory spaces of its shapes.
fn route(instruction: &Instruction) -> CopyRoute {
    let operand = instruction.operands.first().and_then(|o| o.shape.as_ref());
    let from = match instruction.opcode.async_part() {
        Some((AsyncPart::Start, _)) => {
            let read = operand.and_then(|shape| shape.arrays().first().copied());
            read.or_else(|| ends(&instruction.shape).1)
        }
        _ => operand.and_then(|tuple| ends(tuple).1),
    };
    let space = |array: Option<&Array>| array.map(Array::memory_space);
    let (from, to) = (space(from), space(copied(instruction)));
    match (
        from.unwrap_or(MemorySpace::Hbm),
        to.unwrap_or(MemorySpace::Hbm),
    ) {
        (MemorySpace::Host, MemorySpace::Host) => CopyRoute::Within,
        (MemorySpace::Host, _) => CopyRoute::HostToDevice,
        (_, MemorySpace::Host) => CopyRoute::DeviceToHost,
        (MemorySpace::Hbm, MemorySpace::Vmem) => CopyRoute::HbmToVmem,
        (MemorySpace::Vmem, MemorySpace::Hbm) => CopyRoute::VmemToHbm,
        _ => CopyRoute::Within,
    }
}

fn by_category(category: &str) -> Option<OpClass> {
    Some(match category {
        "convolution fusion" | "convolution" | "dot" | "matmul" => OpClass::Matmul,
        "data formatting" | "copy" | "transpose" | "reshape" => OpClass::DataFormatting,
        "while" | "conditional" | "call" | "megacore fusion" => OpClass::ControlFlow,
        "infeed" | "outfeed" | "host send" | "host send-done" | "host recv" | "host recv-done" => {
            OpClass::HostTransfer
        }
        "dynamic-update-slice" => OpClass::DynamicUpdateSlice,
        "dynamic-slice" | "slice" => OpClass::Slice,
        "scatter" | "select-and-scatter" => OpClass::Scatter,
        "gather" => OpClass::Gather,
        "sort" => OpClass::Sort,
        "pad" => OpClass::Pad,
        "reduce" | "reduce-window" => OpClass::Reduce,
        "rng-bit-generator" | "rng" => OpClass::Random,
        _ => return None,
    })
}

fn by_opcode(name: &str) -> Option<OpClass> {
    Some(match name {
        "convolution" | "dot" | "dot_general" | "conv_general_dilated" | "ragged-dot" => {
            OpClass::Matmul
        }
        "scatter" | "scatter-add" | "scatter_add" => OpClass::Scatter,
        "gather" => OpClass::Gather,
        "sort" | "topk" | "top_k" | "approx_top_k" => OpClass::Sort,
        "dynamic-update-slice" | "dynamic_update_slice" => OpClass::DynamicUpdateSlice,
        "dynamic-slice" | "dynamic_slice" | "slice" => OpClass::Slice,
        "custom-call" => OpClass::CustomCall,
        "copy" | "transpose" | "reshape" => OpClass::DataFormatting,
        "reduce" | "reduce-window" | "reduce_sum" | "reduce_max" | "argmax" => OpClass::Reduce,
        "rng-bit-generator" | "rng" | "threefry2x32" | "random_bits" => OpClass::Random,
        "while" | "conditional" | "call" => OpClass::ControlFlow,
        "infeed" | "outfeed" | "send" | "recv" => OpClass::HostTransfer,
        "pad" => OpClass::Pad,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::parse_instruction;

    fn class(category: &str, framework_op: &str, hlo: &str, fused: &[&str]) -> OpClass {
        let name = hlo.split(' ').next().unwrap_or_default();
        let op = Op {
            name: name.trim_start_matches('%').to_owned(),
            category: category.to_owned(),
            framework_op: framework_op.to_owned(),
            ..Op::default()
        };
        OpClass::of(&op, parse_instruction(hlo).ok().as_ref(), fused)
    }

    #[test]
    fn a_collective_that_runs_beside_the_core_is_a_collective() {
        let start = "%call-start.1 = ((bf16[8,128]{1,0}), bf16[32,128]{1,0}, u32[]) call-start(bf16[8,128]{1,0} %p), to_apply=%c";
        let gather = OpClass::Collective(CollectiveKind::AllGather);
        assert_eq!(class("async-start", "", start, &["all-gather"]), gather);
        let named = start.replace("%call-start.1", "%all-gather-start.1");
        assert_eq!(class("async-start", "", &named, &[]), gather);
        let done = "%all-gather-done.1 = bf16[32,128]{1,0} call-done(((bf16[8,128]{1,0}), bf16[32,128]{1,0}, u32[]) %call-start.1)";
        assert_eq!(class("async-done", "", done, &[]), gather);
        // What a plain call does is counted inside of it.
        let call = "%call.1 = bf16[8]{0} call(bf16[8]{0} %p), to_apply=%c";
        assert_eq!(
            class("call", "", call, &["all-gather"]),
            OpClass::ControlFlow
        );
    }

    #[test]
    fn asynchronous_collective_fusions_are_told_by_framework_or_size() {
        let of = |framework: &str, hlo: &str| class("custom fusion", framework, hlo, &[]);
        let start = "%async-collective-start.2 = (bf16[8,1024]{1,0}, bf16[32,1024]{1,0}, u32[]{:S(2)}) fusion(bf16[8,1024]{1,0} %p), kind=kCustom, calls=%a";
        let done = "%async-collective-done.2 = bf16[32,1024]{1,0} fusion((bf16[8,1024]{1,0}, bf16[32,1024]{1,0}, u32[]{:S(2)}) %async-collective-start.2), kind=kCustom, calls=%b";
        let gather = OpClass::Collective(CollectiveKind::AllGather);
        assert_eq!(of("jit(f)/dot_general:", start), gather);
        assert_eq!(of("jit(f)/dot_general:", done), gather);
        let swapped = |hlo: &str| {
            hlo.replace("bf16[8,", "bf16[?,")
                .replace("bf16[32,", "bf16[8,")
                .replace("bf16[?,", "bf16[32,")
        };
        let scatter = OpClass::Collective(CollectiveKind::ReduceScatter);
        assert_eq!(of("", &swapped(start)), scatter);
        assert_eq!(of("", &swapped(done)), scatter);
        let alike = start.replace("bf16[32,", "bf16[8,");
        let reduce = OpClass::Collective(CollectiveKind::AllReduce);
        assert_eq!(of("", &alike), reduce);
        assert_eq!(of("jit(f)/shard_map/psum:", start), reduce);
    }

    #[test]
    fn a_slice_made_asynchronous_goes_where_its_result_is() {
        let tuple = "((bf16[32,4096]{1,0}), bf16[1,4096]{1,0:S(1)}, s32[]{:S(2)})";
        let start =
            format!("%slice-start.1 = {tuple} async-start(bf16[32,4096]{{1,0}} %p), calls=%c");
        let done = format!(
            "%slice-done.1 = bf16[1,4096]{{1,0:S(1)}} async-done({tuple} %slice-start.1), calls=%c"
        );
        let prefetch = OpClass::AsyncCopy(CopyRoute::HbmToVmem);
        assert_eq!(class("async-start", "", &start, &[]), prefetch);
        assert_eq!(class("async-done", "", &done, &[]), prefetch);
        let start = parse_instruction(&start).expect("valid");
        assert_eq!(copied(&start).map(|array| array.elements()), Some(4096));
        let back = done.replace("32,4096]{1,0}", "32,4096]{1,0:S(5)}");
        let from_host = OpClass::AsyncCopy(CopyRoute::HostToDevice);
        assert_eq!(class("async-done", "", &back, &[]), from_host);
        // A plain copy lists its destination first.
        let copy = "%copy-done.1 = f32[8]{0:S(5)} copy-done((f32[8]{0:S(5)}, f32[8]{0}, u32[]) %copy-start.1)";
        let to_host = OpClass::AsyncCopy(CopyRoute::DeviceToHost);
        assert_eq!(class("copy-done", "", copy, &[]), to_host);
    }
}
