//! One result of B beside the same result of A and of the oracle.

use serde::Serialize;

use crate::parity::ceiling::{Terms, Units, ceiling, limit, wrong_integers};
use crate::parity::float::FloatFormat;
use crate::parity::tensor::Tensor;

/// What is said of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// All bits are equal (those of NaNs aside).
    BitExact,
    /// Below the ceilings.
    Within,
    /// Nothing can be said: A itself is too far from the oracle.
    Unjudged,
    /// Above a ceiling.
    Beyond,
}

/// Errors of an array against the oracle, over the elements where both are finite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// In units; see [`crate::parity::ceiling`].
    pub units: Units,
    /// Largest absolute error.
    pub max_abs: f64,
    /// Mean absolute error.
    pub mean_abs: f64,
    /// Largest error relative to the element.
    pub max_rel: f64,
    /// Mean error relative to the element, elements that should be zero left out.
    pub mean_rel: f64,
}

/// Elements at a distance from A, in steps of the result's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// ULPs, at least.
    pub from: u64,
    /// ULPs, at most.
    pub to: u64,
    /// Elements.
    pub elements: u64,
}

/// The element that errs most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worst {
    /// Where it is.
    pub position: Vec<u64>,
    /// The oracle's value.
    pub oracle: f64,
    /// A's.
    pub a: f64,
    /// B's.
    pub b: f64,
}

/// B judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The outcome.
    pub outcome: Outcome,
    /// Why it is beyond or unjudged, in sentences.
    pub reasons: Vec<String>,
    /// Elements whose bits differ from A's, zeros of other sign included.
    pub differing: u64,
    /// ULPs between A and B where both are numbers: the largest; none for integers.
    pub max_ulps: Option<u64>,
    /// Elements by ULPs; empty for integers.
    pub ulps: Vec<Bucket>,
    /// Elements where B is NaN or infinite and should not be, or the other way round.
    pub not_finite: u64,
    /// Elements where B is finite and right and A is not finite.
    pub recovered: u64,
    /// A's errors; none for integers.
    pub a: Option<Errors>,
    /// B's errors; none for integers.
    pub b: Option<Errors>,
    /// What B may have; none for integers.
    pub ceiling: Option<Units>,
    /// The element of B that errs most; none where nothing differs from the oracle.
    pub worst: Option<Worst>,
}

/// What B is measured against: made once for a result, used for B and for the null candidates.
pub struct Reference<'a> {
    a: &'a Tensor,
    against: Against,
}

enum Against {
    Floats(Floats),
    Integers {
        /// The oracle's, where it has other ones than A.
        oracle: Option<Tensor>,
        /// How many may be wrong.
        allowed: u64,
        /// Whether too many of A's own are.
        is_lost: bool,
    },
}

/// Elements whose bits differ.
fn differing(a: &Tensor, b: &Tensor) -> u64 {
    a.bits().zip(b.bits()).filter(|(a, b)| a != b).count() as u64
}

struct Floats {
    format: FloatFormat,
    oracle: Vec<f64>,
    a: Vec<f64>,
    /// The least magnitude that an element is measured on.
    scale: f64,
    errors: Errors,
    ceiling: Units,
    is_lost: bool,
}

impl<'a> Reference<'a> {
    /// `oracle` is the double-precision result; without one A is the reference.
    #[must_use]
    pub fn new(a: &'a Tensor, oracle: Option<&Tensor>, terms: Terms) -> Self {
        let dtype = a.ty.dtype;
        let oracle = oracle.filter(|oracle| oracle.ty.dims == a.ty.dims);
        let Some(format) = FloatFormat::of(dtype) else {
            let oracle = oracle.filter(|oracle| oracle.ty == a.ty).cloned();
            let own = oracle.as_ref().map_or(0, |oracle| differing(oracle, a));
            let allowed = wrong_integers(a.ty.elements(), own, terms.share);
            let is_lost = own > a.ty.elements() / 4;
            let against = Against::Integers {
                oracle,
                allowed,
                is_lost,
            };
            return Self { a, against };
        };
        let values = a.values();
        // What is no finer than the result is no oracle.
        let oracle = oracle.filter(|_| dtype.bits() < 64);
        let oracle = oracle.map_or_else(|| values.clone(), Tensor::values);
        let scale = median(&oracle).max(format.min_positive());
        let errors = errors(&oracle, &values, format, scale).0;
        let most = limit(dtype);
        let floats = Floats {
            ceiling: ceiling(dtype, a.ty.elements(), errors.units, terms),
            is_lost: errors.units.max > most.max || errors.units.rms > most.rms,
            format,
            oracle,
            a: values,
            scale,
            errors,
        };
        Self {
            a,
            against: Against::Floats(floats),
        }
    }

    /// Judges another array of the same type.
    #[must_use]
    pub fn judge(&self, b: &Tensor) -> Judged {
        let mut judged = Judged {
            outcome: Outcome::Within,
            reasons: Vec::new(),
            differing: 0,
            max_ulps: None,
            ulps: Vec::new(),
            not_finite: 0,
            recovered: 0,
            a: None,
            b: None,
            ceiling: None,
            worst: None,
        };
        if b.ty != self.a.ty || b.bytes.len() != self.a.bytes.len() {
            judged.outcome = Outcome::Beyond;
            judged.reasons.push(format!(
                "B gives {} with {} bytes where A gives {} with {}",
                b.ty,
                b.bytes.len(),
                self.a.ty,
                self.a.bytes.len()
            ));
            return judged;
        }
        match &self.against {
            Against::Floats(floats) => floats.judge(self.a, b, &mut judged),
            Against::Integers {
                oracle,
                allowed,
                is_lost,
            } => {
                self.judge_integers(b, oracle.as_ref(), *allowed, &mut judged);
                if *is_lost && judged.outcome != Outcome::BitExact {
                    judged.outcome = Outcome::Unjudged;
                    judged.reasons = vec![
                        "more than a quarter of A's own integers are not what double precision gives: they say nothing on these inputs"
                            .to_owned(),
                    ];
                }
            }
        }
        judged
    }

    fn judge_integers(
        &self,
        b: &Tensor,
        oracle: Option<&Tensor>,
        allowed: u64,
        judged: &mut Judged,
    ) {
        let pairs = || self.a.bits().zip(b.bits()).enumerate();
        judged.differing = differing(self.a, b);
        if judged.differing == 0 {
            judged.outcome = Outcome::BitExact;
            return;
        }
        let wrong = oracle.map_or(judged.differing, |oracle| differing(oracle, b));
        if wrong > allowed {
            judged.outcome = Outcome::Beyond;
            judged.reasons.push(format!(
                "{} of {} integers differ from A's, {wrong} are not what double precision gives, {allowed} may be; if they are indices or rounded numbers, they were perhaps chosen between nearly equal values",
                judged.differing,
                self.a.ty.elements()
            ));
        }
        let first = pairs().find(|(_, (a, b))| a != b).map(|(index, _)| index);
        let (values, others) = (self.a.values(), b.values());
        judged.worst = first.and_then(|index| {
            let a = *values.get(index)?;
            Some(Worst {
                position: self.a.ty.position(index as u64),
                oracle: a,
                a,
                b: *others.get(index)?,
            })
        });
    }
}

impl Floats {
    fn judge(&self, a: &Tensor, b: &Tensor, judged: &mut Judged) {
        let values = b.values();
        self.steps(a, b, judged);
        self.finiteness(&values, judged);
        let (errors, worst) = errors(&self.oracle, &values, self.format, self.scale);
        judged.a = Some(self.errors);
        judged.b = Some(errors);
        judged.ceiling = Some(self.ceiling);
        judged.worst = worst.and_then(|index| {
            Some(Worst {
                position: a.ty.position(index as u64),
                oracle: *self.oracle.get(index)?,
                a: *self.a.get(index)?,
                b: *values.get(index)?,
            })
        });
        let is_above = errors.units.max > self.ceiling.max || errors.units.rms > self.ceiling.rms;
        judged.outcome = if judged.differing == 0 {
            Outcome::BitExact
        } else if judged.not_finite > 0 {
            judged.reasons.push(format!(
                "{} elements are NaN or infinite in one program and should not be",
                judged.not_finite
            ));
            Outcome::Beyond
        } else if self.is_lost {
            judged.reasons.push(format!(
                "A itself is off by {:.2e} of the magnitude: its result on these inputs says nothing",
                self.errors.units.rms * self.format.epsilon()
            ));
            Outcome::Unjudged
        } else if is_above {
            judged.reasons.push(format!(
                "B errs by {:.3} units ({:.3} rms), the ceiling is {:.3} ({:.3} rms), A errs by {:.3} ({:.3} rms)",
                errors.units.max,
                errors.units.rms,
                self.ceiling.max,
                self.ceiling.rms,
                self.errors.units.max,
                self.errors.units.rms,
            ));
            Outcome::Beyond
        } else {
            Outcome::Within
        };
    }

    /// Distances between A and B.
    fn steps(&self, a: &Tensor, b: &Tensor, judged: &mut Judged) {
        let mut counts = [0u64; 65];
        let mut max = None;
        for (a, b) in a.bits().zip(b.bits()) {
            let steps = self.format.ulps(a, b);
            if a != b && !(self.format.is_nan(a) && self.format.is_nan(b)) {
                judged.differing += 1;
            }
            if let Some(steps) = steps {
                max = max.max(Some(steps));
                // 0, 1, 2 to 3, 4 to 7, …
                let bucket = (64 - steps.leading_zeros()) as usize;
                if let Some(count) = counts.get_mut(bucket) {
                    *count += 1;
                }
            }
        }
        judged.max_ulps = max;
        let buckets = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        judged.ulps = buckets
            .map(|(bucket, &elements)| Bucket {
                from: if bucket == 0 { 0 } else { 1 << (bucket - 1) },
                to: if bucket == 0 {
                    0
                } else {
                    u64::MAX >> (64 - bucket)
                },
                elements,
            })
            .collect();
    }

    /// NaNs and infinities: B must have A's, or the oracle's.
    fn finiteness(&self, values: &[f64], judged: &mut Judged) {
        for ((&oracle, &a), &b) in self.oracle.iter().zip(&self.a).zip(values) {
            if class(b) == class(a) {
                continue;
            }
            let oracle = self.format.round(oracle);
            if class(b) != class(oracle) || a.is_finite() {
                judged.not_finite += 1;
            } else {
                judged.recovered += u64::from(b.is_finite());
            }
        }
    }
}

#[derive(PartialEq)]
enum Class {
    Finite,
    Infinite { is_negative: bool },
    NaN,
}

fn class(value: f64) -> Class {
    if value.is_nan() {
        Class::NaN
    } else if value.is_infinite() {
        Class::Infinite {
            is_negative: value < 0.0,
        }
    } else {
        Class::Finite
    }
}

/// The median magnitude of the finite numbers; 0 where there is none.
fn median(values: &[f64]) -> f64 {
    let finite = values.iter().filter(|value| value.is_finite());
    let mut magnitudes: Vec<f64> = finite.map(|value| value.abs()).collect();
    if magnitudes.is_empty() {
        return 0.0;
    }
    let middle = magnitudes.len() / 2;
    *magnitudes.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// Errors, and the element with the largest one in units.
fn errors(
    oracle: &[f64],
    values: &[f64],
    format: FloatFormat,
    scale: f64,
) -> (Errors, Option<usize>) {
    let mut found = Errors {
        units: Units { max: 0.0, rms: 0.0 },
        max_abs: 0.0,
        mean_abs: 0.0,
        max_rel: 0.0,
        mean_rel: 0.0,
    };
    let mut worst = None;
    let (mut counted, mut relative) = (0u64, 0u64);
    for (index, (&oracle, &value)) in oracle.iter().zip(values).enumerate() {
        if !oracle.is_finite() || !value.is_finite() {
            continue;
        }
        let error = (value - oracle).abs();
        let magnitude = oracle.abs();
        counted += 1;
        found.max_abs = found.max_abs.max(error);
        found.mean_abs += error;
        if magnitude > 0.0 {
            relative += 1;
            found.max_rel = found.max_rel.max(error / magnitude);
            found.mean_rel += error / magnitude;
        }
        let units = error / (format.epsilon() * magnitude.max(scale));
        found.units.rms += units * units;
        if units > found.units.max {
            found.units.max = units;
            worst = Some(index);
        }
    }
    let mean = |sum: f64, count: u64| sum / count.max(1) as f64;
    found.mean_abs = mean(found.mean_abs, counted);
    found.mean_rel = mean(found.mean_rel, relative);
    found.units.rms = mean(found.units.rms, counted).sqrt();
    (found, worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parity::ceiling::Share;
    use crate::parity::tensor::TensorType;
    use crate::program::dtype::DType;

    fn tensor(dtype: DType, values: &[f64]) -> Tensor {
        let dims = vec![values.len() as u64];
        let ty = TensorType { dtype, dims };
        match FloatFormat::of(dtype) {
            Some(format) => Tensor::of_bits(ty, values.iter().map(|v| format.encode(*v))),
            None => Tensor::of_values(ty, values.iter().copied()),
        }
    }

    fn judge(dtype: DType, oracle: &[f64], a: &[f64], b: &[f64]) -> Judged {
        let (a, b) = (tensor(dtype, a), tensor(dtype, b));
        let oracle = tensor(DType::F64, oracle);
        Reference::new(&a, Some(&oracle), TERMS).judge(&b)
    }

    const TERMS: Terms = Terms {
        longest_sum: 1,
        coarsest: 0.0,
        share: Share::FULL,
    };

    const FINE: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

    #[test]
    fn equal_bits_are_exact_and_zeros_of_other_sign_are_not() {
        assert_eq!(
            judge(DType::F32, &FINE, &FINE, &FINE).outcome,
            Outcome::BitExact
        );
        let nan = [f64::NAN, 1.0];
        assert_eq!(
            judge(DType::F32, &nan, &nan, &nan).outcome,
            Outcome::BitExact
        );
        let signs = judge(DType::F32, &[0.0, 1.0], &[0.0, 1.0], &[-0.0, 1.0]);
        assert_eq!(
            (signs.outcome, signs.differing, signs.max_ulps),
            (Outcome::Within, 1, Some(0))
        );
    }

    #[test]
    fn an_error_is_judged_by_as() {
        // One step of bf16 is half a unit to one; 16 steps are too many unless A errs as well.
        let close = judge(DType::Bf16, &FINE, &FINE, &[1.0078125, 2.0, 3.0, 4.0]);
        assert_eq!((close.outcome, close.max_ulps), (Outcome::Within, Some(1)));
        let far = [1.0 + 16.0 / 128.0, 2.0, 3.0, 4.0];
        let judged = judge(DType::Bf16, &FINE, &FINE, &far);
        assert_eq!(judged.outcome, Outcome::Beyond);
        assert_eq!(judged.worst.expect("one").position, [0]);
        let a = [1.0, 2.0, 3.0, 4.0 + 4.0 * 8.0 / 128.0];
        assert_eq!(judge(DType::Bf16, &FINE, &a, &far).outcome, Outcome::Within);
    }

    #[test]
    fn nothing_is_said_where_a_is_lost() {
        let a = [1.5, 2.0, 3.0, 4.0];
        assert_eq!(
            judge(DType::F32, &FINE, &a, &FINE).outcome,
            Outcome::Unjudged
        );
    }

    #[test]
    fn infinities_and_nans_must_be_as_or_the_oracles() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        for (oracle, a, b, outcome) in [
            (1.0, 1.0, nan, Outcome::Beyond),
            (1.0, 1.0, inf, Outcome::Beyond),
            (1e6, inf, inf, Outcome::BitExact),
            (1e6, inf, -inf, Outcome::Beyond),
            (1e6, inf, 65504.0, Outcome::Beyond),
            (1e6, nan, inf, Outcome::Within),
            (100.0, inf, 100.0, Outcome::Within),
            (nan, nan, 1.0, Outcome::Beyond),
        ] {
            let judged = judge(DType::F16, &[oracle, 2.0], &[a, 2.0], &[b, 2.0]);
            assert_eq!(judged.outcome, outcome, "{oracle} {a} {b}: {judged:?}");
        }
        let judged = judge(DType::F16, &[100.0, 2.0], &[inf, 2.0], &[100.0, 2.0]);
        assert_eq!(judged.recovered, 1);
    }

    #[test]
    fn integers_must_be_equal() {
        assert_eq!(
            judge(DType::S32, &[], &[1.0, 2.0], &[1.0, 2.0]).outcome,
            Outcome::BitExact
        );
        let judged = judge(DType::S32, &[], &[1.0, 2.0], &[1.0, 3.0]);
        assert_eq!((judged.outcome, judged.differing), (Outcome::Beyond, 1));
        assert_eq!(judged.worst.expect("one").b, 3.0);
    }

    #[test]
    fn integers_may_be_wrong_where_as_are() {
        let numbers = |changed: &[usize]| {
            let values =
                (0..100).map(|i| f64::from(i + i32::from(changed.contains(&(i as usize)))));
            tensor(DType::S32, &values.collect::<Vec<_>>())
        };
        let oracle = numbers(&[]);
        let outcome = |a: &[usize], b: &[usize]| {
            let a = numbers(a);
            Reference::new(&a, Some(&oracle), TERMS)
                .judge(&numbers(b))
                .outcome
        };
        assert_eq!(outcome(&[], &[4]), Outcome::Beyond);
        assert_eq!(outcome(&[4], &[]), Outcome::Within);
        assert_eq!(outcome(&[4], &[5, 6, 7, 8]), Outcome::Within);
        assert_eq!(outcome(&[4], &[5, 6, 7, 8, 9]), Outcome::Beyond);
        let most: Vec<usize> = (0..30).collect();
        assert_eq!(outcome(&most, &[]), Outcome::Unjudged);
    }

    #[test]
    fn a_single_number_may_be_off_by_half_a_step_of_the_coarsest_type() {
        let terms = Terms {
            coarsest: 1.0 / 128.0,
            ..TERMS
        };
        let (a, oracle) = (tensor(DType::F32, &[1.0]), tensor(DType::F64, &[1.0]));
        let reference = Reference::new(&a, Some(&oracle), terms);
        let outcome = |b| reference.judge(&tensor(DType::F32, &[b])).outcome;
        assert_eq!(outcome(1.0 + 0.4 / 128.0), Outcome::Within);
        assert_eq!(outcome(1.0 + 0.6 / 128.0), Outcome::Beyond);
        let strict = Reference::new(&a, Some(&oracle), TERMS);
        let off = tensor(DType::F32, &[1.0 + 0.4 / 128.0]);
        assert_eq!(strict.judge(&off).outcome, Outcome::Beyond);
    }

    #[test]
    fn elements_are_counted_by_their_distance() {
        let f32 = |bits: u32| f64::from(f32::from_bits(bits));
        let one = 0x3f80_0000;
        let a = [1.0; 5];
        let b = [1.0, f32(one + 1), f32(one + 3), f32(one + 2), f32(one + 9)];
        let buckets = judge(DType::F32, &a, &a, &b).ulps;
        let counts: Vec<_> = buckets.iter().map(|b| (b.from, b.to, b.elements)).collect();
        assert_eq!(counts, [(0, 0, 1), (1, 1, 1), (2, 3, 2), (8, 15, 1)]);
    }
}
