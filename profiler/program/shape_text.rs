//! Shapes as HLO text writes them.

use std::str::FromStr;

use thiserror::Error;

use crate::program::dtype::DType;
use crate::program::scan::Scan;
use crate::program::shape::{Array, Layout, MAX_TILES, MAX_TUPLE_DEPTH, MemorySpace, Shape, Tile};

/// Why a text is no shape.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected {expected} at byte {offset} of a shape such as `bf16[8,128]{{1,0}}`")]
pub struct ShapeError {
    /// What should have stood there.
    pub expected: &'static str,
    /// Where, in bytes from the start of the text.
    pub offset: usize,
}

impl FromStr for Shape {
    type Err = ShapeError;

    /// Reads a shape that fills the whole text.
    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let mut scan = Scan::new(text);
        let shape = shape(&mut scan)?;
        scan.skip_space();
        if scan.at_end() {
            Ok(shape)
        } else {
            Err(error(&scan, "the end"))
        }
    }
}

fn error(scan: &Scan<'_>, expected: &'static str) -> ShapeError {
    ShapeError {
        expected,
        offset: scan.offset(),
    }
}

/// Reads a shape at the cursor.
pub(super) fn shape(scan: &mut Scan<'_>) -> Result<Shape, ShapeError> {
    nested(scan, 0)
}

fn nested(scan: &mut Scan<'_>, depth: usize) -> Result<Shape, ShapeError> {
    scan.skip_space();
    if scan.peek() == Some(b'(') {
        if depth >= MAX_TUPLE_DEPTH {
            return Err(error(scan, "fewer than 32 nested tuples"));
        }
        scan.eat("(");
        let mut elements = Vec::new();
        if scan.eat_after_space(")") {
            return Ok(Shape::Tuple(elements));
        }
        loop {
            elements.push(nested(scan, depth + 1)?);
            if scan.eat_after_space(")") {
                return Ok(Shape::Tuple(elements));
            }
            if !scan.eat(",") {
                return Err(error(scan, "`,` or `)`"));
            }
        }
    }
    let start = scan.offset();
    let name = scan.take_while(|b| b.is_ascii_alphanumeric());
    // A buffer prints as `b(f32[8])` and is the array for all our purposes.
    if name == "b" && scan.peek() == Some(b'(') {
        if depth >= MAX_TUPLE_DEPTH {
            return Err(error(scan, "fewer than 32 nested tuples"));
        }
        scan.eat("(");
        let inner = nested(scan, depth + 1)?;
        return if scan.eat_after_space(")") {
            Ok(inner)
        } else {
            Err(error(scan, "`)`"))
        };
    }
    if !scan.eat("[") {
        return Err(ShapeError {
            expected: "an element type and `[`",
            offset: start,
        });
    }
    if name == "token" || name == "opaque" {
        if !scan.eat("]") {
            return Err(error(scan, "`]`"));
        }
        // A token may carry an empty layout.
        let _ = scan.bracketed(b'{');
        return Ok(if name == "token" {
            Shape::Token
        } else {
            Shape::Opaque
        });
    }
    let Ok(dtype) = name.parse::<DType>() else {
        return Err(ShapeError {
            expected: "an element type that XLA knows",
            offset: start,
        });
    };
    let (dims, dynamic) = dimensions(scan)?;
    let layout = if scan.peek() == Some(b'{') {
        Some(layout(scan)?)
    } else {
        None
    };
    Ok(Shape::Array(Array {
        dtype,
        dims,
        dynamic,
        layout,
    }))
}

fn dimensions(scan: &mut Scan<'_>) -> Result<(Vec<u64>, Vec<bool>), ShapeError> {
    let mut dims = Vec::new();
    let mut dynamic = Vec::new();
    if scan.eat_after_space("]") {
        return Ok((dims, dynamic));
    }
    loop {
        scan.skip_space();
        if scan.eat("?") {
            dims.push(0);
            dynamic.push(true);
        } else {
            dynamic.push(scan.eat("<="));
            dims.push(scan.uint().ok_or_else(|| error(scan, "a dimension"))?);
        }
        if scan.eat_after_space("]") {
            break;
        }
        if !scan.eat(",") {
            return Err(error(scan, "`,` or `]`"));
        }
    }
    if !dynamic.contains(&true) {
        dynamic.clear();
    }
    Ok((dims, dynamic))
}

fn layout(scan: &mut Scan<'_>) -> Result<Layout, ShapeError> {
    let mut layout = Layout::default();
    scan.eat("{");
    loop {
        scan.skip_space();
        match scan.peek() {
            Some(b'0'..=b'9') => {
                let dim = scan.uint().unwrap_or(u64::MAX);
                layout
                    .minor_to_major
                    .push(u32::try_from(dim).unwrap_or(u32::MAX));
                scan.eat_after_space(",");
            }
            Some(b':') => {
                scan.eat(":");
                properties(scan, &mut layout)?;
            }
            Some(b'}') => {
                scan.eat("}");
                return Ok(layout);
            }
            _ => return Err(error(scan, "a dimension number, `:` or `}`")),
        }
    }
}

/// `T(8,128)(2,1)E(4)S(1)` and properties that cost nothing here, such as `L(1)` or `D(D,C)`.
fn properties(scan: &mut Scan<'_>, layout: &mut Layout) -> Result<(), ShapeError> {
    loop {
        scan.skip_space();
        let key = scan.take_while(|b| b.is_ascii_alphabetic() || b == b'#' || b == b'*');
        if key.is_empty() {
            return Ok(());
        }
        if scan.peek() != Some(b'(') {
            return Err(error(scan, "`(` after a layout property"));
        }
        while scan.peek() == Some(b'(') {
            let Some(content) = scan.bracketed(b'(') else {
                return Err(error(scan, "the `)` of a layout property"));
            };
            match key {
                "T" if layout.tiles.len() < MAX_TILES => layout.tiles.push(tile(content)),
                "E" => layout.element_bits = content.trim().parse().unwrap_or(0),
                "S" => {
                    layout.memory_space =
                        MemorySpace::from_number(content.trim().parse().unwrap_or(0));
                }
                _ => {}
            }
        }
    }
}

/// `8,128`; what is no number, as `*`, is 0. Real tiles have one or two sides.
fn tile(content: &str) -> Tile {
    Tile(
        content
            .split(',')
            .take(MAX_TILES)
            .map(|side| side.trim().parse().unwrap_or(0))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shapes_as_tpus_print_them_come_back_unchanged() {
        for text in [
            "bf16[1024,1,3584]{2,0,1:T(8,128)(2,1)S(1)}",
            "s4[64,256]{1,0:T(8,128)(8,1)E(4)}",
            "u32[]{:S(2)}",
            "f32[]{:T(128)}",
            "f32[]",
            "s64[<=5,1]{1,0}",
            "f32[?,8]",
            "((s8[16]{0:T(1024)(128)(4,1)}), s8[4]{0:S(1)}, s32[]{:S(2)})",
            "(token[], opaque[], ())",
            "f8e4m3fn[0,8]{1,0:T(*,128)S(9)}",
        ] {
            let shape: Shape = text.parse().expect(text);
            assert_eq!(shape.to_string(), text);
        }
    }

    #[test]
    fn comments_and_unknown_layout_properties_are_skipped() {
        let shape: Shape = "(f32[2]{0:L(2)T(128)}, /*index=5*/b(f32[2]{0:D(D)#(u32)S(1)}))"
            .parse()
            .expect("ok");
        assert_eq!(shape.to_string(), "(f32[2]{0:T(128)}, f32[2]{0:S(1)})");
    }

    #[test]
    fn errors_say_where() {
        let error = |text: &str| text.parse::<Shape>().expect_err(text).offset;
        assert_eq!(error("bf17[2]"), 0);
        assert_eq!(error("f32[2"), 5);
        assert_eq!(error("(f32[2] f32[2])"), 8);
        assert_eq!(error("f32[2]{0:T(8"), 10);
        assert_eq!(error("f32[2] x"), 7);
        assert!("(".repeat(100_000).parse::<Shape>().is_err());
    }

    fn any_array() -> impl Strategy<Value = Array> {
        let dtype = (0u64..40).prop_filter_map("a dtype", DType::from_proto);
        let tile = prop::collection::vec(0u64..300, 1..3).prop_map(Tile);
        let layout = (prop::collection::vec(tile, 0..4), 0u64..12, 0u32..5);
        (
            dtype,
            prop::collection::vec((0u64..5000, any::<bool>()), 0..6),
            prop::option::of(layout),
        )
            .prop_map(|(dtype, dims, layout)| {
                let rank = u32::try_from(dims.len()).unwrap_or(0);
                let (dims, mut dynamic): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
                if !dynamic.contains(&true) {
                    dynamic.clear();
                }
                let layout = layout.map(|(tiles, space, element_bits)| Layout {
                    minor_to_major: (0..rank).rev().collect(),
                    tiles,
                    memory_space: MemorySpace::from_number(space),
                    element_bits,
                });
                Array {
                    dtype,
                    dims,
                    dynamic,
                    layout,
                }
            })
    }

    fn any_shape() -> impl Strategy<Value = Shape> {
        let leaf = prop_oneof![
            8 => any_array().prop_map(Shape::Array),
            1 => Just(Shape::Token),
            1 => Just(Shape::Opaque),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop::collection::vec(inner, 0..4).prop_map(Shape::Tuple)
        })
    }

    proptest! {
        #[test]
        fn display_then_parse_is_the_identity(shape in any_shape()) {
            prop_assert_eq!(shape.to_string().parse::<Shape>(), Ok(shape));
        }

        #[test]
        fn padding_never_loses_elements(array in any_array()) {
            prop_assert!(array.padded_bytes() >= array.bytes());
            prop_assert!(array.padding_factor() >= 1.0);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}", shapes in "[a-z0-9\\[\\](){},:TSE<=?* ]{0,60}") {
            let _ = text.parse::<Shape>();
            let _ = shapes.parse::<Shape>();
        }
    }
}
