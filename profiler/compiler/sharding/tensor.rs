//! A tensor type as MLIR writes it: `tensor<16x2048xbf16>`.

use crate::program::dtype::DType;
use crate::units::Bytes;

/// Dimensions and element type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Sizes, major to minor.
    pub dims: Vec<u64>,
    /// The element type.
    pub dtype: DType,
}

impl TensorType {
    /// Reads `tensor<…>`; none for dynamic sizes, tokens, tuples and element types that are not
    /// known.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let inside = text.trim().strip_prefix("tensor<")?.strip_suffix('>')?;
        // An encoding (`, #stablehlo.bounds<…>`) says more, not other.
        let inside = inside.split(',').next()?.trim();
        let mut dims = Vec::new();
        let mut rest = inside;
        while rest.starts_with(|c: char| c.is_ascii_digit()) {
            let (size, after) = rest.split_once('x')?;
            dims.push(size.parse().ok()?);
            rest = after;
        }
        Some(Self {
            dims,
            dtype: element(rest)?,
        })
    }

    /// How many elements; saturating.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(1, |n, size| n.saturating_mul(*size))
    }

    /// Bytes without padding.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        let bits = u64::from(self.dtype.bits());
        Bytes(self.elements().saturating_mul(bits).div_ceil(8))
    }
}

/// MLIR's element types under XLA's names.
fn element(name: &str) -> Option<DType> {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "i1" => Some(DType::Pred),
        "complex<f32>" => Some(DType::C64),
        "complex<f64>" => Some(DType::C128),
        _ => lower
            .strip_prefix("ui")
            .map(|bits| format!("u{bits}"))
            .or_else(|| lower.strip_prefix('i').map(|bits| format!("s{bits}")))
            .unwrap_or(lower.clone())
            .parse()
            .ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_with_their_sizes() {
        let read = |text| TensorType::parse(text).map(|t| (t.dims.clone(), t.dtype, t.bytes().0));
        let shape = vec![16, 2048];
        assert_eq!(
            read("tensor<16x2048xbf16>"),
            Some((shape, DType::Bf16, 65536))
        );
        assert_eq!(read("tensor<f32>"), Some((vec![], DType::F32, 4)));
        assert_eq!(read("tensor<3xi1>"), Some((vec![3], DType::Pred, 3)));
        assert_eq!(read("tensor<3xui8>"), Some((vec![3], DType::U8, 3)));
        assert_eq!(
            read("tensor<8xf8E4M3FN>"),
            Some((vec![8], DType::F8E4M3Fn, 8))
        );
        assert_eq!(
            read("tensor<2xcomplex<f32>>"),
            Some((vec![2], DType::C64, 16))
        );
    }

    #[test]
    fn what_has_no_fixed_size_is_none() {
        for text in [
            "tensor<?x4xf32>",
            "!stablehlo.token",
            "tensor<4x>",
            "tensor<",
            "",
        ] {
            assert_eq!(TensorType::parse(text), None, "{text}");
        }
    }
}
