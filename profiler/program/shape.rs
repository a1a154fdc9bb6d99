//! Shapes and layouts: what an array is, where it lives, and what its tiles make it cost.

use std::fmt;

use crate::program::dtype::DType;
use crate::units::Bytes;

/// Where a buffer lives, as `S(n)` in a layout says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemorySpace {
    /// The chip's main memory: the default.
    #[default]
    Hbm,
    /// The TensorCore's vector memory, `S(1)`.
    Vmem,
    /// Semaphores, `S(2)`.
    SyncFlag,
    /// The host's memory, `S(5)`.
    Host,
    /// The TensorCore's scalar memory, `S(6)`.
    Smem,
    /// A space that this version has no name for.
    Other(u8),
}

impl MemorySpace {
    /// The space that `S(number)` means.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Hbm,
            1 => Self::Vmem,
            2 => Self::SyncFlag,
            5 => Self::Host,
            6 => Self::Smem,
            _ => Self::Other(u8::try_from(number).unwrap_or(u8::MAX)),
        }
    }

    /// The number in `S(number)`.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Hbm => 0,
            Self::Vmem => 1,
            Self::SyncFlag => 2,
            Self::Host => 5,
            Self::Smem => 6,
            Self::Other(number) => number,
        }
    }
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hbm => f.write_str("HBM"),
            Self::Vmem => f.write_str("VMEM"),
            Self::SyncFlag => f.write_str("sync flags"),
            Self::Host => f.write_str("host memory"),
            Self::Smem => f.write_str("SMEM"),
            Self::Other(number) => write!(f, "memory space {number}"),
        }
    }
}

/// One level of tiling, major to minor: `(8,128)`. A 0 stands for `*`: the dimension is folded
/// into the next minor one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tile(pub Vec<u64>);

/// How an array lies in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Logical dimensions, the one with consecutive elements first.
    pub minor_to_major: Vec<u32>,
    /// Tiles, outermost level first.
    pub tiles: Vec<Tile>,
    /// Where it lives.
    pub memory_space: MemorySpace,
    /// Bits that an element takes, `E(4)`; 0 means those of the type.
    pub element_bits: u32,
}

/// An array's type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Array {
    /// The element type.
    pub dtype: DType,
    /// Logical dimensions; for dynamic ones the upper bound, 0 if there is none.
    pub dims: Vec<u64>,
    /// Which dimensions are dynamic; empty where none is.
    pub dynamic: Vec<bool>,
    /// The layout, where the program is far enough to have one.
    pub layout: Option<Layout>,
}

/// The type of an instruction's result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// An array.
    Array(Array),
    /// A tuple.
    Tuple(Vec<Shape>),
    /// An ordering token.
    Token,
    /// A value that XLA does not look into.
    Opaque,
}

/// Readers refuse tuples that nest deeper, so that walking a shape may recurse.
pub(super) const MAX_TUPLE_DEPTH: usize = 32;
/// Tile levels that are kept; real layouts have at most three.
pub(super) const MAX_TILES: usize = 8;

impl Array {
    /// An array without a layout.
    #[must_use]
    pub fn new(dtype: DType, dims: &[u64]) -> Self {
        Self {
            dtype,
            dims: dims.to_vec(),
            dynamic: Vec::new(),
            layout: None,
        }
    }

    /// Number of logical elements, saturating.
    #[must_use]
    pub fn elements(&self) -> u64 {
        product(&self.dims)
    }

    /// Bits that an element takes in memory.
    #[must_use]
    pub fn element_bits(&self) -> u32 {
        match &self.layout {
            Some(layout) if layout.element_bits > 0 => layout.element_bits,
            _ => self.dtype.bits(),
        }
    }

    /// Where it lives; HBM where no layout says otherwise.
    #[must_use]
    pub fn memory_space(&self) -> MemorySpace {
        self.layout
            .as_ref()
            .map_or(MemorySpace::Hbm, |layout| layout.memory_space)
    }

    /// Bytes of the elements alone.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes(bits_to_bytes(self.elements(), self.element_bits()))
    }

    /// Dimensions in memory order, major to minor.
    #[must_use]
    pub fn physical_dims(&self) -> Vec<u64> {
        self.major_to_minor()
            .into_iter()
            .filter_map(|dim| self.dims.get(dim).copied())
            .collect()
    }

    /// Logical dimension numbers in memory order, major to minor: the layout's where it is a
    /// permutation, else row-major.
    #[must_use]
    pub fn major_to_minor(&self) -> Vec<usize> {
        let rank = self.dims.len();
        if let Some(layout) = &self.layout
            && layout.minor_to_major.len() == rank
        {
            let mut seen = vec![false; rank];
            let mut order = Vec::with_capacity(rank);
            for &dim in layout.minor_to_major.iter().rev() {
                match seen.get_mut(dim as usize) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return (0..rank).collect(),
                }
                order.push(dim as usize);
            }
            return order;
        }
        (0..rank).collect()
    }

    /// Elements that the tiles make it store, saturating.
    #[must_use]
    pub fn padded_elements(&self) -> u64 {
        let mut dims = self.physical_dims();
        if let Some(layout) = &self.layout {
            // A second tile splits what the first made: `(8,128)(2,1)` pads to 8 by 128, then
            // packs pairs of sublanes.
            for tile in layout.tiles.iter().take(MAX_TILES) {
                dims = apply_tile(dims, tile);
            }
        }
        product(&dims)
    }

    /// Bytes that it takes in memory, tile padding included.
    #[must_use]
    pub fn padded_bytes(&self) -> Bytes {
        Bytes(bits_to_bytes(self.padded_elements(), self.element_bits()))
    }

    /// The logical dimensions, each rounded up to the first tile.
    #[must_use]
    pub fn padded_dims(&self) -> Vec<u64> {
        let mut padded = self.dims.clone();
        if let Some(tile) = self.layout.as_ref().and_then(|layout| layout.tiles.first()) {
            let order = self.major_to_minor();
            for (&side, &dim) in tile.0.iter().rev().zip(order.iter().rev()) {
                if let Some(size) = padded.get_mut(dim)
                    && side > 0
                {
                    *size = round_up(*size, side);
                }
            }
        }
        padded
    }

    /// Bytes in memory over bytes of the elements: 1 where nothing is wasted.
    #[must_use]
    pub fn padding_factor(&self) -> f64 {
        factor(self.padded_bytes(), self.bytes())
    }
}

impl Shape {
    /// The array, if it is one.
    #[must_use]
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The elements of a tuple; empty for anything else.
    #[must_use]
    pub fn elements(&self) -> &[Shape] {
        match self {
            Self::Tuple(elements) => elements,
            _ => &[],
        }
    }

    /// All arrays in it, in order: itself, or the leaves of the tuple.
    #[must_use]
    pub fn arrays(&self) -> Vec<&Array> {
        fn collect<'a>(shape: &'a Shape, into: &mut Vec<&'a Array>) {
            match shape {
                Shape::Array(array) => into.push(array),
                Shape::Tuple(elements) => elements.iter().for_each(|e| collect(e, into)),
                Shape::Token | Shape::Opaque => {}
            }
        }
        let mut arrays = Vec::new();
        collect(self, &mut arrays);
        arrays
    }

    /// Bytes of the elements alone; of a tuple, the sum over its arrays.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.sum(Array::bytes)
    }

    /// Bytes in memory, tile padding included.
    #[must_use]
    pub fn padded_bytes(&self) -> Bytes {
        self.sum(Array::padded_bytes)
    }

    /// Bytes in memory over bytes of the elements: 1 where nothing is wasted.
    #[must_use]
    pub fn padding_factor(&self) -> f64 {
        factor(self.padded_bytes(), self.bytes())
    }

    fn sum(&self, size: impl Fn(&Array) -> Bytes) -> Bytes {
        Bytes(
            self.arrays()
                .into_iter()
                .fold(0, |sum, array| sum.saturating_add(size(array).0)),
        )
    }
}

pub(super) fn product(dims: &[u64]) -> u64 {
    dims.iter()
        .fold(1, |product, &dim| product.saturating_mul(dim))
}

/// `size` rounded up to a multiple of `step`, saturating; `step` 0 counts as 1.
pub(super) fn round_up(size: u64, step: u64) -> u64 {
    size.div_ceil(step.max(1)).saturating_mul(step.max(1))
}

fn bits_to_bytes(elements: u64, bits: u32) -> u64 {
    let bits = u128::from(elements) * u128::from(bits);
    u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
}

fn factor(padded: Bytes, bytes: Bytes) -> f64 {
    if bytes.0 == 0 {
        1.0
    } else {
        padded.0 as f64 / bytes.0 as f64
    }
}

/// Splits the minor dimensions by the tile: outer counts, then the tile's sides.
fn apply_tile(mut dims: Vec<u64>, tile: &Tile) -> Vec<u64> {
    let missing = tile.0.len().saturating_sub(dims.len());
    dims.splice(0..0, std::iter::repeat_n(1, missing));
    let tail = dims.split_off(dims.len().saturating_sub(tile.0.len()));
    let mut inner = Vec::with_capacity(tile.0.len());
    let mut folded = 1u64;
    for (size, &side) in tail.into_iter().zip(&tile.0) {
        let size = size.saturating_mul(folded);
        if side == 0 {
            folded = size;
            continue;
        }
        folded = 1;
        dims.push(size.div_ceil(side));
        inner.push(side);
    }
    if folded != 1 {
        dims.push(folded);
    }
    dims.extend(inner);
    dims
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (i, &side) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            if side == 0 {
                f.write_str("*")?;
            } else {
                write!(f, "{side}")?;
            }
        }
        f.write_str(")")
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, dim) in self.minor_to_major.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{dim}")?;
        }
        if !self.tiles.is_empty() || self.element_bits > 0 || self.memory_space.number() > 0 {
            f.write_str(":")?;
        }
        for (i, tile) in self.tiles.iter().enumerate() {
            if i == 0 {
                f.write_str("T")?;
            }
            write!(f, "{tile}")?;
        }
        if self.element_bits > 0 {
            write!(f, "E({})", self.element_bits)?;
        }
        if self.memory_space.number() > 0 {
            write!(f, "S({})", self.memory_space.number())?;
        }
        f.write_str("}")
    }
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, dim) in self.dims.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match (self.dynamic.get(i).copied().unwrap_or(false), dim) {
                (true, 0) => f.write_str("?")?,
                (true, dim) => write!(f, "<={dim}")?,
                (false, dim) => write!(f, "{dim}")?,
            }
        }
        f.write_str("]")?;
        self.layout.as_ref().map_or(Ok(()), |layout| layout.fmt(f))
    }
}

impl fmt::Display for Shape {
    /// As HLO text writes it, without `/*index=5*/` comments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(array) => array.fmt(f),
            Self::Token => f.write_str("token[]"),
            Self::Opaque => f.write_str("opaque[]"),
            Self::Tuple(elements) => {
                f.write_str("(")?;
                for (i, element) in elements.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    element.fmt(f)?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Shape {
        text.parse().expect(text)
    }

    #[test]
    fn a_tile_pads_the_two_minor_physical_dimensions() {
        // Minor to major 2,0,1: the physical order is [1][1024][3584].
        let aligned = shape("bf16[1024,1,3584]{2,0,1:T(8,128)(2,1)S(1)}");
        assert_eq!(aligned.bytes(), aligned.padded_bytes());
        let row_major = shape("bf16[1024,1,3584]{2,1,0:T(8,128)(2,1)}");
        assert_eq!(row_major.padded_bytes().0, 8 * row_major.bytes().0);
        let array = row_major.as_array().expect("an array");
        assert_eq!(array.padded_dims(), [1024, 8, 3584]);
        assert_eq!(row_major.padding_factor(), 8.0);
    }

    #[test]
    fn a_scalar_takes_its_whole_tile() {
        assert_eq!(shape("f32[]{:T(128)}").padded_bytes(), Bytes(512));
        assert_eq!(
            shape("pred[1024]{0:T(1024)(128)(4,1)}").padded_bytes(),
            Bytes(1024)
        );
        assert_eq!(
            shape("pred[1000]{0:T(1024)(128)(4,1)}").padded_bytes(),
            Bytes(1024)
        );
    }

    #[test]
    fn four_bit_elements_take_half_a_byte() {
        let packed = shape("s4[64,256]{1,0:T(8,128)(8,1)E(4)}");
        assert_eq!(packed.bytes(), Bytes(64 * 128));
        assert_eq!(packed.padded_bytes(), Bytes(64 * 128));
    }

    #[test]
    fn a_star_folds_a_dimension_into_the_next() {
        // [3][5][100] with the 5 folded into the 100: 500 rounds up to 512.
        assert_eq!(
            shape("f32[3,5,100]{2,1,0:T(*,128)}").padded_bytes(),
            Bytes(3 * 512 * 4)
        );
    }

    #[test]
    fn a_tuple_is_the_sum_of_its_arrays() {
        let tuple = shape("(f32[8]{0}, (bf16[4]{0}, token[]), u32[]{:S(2)})");
        assert_eq!(tuple.bytes(), Bytes(32 + 8 + 4));
        assert_eq!(tuple.arrays().len(), 3);
        assert_eq!(tuple.arrays()[2].memory_space(), MemorySpace::SyncFlag);
    }

    #[test]
    fn sizes_saturate() {
        let huge = shape("f64[18446744073709551615,4]{1,0:T(8,128)}");
        assert_eq!(huge.padded_bytes(), Bytes(u64::MAX));
    }
}
