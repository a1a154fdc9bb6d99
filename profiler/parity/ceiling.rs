//! How large an error may be. Nobody who calls can raise it.
//!
//! An error is counted in *units*: the result type's epsilon times the element's magnitude or the
//! array's median magnitude, whichever is larger, so that an element that happens to cancel is
//! measured on the scale of its neighbours. Rounding to the result type alone costs half a unit at
//! most. With `n` the length of the longest sum in the program, B may have
//!
//! | result | largest error | root mean square |
//! |---|---|---|
//! | f64, f32 | 4 + 2 sqrt(n) units | 1 + sqrt(n) / 4 units |
//! | bf16, f16 | 4 units | 1 unit |
//! | 8 bits | 1.5 units | 0.5 units |
//!
//! or, where A itself errs more, 8 times A's largest and 4 times A's root mean square in f32 and f64,
//! 4 times and twice in narrower types. In these A's error is mostly the rounding of the result,
//! which B shares; in f32 it is what the order of operations made of the inputs' conditioning, and
//! two orders that are equally good differ by such factors (softmax before or after a product whose
//! terms cancel: 4 in largest, 3 in root mean square). Sums of `n`
//! terms that are added in another order differ by a random walk of `sqrt(n)` roundings (Higham,
//! Accuracy and Stability of Numerical Algorithms, section 2.8); sums in bf16 and narrower are
//! accumulated in f32, on TPUs too, so they do not grow. One number says little of how far A usually
//! is off: results of fewer than 64 elements (a loss) may be off by half an epsilon of the coarsest
//! type (bf16 at most) that A computes with. Integers that follow from floats (an `argmax`) must be
//! A's, or be wrong no more often than twice as often as A's and two more, where A's own are not all
//! right. No error above a quarter of the magnitude
//! passes (one sixteenth in root mean square; both doubled for 8 bits), and where A itself is
//! beyond that, nothing is judged.

use serde::Serialize;

use crate::parity::float::FloatFormat;
use crate::program::dtype::DType;

/// The part of each ceiling that a caller allows: at most all of it.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(f64);

impl Share {
    /// All of it.
    pub const FULL: Self = Self(1.0);

    /// From 0 (nothing but equal bits) to 1; none beyond.
    #[must_use]
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }
}

/// Errors in units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Units {
    /// Of the element that errs most.
    pub max: f64,
    /// Root of the mean square over all elements.
    pub rms: f64,
}

/// What is known of a program and a caller's wish, for all of its results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Elements that the longest sum adds up.
    pub longest_sum: u64,
    /// The epsilon of the coarsest type that A computes with.
    pub coarsest: f64,
    /// The part of the ceilings that may be used.
    pub share: Share,
}

/// Results of fewer elements have no statistics.
const FEW_ELEMENTS: u64 = 64;

/// What B may have in a result of so many elements.
///
/// `own` is A's error against the oracle; zero where A is the reference itself.
#[must_use]
pub fn ceiling(dtype: DType, elements: u64, own: Units, terms: Terms) -> Units {
    let root = (terms.longest_sum.max(1) as f64).sqrt();
    let Share(share) = terms.share;
    let epsilon = FloatFormat::of(dtype).map_or(1.0, FloatFormat::epsilon);
    let few = if elements < FEW_ELEMENTS {
        terms.coarsest / 2.0 / epsilon
    } else {
        0.0
    };
    let (max, rms) = match dtype.bits() {
        ..=8 => (1.5, 0.5),
        9..=16 => (4.0, 1.0),
        _ => (4.0 + 2.0 * root, 1.0 + root / 4.0),
    };
    let factor = match dtype.bits() {
        ..=16 => Units { max: 4.0, rms: 2.0 },
        _ => Units { max: 8.0, rms: 4.0 },
    };
    let limit = limit(dtype);
    Units {
        max: share * max.max(factor.max * own.max).max(few).min(limit.max),
        rms: share * rms.max(factor.rms * own.rms).max(few).min(limit.rms),
    }
}

/// How many integers of a result may be wrong, where `own` of A's are.
#[must_use]
pub fn wrong_integers(elements: u64, own: u64, share: Share) -> u64 {
    let Share(share) = share;
    let allowed = match own {
        0 => 0,
        own => own.saturating_mul(2).saturating_add(2).min(elements / 4),
    };
    (share * allowed as f64) as u64
}

/// What no error may exceed, and what A may not exceed to be worth comparing with.
#[must_use]
pub fn limit(dtype: DType) -> Units {
    let epsilon = FloatFormat::of(dtype).map_or(1.0, FloatFormat::epsilon);
    let wider = if dtype.bits() <= 8 { 2.0 } else { 1.0 };
    Units {
        max: wider / 4.0 / epsilon,
        rms: wider / 16.0 / epsilon,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_caller_can_only_tighten() {
        assert_eq!(Share::new(1.0), Some(Share::FULL));
        for refused in [1.0001, -0.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Share::new(refused), None, "{refused}");
        }
    }

    proptest! {
        #[test]
        fn no_error_of_a_lifts_the_ceiling_above_the_limit(max in 0f64..1e30, rms in 0f64..1e30, longest_sum: u64, coarsest in 0f64..0.01, elements: u64, share in 0f64..=1.0) {
            for dtype in [DType::F8E4M3Fn, DType::F8E5M2, DType::Bf16, DType::F16, DType::F32, DType::F64] {
                let share = Share::new(share).expect("in range");
                let terms = Terms { longest_sum, coarsest, share };
                let ceiling = ceiling(dtype, elements, Units { max, rms }, terms);
                prop_assert!(ceiling.max <= limit(dtype).max && ceiling.rms <= limit(dtype).rms);
                prop_assert!(wrong_integers(elements, longest_sum, share) <= elements / 4);
            }
        }
    }

    #[test]
    fn zeros_never_fit_under_the_limit() {
        // A candidate that gives zeros errs by one over epsilon units wherever the result is
        // larger than the median, that is at half of all elements.
        for dtype in [
            DType::F8E4M3Fn,
            DType::F8E5M2,
            DType::F8E3M4,
            DType::Bf16,
            DType::F16,
            DType::F32,
            DType::F64,
        ] {
            let epsilon = FloatFormat::of(dtype).expect("a float").epsilon();
            assert!(limit(dtype).max < 1.0 / epsilon, "{dtype}");
            assert!(limit(dtype).rms < 0.5f64.sqrt() / epsilon, "{dtype}");
        }
    }
}
