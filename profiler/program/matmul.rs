//! Matrix multiplications: their dimensions, and how well they can fill a systolic array.
//!
//! TPU programs write them as `convolution`; a batch or a second column dimension may hide in
//! a window (`window={size=16 stride=15 lhs_dilate=16}` is a batch of 16).

use crate::program::dtype::DType;
use crate::program::instruction::Attributes;
use crate::program::shape::{Array, round_up};
use crate::program::window::{Spatial, spatial_dims};

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

    pub(super) fn dense(
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
    pub(super) fn same_work(&self, other: &Self) -> bool {
        let sides = |x: &Self| {
            let mut sides = [(x.m, x.lhs), (x.n, x.rhs)];
            sides.sort_unstable();
            (x.batch, x.k, sides)
        };
        sides(self) == sides(other)
    }
}

/// The size of a dimension given by its number.
pub(super) fn at(dims: &[u64], dim: i64) -> Option<u64> {
    dims.get(usize::try_from(dim).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::hlo_text::parse_instruction;
    use crate::program::shape::Shape;

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
}
