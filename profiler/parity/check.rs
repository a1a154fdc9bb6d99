//! The comparison of two programs: inputs, runs, judgements, verdict.

use serde::Serialize;

use crate::parity::ceiling::{Share, Terms};
use crate::parity::inputs::{Inputs, Range, Regime};
use crate::parity::judge::{Judged, Outcome, Reference};
use crate::parity::null;
use crate::parity::signature::{Signature, SignatureError};
use crate::parity::tensor::{Tensor, TensorType};
use crate::parity::uses::Uses;
use crate::parity::widen::widen;

/// Elements that all arguments may have together: as they are and widened they take 12 bytes each,
/// here and in the runner.
pub const MAX_ARGUMENT_ELEMENTS: u64 = 64 << 20;
/// Elements that all results may have together: four runs, and what they are judged by, take about
/// 80 bytes each.
pub const MAX_RESULT_ELEMENTS: u64 = 16 << 20;

/// What runs programs.
pub trait Runner {
    /// Why it could not.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Compiles a program (StableHLO text) and returns its number.
    ///
    /// # Errors
    /// When the compiler refuses.
    fn load(&mut self, program: &str) -> Result<usize, Self::Error>;

    /// Runs a program.
    ///
    /// # Errors
    /// When it fails.
    fn run(&mut self, program: usize, arguments: &[Tensor]) -> Result<Vec<Tensor>, Self::Error>;
}

/// How two programs are compared.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Names the inputs.
    pub seed: u64,
    /// Sets of inputs of each regime.
    pub sets: u32,
    /// The part of the ceilings that may be used.
    pub share: Share,
}

/// What is said of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All bits of all results on all inputs are equal.
    BitExact,
    /// All errors are below the ceilings.
    WithinTolerance,
    /// An error is above a ceiling.
    Changes,
    /// No set of inputs can tell the programs from ones that compute nothing.
    Vacuous,
    /// They take or give different things.
    NotComparable,
}

/// One set of inputs.
#[derive(Clone, Debug, Serialize)]
pub struct Set {
    /// Its regime.
    pub regime: Regime,
    /// Which of the regime's sets, from 0.
    pub set: u32,
    /// The results, in order.
    pub results: Vec<ResultOf>,
}

impl Set {
    /// Whether it tells the programs from ones that compute nothing.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.results.iter().any(ResultOf::counts)
    }
}

/// One result of B on one set of inputs.
#[derive(Clone, Debug, Serialize)]
pub struct ResultOf {
    /// What B is against A and the oracle.
    pub judged: Judged,
    /// Null candidates that pass as well as B would have to; where there are any, that B passes
    /// says nothing.
    pub passing_nulls: Vec<String>,
    /// How far apart the two programs are in double precision, relative to the magnitude (at least
    /// the median): rounding aside. None where one has no such form.
    pub apart_in_double: Option<f64>,
}

impl ResultOf {
    /// Whether its passing says anything.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.passing_nulls.is_empty() && self.judged.outcome != Outcome::Unjudged
    }
}

/// The whole comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Parity {
    /// The verdict.
    pub verdict: Verdict,
    /// What stands behind it, in sentences.
    pub reasons: Vec<String>,
    /// What names the inputs.
    pub seed: u64,
    /// Types of the arguments.
    pub arguments: Vec<String>,
    /// What the arguments' values are.
    pub ranges: Vec<Range>,
    /// Types of the results.
    pub results: Vec<String>,
    /// Elements that the longest sum of the two programs adds up.
    pub longest_sum: u64,
    /// Why A is the reference, where there is no oracle in double precision.
    pub no_oracle: Option<String>,
    /// Results that no set tells from null candidates: that they agree says nothing.
    pub unproven_results: Vec<usize>,
    /// The sets, in order.
    pub sets: Vec<Set>,
}

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub enum CheckError<E: std::error::Error + 'static> {
    /// A program does not say what it takes and gives.
    #[error("{program}: {error}")]
    Signature {
        /// `A` or `B`.
        program: &'static str,
        /// Why.
        error: SignatureError,
    },
    /// They are too large.
    #[error(
        "the {what} have {elements} elements, at most {limit} are compared: give the programs with smaller dimensions (fewer layers, a shorter sequence, a smaller batch), the arithmetic is the same"
    )]
    TooLarge {
        /// `arguments` or `results`.
        what: &'static str,
        /// How many elements they have.
        elements: u64,
        /// How many they may have.
        limit: u64,
    },
    /// A program does not run.
    #[error("{program} cannot be run: {error}")]
    Run {
        /// `A`, `B` or the oracle.
        program: &'static str,
        /// Why.
        error: E,
    },
    /// A program gives something else than it says.
    #[error("{program} gives {got} results, its signature has {expected}")]
    Results {
        /// `A` or `B`.
        program: &'static str,
        /// Results that came.
        got: usize,
        /// Results that it should give.
        expected: usize,
    },
}

/// Compares two programs, given as StableHLO text. `progress` is told of each set.
///
/// # Errors
/// When one of them cannot be read or run. That they have different signatures is a verdict.
pub fn check<R: Runner + ?Sized>(
    a: &str,
    b: &str,
    options: Options,
    runner: &mut R,
    mut progress: impl FnMut(Regime, u32),
) -> Result<Parity, CheckError<R::Error>> {
    let of = |program, text| {
        Signature::of_text(text).map_err(|error| CheckError::Signature { program, error })
    };
    let (signature, other) = (of("A", a)?, of("B", b)?);
    let (uses, other_uses) = (Uses::of_text(a), Uses::of_text(b));
    let inputs = Inputs::of(&signature, &[&uses, &other_uses], options.seed);
    let shown = |types: &[TensorType]| types.iter().map(TensorType::to_string).collect();
    let mut parity = Parity {
        verdict: Verdict::NotComparable,
        reasons: signature.differences(&other),
        seed: options.seed,
        arguments: shown(&signature.arguments),
        ranges: inputs.ranges().cloned().collect(),
        results: shown(&signature.results),
        longest_sum: uses.longest_sum.max(other_uses.longest_sum),
        no_oracle: None,
        unproven_results: Vec::new(),
        sets: Vec::new(),
    };
    if !parity.reasons.is_empty() {
        return Ok(parity);
    }
    for (what, types, limit) in [
        ("arguments", &signature.arguments, MAX_ARGUMENT_ELEMENTS),
        ("results", &signature.results, MAX_RESULT_ELEMENTS),
    ] {
        let add = |sum: u64, ty: &TensorType| sum.saturating_add(ty.elements());
        let elements = types.iter().fold(0, add);
        if elements > limit {
            return Err(CheckError::TooLarge {
                what,
                elements,
                limit,
            });
        }
    }
    let mut programs = Programs::load(a, b, signature.results.len(), runner)?;
    parity.no_oracle = programs.no_oracle.take();
    let terms = Terms {
        longest_sum: parity.longest_sum,
        coarsest: uses.coarsest,
        share: options.share,
    };
    let mut elsewhere = Elsewhere::default();
    for regime in Regime::ALL {
        for set in 0..options.sets.max(1) {
            progress(regime, set);
            let arguments = inputs.make(regime, set);
            let ran = programs.run(runner, &arguments)?;
            let results = ran.judge(&arguments, &elsewhere.last, terms);
            elsewhere.see(&ran);
            parity.sets.push(Set {
                regime,
                set,
                results,
            });
        }
    }
    if let Some(first) = parity.sets.first_mut() {
        elsewhere.judge_first(first, terms);
    }
    conclude(&mut parity);
    Ok(parity)
}

/// Results of a single number on other inputs: what a constant program would give.
#[derive(Default)]
struct Elsewhere {
    /// Of the set before, by result.
    last: Vec<f64>,
    /// A and the oracle on the first set, by result; none for results of more than one number.
    first: Vec<Option<(Tensor, Option<Tensor>)>>,
    /// Of the second set.
    second: Vec<f64>,
}

impl Elsewhere {
    fn see(&mut self, ran: &Ran) {
        let means = ran.a.iter().map(|a| match a.ty.elements() {
            1 => null::mean(a),
            _ => 0.0,
        });
        let means: Vec<f64> = means.collect();
        if self.first.is_empty() {
            let oracle = |index: usize| ran.wide.first()?.as_ref()?.get(index).cloned();
            let single = ran.a.iter().enumerate().map(|(index, a)| {
                let is_single = a.ty.elements() == 1;
                is_single.then(|| (a.clone(), oracle(index)))
            });
            self.first = single.collect();
        } else if self.second.is_empty() {
            self.second.clone_from(&means);
        }
        self.last = means;
    }

    /// The first set had none before it: its constant is what A gave on the second.
    fn judge_first(&self, set: &mut Set, terms: Terms) {
        let known = self.first.iter().zip(&self.second);
        for (result, (first, &value)) in set.results.iter_mut().zip(known) {
            let Some((a, oracle)) = first else { continue };
            let reference = Reference::new(a, oracle.as_ref(), terms);
            if reference.judge(&null::filled(a, value)).outcome <= Outcome::Within {
                result.passing_nulls.push(null::A_CONSTANT.to_owned());
            }
        }
    }
}

struct Programs {
    a: usize,
    b: usize,
    /// A and B in double precision.
    wide: [Option<usize>; 2],
    no_oracle: Option<String>,
    results: usize,
}

struct Ran {
    a: Vec<Tensor>,
    b: Vec<Tensor>,
    wide: [Option<Vec<Tensor>>; 2],
}

impl Programs {
    fn load<R: Runner + ?Sized>(
        a: &str,
        b: &str,
        results: usize,
        runner: &mut R,
    ) -> Result<Self, CheckError<R::Error>> {
        let mut load = |program, text| {
            let loaded = runner.load(text);
            loaded.map_err(|error| CheckError::Run { program, error })
        };
        let (loaded_a, loaded_b) = (load("A", a)?, load("B", b)?);
        let mut wide = |text: &str| {
            let text = widen(text).map_err(|error| error.to_string())?;
            let loaded = runner.load(&text);
            loaded.map_err(|error| format!("its form in double precision is refused: {error}"))
        };
        let (wide_a, wide_b) = (wide(a), wide(b));
        Ok(Self {
            a: loaded_a,
            b: loaded_b,
            no_oracle: wide_a.as_ref().err().cloned(),
            wide: [wide_a.ok(), wide_b.ok()],
            results,
        })
    }

    fn run<R: Runner + ?Sized>(
        &self,
        runner: &mut R,
        arguments: &[Tensor],
    ) -> Result<Ran, CheckError<R::Error>> {
        let mut run = |program, number, arguments: &[Tensor]| {
            let results = runner
                .run(number, arguments)
                .map_err(|error| CheckError::Run { program, error })?;
            if results.len() != self.results {
                return Err(CheckError::Results {
                    program,
                    got: results.len(),
                    expected: self.results,
                });
            }
            Ok(results)
        };
        let wide: Vec<Tensor> = match self.wide {
            [None, None] => Vec::new(),
            _ => arguments.iter().map(Tensor::widened).collect(),
        };
        let [wide_a, wide_b] = self.wide;
        Ok(Ran {
            a: run("A", self.a, arguments)?,
            b: run("B", self.b, arguments)?,
            wide: [
                wide_a
                    .map(|number| run("A in double precision", number, &wide))
                    .transpose()?,
                wide_b
                    .map(|number| run("B in double precision", number, &wide))
                    .transpose()?,
            ],
        })
    }
}

impl Ran {
    fn judge(&self, arguments: &[Tensor], elsewhere: &[f64], terms: Terms) -> Vec<ResultOf> {
        let [oracle, other] = &self.wide;
        let of = |wide: &Option<Vec<Tensor>>, index: usize| -> Option<Tensor> {
            wide.as_ref()?.get(index).cloned()
        };
        let pairs = self.a.iter().zip(&self.b).enumerate();
        pairs
            .map(|(index, (a, b))| {
                let oracle = of(oracle, index);
                let reference = Reference::new(a, oracle.as_ref(), terms);
                let judged = reference.judge(b);
                let passing_nulls = null::candidates(a, arguments, elsewhere.get(index).copied())
                    .filter(|(_, null)| reference.judge(null).outcome <= Outcome::Within)
                    .map(|(name, _)| name)
                    .collect();
                let apart_in_double = oracle
                    .zip(of(other, index))
                    .filter(|(a, _)| a.ty.dtype.is_float())
                    .map(|(a, b)| {
                        let judged = Reference::new(&a, None, terms).judge(&b);
                        let units = judged.b.map_or(0.0, |errors| errors.units.max);
                        match judged.not_finite {
                            0 => units * f64::EPSILON,
                            _ => f64::MAX,
                        }
                    });
                ResultOf {
                    judged,
                    passing_nulls,
                    apart_in_double,
                }
            })
            .collect()
    }
}

/// Sums all sets up.
fn conclude(parity: &mut Parity) {
    let results = || parity.sets.iter().flat_map(|set| &set.results);
    let any = |outcome| results().any(|result| result.judged.outcome == outcome);
    let counting = parity.sets.iter().filter(|set| set.counts()).count();
    let total = parity.sets.len();
    let mut reasons = Vec::new();
    parity.verdict = if any(Outcome::Beyond) {
        let failing = parity.sets.iter().filter(|set| {
            let mut results = set.results.iter();
            results.any(|result| result.judged.outcome == Outcome::Beyond)
        });
        let names: Vec<&str> = failing.map(|set| set.regime.name()).collect();
        reasons.push(format!(
            "B is beyond its ceiling on {} of {total} input sets: {}",
            names.len(),
            deduplicated(names).join(", ")
        ));
        Verdict::Changes
    } else if counting == 0 {
        reasons.push(format!(
            "none of the {total} input sets tells A from a program that computes nothing"
        ));
        Verdict::Vacuous
    } else if results().all(|result| result.judged.outcome == Outcome::BitExact) {
        reasons.push(format!(
            "all bits are equal on {total} input sets; {counting} of them count"
        ));
        Verdict::BitExact
    } else {
        reasons.push(format!(
            "B is below its ceiling on all of the {counting} input sets that count, of {total}"
        ));
        Verdict::WithinTolerance
    };
    let unproven = (0..parity.results.len()).filter(|&index| {
        let mut sets = parity.sets.iter();
        !sets.any(|set| set.results.get(index).is_some_and(ResultOf::counts))
    });
    parity.unproven_results = unproven.collect();
    parity.reasons = reasons;
}

fn deduplicated(mut names: Vec<&str>) -> Vec<&str> {
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parity::float::FloatFormat;
    use crate::program::dtype::DType;

    /// Programs are functions of one array, named by a word in their text.
    struct Fake(Vec<String>);

    #[derive(Debug, thiserror::Error)]
    #[error("no function in {0}")]
    struct NoFunction(String);

    impl Runner for Fake {
        type Error = NoFunction;

        fn load(&mut self, program: &str) -> Result<usize, NoFunction> {
            self.0.push(program.to_owned());
            Ok(self.0.len() - 1)
        }

        fn run(&mut self, program: usize, arguments: &[Tensor]) -> Result<Vec<Tensor>, NoFunction> {
            let text = &self.0[program];
            let x = arguments[0].values();
            let is_wide = arguments[0].ty.dtype == DType::F64;
            let bf16 = FloatFormat::of(DType::Bf16).expect("a float");
            let values: Vec<f64> = if text.contains("cube in bf16") && !is_wide {
                x.iter()
                    .map(|x| bf16.round(bf16.round(x * x) * x))
                    .collect()
            } else if text.contains("cube") {
                x.iter().map(|x| x * x * x).collect()
            } else if text.contains("third") {
                x.iter().map(|x| x / 3.0).collect()
            } else if text.contains("zeros") {
                vec![0.0; x.len()]
            } else if text.contains("mean") {
                let mean = x.iter().map(|x| x * x * x).sum::<f64>() / x.len() as f64;
                vec![mean; x.len()]
            } else if text.contains("copy") {
                x
            } else if text.contains("loss") {
                let loss = x.iter().map(|x| x * x).sum::<f64>();
                return Ok(vec![single(loss, arguments)]);
            } else if text.contains("seven") {
                return Ok(vec![single(7.0, arguments)]);
            } else if text.contains("two results") {
                return Ok(vec![arguments[0].clone(), arguments[0].clone()]);
            } else if text.contains("reciprocal") {
                // Not finite at 0, unlike what it stands for.
                x.iter()
                    .map(|x| (1.0 / (1.0 / x)).powi(3) * (x / x.abs()).abs())
                    .collect()
            } else {
                return Err(NoFunction(text.clone()));
            };
            let ty = arguments[0].ty.clone();
            Ok(vec![Tensor::of_bits(ty.clone(), {
                let format = FloatFormat::of(ty.dtype).expect("a float");
                values.into_iter().map(move |value| format.encode(value))
            })])
        }
    }

    fn single(value: f64, arguments: &[Tensor]) -> Tensor {
        let dims = Vec::new();
        let dtype = arguments[0].ty.dtype;
        Tensor::of_values(TensorType { dtype, dims }, [value].into_iter())
    }

    fn program(what: &str) -> String {
        let dims = if ["loss", "seven"].contains(&what) {
            ""
        } else {
            "40x"
        };
        format!("func.func @main(%x: tensor<40xf32>) -> tensor<{dims}f32> {{\n// {what}\n}}")
    }

    fn compare(a: &str, b: &str) -> Result<Parity, CheckError<NoFunction>> {
        let options = Options {
            seed: 3,
            sets: 1,
            share: Share::FULL,
        };
        let mut runner = Fake(Vec::new());
        check(&program(a), &program(b), options, &mut runner, |_, _| {})
    }

    fn verdict(a: &str, b: &str) -> Verdict {
        compare(a, b).expect("runs").verdict
    }

    #[test]
    fn verdicts_follow_from_what_the_programs_compute() {
        assert_eq!(verdict("cube", "cube"), Verdict::BitExact);
        assert_eq!(verdict("cube in bf16", "cube"), Verdict::WithinTolerance);
        assert_eq!(verdict("cube", "cube in bf16"), Verdict::Changes);
        assert_eq!(verdict("cube", "third"), Verdict::Changes);
        assert_eq!(verdict("zeros", "zeros"), Verdict::Vacuous);
        assert_eq!(verdict("copy", "copy"), Verdict::Vacuous);
        assert_eq!(verdict("mean", "mean"), Verdict::Vacuous);
        assert_eq!(verdict("loss", "loss"), Verdict::BitExact);
        assert_eq!(verdict("seven", "seven"), Verdict::Vacuous);
        assert_eq!(verdict("loss", "seven"), Verdict::Changes);
    }

    #[test]
    fn candidates_that_compute_nothing_fail() {
        for null in ["zeros", "mean", "copy"] {
            assert_eq!(verdict("cube", null), Verdict::Changes, "{null}");
        }
    }

    #[test]
    fn a_set_that_does_not_count_can_fail_still() {
        let parity = compare("cube", "reciprocal").expect("runs");
        let zeros = parity.sets.iter().find(|set| set.regime == Regime::Zeros);
        let zeros = zeros.expect("all regimes run");
        assert!(!zeros.counts());
        assert_eq!(zeros.results[0].judged.outcome, Outcome::Beyond);
        assert_eq!(parity.verdict, Verdict::Changes);
    }

    #[test]
    fn the_oracle_is_a_in_double_precision() {
        let parity = compare("cube in bf16", "cube").expect("runs");
        assert_eq!(parity.no_oracle, None);
        for set in &parity.sets {
            let result = &set.results[0];
            assert_eq!(result.apart_in_double, Some(0.0));
            let (a, b) = (
                result.judged.a.expect("floats"),
                result.judged.b.expect("floats"),
            );
            assert!(b.units.rms <= 0.5 && b.units.rms <= a.units.rms, "{set:?}");
        }
    }

    #[test]
    fn what_cannot_be_run_is_an_error_that_names_the_program() {
        let error = compare("cube", "unknown").expect_err("no function");
        assert!(error.to_string().starts_with("B cannot be run"), "{error}");
        let error = compare("cube", "two results").expect_err("more results");
        assert!(error.to_string().contains("B gives 2 results"), "{error}");
    }
}
