//! Shapes as `xla.ShapeProto` holds them.

use crate::note::Notes;
use crate::program::dtype::DType;
use crate::program::shape::{Array, Layout, MAX_TILES, MAX_TUPLE_DEPTH, MemorySpace, Shape, Tile};
use crate::wire::{Message, each_uint};

const TUPLE: u64 = 13;
const TOKEN: u64 = 17;

/// Reads a shape; what cannot be one is opaque.
pub(super) fn shape(bytes: &[u8], notes: &mut Notes) -> Shape {
    nested(bytes, notes, 0)
}

fn nested(bytes: &[u8], notes: &mut Notes, depth: usize) -> Shape {
    let mut kind = 0;
    let (mut dims, mut dynamic, mut elements, mut layout) =
        (Vec::new(), Vec::new(), Vec::new(), None);
    for (field, value) in Message::new(bytes) {
        match field {
            2 => kind = value.uint(),
            // An unbounded dimension is the smallest int64.
            3 => each_uint(value, |v| {
                dims.push(u64::try_from(v.cast_signed()).unwrap_or(0))
            }),
            4 if depth < MAX_TUPLE_DEPTH => elements.push(nested(value.bytes(), notes, depth + 1)),
            4 => notes.warn(
                "deep-tuple",
                "an HLO type nests tuples deeper than 32: the inner ones are left out",
            ),
            5 => layout = Some(read_layout(value.bytes())),
            6 => each_uint(value, |v| dynamic.push(v != 0)),
            _ => {}
        }
    }
    if !dynamic.contains(&true) {
        dynamic.clear();
    }
    match (kind, DType::from_proto(kind)) {
        (TUPLE, _) => Shape::Tuple(elements),
        (TOKEN, _) => Shape::Token,
        (_, Some(dtype)) => {
            // A scalar's layout says nothing unless it is tiled or elsewhere, and text omits it.
            let layout = layout.filter(|layout| !dims.is_empty() || *layout != Layout::default());
            Shape::Array(Array {
                dtype,
                dims,
                dynamic,
                layout,
            })
        }
        _ => Shape::Opaque,
    }
}

fn read_layout(bytes: &[u8]) -> Layout {
    let mut layout = Layout::default();
    for (field, value) in Message::new(bytes) {
        match field {
            1 => each_uint(value, |v| {
                layout
                    .minor_to_major
                    .push(u32::try_from(v).unwrap_or(u32::MAX));
            }),
            6 if layout.tiles.len() < MAX_TILES => {
                let mut sides = Vec::new();
                for (field, value) in Message::new(value.bytes()) {
                    if field == 1 {
                        // `*` is the smallest int64.
                        each_uint(value, |v| {
                            sides.push(u64::try_from(v.cast_signed()).unwrap_or(0))
                        });
                    }
                }
                sides.truncate(MAX_TILES);
                layout.tiles.push(Tile(sides));
            }
            7 => layout.element_bits = u32::try_from(value.uint()).unwrap_or(0),
            8 => layout.memory_space = MemorySpace::from_number(value.uint()),
            _ => {}
        }
    }
    layout
}
