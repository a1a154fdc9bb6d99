//! What a fusion multiplies when only its operands and result are known.

use crate::program::matmul::{Basis, Matmul};
use crate::program::shape::{Array, Shape, product};

impl Matmul {
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
    use super::*;

    fn array(text: &str) -> Array {
        text.parse::<Shape>()
            .expect(text)
            .as_array()
            .expect("an array")
            .clone()
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
}
