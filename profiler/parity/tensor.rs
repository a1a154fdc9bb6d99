//! Arrays in memory, and their types.

use std::fmt;

use crate::parity::float::FloatFormat;
use crate::program::dtype::DType;

/// Element type and dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// Dimensions, major first.
    pub dims: Vec<u64>,
}

impl TensorType {
    /// Number of elements, saturating.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.dims
            .iter()
            .fold(1, |all, &dim| all.saturating_mul(dim))
    }

    /// Bytes in host memory, saturating: types narrower than a byte take one.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.elements()
            .saturating_mul(element_bytes(self.dtype) as u64)
    }

    /// The same array with other elements.
    #[must_use]
    pub fn with(&self, dtype: DType) -> Self {
        Self {
            dtype,
            dims: self.dims.clone(),
        }
    }

    /// Where an element lies, as `[3, 0, 7]`.
    #[must_use]
    pub fn position(&self, index: u64) -> Vec<u64> {
        let mut rest = index;
        let mut position: Vec<u64> = self
            .dims
            .iter()
            .rev()
            .map(|&dim| {
                let here = rest % dim.max(1);
                rest /= dim.max(1);
                here
            })
            .collect();
        position.reverse();
        position
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(u64::to_string).collect();
        write!(f, "{}[{}]", self.dtype, dims.join(","))
    }
}

/// Bytes that an element takes in host memory.
#[must_use]
pub fn element_bytes(dtype: DType) -> usize {
    (dtype.bits() as usize).div_ceil(8)
}

/// An array in host memory: row-major, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// What it is.
    pub ty: TensorType,
    /// Its elements.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// An array of patterns, each of which is cut to the element's width.
    #[must_use]
    pub fn of_bits(ty: TensorType, bits: impl Iterator<Item = u64>) -> Self {
        let width = element_bytes(ty.dtype);
        let mut bytes = Vec::with_capacity(usize::try_from(ty.bytes()).unwrap_or(0));
        for bits in bits {
            bytes.extend(bits.to_le_bytes().iter().take(width));
        }
        Self { ty, bytes }
    }

    /// The patterns of its elements.
    pub fn bits(&self) -> impl Iterator<Item = u64> + '_ {
        let width = element_bytes(self.ty.dtype);
        self.bytes.chunks_exact(width).map(|chunk| {
            let mut bits = [0u8; 8];
            for (to, from) in bits.iter_mut().zip(chunk) {
                *to = *from;
            }
            u64::from_le_bytes(bits)
        })
    }

    /// Its elements as numbers: exact for floats and for integers up to 2^53.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        let dtype = self.ty.dtype;
        if let Some(format) = FloatFormat::of(dtype) {
            return self.bits().map(|bits| format.decode(bits)).collect();
        }
        let signed = matches!(
            dtype,
            DType::S1 | DType::S2 | DType::S4 | DType::S8 | DType::S16 | DType::S32 | DType::S64
        );
        let unused = 64 - dtype.bits().clamp(1, 64);
        let value = |bits: u64| match signed {
            true => ((bits << unused) as i64 >> unused) as f64,
            false => ((bits << unused) >> unused) as f64,
        };
        self.bits().map(value).collect()
    }

    /// An array of numbers, rounded to the element type; beyond its range the nearest that it has.
    #[must_use]
    pub fn of_values(ty: TensorType, values: impl Iterator<Item = f64>) -> Self {
        let dtype = ty.dtype;
        match FloatFormat::of(dtype) {
            Some(format) => Self::of_bits(ty, values.map(|value| format.encode_clamped(value))),
            None if dtype == DType::U64 => Self::of_bits(ty, values.map(|value| value as u64)),
            None => Self::of_bits(ty, values.map(|value| value as i64 as u64)),
        }
    }

    /// The same numbers in double precision where they are floats, else the array itself.
    #[must_use]
    pub fn widened(&self) -> Self {
        match FloatFormat::of(self.ty.dtype) {
            Some(format) => Self::of_bits(
                self.ty.with(DType::F64),
                self.bits().map(|bits| format.decode(bits).to_bits()),
            ),
            None => self.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        for (dtype, values) in [
            (DType::S8, vec![-128.0, 127.0, -1.0]),
            (DType::U8, vec![0.0, 255.0]),
            (DType::S64, vec![-9.0, 1e15]),
            (DType::U32, vec![4_294_967_295.0]),
            (DType::Pred, vec![0.0, 1.0]),
            (DType::Bf16, vec![-1.5, 0.25]),
            (DType::F8E4M3Fn, vec![448.0, -0.5]),
        ] {
            let dims = vec![values.len() as u64];
            let tensor = Tensor::of_values(TensorType { dtype, dims }, values.iter().copied());
            assert_eq!(tensor.values(), values, "{dtype}");
            assert_eq!(tensor.bytes.len() as u64, tensor.ty.bytes());
            if dtype.is_float() {
                assert_eq!(tensor.widened().values(), values);
            }
        }
    }

    #[test]
    fn positions_count_the_last_dimension_first() {
        let ty = TensorType {
            dtype: DType::F32,
            dims: vec![2, 3, 4],
        };
        assert_eq!(ty.position(23), [1, 2, 3]);
        assert_eq!(ty.position(5), [0, 1, 1]);
        assert_eq!(ty.to_string(), "f32[2,3,4]");
    }
}
