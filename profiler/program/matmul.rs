//! Matrix multiplications: their dimensions, and how well they can fill a systolic array.
//!
//! TPU programs write them as `convolution`; a batch or a second column dimension may hide in
//! a window (`window={size=16 stride=15 lhs_dilate=16}` is a batch of 16).

use crate::program::dtype::DType;
use crate::program::instruction::{Attributes, ConvDims, WindowDim};
use crate::program::shape::{Array, Shape, product, round_up};

/// How a figure was come by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Basis {
    /// From the instruction's own dimension numbers.
    #[default]
    Exact,
    /// Derived: the body is not known, but its operands and result fit one reading only.
    Shapes,
    /// What it is at most, as for attention without a mask.
    UpperBound,
}

/// A multiplication `[batch, m, k] x [batch, k, n]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matmul {
    /// Independent products.
    pub batch: u64,
    /// Rows of the left side (of a convolution: batch and output positions).
    pub m: u64,
    /// Columns of the right side (of a convolution: output features).
    pub n: u64,
    /// The contracted dimension (of a convolution: input features and window).
    pub k: u64,
    /// Element type of the left side.
    pub lhs: DType,
    /// Element type of the right side.
    pub rhs: DType,
    /// Element type of the result.
    pub out: DType,
    /// Multiplications and additions done, each counted as one. Less than `2*batch*m*n*k` where
    /// a window reaches into padding.
    pub flops: f64,
    /// How it was found.
    pub basis: Basis,
}

/// Rows are padded to this: the sublanes of a vector register.
const SUBLANES: u64 = 8;

impl Matmul {
    /// The share of a systolic array's work that is useful at most, for an array of `side` by
    /// `side`: one operand is held in it, padded to full arrays in `k` and one more dimension;
    /// the other streams through in rows, padded to sublanes. Of the two choices the better.
    ///
    /// ```
    /// use profiler::program::{dtype::DType, matmul::{Basis, Matmul}};
    /// let (bf16, f32) = (DType::Bf16, DType::F32);
    /// let (batch, m, n, k, flops) = (1, 4096, 64, 256, 2.0 * 4096.0 * 64.0 * 256.0);
    /// let matmul = Matmul { batch, m, n, k, lhs: bf16, rhs: bf16, out: f32, flops, basis: Basis::Exact };
    /// // 64 columns could stream as rows past the other side: nothing is lost.
    /// assert_eq!(matmul.mxu_utilization_bound(128), 1.0);
    /// // With k = 64 half of a 128-wide array holds nothing whichever side it holds.
    /// assert_eq!(Matmul { k: 64, flops: flops / 4.0, ..matmul }.mxu_utilization_bound(128), 0.5);
    /// ```
    #[must_use]
    pub fn mxu_utilization_bound(&self, side: u32) -> f64 {
        let side = u64::from(side.max(1));
        let work = |rows: u64, columns: u64| {
            round_up(rows, SUBLANES) as f64
                * round_up(columns, side) as f64
                * round_up(self.k, side) as f64
        };
        let least = work(self.m, self.n).min(work(self.n, self.m)) * self.batch as f64;
        if least <= 0.0 {
            return 0.0;
        }
        (self.flops / 2.0 / least).min(1.0)
    }

    /// The dimensions and work of a `dot`.
    #[must_use]
    pub fn of_dot(attributes: &Attributes, lhs: &Array, rhs: &Array, out: &Array) -> Option<Self> {
        let dims = attributes.dot.as_deref()?;
        let size = |array: &Array, dims: &[i64]| -> Option<u64> {
            dims.iter().try_fold(1u64, |size, &dim| {
                Some(size.saturating_mul(at(&array.dims, dim)?))
            })
        };
        let batch = size(lhs, &dims.lhs_batch)?;
        let k = size(lhs, &dims.lhs_contracting)?;
        let inner = batch.saturating_mul(k);
        let m = lhs.elements().checked_div(inner).unwrap_or(0);
        let n = rhs.elements().checked_div(inner).unwrap_or(0);
        Some(Self::dense([batch, m, n, k], lhs, rhs, out, Basis::Exact))
    }

    /// The dimensions and work of a `convolution`.
    #[must_use]
    pub fn of_convolution(
        attributes: &Attributes,
        lhs: &Array,
        rhs: &Array,
        out: &Array,
    ) -> Option<Self> {
        let dims = attributes.convolution.as_deref()?;
        let feature_groups = attributes.feature_group_count.max(1);
        let batch_groups = attributes.batch_group_count.max(1);
        let columns = at(&rhs.dims, dims.kernel_output_feature)?;
        let groups = feature_groups.saturating_mul(batch_groups);
        let mut matmul = Self {
            batch: groups,
            m: at(&lhs.dims, dims.input_batch)? / batch_groups,
            n: columns / groups,
            k: at(&rhs.dims, dims.kernel_input_feature)?,
            lhs: lhs.dtype,
            rhs: rhs.dtype,
            out: out.dtype,
            flops: 0.0,
            basis: Basis::Exact,
        };
        let mut valid = 1.0;
        for spatial in spatial_dims(dims, &attributes.window, lhs, rhs, out) {
            let Spatial {
                input,
                window,
                output,
                ..
            } = spatial;
            let pairs = spatial.valid_pairs();
            valid *= pairs as f64;
            let (batch, m, n, k) = if window == output && pairs == output && input == 1 {
                (1, 1, output, 1)
            } else if window == output && pairs == output && input == output {
                (output, 1, 1, 1)
            } else {
                (1, output, 1, window)
            };
            matmul.batch = matmul.batch.saturating_mul(batch);
            matmul.m = matmul.m.saturating_mul(m);
            matmul.n = matmul.n.saturating_mul(n);
            matmul.k = matmul.k.saturating_mul(k);
        }
        let kernel_features = at(&rhs.dims, dims.kernel_input_feature)? as f64;
        let rows = (at(&lhs.dims, dims.input_batch)? / batch_groups) as f64;
        matmul.flops = 2.0 * kernel_features * columns as f64 * rows * valid;
        Some(matmul)
    }

    /// A grouped product `[m,k] x [groups,k,n]` in which each row meets one group's matrix.
    #[must_use]
    pub fn of_grouped(lhs: &Array, rhs: &Array, out: &Array) -> Option<Self> {
        let ([m, k], [_, a, b], [rows, n]) = (&lhs.dims[..], &rhs.dims[..], &out.dims[..]) else {
            return None;
        };
        let fits = m == rows && ((a, b) == (k, n) || (a, b) == (n, k));
        fits.then(|| Self::dense([1, *m, *n, *k], lhs, rhs, out, Basis::Exact))
    }

    /// What a fusion with an unknown body most likely multiplies: two operands of at least two
    /// dimensions whose sizes, with the result's, fit one product only. None where there are
    /// several readings or none.
    #[must_use]
    pub fn of_shapes(result: &Shape, operands: &[&Array]) -> Option<Self> {
        let mut results = result.arrays();
        results.retain(|array| is_matrix(array));
        results.truncate(MAX_OPERANDS);
        let mut operands = operands.to_vec();
        operands.retain(|array| is_matrix(array));
        operands.truncate(MAX_OPERANDS);
        for fit in [whole_operands, batched_operands, sliced_operand] {
            let mut found: Option<Self> = None;
            for out in &results {
                for (i, a) in operands.iter().enumerate() {
                    for b in operands.iter().skip(i + 1) {
                        let Some(matmul) = fit(a, b, out) else {
                            continue;
                        };
                        match &found {
                            Some(known) if !known.same_work(&matmul) => return None,
                            _ => found = Some(matmul),
                        }
                    }
                }
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn dense(
        [batch, m, n, k]: [u64; 4],
        lhs: &Array,
        rhs: &Array,
        out: &Array,
        basis: Basis,
    ) -> Self {
        let flops = 2.0 * batch as f64 * m as f64 * n as f64 * k as f64;
        let (lhs, rhs, out) = (lhs.dtype, rhs.dtype, out.dtype);
        Self {
            batch,
            m,
            n,
            k,
            lhs,
            rhs,
            out,
            flops,
            basis,
        }
    }

    /// Whether two readings come to the same product, seen from either side.
    fn same_work(&self, other: &Self) -> bool {
        let sides = |x: &Self| {
            let mut sides = [(x.m, x.lhs), (x.n, x.rhs)];
            sides.sort_unstable();
            (x.batch, x.k, sides)
        };
        sides(self) == sides(other)
    }
}

fn at(dims: &[u64], dim: i64) -> Option<u64> {
    dims.get(usize::try_from(dim).ok()?).copied()
}

/// One spatial dimension of a convolution.
#[derive(Clone, Copy)]
struct Spatial {
    input: u64,
    window: u64,
    output: u64,
    how: WindowDim,
}

fn spatial_dims(
    dims: &ConvDims,
    window: &[WindowDim],
    lhs: &Array,
    rhs: &Array,
    out: &Array,
) -> Vec<Spatial> {
    let positions = dims
        .input_spatial
        .iter()
        .zip(&dims.kernel_spatial)
        .zip(&dims.output_spatial);
    positions
        .enumerate()
        .filter_map(|(i, ((&input, &kernel), &output))| {
            Some(Spatial {
                input: at(&lhs.dims, input)?,
                window: at(&rhs.dims, kernel)?,
                output: at(&out.dims, output)?,
                how: window.get(i).copied().unwrap_or_default(),
            })
        })
        .collect()
}

impl Spatial {
    /// Pairs of an output position and a window position that meet an input element rather than
    /// padding or a hole of dilation.
    fn valid_pairs(self) -> u64 {
        /// Longer windows are not walked: what reaches into padding is then a small part.
        const MAX_WINDOW: u64 = 1 << 20;
        if self.window > MAX_WINDOW {
            return self.window.saturating_mul(self.output);
        }
        (0..self.window).fold(0, |pairs, window| {
            pairs.saturating_add(self.outputs_at(window))
        })
    }

    /// Output positions at which that window position meets an input element.
    fn outputs_at(self, window: u64) -> u64 {
        let WindowDim {
            stride,
            pad_low,
            base_dilation,
            window_dilation,
            ..
        } = self.how;
        if self.input == 0 {
            return 0;
        }
        // No real size comes near this; below it no product overflows.
        let sane = |size: u64| i128::from(size.min(1 << 40));
        let (stride, holes) = (sane(stride.max(1)), sane(base_dilation.max(1)));
        let end = sane(self.input - 1) * holes;
        let pad_low = i128::from(pad_low.clamp(-(1 << 40), 1 << 40));
        let first = sane(window) * sane(window_dilation) - pad_low;
        // Output o looks at position first + stride * o: it must lie in 0..=end, so o in from..to.
        let from = if first >= 0 {
            0
        } else {
            (-first + stride - 1) / stride
        };
        let to = if first > end {
            0
        } else {
            (end - first) / stride + 1
        };
        let to = to.min(i128::from(self.output));
        // And on an element: stride * o = -first modulo the holes.
        let divisor = gcd(stride, holes);
        if first % divisor != 0 || from >= to {
            return 0;
        }
        let period = holes / divisor;
        let inverse = inverse(stride / divisor % period, period);
        let start = ((-first / divisor) % period * inverse).rem_euclid(period);
        let next = from + (start - from).rem_euclid(period);
        if next >= to {
            return 0;
        }
        u64::try_from((to - 1 - next) / period + 1).unwrap_or(u64::MAX)
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The inverse of `a` modulo `modulus`, to which it is coprime; 0 where the modulus is 1.
fn inverse(a: i128, modulus: i128) -> i128 {
    let (mut old, mut new) = ((a, 1i128), (modulus, 0i128));
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    old.1.rem_euclid(modulus)
}

/// Dimensions larger than 1.
fn real_dims(array: &Array) -> Vec<u64> {
    array.dims.iter().copied().filter(|&dim| dim > 1).collect()
}

/// Arrays of more dimensions are not tried, nor more operands of one fusion.
const MAX_RANK: usize = 6;
const MAX_OPERANDS: usize = 24;

/// Whether a matmul could read it: at least two real dimensions and few enough to try them all.
fn is_matrix(array: &Array) -> bool {
    let rank = array.dims.iter().filter(|&&dim| dim > 1).count();
    // Wide integers are indices, and the MXU takes no 64-bit type.
    let multiplies = (array.dtype.is_float() && array.dtype.bits() <= 32)
        || (array.dtype.is_integer() && array.dtype.bits() <= 8);
    (2..=MAX_RANK).contains(&rank) && multiplies
}

fn exact_sqrt(square: u128) -> Option<u64> {
    let root = square.isqrt();
    (root * root == square)
        .then(|| u64::try_from(root).ok())
        .flatten()
}

/// Whether some of the dimensions multiply to `size`.
fn has_factor(dims: &[u64], size: u64) -> bool {
    (0u32..1 << dims.len().min(MAX_RANK)).any(|chosen| subset(dims, chosen) == size)
}

/// The product of the dimensions whose bits are set.
fn subset(dims: &[u64], chosen: u32) -> u64 {
    let picked: Vec<u64> = dims
        .iter()
        .enumerate()
        .filter(|&(i, _)| chosen >> i & 1 == 1)
        .map(|(_, &d)| d)
        .collect();
    product(&picked)
}

/// `a` is all of `[m,k]`, `b` all of `[n,k]` and the result `[m,n]`, in any order.
fn whole_operands(a: &Array, b: &Array, out: &Array) -> Option<Matmul> {
    fit(a, b, out, 1)
}

/// As above, with further dimensions that all three share.
fn batched_operands(a: &Array, b: &Array, out: &Array) -> Option<Matmul> {
    let dims = real_dims(out);
    if !is_matrix(out) {
        return None;
    }
    let mut found: Option<Matmul> = None;
    for chosen in 1u32..1 << dims.len() {
        let batch = subset(&dims, chosen);
        match (fit(a, b, out, batch), &found) {
            (Some(matmul), Some(known)) if !known.same_work(&matmul) => return None,
            (Some(matmul), _) => found = Some(matmul),
            (None, _) => {}
        }
    }
    found
}

fn fit(a: &Array, b: &Array, out: &Array, batch: u64) -> Option<Matmul> {
    if ![a, b, out].into_iter().all(is_matrix) {
        return None;
    }
    let [size_a, size_b, size_out] = [a, b, out].map(Array::elements);
    if [size_a, size_b, size_out]
        .iter()
        .any(|&size| size == 0 || size % batch != 0)
    {
        return None;
    }
    // |a| |b| / |out| = batch k^2
    let square = u128::from(size_a).checked_mul(u128::from(size_b / batch))?;
    if square % u128::from(size_out) != 0 {
        return None;
    }
    let k = exact_sqrt(square / u128::from(size_out))?;
    let inner = batch.checked_mul(k).filter(|&inner| inner > 0)?;
    if k < 2 || size_a % inner != 0 || size_b % inner != 0 {
        return None;
    }
    let (m, n) = (size_a / inner, size_b / inner);
    let [dims_a, dims_b, dims_out] = [a, b, out].map(real_dims);
    let fits = m > 1
        && n > 1
        && has_factor(&dims_a, k)
        && has_factor(&dims_a, m)
        && has_factor(&dims_b, k)
        && has_factor(&dims_b, n)
        && has_factor(&dims_out, m)
        && has_factor(&dims_out, n)
        && [&dims_a, &dims_b, &dims_out]
            .iter()
            .all(|dims| has_factor(dims, batch));
    fits.then(|| Matmul::dense([batch, m, n, k], a, b, out, Basis::Shapes))
}

/// One side is a plain matrix `[n,k]`; of the other only a part of its columns is used at a time,
/// as when `silu(gate) * up` is computed from one array `[m, 2k]` on the way in.
fn sliced_operand(a: &Array, b: &Array, out: &Array) -> Option<Matmul> {
    let one_way = |rows: &Array, matrix: &Array| {
        if ![rows, matrix, out].into_iter().all(is_matrix) {
            return None;
        }
        let [x, y] = real_dims(matrix).try_into().ok()?;
        let fits: Vec<_> = [(x, y), (y, x)]
            .into_iter()
            .filter_map(|(n, k)| {
                let m = out.elements() / n;
                let [size, used] = [rows.elements(), m.checked_mul(k)?];
                let fits = out.elements().is_multiple_of(n)
                    && m > 1
                    && (2..=4).any(|parts| used.checked_mul(parts) == Some(size))
                    && has_factor(&real_dims(out), n)
                    && has_factor(&real_dims(rows), m);
                fits.then(|| Matmul::dense([1, m, n, k], rows, matrix, out, Basis::Shapes))
            })
            .collect();
        match fits.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    };
    match (one_way(a, b), one_way(b, a)) {
        (Some(found), None) | (None, Some(found)) => Some(found),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::program::hlo_text::parse_instruction;

    fn array(text: &str) -> Array {
        text.parse::<Shape>()
            .expect(text)
            .as_array()
            .expect("an array")
            .clone()
    }

    fn matmul(text: &str) -> Matmul {
        let op = parse_instruction(text).expect(text);
        let side = |i: usize| {
            op.operands[i]
                .shape
                .as_ref()
                .and_then(Shape::as_array)
                .expect("a type")
        };
        let out = op.shape.as_array().expect("an array");
        let found = match op.opcode.as_str() {
            "dot" => Matmul::of_dot(&op.attributes, side(0), side(1), out),
            _ => Matmul::of_convolution(&op.attributes, side(0), side(1), out),
        };
        found.expect("a matmul")
    }

    #[test]
    fn a_dot_gives_its_own_dimensions() {
        let found = matmul(
            "%d = f32[4,16,32]{2,1,0} dot(bf16[4,16,64]{2,1,0} %a, bf16[4,32,64]{2,1,0} %b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}",
        );
        assert_eq!((found.batch, found.m, found.n, found.k), (4, 16, 32, 64));
        assert_eq!(found.flops, 2.0 * 4.0 * 16.0 * 32.0 * 64.0);
        assert_eq!((found.lhs, found.out), (DType::Bf16, DType::F32));
    }

    #[test]
    fn a_convolution_without_window_is_a_plain_product() {
        let found = matmul(
            "%c = bf16[1024,512]{1,0} convolution(bf16[1024,256]{1,0} %a, bf16[512,256]{1,0} %b), dim_labels=bf_oi->bf",
        );
        assert_eq!(
            (found.batch, found.m, found.n, found.k),
            (1, 1024, 512, 256)
        );
    }

    #[test]
    fn a_dilated_window_is_a_batch() {
        for window in [
            "size=16 stride=15 lhs_dilate=16",
            "size=16 stride=16 pad=15_15 lhs_dilate=15 rhs_reversal=1",
        ] {
            let found = matmul(&format!(
                "%c = bf16[16,64,32]{{2,1,0}} convolution(bf16[16,64,128]{{2,1,0}} %a, bf16[16,128,32]{{2,1,0}} %b), window={{{window}}}, dim_labels=0bf_0io->0bf"
            ));
            assert_eq!(
                (found.batch, found.m, found.n, found.k),
                (16, 64, 32, 128),
                "{window}"
            );
            assert_eq!(found.flops, 2.0 * 16.0 * 64.0 * 32.0 * 128.0);
        }
    }

    #[test]
    fn a_padded_window_over_one_element_is_more_columns() {
        let found = matmul(
            "%c = bf16[2,2048,24,128]{3,2,1,0} convolution(bf16[2,2048,1024,1]{3,2,1,0} %a, bf16[24,128,1024,1]{3,2,1,0} %b), window={size=1x24 pad=0_0x23_23 rhs_reversal=0x1}, dim_labels=0bf1_1oi0->0b1f",
        );
        assert_eq!(
            (found.batch, found.m, found.n, found.k),
            (1, 4096, 3072, 1024)
        );
        assert_eq!(found.flops, 2.0 * 4096.0 * 3072.0 * 1024.0);
    }

    #[test]
    fn a_window_that_reaches_into_padding_does_less() {
        let found = matmul(
            "%c = f32[1,4,4,8]{3,2,1,0} convolution(f32[1,4,4,3]{3,2,1,0} %a, f32[3,3,3,8]{3,2,1,0} %b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
        );
        assert_eq!((found.m, found.n, found.k), (16, 8, 27));
        // Each side: 2 edge positions see 2 elements, 2 inner ones 3.
        assert_eq!(found.flops, 2.0 * 3.0 * 8.0 * (10.0 * 10.0));
        let depthwise = matmul(
            "%c = f32[2,8,8,32]{3,2,1,0} convolution(f32[2,8,8,32]{3,2,1,0} %a, f32[1,1,1,32]{3,2,1,0} %b), window={size=1x1}, dim_labels=b01f_01io->b01f, feature_group_count=32",
        );
        assert_eq!(
            (depthwise.batch, depthwise.m, depthwise.n, depthwise.k),
            (32, 128, 1, 1)
        );
    }

    fn guess(result: &str, operands: &[&str]) -> Option<[u64; 4]> {
        let operands: Vec<_> = operands.iter().map(|text| array(text)).collect();
        let found = Matmul::of_shapes(
            &result.parse().expect(result),
            &operands.iter().collect::<Vec<_>>(),
        )?;
        assert_eq!(found.basis, Basis::Shapes);
        let (low, high) = (found.m.min(found.n), found.m.max(found.n));
        Some([found.batch, low, high, found.k])
    }

    #[test]
    fn the_shapes_of_a_fusion_tell_its_product() {
        let scale = ["f32[1024]", "bf16[5120]"];
        // Two equal candidates for one side come to the same product.
        assert_eq!(
            guess(
                "bf16[1024,1,27648]",
                &[
                    "bf16[27648,5120]",
                    "bf16[1024,5120]",
                    scale[0],
                    scale[1],
                    "bf16[1024,5120]"
                ]
            ),
            Some([1, 1024, 27648, 5120])
        );
        // The residual has the result's dimensions.
        assert_eq!(
            guess(
                "bf16[1024,5120]",
                &["bf16[1024,2560]", "bf16[5120,2560]", "bf16[1024,5120]"]
            ),
            Some([1, 1024, 5120, 2560])
        );
        // gate and up lie side by side in one operand.
        assert_eq!(
            guess(
                "bf16[1024,5120]",
                &["bf16[5120,13824]", "bf16[1024,1,27648]"]
            ),
            Some([1, 1024, 5120, 13824])
        );
        assert_eq!(
            guess(
                "f32[16,2048,2000]",
                &["bf16[16,2048,128]", "bf16[16,2000,128]"]
            ),
            Some([16, 2000, 2048, 128])
        );
        assert_eq!(
            guess(
                "(bf16[64,256], f32[64])",
                &["bf16[64,100]", "bf16[100,256]"]
            ),
            Some([1, 64, 256, 100])
        );
    }

    #[test]
    fn shapes_that_tell_nothing_give_nothing() {
        assert_eq!(guess("f32[1024]", &["f32[1024]", "f32[1024]"]), None);
        assert_eq!(
            guess(
                "bf16[64,64]",
                &["bf16[64,32]", "bf16[64,32]", "bf16[64,16]", "bf16[64,16]"]
            ),
            None
        );
        assert_eq!(
            guess("bf16[1024,128]", &["bf16[32768,128]", "s32[1024]"]),
            None
        );
    }

    #[test]
    fn utilization_is_what_padding_leaves() {
        let flops = |m: u64, n: u64, k: u64| 2.0 * (m * n * k) as f64;
        let base = matmul(
            "%c = bf16[1024,512]{1,0} convolution(bf16[1024,256]{1,0} %a, bf16[512,256]{1,0} %b), dim_labels=bf_oi->bf",
        );
        assert_eq!(base.mxu_utilization_bound(256), 1.0);
        let odd = Matmul {
            m: 4,
            n: 300,
            k: 300,
            flops: flops(4, 300, 300),
            ..base
        };
        // Held: 300 by 300 in 512 by 512; or 4 by 300 in 256 by 512 with 304 rows.
        assert_eq!(
            odd.mxu_utilization_bound(256),
            4.0 * 300.0 * 300.0 / (8.0 * 512.0 * 512.0)
        );
        assert_eq!(Matmul { batch: 0, ..base }.mxu_utilization_bound(256), 0.0);
    }
    /// Every pair, one by one.
    fn counted(spatial: Spatial) -> u64 {
        let how = spatial.how;
        let mut pairs = 0;
        for output in 0..spatial.output {
            for window in 0..spatial.window {
                let at = i128::from(output * how.stride) + i128::from(window * how.window_dilation)
                    - i128::from(how.pad_low);
                let holes = i128::from(how.base_dilation);
                let inside = at >= 0 && at % holes == 0 && at / holes < i128::from(spatial.input);
                pairs += u64::from(inside);
            }
        }
        pairs
    }

    proptest! {
        #[test]
        fn window_pairs_are_counted_without_walking_the_output(
            (input, window, output) in (0u64..20, 0u64..12, 0u64..20),
            (stride, base_dilation, window_dilation) in (1u64..8, 1u64..8, 0u64..4),
            pad_low in -6i64..12,
        ) {
            let how = WindowDim { stride, pad_low, base_dilation, window_dilation, ..WindowDim::default() };
            let spatial = Spatial { input, window, output, how };
            prop_assert_eq!(spatial.valid_pairs(), counted(spatial));
        }

        #[test]
        fn no_size_panics(
            (input, window, output) in (any::<u64>(), 0u64..3, any::<u64>()),
            (stride, base_dilation, window_dilation) in (any::<u64>(), any::<u64>(), any::<u64>()),
            pad_low in any::<i64>(),
        ) {
            let how = WindowDim { stride, pad_low, base_dilation, window_dilation, ..WindowDim::default() };
            let _ = Spatial { input, window, output, how }.valid_pairs();
        }
    }
}
