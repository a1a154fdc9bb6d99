//! What a program takes and gives.

use std::fmt;

use crate::parity::mlir;
use crate::parity::tensor::TensorType;
use crate::program::dtype::DType;

/// Types of the arguments and results of a program's `@main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What it takes.
    pub arguments: Vec<TensorType>,
    /// What it gives.
    pub results: Vec<TensorType>,
}

/// Why a program cannot be run on inputs of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// It has no entry.
    #[error(
        "it has no function @main: give a whole StableHLO module, as jax.jit(f).lower(…).as_text() prints it"
    )]
    NoMain,
    /// A type is none that can be made or compared.
    #[error(
        "{what} {index} of @main is {ty}: only arrays of static shape with integer, pred or real elements can be compared"
    )]
    Type {
        /// `argument` or `result`.
        what: &'static str,
        /// Which, from 0.
        index: usize,
        /// As written.
        ty: String,
    },
}

impl Signature {
    /// Reads it from StableHLO text.
    ///
    /// # Errors
    /// When there is no `@main`, or it has a type that cannot be compared.
    pub fn of_text(text: &str) -> Result<Self, SignatureError> {
        let functions = mlir::functions(text);
        let main = functions
            .iter()
            .find(|function| function.name == "main")
            .ok_or(SignatureError::NoMain)?;
        let arguments = main.arguments.iter().enumerate();
        let results = main.results.iter().enumerate();
        Ok(Self {
            arguments: arguments
                .map(|(index, (_, ty))| read("argument", index, ty))
                .collect::<Result<_, _>>()?,
            results: results
                .map(|(index, ty)| read("result", index, ty))
                .collect::<Result<_, _>>()?,
        })
    }

    /// How another differs, in sentences; empty where it is the same.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = lists("argument", &self.arguments, &other.arguments);
        found.extend(lists("result", &self.results, &other.results));
        found
    }
}

fn lists(what: &str, a: &[TensorType], b: &[TensorType]) -> Vec<String> {
    if a.len() != b.len() {
        return vec![format!("A has {} {what}s, B has {}", a.len(), b.len())];
    }
    let pairs = a.iter().zip(b).enumerate();
    pairs
        .filter(|(_, (a, b))| a != b)
        .map(|(index, (a, b))| format!("{what} {index} is {a} in A and {b} in B"))
        .collect()
}

fn read(what: &'static str, index: usize, text: &str) -> Result<TensorType, SignatureError> {
    let unfit = || SignatureError::Type {
        what,
        index,
        ty: text.chars().take(80).collect(),
    };
    if !text.starts_with("tensor<") {
        return Err(unfit());
    }
    let ty = mlir::tensors(text).into_iter().next().flatten();
    ty.filter(|ty| is_comparable(ty.dtype)).ok_or_else(unfit)
}

/// Types of a whole number of bytes that hold one number.
fn is_comparable(dtype: DType) -> bool {
    let other = [DType::C64, DType::C128, DType::F8E8M0Fnu];
    dtype.bits() >= 8 && !other.contains(&dtype)
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |types: &[TensorType]| {
            let shown: Vec<String> = types.iter().map(TensorType::to_string).collect();
            shown.join(", ")
        };
        write!(
            f,
            "({}) -> ({})",
            list(&self.arguments),
            list(&self.results)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read_and_told_apart() {
        let a = "module {\n func.func public @main(%a: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<i32>) -> (tensor<2xf32> {jax.result_info = \"\"}) {\n";
        let b = "func.func @main(%a: tensor<2x3xbf16>, %b: tensor<i32>) -> tensor<2xf32> {\n";
        let c = "func.func @main(%a: tensor<2x3xf32>) -> tensor<2xf32> {\n";
        let [a, b, c] = [a, b, c].map(|text| Signature::of_text(text).expect("whole"));
        assert_eq!(a.to_string(), "(f32[2,3], s32[]) -> (f32[2])");
        assert!(a.differences(&a).is_empty());
        assert_eq!(
            a.differences(&b),
            ["argument 0 is f32[2,3] in A and bf16[2,3] in B"]
        );
        assert_eq!(a.differences(&c), ["A has 2 arguments, B has 1"]);
    }

    #[test]
    fn what_cannot_be_compared_is_named() {
        for (ty, shown) in [
            ("tensor<?x3xf32>", "argument 0"),
            ("!stablehlo.token", "token"),
            ("tensor<2xcomplex<f32>>", "complex"),
            ("tensor<2xi4>", "xi4"),
        ] {
            let text = format!("func.func @main(%a: {ty}) -> tensor<f32> {{");
            let error = Signature::of_text(&text).expect_err(ty).to_string();
            assert!(error.contains(shown), "{error}");
        }
        assert_eq!(Signature::of_text("module {}"), Err(SignatureError::NoMain));
    }
}
