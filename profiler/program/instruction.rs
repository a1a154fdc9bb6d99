//! One HLO instruction: what it computes, from what, and where it came from.

use crate::program::OpId;
use crate::program::collective::ReplicaGroups;
use crate::program::opcode::Opcode;
use crate::program::shape::Shape;

/// One instruction of a program, or one that stands alone in a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// Its name without `%`, unique in the program.
    pub name: String,
    /// What it does.
    pub opcode: Opcode,
    /// The type of its result.
    pub shape: Shape,
    /// What it reads, in order.
    pub operands: Vec<Operand>,
    /// Names of instructions that must run before it though it reads nothing of them.
    pub control_predecessors: Vec<String>,
    /// Computations that it calls, in order.
    pub called: Vec<Call>,
    /// Whether its result is its computation's.
    pub is_root: bool,
    /// The id in the proto that it was read from.
    pub id: Option<i64>,
    /// What further defines it.
    pub attributes: Attributes,
    /// Where it came from.
    pub metadata: Metadata,
    /// What the backend noted, as raw JSON.
    pub backend_config: Option<String>,
}

/// One value that an instruction reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The name of the instruction that makes it, without `%`.
    pub name: String,
    /// Its type where the text states it beside the name.
    pub shape: Option<Shape>,
    /// The instruction in the same program that makes it.
    pub op: Option<OpId>,
}

/// How an instruction uses a computation that it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallRole {
    /// `calls=`: runs as part of it (fusion, async, call).
    Calls,
    /// `to_apply=`: the function of a reduce, sort, map, or a plain call.
    Applies,
    /// `body=` of a while.
    Body,
    /// `condition=` of a while.
    Condition,
    /// A branch of a conditional.
    Branch,
}

/// A computation that an instruction calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What for.
    pub role: CallRole,
    /// The computation's name without `%`.
    pub computation: String,
}

/// What kind of loop a fusion compiles to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FusionKind {
    /// One loop over the result's elements.
    Loop,
    /// A matmul or reduction with work fused into its result.
    Output,
    /// Work fused into what a reduction reads.
    Input,
    /// A pattern with code of its own (collectives, gathers).
    Custom,
}

impl FusionKind {
    /// Reads `kLoop` and the like.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "kLoop" => Self::Loop,
            "kOutput" => Self::Output,
            "kInput" => Self::Input,
            "kCustom" => Self::Custom,
            _ => return None,
        })
    }
}

/// The attributes that decide what an instruction costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    /// `kind=` of a fusion.
    pub fusion_kind: Option<FusionKind>,
    /// `dimensions={}` of a reduce, broadcast, transpose, concatenate, all-gather and others.
    pub dimensions: Vec<i64>,
    /// Which parameter a `parameter` is.
    pub parameter_number: Option<u64>,
    /// `index=` of a `get-tuple-element`.
    pub tuple_index: Option<u64>,
    /// The value of a `constant` as text; empty where it is long or was left out.
    pub literal: String,
    /// `direction=` of a compare: `LT`, `EQ`, …
    pub direction: String,
    /// Dimension numbers of a `dot`.
    pub dot: Option<Box<DotDims>>,
    /// Dimension numbers of a `convolution`.
    pub convolution: Option<Box<ConvDims>>,
    /// `window={}` of a convolution or reduce-window, one entry for each spatial dimension.
    pub window: Vec<WindowDim>,
    /// `feature_group_count=`; 0 where it is not stated (which means 1).
    pub feature_group_count: u64,
    /// `batch_group_count=`; 0 where it is not stated (which means 1).
    pub batch_group_count: u64,
    /// `slice={}`, one entry for each dimension.
    pub slice: Vec<SliceDim>,
    /// `padding=`, one entry for each dimension.
    pub padding: Vec<PadDim>,
    /// `slice_sizes={}` of a gather or `dynamic_slice_sizes={}`.
    pub slice_sizes: Vec<i64>,
    /// `replica_groups=` of a collective.
    pub replica_groups: Option<ReplicaGroups>,
    /// `source_target_pairs=` of a collective-permute.
    pub source_target_pairs: Vec<(i64, i64)>,
    /// `channel_id=`.
    pub channel_id: Option<i64>,
    /// `custom_call_target=`.
    pub custom_call_target: String,
    /// Results that are written over an operand.
    pub output_aliases: Vec<OutputAlias>,
    /// `async_execution_thread=`: `sparsecore` for offloaded work.
    pub execution_thread: String,
    /// The remaining attributes as they were written, in their order.
    pub other: Vec<(String, String)>,
}

/// Dimension numbers of a `dot`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DotDims {
    /// Contracted dimensions of the left side.
    pub lhs_contracting: Vec<i64>,
    /// Contracted dimensions of the right side.
    pub rhs_contracting: Vec<i64>,
    /// Batch dimensions of the left side.
    pub lhs_batch: Vec<i64>,
    /// Batch dimensions of the right side.
    pub rhs_batch: Vec<i64>,
}

/// Dimension numbers of a convolution: `bf01_oi01->bf01`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConvDims {
    /// `b` of the input.
    pub input_batch: i64,
    /// `f` of the input.
    pub input_feature: i64,
    /// `0`, `1`, … of the input.
    pub input_spatial: Vec<i64>,
    /// `i` of the kernel.
    pub kernel_input_feature: i64,
    /// `o` of the kernel.
    pub kernel_output_feature: i64,
    /// `0`, `1`, … of the kernel.
    pub kernel_spatial: Vec<i64>,
    /// `b` of the output.
    pub output_batch: i64,
    /// `f` of the output.
    pub output_feature: i64,
    /// `0`, `1`, … of the output.
    pub output_spatial: Vec<i64>,
}

impl ConvDims {
    /// Reads `bf_io->bf`, `0bf1_1oi0->0b1f` and the like.
    #[must_use]
    pub fn parse(labels: &str) -> Option<Self> {
        let (inputs, output) = labels.trim().split_once("->")?;
        let (input, kernel) = inputs.split_once('_')?;
        let spatial = |labels: &str| -> Vec<i64> {
            let position = |n: u8| labels.bytes().position(|b| b == b'0' + n);
            (0..10)
                .map_while(position)
                .filter_map(|p| i64::try_from(p).ok())
                .collect()
        };
        let one = |labels: &str, label| labels.find(label).and_then(|p| i64::try_from(p).ok());
        Some(Self {
            input_batch: one(input, 'b')?,
            input_feature: one(input, 'f')?,
            input_spatial: spatial(input),
            kernel_input_feature: one(kernel, 'i')?,
            kernel_output_feature: one(kernel, 'o')?,
            kernel_spatial: spatial(kernel),
            output_batch: one(output, 'b')?,
            output_feature: one(output, 'f')?,
            output_spatial: spatial(output),
        })
    }
}

/// One spatial dimension of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowDim {
    /// Elements in the window.
    pub size: u64,
    /// Step between windows.
    pub stride: u64,
    /// Padding below; negative trims.
    pub pad_low: i64,
    /// Padding above; negative trims.
    pub pad_high: i64,
    /// Distance of neighbouring input elements (`lhs_dilate`).
    pub base_dilation: u64,
    /// Distance of neighbouring window elements (`rhs_dilate`).
    pub window_dilation: u64,
    /// Whether the window is applied backwards.
    pub reversal: bool,
}

impl Default for WindowDim {
    fn default() -> Self {
        Self {
            size: 1,
            stride: 1,
            pad_low: 0,
            pad_high: 0,
            base_dilation: 1,
            window_dilation: 1,
            reversal: false,
        }
    }
}

/// One dimension of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceDim {
    /// First element.
    pub start: i64,
    /// One past the last.
    pub limit: i64,
    /// Step.
    pub stride: i64,
}

/// One dimension of a pad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PadDim {
    /// Elements before; negative trims.
    pub low: i64,
    /// Elements after; negative trims.
    pub high: i64,
    /// Elements between neighbours.
    pub interior: i64,
}

/// A result that shares its buffer with an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputAlias {
    /// Where in the result, `{}` for all of it.
    pub output_index: Vec<i64>,
    /// Which operand.
    pub operand: usize,
    /// Where in that operand.
    pub operand_index: Vec<i64>,
}

/// Where an instruction came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The framework's name for it: `jit(f)/transpose(jvp(mlp))/dot_general`.
    pub op_name: String,
    /// Source file, where it is stated without a stack.
    pub source_file: String,
    /// Source line; 0 for none.
    pub source_line: u32,
    /// Entry in the program's stack frames; 0 for none.
    pub stack_frame_id: u32,
    /// The name that equal instructions share.
    pub deduplicated_name: String,
    /// The name that the scheduler knew it by.
    pub scheduling_name: String,
}

impl Instruction {
    /// An instruction with nothing but a name, an opcode and a type.
    #[must_use]
    pub fn new(name: impl Into<String>, opcode: Opcode, shape: Shape) -> Self {
        Self {
            name: name.into(),
            opcode,
            shape,
            operands: Vec::new(),
            control_predecessors: Vec::new(),
            called: Vec::new(),
            is_root: false,
            id: None,
            attributes: Attributes::default(),
            metadata: Metadata::default(),
            backend_config: None,
        }
    }

    /// The first computation that it calls in that role.
    #[must_use]
    pub fn calls(&self, role: CallRole) -> Option<&str> {
        self.called
            .iter()
            .find(|call| call.role == role)
            .map(|call| call.computation.as_str())
    }

    /// The compiler's own estimate in cycles of a TensorCore; absent where it made none.
    #[must_use]
    pub fn estimated_cycles(&self) -> Option<u64> {
        self.config_number("\"estimated_cycles\":")
            .filter(|&cycles| cycles > 0)
    }

    /// How often a `while` runs its body, where the compiler knew.
    #[must_use]
    pub fn known_trip_count(&self) -> Option<u64> {
        self.config_number("\"known_trip_count\":{\"n\":")
    }

    /// Whether the compiler computes it again to save memory.
    #[must_use]
    pub fn is_rematerialized(&self) -> bool {
        self.name.contains(".remat") || self.metadata.op_name.contains("rematted_computation")
    }

    /// The number after `key` in the backend's JSON, which writes 64-bit numbers as strings.
    /// The JSON may hold a megabyte of kernel code, so it is searched and not parsed.
    fn config_number(&self, key: &str) -> Option<u64> {
        let config = self.backend_config.as_deref()?;
        let rest = config
            .get(config.find(key)? + key.len()..)?
            .trim_start_matches([' ', '"']);
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest.get(..digits)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backend_config_gives_cycles_and_trip_count() {
        let mut op = Instruction::new("f", Opcode::new("fusion"), Shape::Token);
        op.backend_config = Some(
            r#"{"window_config":{"estimated_cycles":"14180608"},"known_trip_count":{"n":"8"}}"#
                .to_owned(),
        );
        assert_eq!(op.estimated_cycles(), Some(14_180_608));
        assert_eq!(op.known_trip_count(), Some(8));
        op.backend_config = Some(r#"{"estimated_cycles":"0"}"#.to_owned());
        assert_eq!(
            op.estimated_cycles(),
            None,
            "0 means that there is no estimate"
        );
    }

    #[test]
    fn convolution_labels_give_positions() {
        let dims = ConvDims::parse("0bf1_1oi0->0b1f").expect("ok");
        assert_eq!((dims.input_batch, dims.input_feature), (1, 2));
        assert_eq!(dims.input_spatial, [0, 3]);
        assert_eq!(dims.kernel_spatial, [3, 0]);
        assert_eq!((dims.output_feature, dims.output_spatial), (3, vec![0, 2]));
        assert_eq!(ConvDims::parse("bf_io"), None);
        assert_eq!(ConvDims::parse("bx_io->bf"), None);
    }
}
