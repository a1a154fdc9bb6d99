//! Candidates that compute nothing: where one of them passes, so would any program.

use crate::parity::tensor::{Tensor, TensorType};

/// Null candidates for a result: zeros, a constant, and copies of the arguments that have as many
/// elements.
///
/// The constant is the mean of A's own result, the closest that there is; for a single number,
/// which would be A's result itself, it is what A gave on other inputs, `elsewhere`.
pub fn candidates<'a>(
    a: &'a Tensor,
    arguments: &'a [Tensor],
    elsewhere: Option<f64>,
) -> impl Iterator<Item = (String, Tensor)> + 'a {
    let constant = match a.ty.elements() {
        1 => elsewhere,
        _ => Some(mean(a)),
    };
    let constants = [("zeros", Some(0.0)), (A_CONSTANT, constant)];
    let constants = constants
        .into_iter()
        .filter_map(move |(name, value)| Some((name.to_owned(), filled(a, value?))));
    let same_size = |argument: &TensorType| argument.elements() == a.ty.elements();
    let copies = arguments
        .iter()
        .enumerate()
        .filter(move |(_, argument)| same_size(&argument.ty))
        .map(|(index, argument)| {
            let values = argument.values().into_iter();
            let copy = Tensor::of_values(a.ty.clone(), values);
            (format!("a copy of argument {index}"), copy)
        });
    constants.chain(copies)
}

/// The name of the constant candidate.
pub const A_CONSTANT: &str = "a constant";

/// An array like another with one value.
#[must_use]
pub fn filled(like: &Tensor, value: f64) -> Tensor {
    let values = (0..like.ty.elements()).map(|_| value);
    Tensor::of_values(like.ty.clone(), values)
}

/// The mean of the finite elements; 0 where there is none.
#[must_use]
pub fn mean(tensor: &Tensor) -> f64 {
    let mut sum = 0.0;
    let mut count = 0u64;
    for value in tensor
        .values()
        .into_iter()
        .filter(|value| value.is_finite())
    {
        sum += value;
        count += 1;
    }
    sum / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::dtype::DType;

    #[test]
    fn candidates_have_the_results_type() {
        let ty = |dtype, dims: &[u64]| TensorType {
            dtype,
            dims: dims.to_vec(),
        };
        let a = Tensor::of_values(ty(DType::Bf16, &[2, 2]), [1.0, 2.0, 3.0, 6.0].into_iter());
        let arguments = [
            Tensor::of_values(ty(DType::F32, &[4]), [5.0, 6.0, 7.0, 8.0].into_iter()),
            Tensor::of_values(ty(DType::F32, &[3]), [5.0, 6.0, 7.0].into_iter()),
        ];
        let found: Vec<_> = candidates(&a, &arguments, None)
            .map(|(name, tensor)| {
                assert_eq!(tensor.ty, a.ty);
                (name, tensor.values())
            })
            .collect();
        let expected = [
            ("zeros", vec![0.0; 4]),
            ("a constant", vec![3.0; 4]),
            ("a copy of argument 0", vec![5.0, 6.0, 7.0, 8.0]),
        ];
        assert_eq!(
            found,
            expected.map(|(name, values)| (name.to_owned(), values))
        );
    }
}
