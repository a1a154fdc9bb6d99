//! Instructions as `xla.HloInstructionProto` holds them.

use crate::note::Notes;
use crate::program::collective::ReplicaGroups;
use crate::program::instruction::{
    ConvDims, DotDims, FusionKind, Instruction, Metadata, OutputAlias, PadDim, SliceDim, WindowDim,
};
use crate::program::opcode::Opcode;
use crate::program::shape::Shape;
use crate::program::shape_proto::shape;
use crate::wire::{Message, Value, each_uint};

/// Calls `each` with the fields of a message; a cut-off message is a note.
pub(super) fn fields(
    bytes: &[u8],
    notes: &mut Notes,
    mut each: impl FnMut(u32, Value<'_>, &mut Notes),
) {
    let mut message = Message::new(bytes);
    for (field, value) in message.by_ref() {
        each(field, value, notes);
    }
    if message.error().is_some() {
        notes.warn(
            "hlo-proto-cut-off",
            "part of the HLO proto is damaged or cut off: what could be read before the damage is used",
        );
    }
}

/// An instruction whose references are still ids.
pub(super) struct Raw {
    pub(super) instruction: Instruction,
    pub(super) operands: Vec<i64>,
    pub(super) control: Vec<i64>,
    pub(super) called: Vec<i64>,
}

pub(super) fn each_int(value: Value<'_>, into: &mut Vec<i64>) {
    each_uint(value, |v| into.push(v.cast_signed()));
}

pub(super) fn instruction(bytes: &[u8], notes: &mut Notes) -> Raw {
    let mut raw = Raw {
        instruction: Instruction::new("", Opcode::new(""), Shape::Token),
        operands: Vec::new(),
        control: Vec::new(),
        called: Vec::new(),
    };
    // Protos do not write zeros.
    raw.instruction.id = Some(0);
    let (mut parameter, mut tuple_index) = (0, 0);
    fields(bytes, notes, |field, value, notes| {
        let op = &mut raw.instruction;
        let attributes = &mut op.attributes;
        match field {
            1 => value.text().clone_into(&mut op.name),
            2 => op.opcode = Opcode::new(value.text()),
            3 => op.shape = shape(value.bytes(), notes),
            7 => op.metadata = metadata(value.bytes()),
            8 => attributes.literal = literal(value.bytes()),
            9 => parameter = value.uint(),
            11 => attributes.fusion_kind = FusionKind::parse(value.text()),
            13 => tuple_index = value.uint(),
            14 => each_int(value, &mut attributes.dimensions),
            15 => attributes.window = window(value.bytes()),
            16 => attributes.convolution = Some(Box::new(convolution(value.bytes()))),
            17 => attributes.slice.push(slice(value.bytes())),
            20 | 34 => each_int(value, &mut attributes.slice_sizes),
            21 => attributes.padding = padding(value.bytes()),
            26 => attributes.channel_id = Some(value.int()).filter(|&id| id > 0),
            28 => value.text().clone_into(&mut attributes.custom_call_target),
            30 => attributes.dot = Some(Box::new(dot(value.bytes()))),
            35 => op.id = Some(value.int()),
            36 => each_int(value, &mut raw.operands),
            37 => each_int(value, &mut raw.control),
            38 => each_int(value, &mut raw.called),
            43 => {
                op.backend_config =
                    Some(value.text().to_owned()).filter(|config| !config.is_empty());
            }
            49 => add_group(
                attributes
                    .replica_groups
                    .get_or_insert(ReplicaGroups::List(Vec::new())),
                value,
            ),
            50 => attributes.feature_group_count = value.uint(),
            51 => attributes.other.extend(precision(value.bytes())),
            52 => attributes.source_target_pairs.push(pair(value.bytes())),
            58 => attributes.batch_group_count = value.uint(),
            63 => value.text().clone_into(&mut attributes.direction),
            74 => attributes.output_aliases.push(output_alias(value.bytes())),
            79 => {
                let thread = value.text();
                if thread != "main" {
                    thread.clone_into(&mut attributes.execution_thread);
                }
            }
            87 => {
                let list = attributes
                    .replica_groups
                    .get_or_insert(ReplicaGroups::List(Vec::new()));
                Message::new(value.bytes())
                    .filter(|&(field, _)| field == 1)
                    .for_each(|(_, group)| add_group(list, group));
            }
            92 => attributes.replica_groups = Some(iota_groups(value.bytes())),
            93 => {
                let mesh = mesh_groups(value.bytes());
                attributes.replica_groups = mesh.or(attributes.replica_groups.take());
            }
            _ => {}
        }
    });
    let attributes = &mut raw.instruction.attributes;
    match raw.instruction.opcode.as_str() {
        "parameter" => attributes.parameter_number = Some(parameter),
        "get-tuple-element" => attributes.tuple_index = Some(tuple_index),
        _ => {}
    }
    raw
}

fn add_group(groups: &mut ReplicaGroups, value: Value<'_>) {
    if let ReplicaGroups::List(groups) = groups {
        let mut group = Vec::new();
        for (field, value) in Message::new(value.bytes()) {
            if field == 1 {
                each_int(value, &mut group);
            }
        }
        groups.push(group);
    }
}

/// The precision of the operands as the text writes it, `{highest,highest}`; none where all have
/// the default.
fn precision(bytes: &[u8]) -> Option<(String, String)> {
    let mut operands = Vec::new();
    for (field, value) in Message::new(bytes) {
        if field == 1 {
            each_uint(value, |precision| {
                operands.push(match precision {
                    1 => "high",
                    2 => "highest",
                    3 => "packed_nibble",
                    _ => "default",
                });
            });
        }
    }
    let stated = operands.iter().any(|operand| *operand != "default");
    let text = format!("{{{}}}", operands.join(","));
    stated.then(|| ("operand_precision".to_owned(), text))
}

fn iota_groups(bytes: &[u8]) -> ReplicaGroups {
    let (mut groups, mut group_size) = (0, 0);
    let (mut reshape, mut transpose) = (Vec::new(), Vec::new());
    for (field, value) in Message::new(bytes) {
        match field {
            1 => groups = value.uint(),
            2 => group_size = value.uint(),
            3 => each_uint(value, |v| reshape.push(v)),
            4 => each_uint(value, |v| transpose.push(v)),
            _ => {}
        }
    }
    // The proto writes the identity out, the text does not.
    if transpose.iter().copied().eq(0..transpose.len() as u64) {
        transpose.clear();
    }
    ReplicaGroups::Iota {
        groups,
        group_size,
        reshape,
        transpose,
    }
}

/// Groups along the axes of a mesh, by way of their text: compilers of 2026 write no other form
/// for programs with Shardy's shardings.
fn mesh_groups(bytes: &[u8]) -> Option<ReplicaGroups> {
    let mut axes: Vec<(String, u64)> = Vec::new();
    let mut along = Vec::new();
    let mut devices = "";
    for (field, value) in Message::new(bytes) {
        match field {
            1 => {
                for (field, value) in Message::new(value.bytes()) {
                    match field {
                        1 => axes.push(mesh_axis(value.bytes(), axes.len())),
                        // Devices in an order of their own.
                        _ => devices = ",device_ids=()",
                    }
                }
            }
            2 => along.push(mesh_part(value.bytes())),
            _ => {}
        }
    }
    let sizes: Vec<String> = axes
        .iter()
        .map(|(name, size)| format!("'{name}'={size}"))
        .collect();
    let along = along
        .iter()
        .map(|(axis, part)| Some(format!("'{}'{part}", axes.get(*axis)?.0)))
        .collect::<Option<Vec<String>>>()?;
    let text = format!("mesh[{}{devices}] {{{}}}", sizes.join(","), along.join(","));
    ReplicaGroups::parse(&text)
}

/// Name and size; a name that the text could not hold is replaced.
fn mesh_axis(bytes: &[u8], position: usize) -> (String, u64) {
    let (mut name, mut size) = (String::new(), 0);
    for (field, value) in Message::new(bytes) {
        match field {
            1 => value.text().clone_into(&mut name),
            2 => size = value.uint(),
            _ => {}
        }
    }
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(is_plain) {
        name = format!("axis_{position}");
    }
    (name, size)
}

/// The axis by its position, and the part of it as the text says it: `:(2)4`.
fn mesh_part(bytes: &[u8]) -> (usize, String) {
    let (mut axis, mut part) = (0, String::new());
    for (field, value) in Message::new(bytes) {
        match field {
            1 => axis = usize::try_from(value.uint()).unwrap_or(usize::MAX),
            2 => {
                let (mut before, mut size) = (1, 1);
                for (field, value) in Message::new(value.bytes()) {
                    match field {
                        1 => before = value.uint(),
                        2 => size = value.uint(),
                        _ => {}
                    }
                }
                part = format!(":({before}){size}");
            }
            _ => {}
        }
    }
    (axis, part)
}

fn pair(bytes: &[u8]) -> (i64, i64) {
    let mut pair = (0, 0);
    for (field, value) in Message::new(bytes) {
        match field {
            1 => pair.0 = value.int(),
            2 => pair.1 = value.int(),
            _ => {}
        }
    }
    pair
}

fn metadata(bytes: &[u8]) -> Metadata {
    let mut metadata = Metadata::default();
    let small = |value: Value<'_>| u32::try_from(value.uint()).unwrap_or(0);
    for (field, value) in Message::new(bytes) {
        match field {
            2 => value.text().clone_into(&mut metadata.op_name),
            3 => value.text().clone_into(&mut metadata.source_file),
            4 => metadata.source_line = small(value),
            12 => value.text().clone_into(&mut metadata.deduplicated_name),
            15 => metadata.stack_frame_id = small(value),
            16 => value.text().clone_into(&mut metadata.scheduling_name),
            _ => {}
        }
    }
    metadata
}

/// The value of a literal with one element, as text would write it; empty for others.
pub(super) fn literal(bytes: &[u8]) -> String {
    let mut values: Vec<String> = Vec::new();
    for (field, value) in Message::new(bytes) {
        match (field, value) {
            (2, _) => each_uint(value, |v| values.push((v != 0).to_string())),
            (4, _) => each_uint(value, |v| values.push((v as u32).cast_signed().to_string())),
            (5, _) => each_uint(value, |v| values.push(v.cast_signed().to_string())),
            (6 | 7, _) => each_uint(value, |v| values.push(v.to_string())),
            (8, Value::Bytes(packed)) => {
                if let Ok(float) = <[u8; 4]>::try_from(packed) {
                    values.push(f32::from_le_bytes(float).to_string());
                }
            }
            (8, _) => values.push(value.double().to_string()),
            (11, Value::Bytes(&[low, high])) => values.push(half(low, high).to_string()),
            // A bfloat16 is the upper half of a float.
            (13, Value::Bytes(&[low, high])) => {
                values.push(f32::from_le_bytes([0, 0, low, high]).to_string());
            }
            // Signed and unsigned bytes.
            (15, Value::Bytes(&[byte])) => values.push(byte.cast_signed().to_string()),
            (3, Value::Bytes(&[byte])) => values.push(byte.to_string()),
            _ => {}
        }
        if values.len() > 1 {
            return String::new();
        }
    }
    values.pop().unwrap_or_default()
}

/// The value of an IEEE half.
fn half(low: u8, high: u8) -> f32 {
    let bits = u16::from_le_bytes([low, high]);
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    };
    if bits >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

fn window(bytes: &[u8]) -> Vec<WindowDim> {
    let mut dims = Vec::new();
    for (field, value) in Message::new(bytes) {
        if field == 1 {
            let mut dim = WindowDim::default();
            for (field, value) in Message::new(value.bytes()) {
                match field {
                    1 => dim.size = value.uint(),
                    2 => dim.stride = value.uint(),
                    3 => dim.pad_low = value.int(),
                    4 => dim.pad_high = value.int(),
                    5 => dim.window_dilation = value.uint(),
                    6 => dim.base_dilation = value.uint(),
                    7 => dim.reversal = value.uint() != 0,
                    _ => {}
                }
            }
            dims.push(dim);
        }
    }
    dims
}

fn convolution(bytes: &[u8]) -> ConvDims {
    let mut dims = ConvDims::default();
    for (field, value) in Message::new(bytes) {
        match field {
            3 => dims.kernel_input_feature = value.int(),
            4 => dims.kernel_output_feature = value.int(),
            6 => each_int(value, &mut dims.kernel_spatial),
            7 => dims.input_batch = value.int(),
            8 => dims.input_feature = value.int(),
            9 => dims.output_batch = value.int(),
            10 => dims.output_feature = value.int(),
            11 => each_int(value, &mut dims.input_spatial),
            12 => each_int(value, &mut dims.output_spatial),
            _ => {}
        }
    }
    dims
}

fn dot(bytes: &[u8]) -> DotDims {
    let mut dims = DotDims::default();
    for (field, value) in Message::new(bytes) {
        match field {
            1 => each_int(value, &mut dims.lhs_contracting),
            2 => each_int(value, &mut dims.rhs_contracting),
            3 => each_int(value, &mut dims.lhs_batch),
            4 => each_int(value, &mut dims.rhs_batch),
            _ => {}
        }
    }
    dims
}

fn slice(bytes: &[u8]) -> SliceDim {
    let mut dim = SliceDim {
        start: 0,
        limit: 0,
        stride: 1,
    };
    for (field, value) in Message::new(bytes) {
        match field {
            1 => dim.start = value.int(),
            2 => dim.limit = value.int(),
            3 => dim.stride = value.int(),
            _ => {}
        }
    }
    dim
}

fn padding(bytes: &[u8]) -> Vec<PadDim> {
    let mut dims = Vec::new();
    for (field, value) in Message::new(bytes) {
        if field == 1 {
            let mut dim = PadDim::default();
            for (field, value) in Message::new(value.bytes()) {
                match field {
                    1 => dim.low = value.int(),
                    2 => dim.high = value.int(),
                    3 => dim.interior = value.int(),
                    _ => {}
                }
            }
            dims.push(dim);
        }
    }
    dims
}

pub(super) fn output_alias(bytes: &[u8]) -> OutputAlias {
    let mut alias = OutputAlias {
        output_index: Vec::new(),
        operand: 0,
        operand_index: Vec::new(),
    };
    for (field, value) in Message::new(bytes) {
        match field {
            1 => each_int(value, &mut alias.output_index),
            2 => alias.operand = usize::try_from(value.uint()).unwrap_or(usize::MAX),
            3 => each_int(value, &mut alias.operand_index),
            _ => {}
        }
    }
    alias
}

#[cfg(test)]
mod tests {
    use super::{mesh_groups, precision};

    #[test]
    fn precision_is_written_as_the_text_has_it() {
        let text = |bytes: &[u8]| precision(bytes).map(|(_, text)| text);
        assert_eq!(text(&[0x0a, 2, 2, 2]).as_deref(), Some("{highest,highest}"));
        assert_eq!(text(&[0x08, 0, 0x08, 1]).as_deref(), Some("{default,high}"));
        assert_eq!(text(&[0x0a, 2, 0, 0]), None);
        assert_eq!(text(&[]), None);
    }

    #[test]
    fn groups_along_a_mesh_read_as_their_text_does() {
        // As libtpu 0.0.50 writes mesh['tensor'=2,'data'=2] {'data'}.
        let bytes = b"\n\x16\n\n\n\x06tensor\x10\x02\n\x08\n\x04data\x10\x02\x12\x02\x08\x01";
        let groups = mesh_groups(bytes).expect("a mesh");
        assert_eq!(groups.to_string(), "mesh['tensor'=2,'data'=2] {'data'}");
        assert_eq!(groups.groups().collect::<Vec<_>>(), [[0, 1], [2, 3]]);
        // An axis that is not there.
        assert_eq!(
            mesh_groups(b"\n\x08\n\x06\n\x02aa\x10\x02\x12\x02\x08\x07"),
            None
        );
    }
}
