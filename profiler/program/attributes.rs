//! The attributes after an instruction's operands: `dimensions={0}, metadata={op_name="f"}`.

use crate::program::collective::ReplicaGroups;
use crate::program::instruction::{
    Call, CallRole, ConvDims, DotDims, FusionKind, Instruction, Metadata, OutputAlias, PadDim,
    SliceDim, WindowDim,
};
use crate::program::scan::{Scan, ints, items};

/// Takes one `key=value` into the instruction.
pub(super) fn apply(instruction: &mut Instruction, key: &str, value: &str) {
    let attributes = &mut instruction.attributes;
    match key {
        "kind" => attributes.fusion_kind = FusionKind::parse(value),
        "dimensions" => attributes.dimensions = ints(value),
        "index" => attributes.tuple_index = value.parse().ok(),
        "direction" => attributes.direction = value.to_owned(),
        "iota_dimension" => attributes.dimensions = ints(value),
        "lhs_contracting_dims" => dot(instruction).lhs_contracting = ints(value),
        "rhs_contracting_dims" => dot(instruction).rhs_contracting = ints(value),
        "lhs_batch_dims" => dot(instruction).lhs_batch = ints(value),
        "rhs_batch_dims" => dot(instruction).rhs_batch = ints(value),
        "dim_labels" => attributes.convolution = ConvDims::parse(value).map(Box::new),
        "window" => attributes.window = window(value),
        "feature_group_count" => attributes.feature_group_count = value.parse().unwrap_or(0),
        "batch_group_count" => attributes.batch_group_count = value.parse().unwrap_or(0),
        "slice" => attributes.slice = slice(value),
        "padding" => attributes.padding = padding(value),
        "slice_sizes" | "dynamic_slice_sizes" => attributes.slice_sizes = ints(value),
        "replica_groups" => attributes.replica_groups = ReplicaGroups::parse(value),
        "source_target_pairs" => {
            attributes.source_target_pairs = items(braced(value))
                .filter_map(|pair| match ints(pair).as_slice() {
                    [source, target] => Some((*source, *target)),
                    _ => None,
                })
                .collect();
        }
        "channel_id" => attributes.channel_id = value.parse().ok(),
        "custom_call_target" => {
            attributes.custom_call_target = value.trim_matches('"').to_owned();
        }
        "output_to_operand_aliasing" => attributes.output_aliases = aliases(value),
        "async_execution_thread" => {
            attributes.execution_thread = value.trim_matches('"').to_owned();
        }
        "calls" => call(instruction, CallRole::Calls, value),
        "to_apply" => call(instruction, CallRole::Applies, value),
        "body" => call(instruction, CallRole::Body, value),
        "condition" => call(instruction, CallRole::Condition, value),
        "branch_computations" | "called_computations" => {
            let role = if key.starts_with('b') {
                CallRole::Branch
            } else {
                CallRole::Calls
            };
            items(braced(value)).for_each(|name| call(instruction, role, name));
        }
        "true_computation" | "false_computation" => call(instruction, CallRole::Branch, value),
        "control-predecessors" => {
            instruction.control_predecessors = items(braced(value))
                .map(|name| bare(name).to_owned())
                .collect();
        }
        "metadata" => instruction.metadata = metadata(value),
        "backend_config" => instruction.backend_config = Some(unquoted(value)),
        // Repeats the operands' types.
        "operand_layout_constraints" => {}
        _ => attributes.other.push((key.to_owned(), value.to_owned())),
    }
}

fn dot(instruction: &mut Instruction) -> &mut DotDims {
    instruction.attributes.dot.get_or_insert_default()
}

fn bare(name: &str) -> &str {
    name.trim().trim_start_matches('%')
}

fn braced(value: &str) -> &str {
    let value = value.trim();
    value
        .strip_prefix('{')
        .and_then(|v| v.strip_suffix('}'))
        .unwrap_or(value)
}

fn call(instruction: &mut Instruction, role: CallRole, name: &str) {
    let computation = bare(name).to_owned();
    if !computation.is_empty() {
        instruction.called.push(Call { role, computation });
    }
}

/// JSON as it is; older compilers put it into a string, escaped.
fn unquoted(value: &str) -> String {
    match value.strip_prefix('"').and_then(|v| v.strip_suffix('"')) {
        Some(inner) => inner.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => value.to_owned(),
    }
}

/// `{op_name="a" source_file="b.py" source_line=3 stack_frame_id=4}`
fn metadata(value: &str) -> Metadata {
    let mut metadata = Metadata::default();
    let mut scan = Scan::new(braced(value));
    loop {
        scan.take_while(|b| b == b' ' || b == b',');
        let key = scan.take_while(|b| b.is_ascii_alphanumeric() || b == b'_');
        if key.is_empty() || !scan.eat("=") {
            return metadata;
        }
        if let Some(text) = scan.quoted() {
            let text = if text.contains('\\') {
                text.replace("\\\"", "\"").replace("\\'", "'")
            } else {
                text.to_owned()
            };
            match key {
                "op_name" => metadata.op_name = text,
                "source_file" => metadata.source_file = text,
                "deduplicated_name" => metadata.deduplicated_name = text,
                "scheduling_name" => metadata.scheduling_name = text,
                _ => {}
            }
            continue;
        }
        let value = match scan.peek() {
            Some(b'{') => scan.bracketed(b'{').unwrap_or_default(),
            _ => scan.take_while(|b| b != b' ' && b != b',' && b != b'}'),
        };
        match key {
            "source_line" => metadata.source_line = value.parse().unwrap_or(0),
            "stack_frame_id" => metadata.stack_frame_id = value.parse().unwrap_or(0),
            _ => {}
        }
    }
}

/// `{size=1x24 stride=1x2 pad=0_0x23_23 lhs_dilate=1x1 rhs_dilate=1x1 rhs_reversal=0x1}`
fn window(value: &str) -> Vec<WindowDim> {
    let mut dims: Vec<WindowDim> = Vec::new();
    let fields = || {
        braced(value)
            .split(' ')
            .filter_map(|field| field.split_once('='))
    };
    let rank = fields()
        .map(|(_, list)| list.split('x').count())
        .max()
        .unwrap_or(0);
    dims.resize(rank, WindowDim::default());
    for (key, list) in fields() {
        for (dim, item) in dims.iter_mut().zip(list.split('x')) {
            match key {
                "size" => dim.size = item.parse().unwrap_or(1),
                "stride" => dim.stride = item.parse().unwrap_or(1),
                "pad" => {
                    if let Some((low, high)) = item.split_once('_') {
                        dim.pad_low = low.parse().unwrap_or(0);
                        dim.pad_high = high.parse().unwrap_or(0);
                    }
                }
                "lhs_dilate" => dim.base_dilation = item.parse().unwrap_or(1),
                "rhs_dilate" => dim.window_dilation = item.parse().unwrap_or(1),
                "rhs_reversal" => dim.reversal = item == "1",
                _ => {}
            }
        }
    }
    dims
}

/// `{[0:2], [0:2048:2]}`
fn slice(value: &str) -> Vec<SliceDim> {
    items(braced(value))
        .map_while(|range| {
            let mut parts = range.strip_prefix('[')?.strip_suffix(']')?.split(':');
            Some(SliceDim {
                start: parts.next()?.trim().parse().ok()?,
                limit: parts.next()?.trim().parse().ok()?,
                stride: parts.next().map_or(Some(1), |s| s.trim().parse().ok())?,
            })
        })
        .collect()
}

/// `0_63x1_1_2`: low, high and, where it is not 0, interior of each dimension.
fn padding(value: &str) -> Vec<PadDim> {
    value
        .split('x')
        .map_while(|dim| {
            let mut parts = dim.trim().split('_').map(|part| part.parse().ok());
            Some(PadDim {
                low: parts.next()??,
                high: parts.next()??,
                interior: parts.next().flatten().unwrap_or(0),
            })
        })
        .collect()
}

/// `{{0}: (8, {}), {1}: (10, {}, may-alias)}`
pub(super) fn aliases(value: &str) -> Vec<OutputAlias> {
    items(braced(value))
        .filter_map(|entry| {
            let (output_index, target) = entry.split_once(':')?;
            let target = target.trim().strip_prefix('(')?.strip_suffix(')')?;
            let mut parts = items(target);
            Some(OutputAlias {
                output_index: ints(output_index),
                operand: parts.next()?.parse().ok()?,
                operand_index: ints(parts.next().unwrap_or_default()),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_take_the_rank_of_their_longest_field() {
        let dims = window("{size=1x24 pad=0_0x23_23 rhs_reversal=0x1}");
        assert_eq!(dims[0], WindowDim::default());
        let plain = WindowDim::default();
        assert_eq!(
            dims[1],
            WindowDim {
                size: 24,
                pad_low: 23,
                pad_high: 23,
                reversal: true,
                ..plain
            }
        );
        let dims = window("{size=16 stride=15 lhs_dilate=16}");
        assert_eq!(
            dims,
            [WindowDim {
                size: 16,
                stride: 15,
                base_dilation: 16,
                ..plain
            }]
        );
    }

    #[test]
    fn slices_and_padding_are_read_by_dimension() {
        assert_eq!(
            slice("{[0:2], [8:16:4]}")[1],
            SliceDim {
                start: 8,
                limit: 16,
                stride: 4
            }
        );
        assert_eq!(
            padding("0_63x-1_2_3"),
            [
                PadDim {
                    low: 0,
                    high: 63,
                    interior: 0
                },
                PadDim {
                    low: -1,
                    high: 2,
                    interior: 3
                }
            ]
        );
    }

    #[test]
    fn metadata_keeps_names_and_lines() {
        let read = metadata(
            r#"{op_name="jit(f)/mul[a=\"b\"]" source_file="a b.py" source_line=36 profile_type={1} stack_frame_id=4 deduplicated_name="fusion.2"}"#,
        );
        assert_eq!(read.op_name, r#"jit(f)/mul[a="b"]"#);
        assert_eq!(
            (read.source_file.as_str(), read.source_line),
            ("a b.py", 36)
        );
        assert_eq!(
            (read.stack_frame_id, read.deduplicated_name.as_str()),
            (4, "fusion.2")
        );
    }

    #[test]
    fn aliases_say_which_operand_is_overwritten() {
        let read = aliases("{{0}: (8, {}), {1}: (10, {2}, may-alias)}");
        assert_eq!(read.len(), 2);
        assert_eq!(
            (read[1].operand, &read[1].operand_index[..]),
            (10, &[2][..])
        );
    }
}
