//! Which axis of an allocation pads, and by what factor.

use crate::logs::out_of_memory::{Allocation, Size};
use crate::program::shape::{Array, Layout, Shape, Tile};
use crate::units::Bytes;

/// Shapes that are read from one text.
const MAX_SHAPES: usize = 32;
/// Bytes in which the end of a shape is looked for.
const MAX_SHAPE_BYTES: usize = 512;

/// The part that an axis plays in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The minor axis, along 128 lanes.
    Lanes,
    /// The axis beside it, along the sublanes.
    Sublanes,
    /// Further out.
    Outer,
}

/// An axis that is rounded up to a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaddedAxis {
    /// The logical axis, from 0.
    pub axis: usize,
    /// Its size.
    pub size: u64,
    /// What it takes.
    pub padded: u64,
    /// Its part in the tile.
    pub role: Role,
}

/// How an array pads.
#[derive(Clone, Debug, PartialEq)]
pub struct Padding {
    /// The array, with the tiles that were printed or inferred.
    pub array: Array,
    /// Bytes in memory over bytes of its elements, by its tiles.
    pub factor: f64,
    /// The axes that are rounded up, the one that costs most first.
    pub axes: Vec<PaddedAxis>,
    /// Whether the text printed the tiles. Reports of old compilers do not; then the tiles are
    /// those that give the factor that the report states.
    pub tiles_printed: bool,
}

/// The same elements, arranged otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Rearranged {
    /// What to do.
    pub how: Arrangement,
    /// What it takes then.
    pub bytes: Bytes,
}

/// A way to arrange an array with less padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Merge an axis into the one that lies outside of it.
    Fold {
        /// The axis that vanishes.
        axis: usize,
        /// The axis that it is merged into.
        into: usize,
        /// The shape afterwards.
        dims: Vec<u64>,
    },
    /// Make another axis the minor one.
    MinorAxis {
        /// That axis.
        axis: usize,
    },
}

impl Padding {
    /// Reads the padding off an array with tiles; `None` where nothing pads.
    #[must_use]
    pub fn of(array: &Array) -> Option<Self> {
        let factor = array.padding_factor();
        let padded = array.padded_dims();
        let order = array.major_to_minor();
        let mut axes: Vec<PaddedAxis> = array
            .dims
            .iter()
            .zip(&padded)
            .enumerate()
            .filter(|(_, (size, padded))| **size != **padded && **size > 0)
            .map(|(axis, (&size, &padded))| {
                let from_minor = order.iter().rev().position(|dim| *dim == axis);
                let role = match from_minor {
                    Some(0) => Role::Lanes,
                    Some(1) => Role::Sublanes,
                    _ => Role::Outer,
                };
                PaddedAxis {
                    axis,
                    size,
                    padded,
                    role,
                }
            })
            .collect();
        axes.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)).then(a.axis.cmp(&b.axis)));
        if factor <= 1.0 || axes.is_empty() {
            return None;
        }
        Some(Self {
            array: array.clone(),
            factor,
            axes,
            tiles_printed: true,
        })
    }

    /// Whether this factor is the one that a report states, within the rounding of one decimal.
    #[must_use]
    pub fn agrees_with(&self, expansion: f64) -> bool {
        (self.factor - expansion).abs() <= 0.05 + 0.02 * expansion
    }

    /// The cheapest of a few ways to hold the same elements with less padding, with what it would
    /// take under the same tiles. `None` where none of them helps much.
    #[must_use]
    pub fn rearranged(&self) -> Option<Rearranged> {
        let now = self.array.padded_bytes();
        let order = self.array.major_to_minor();
        let mut best: Option<Rearranged> = None;
        let mut offer = |how: Arrangement, bytes: Bytes| {
            if best.as_ref().is_none_or(|best| bytes < best.bytes) {
                best = Some(Rearranged { how, bytes });
            }
        };
        let minor_first: Vec<usize> = order.iter().rev().copied().collect();
        // Folding needs axes that lie next to each other in memory: no data moves.
        for pair in minor_first.windows(2).take(2) {
            if let &[axis, into] = pair
                && self.axes.iter().any(|padded| padded.axis == axis || padded.axis == into)
                // A row-major pair: otherwise a reshape cannot merge it.
                && axis == into + 1
            {
                let mut dims = self.array.dims.clone();
                let size = dims.get(axis).copied().unwrap_or(1);
                if let Some(merged) = dims.get_mut(into) {
                    *merged = merged.saturating_mul(size);
                }
                dims.remove(axis);
                let minor_to_major = minor_first
                    .iter()
                    .filter(|dim| **dim != axis)
                    .map(|dim| if *dim > axis { dim - 1 } else { *dim });
                let folded = self.with(&dims, minor_to_major.collect());
                offer(Arrangement::Fold { axis, into, dims }, folded);
            }
        }
        for &axis in minor_first.iter().skip(1) {
            let mut order: Vec<usize> = vec![axis];
            order.extend(minor_first.iter().filter(|dim| **dim != axis));
            let moved = self.with(&self.array.dims, order);
            offer(Arrangement::MinorAxis { axis }, moved);
        }
        best.filter(|best| best.bytes.0.saturating_mul(3) < now.0.saturating_mul(2))
    }

    fn with(&self, dims: &[u64], minor_to_major: Vec<usize>) -> Bytes {
        let mut array = self.array.clone();
        array.dims = dims.to_vec();
        array.dynamic.clear();
        if let Some(layout) = &mut array.layout {
            layout.minor_to_major = minor_to_major
                .iter()
                .filter_map(|dim| u32::try_from(*dim).ok())
                .collect();
            // A single axis is laid out in whole registers.
            if dims.len() == 1 {
                layout.tiles = vec![Tile(vec![1024])];
            }
        }
        array.padded_bytes()
    }
}

impl Allocation {
    /// How the allocation's own array pads, by its tiles; where they are not printed, by those
    /// that give the factor that the report states.
    #[must_use]
    pub fn padding(&self) -> Option<Padding> {
        let array = self.shape.as_ref()?;
        let printed = array.layout.as_ref().is_some_and(|l| !l.tiles.is_empty());
        if printed {
            return Padding::of(array);
        }
        let expansion = self.expansion?;
        [8u64, 4, 2, 1, 16, 32]
            .into_iter()
            .filter_map(|sublanes| {
                let mut array = array.clone();
                let layout = array
                    .layout
                    .get_or_insert_with(|| row_major(array.dims.len()));
                layout.tiles = vec![Tile(vec![sublanes, 128])];
                Padding::of(&array)
            })
            .find(|padding| padding.agrees_with(expansion))
            .map(|padding| Padding {
                tiles_printed: false,
                ..padding
            })
    }

    /// Arrays in the allocation's label, operands among them, that pad at least twofold, the
    /// largest first. What a program reads to make an array without padding may be padded itself.
    #[must_use]
    pub fn padded_operands(&self) -> Vec<Padding> {
        let mut padded: Vec<Padding> = shapes_in(&self.label)
            .iter()
            .filter(|array| Some(*array) != self.shape.as_ref())
            .filter_map(Padding::of)
            .filter(|padding| padding.factor >= 2.0)
            .collect();
        padded.sort_by_key(|padding| std::cmp::Reverse(padding.array.padded_bytes()));
        padded.dedup();
        padded
    }

    /// Where the shape is cut off and the operator is a convolution: channels that, as minor
    /// axis, give just the allocation's size.
    #[must_use]
    pub fn convolution_channels(&self) -> Vec<PaddedAxis> {
        let size = match (&self.size, &self.shape) {
            (Some(size), None) if self.operator.contains("conv_general_dilated") => size,
            _ => return Vec::new(),
        };
        let list = |name: &str| -> Option<Vec<u64>> {
            let (_, rest) = self.operator.split_once(name)?;
            let (list, _) = rest.split_once(')')?;
            list.split(',').map(|n| n.trim().parse().ok()).collect()
        };
        let channels = || -> Option<[u64; 2]> {
            let (lhs, rhs) = (list("lhs_shape=(")?, list("rhs_shape=(")?);
            let axis = |spec: Vec<u64>, at: usize| usize::try_from(*spec.get(at)?).ok();
            let input = *lhs.get(axis(list("lhs_spec=(")?, 1)?)?;
            let output = *rhs.get(axis(list("rhs_spec=(")?, 0)?)?;
            Some([input, output])
        };
        let (Some(lhs), Some([input, output])) = (list("lhs_shape=("), channels()) else {
            return Vec::new();
        };
        let places = lhs.iter().fold(1u64, |n, dim| n.saturating_mul(*dim)) / input.max(1);
        [input, output]
            .into_iter()
            .filter(|channels| *channels > 0 && *channels < 128)
            .map(|channels| PaddedAxis {
                axis: lhs.len().saturating_sub(1),
                size: channels,
                padded: 128,
                role: Role::Lanes,
            })
            .filter(|_| {
                [2u64, 4].iter().any(|bytes| {
                    let padded = places.saturating_mul(128).saturating_mul(*bytes);
                    close(padded, size)
                })
            })
            .collect()
    }
}

/// Whether a size is the printed one, within its rounding and a part in two hundred.
fn close(bytes: u64, size: &Size) -> bool {
    bytes.abs_diff(size.bytes.0) <= size.rounding().saturating_add(size.bytes.0 / 200)
}

fn ratio(axis: &PaddedAxis) -> f64 {
    axis.padded as f64 / (axis.size as f64).max(1.0)
}

fn row_major(rank: usize) -> Layout {
    Layout {
        minor_to_major: (0..u32::try_from(rank).unwrap_or(0)).rev().collect(),
        ..Layout::default()
    }
}

/// The arrays in a text, as far as they can be read.
pub(in crate::logs) fn shapes_in(text: &str) -> Vec<Array> {
    let mut shapes = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find('[')) {
        let bracket = from + at;
        from = bracket + 1;
        if shapes.len() >= MAX_SHAPES {
            break;
        }
        let before = text.get(..bracket).unwrap_or_default();
        let name = before
            .rfind(|c: char| !c.is_ascii_alphanumeric())
            .map_or(0, |at| {
                at + before[at..].chars().next().map_or(1, char::len_utf8)
            });
        let mut rest = text.get(name..).unwrap_or_default();
        if rest.len() > MAX_SHAPE_BYTES {
            let cut = (0..=MAX_SHAPE_BYTES)
                .rev()
                .find(|at| rest.is_char_boundary(*at));
            rest = rest.get(..cut.unwrap_or(0)).unwrap_or_default();
        }
        let Some(close) = rest.find(']') else {
            continue;
        };
        let dims_end = close + 1;
        let whole = match rest.get(dims_end..) {
            Some(tail) if tail.starts_with('{') => tail
                .find('}')
                .map_or(dims_end, |brace| dims_end + brace + 1),
            _ => dims_end,
        };
        if let Some(Ok(Shape::Array(array))) = rest.get(..whole).map(str::parse) {
            shapes.push(array);
        }
    }
    shapes
}

#[cfg(test)]
mod tests {
    use super::{Arrangement, Padding, Role, shapes_in};

    fn padding(shape: &str) -> Padding {
        Padding::of(&shapes_in(shape)[0]).expect("it pads")
    }

    #[test]
    fn the_axis_in_the_lanes_or_sublanes_is_named() {
        let lanes = padding("f32[16,64,32,4]{3,2,1,0:T(8,128)}");
        assert_eq!((lanes.factor, lanes.axes.len()), (32.0, 1));
        assert_eq!((lanes.axes[0].axis, lanes.axes[0].padded), (3, 128));
        assert_eq!(lanes.axes[0].role, Role::Lanes);
        let sublanes = padding("bf16[64,1,256,128]{0,1,3,2:T(4,128)(2,1)}");
        // 64 in the lanes pads twofold, 1 in the sublanes fourfold.
        assert_eq!(sublanes.factor, 8.0);
        assert_eq!(
            (sublanes.axes[0].axis, sublanes.axes[0].role),
            (1, Role::Sublanes)
        );
    }

    #[test]
    fn the_cheapest_arrangement_is_found_and_priced() {
        let folded = padding("f32[16,64,32,4]{3,2,1,0:T(8,128)}")
            .rearranged()
            .expect("one");
        assert_eq!(
            folded.how,
            Arrangement::Fold {
                axis: 3,
                into: 2,
                dims: vec![16, 64, 128]
            }
        );
        assert_eq!(folded.bytes.0, 16 * 64 * 128 * 4);
        let moved = padding("f32[1024,3]{1,0:T(8,128)}")
            .rearranged()
            .expect("one");
        assert_eq!(moved.bytes.0, 1024 * 3 * 4);
        let one = padding("f32[1024,130]{1,0:T(8,128)}");
        assert_eq!(
            one.rearranged().map(|r| r.how),
            Some(Arrangement::Fold {
                axis: 1,
                into: 0,
                dims: vec![133_120]
            })
        );
    }

    #[test]
    fn shapes_are_found_in_labels() {
        let found = shapes_in(
            "%r.1 = bf16[512,16]{1,0:T(8,128)(2,1)} reshape(bf16[2048,4]{1,0} %p), x[3 é[",
        );
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].dims, [2048, 4]);
    }
}
