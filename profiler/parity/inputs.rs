//! Inputs that are legal for a program, in several regimes, the same on every machine.

use serde::Serialize;

use crate::parity::float::FloatFormat;
use crate::parity::random::Random;
use crate::parity::signature::Signature;
use crate::parity::tensor::{Tensor, TensorType};
use crate::parity::uses::Uses;
use crate::program::dtype::DType;

/// What kind of numbers float arguments hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Regime {
    /// Normal, variance 1.
    Normal,
    /// Normal; arguments of rank 2 and more divided by the root of the dimension before their
    /// last, as initialised weights are.
    FanIn,
    /// Normal, 1024 times as large (16 times in f16 and narrower).
    ScaledUp,
    /// Normal, 1024 times as small (16 times in f16 and narrower).
    ScaledDown,
    /// One in a hundred ten times the usual, one in ten thousand a hundred times.
    HeavyTails,
    /// Zeros of both signs; masks all false.
    Zeros,
    /// Normal, seven of eight elements zero; masks mostly false.
    Sparse,
    /// About 1 with alternating signs in every other argument, so that sums along any dimension
    /// nearly cancel.
    Cancellation,
    /// Normal about 64, so that variances cancel.
    Offset,
}

impl Regime {
    /// All of them: each is used in every comparison.
    pub const ALL: [Self; 9] = [
        Self::Normal,
        Self::FanIn,
        Self::ScaledUp,
        Self::ScaledDown,
        Self::HeavyTails,
        Self::Zeros,
        Self::Sparse,
        Self::Cancellation,
        Self::Offset,
    ];

    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::FanIn => "fan-in",
            Self::ScaledUp => "scaled up",
            Self::ScaledDown => "scaled down",
            Self::HeavyTails => "heavy tails",
            Self::Zeros => "zeros",
            Self::Sparse => "sparse",
            Self::Cancellation => "cancellation",
            Self::Offset => "offset",
        }
    }
}

/// What an argument's values are, as a report shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "values", rename_all = "kebab-case")]
pub enum Range {
    /// Floats, as the regime says.
    Regime,
    /// `pred`, mixed.
    Mask,
    /// From 0 to below the size of what it selects from.
    Index {
        /// That size.
        below: u64,
    },
    /// From 0 to below the smallest dimension of all arguments, as nothing tells what it selects.
    Assumed {
        /// That dimension.
        below: u64,
    },
    /// All of the type: quantised numbers (8 bits and fewer), random keys (unsigned).
    Full,
}

/// How a program's inputs are made.
#[derive(Clone, Debug)]
pub struct Inputs {
    arguments: Vec<(TensorType, Range)>,
    seed: u64,
}

/// Integers that are hardly indices where nothing shows that they are.
fn has_no_range(dtype: DType) -> bool {
    dtype.is_integer() && (dtype.bits() <= 8 || matches!(dtype, DType::U32 | DType::U64))
}

/// Where nothing else limits an integer.
const DEFAULT_BELOW: u64 = 4;

impl Inputs {
    /// Inputs that are legal for both of two programs.
    #[must_use]
    pub fn of(signature: &Signature, uses: &[&Uses], seed: u64) -> Self {
        let sizes = signature.arguments.iter().flat_map(|ty| &ty.dims).copied();
        let smallest = sizes.filter(|&dim| dim > 1).min().unwrap_or(DEFAULT_BELOW);
        let range = |(index, ty): (usize, &TensorType)| {
            let known = uses.iter().filter_map(|uses| uses.below.get(&index)).min();
            let range = match known {
                _ if ty.dtype.is_float() => Range::Regime,
                _ if ty.dtype == DType::Pred => Range::Mask,
                Some(&below) => Range::Index { below },
                None if has_no_range(ty.dtype) => Range::Full,
                None => Range::Assumed { below: smallest },
            };
            (ty.clone(), range)
        };
        let arguments = signature.arguments.iter().enumerate().map(range).collect();
        Self { arguments, seed }
    }

    /// What the values of each argument are.
    pub fn ranges(&self) -> impl Iterator<Item = &Range> {
        self.arguments.iter().map(|(_, range)| range)
    }

    /// The arguments of one run. `set` tells several sets of a regime apart.
    #[must_use]
    pub fn make(&self, regime: Regime, set: u32) -> Vec<Tensor> {
        let mut floats = 0;
        let arguments = self.arguments.iter().enumerate();
        let make = |(index, (ty, range)): (usize, &(TensorType, Range))| {
            let name = [self.seed, regime as u64, u64::from(set), index as u64];
            let mut random = Random::named(&name);
            match range {
                Range::Regime => {
                    floats += 1;
                    make_floats(ty, regime, floats % 2 == 1, &mut random)
                }
                Range::Mask => make_mask(ty, regime, &mut random),
                Range::Full => {
                    let bits = (0..ty.elements()).map(|_| random.bits());
                    Tensor::of_bits(ty.clone(), bits)
                }
                Range::Index { below } | Range::Assumed { below } => {
                    // A narrow type may not reach the limit.
                    let signed_bits = ty.dtype.bits().min(63) - 1;
                    let below = (*below).min(1 << signed_bits);
                    let bits = (0..ty.elements()).map(|_| match regime {
                        Regime::Zeros => 0,
                        _ => random.below(below),
                    });
                    Tensor::of_bits(ty.clone(), bits)
                }
            }
        };
        arguments.map(make).collect()
    }
}

fn make_floats(ty: &TensorType, regime: Regime, odd: bool, random: &mut Random) -> Tensor {
    let narrow = FloatFormat::of(ty.dtype).is_some_and(|format| format.max() < 1e6);
    let scale = if narrow { 16.0 } else { 1024.0 };
    let rows = ty.dims.len().checked_sub(2).and_then(|at| ty.dims.get(at));
    let fan_in = rows.map_or(1.0, |&rows| 1.0 / (rows.max(1) as f64).sqrt());
    let value = |index: u64| match regime {
        Regime::Normal => random.normal(),
        Regime::FanIn => fan_in * random.normal(),
        Regime::ScaledUp => scale * random.normal(),
        Regime::ScaledDown => random.normal() / scale,
        Regime::HeavyTails => random.heavy(),
        Regime::Zeros => [0.0, -0.0][(random.bits() & 1) as usize],
        Regime::Sparse => match random.below(8) {
            0 => random.normal(),
            _ => 0.0,
        },
        Regime::Cancellation => {
            let value = 1.0 + random.normal() / 64.0;
            let parity = ty.position(index).iter().fold(0, |all, at| all ^ (at & 1));
            if odd && parity == 1 { -value } else { value }
        }
        Regime::Offset => 64.0 + random.normal(),
    };
    Tensor::of_values(ty.clone(), (0..ty.elements()).map(value))
}

/// Each row (of the last dimension) keeps one element, as a mask that hides everything has no
/// answer in most programs; zeros hide everything.
fn make_mask(ty: &TensorType, regime: Regime, random: &mut Random) -> Tensor {
    let row = ty.dims.last().copied().unwrap_or(1).max(1);
    let kept_of_eight = match regime {
        Regime::Zeros => 0,
        Regime::Sparse => 1,
        Regime::Normal | Regime::FanIn => 6,
        _ => 4,
    };
    let mut kept = 0;
    let bits = (0..ty.elements()).map(|index| {
        if index % row == 0 {
            kept = random.below(row);
        }
        let keep = random.below(8) < kept_of_eight;
        let is_kept = index % row == kept && row > 1 && kept_of_eight > 0;
        u64::from(keep || is_kept)
    });
    Tensor::of_bits(ty.clone(), bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn ty(dtype: DType, dims: &[u64]) -> TensorType {
        TensorType {
            dtype,
            dims: dims.to_vec(),
        }
    }

    fn inputs(arguments: Vec<TensorType>, below: &[(usize, u64)], seed: u64) -> Inputs {
        let signature = Signature {
            arguments,
            results: Vec::new(),
        };
        let uses = Uses {
            below: below.iter().copied().collect::<BTreeMap<_, _>>(),
            longest_sum: 1,
            coarsest: 0.0,
        };
        Inputs::of(&signature, &[&uses], seed)
    }

    #[test]
    fn regimes_are_what_they_say() {
        let inputs = inputs(
            vec![ty(DType::F32, &[64, 64]), ty(DType::Pred, &[16, 32])],
            &[],
            1,
        );
        let of = |regime| inputs.make(regime, 0).swap_remove(0).values();
        let spread = |values: &[f64]| {
            (values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64).sqrt()
        };
        assert!((spread(&of(Regime::Normal)) - 1.0).abs() < 0.1);
        assert!((spread(&of(Regime::FanIn)) - 0.125).abs() < 0.02);
        assert!((spread(&of(Regime::ScaledUp)) - 1024.0).abs() < 100.0);
        assert!(of(Regime::Zeros).iter().all(|v| *v == 0.0));
        assert!(of(Regime::Zeros).iter().any(|v| v.is_sign_negative()));
        let zeros = of(Regime::Sparse).iter().filter(|v| **v == 0.0).count();
        assert!((3300..3800).contains(&zeros), "{zeros} of 4096");
        let row: f64 = of(Regime::Cancellation).iter().take(64).sum();
        assert!(row.abs() < 1.0, "{row}");
        let masks = inputs.make(Regime::Sparse, 0).swap_remove(1).values();
        assert!(
            masks
                .chunks(32)
                .all(|row| row.contains(&1.0) && row.contains(&0.0))
        );
    }

    #[test]
    fn sets_and_seeds_differ_and_are_repeated() {
        let make =
            |seed, set| inputs(vec![ty(DType::Bf16, &[32])], &[], seed).make(Regime::Normal, set);
        assert_eq!(make(1, 0), make(1, 0));
        assert_ne!(make(1, 0), make(1, 1));
        assert_ne!(make(1, 0), make(2, 0));
    }

    proptest! {
        #[test]
        fn integers_are_legal(seed: u64, below in 1u64..2000, regime in 0usize..9) {
            let arguments = vec![ty(DType::S32, &[50]), ty(DType::S32, &[50]), ty(DType::U8, &[9]), ty(DType::F32, &[7, 80])];
            let inputs = inputs(arguments, &[(0, below), (2, below)], seed);
            let made = inputs.make(Regime::ALL[regime], 0);
            prop_assert!(made[0].values().iter().all(|v| (0.0..below as f64).contains(v)));
            prop_assert!(made[1].values().iter().all(|v| (0.0..7.0).contains(v)));
            prop_assert!(made[2].values().iter().all(|v| (0.0..below.min(128) as f64).contains(v)));
        }

        #[test]
        fn floats_are_finite_in_every_type(seed: u64, regime in 0usize..9) {
            for dtype in [DType::Bf16, DType::F16, DType::F32, DType::F64, DType::F8E4M3Fn, DType::F8E5M2, DType::F8E4M3Fnuz] {
                let made = inputs(vec![ty(dtype, &[5, 8])], &[], seed).make(Regime::ALL[regime], 0);
                prop_assert!(made[0].values().iter().all(|v| v.is_finite()), "{}", dtype);
                prop_assert_eq!(made[0].bytes.len() as u64, made[0].ty.bytes());
            }
        }
    }
}
