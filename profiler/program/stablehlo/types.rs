//! `tensor<4x1023xbf16>`: dimensions, element type, and where each dimension is written.

use std::ops::Range;

/// One dimension of a tensor's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dim {
    /// Its size; `None` when the text leaves it open (`?`).
    pub size: Option<i64>,
    /// Where its digits stand in the module's text.
    pub range: Range<usize>,
}

/// A tensor's type as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Dimensions, major first.
    pub dims: Vec<Dim>,
    /// The element's type as written: `bf16`, `i32`, `complex<f32>`.
    pub element: Range<usize>,
    /// The whole type, `tensor<…>`.
    pub range: Range<usize>,
}

impl TensorType {
    /// Reads the type whose bytes are `range` of `text`.
    #[must_use]
    pub fn read(text: &str, range: Range<usize>) -> Option<Self> {
        let inner = text
            .get(range.clone())?
            .strip_prefix("tensor<")?
            .strip_suffix('>')?;
        let mut at = range.start + "tensor<".len();
        let mut dims = Vec::new();
        let mut rest = inner;
        while let Some((head, tail)) = rest.split_once('x') {
            let size = match head {
                "?" => None,
                _ if !head.is_empty() && head.bytes().all(|b| b.is_ascii_digit()) => {
                    Some(head.parse().ok()?)
                }
                _ => break,
            };
            dims.push(Dim {
                size,
                range: at..at + head.len(),
            });
            at += head.len() + 1;
            rest = tail;
        }
        let element = rest.split(',').next().unwrap_or(rest).trim_end();
        (!element.is_empty()).then(|| Self {
            dims,
            element: at..at + element.len(),
            range,
        })
    }

    /// Number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The size of dimension `axis`, when there is one and it is fixed.
    #[must_use]
    pub fn size(&self, axis: usize) -> Option<i64> {
        self.dims.get(axis).and_then(|d| d.size)
    }
}

/// Writes a tensor's type.
#[must_use]
pub fn write_tensor(sizes: &[i64], element: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::from("tensor<");
    for size in sizes {
        let _ = write!(out, "{size}x");
    }
    out.push_str(element);
    out.push('>');
    out
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test ends where a value is missing")]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<TensorType> {
        TensorType::read(text, 0..text.len())
    }

    #[test]
    fn dimensions_know_their_digits() {
        let text = "tensor<4x1023xbf16>";
        let tensor = read(text).unwrap();
        assert_eq!(tensor.size(1), Some(1023));
        assert_eq!(&text[tensor.dims[1].range.clone()], "1023");
        assert_eq!(&text[tensor.element], "bf16");
    }

    #[test]
    fn scalars_and_composed_elements_are_read() {
        assert_eq!(read("tensor<f32>").unwrap().rank(), 0);
        let text = "tensor<2xcomplex<f32>>";
        assert_eq!(&text[read(text).unwrap().element], "complex<f32>");
        let text = "tensor<?x4xf32, #stablehlo.bounds<5, ?>>";
        let tensor = read(text).unwrap();
        assert_eq!((tensor.size(0), tensor.size(1)), (None, Some(4)));
        assert_eq!(&text[tensor.element], "f32");
    }

    #[test]
    fn what_is_no_tensor_is_none() {
        for text in [
            "tensor<>",
            "tensor<4xf32",
            "vector<4xf32>",
            "tensor<99999999999999999999xf32>",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn writing_is_the_inverse_of_reading() {
        assert_eq!(write_tensor(&[4, 1023], "bf16"), "tensor<4x1023xbf16>");
        assert_eq!(write_tensor(&[], "f32"), "tensor<f32>");
    }
}
