//! What if a program were a little different: the changed program, to be compiled beside the
//! original, so that the compiler and not a rule of thumb says what the change is worth.
//!
//! ```text
//! StableHLO text ──> dims: which dimensions are one, which follow from others
//!     candidates ──> changes worth a compile
//!     apply      ──> the changed text, or the operation that does not allow it
//! ```
//!
//! A changed program is for pricing, not for running: constants that state a size (the mean's
//! divisor, the vocabulary in an index check) keep their values, because they cost nothing.

mod candidates;
mod dims;
mod dtype;
mod edits;
mod merge;
mod pad;
mod resize;
mod rules;
mod store;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::program::stablehlo::{Module, ValueId};

pub use candidates::{Candidate, Tiles, candidates};

/// A dimension of a program: of a value in one of its functions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dimension {
    /// The function's name, `@main`.
    pub function: String,
    /// The value's name there: `%arg3` or `%24`.
    pub value: String,
    /// Which of its dimensions, major first, from 0.
    pub axis: usize,
}

impl Dimension {
    /// Dimension `axis` of `value` in `@main`.
    #[must_use]
    pub fn of_main(value: &str, axis: usize) -> Self {
        Self {
            function: "@main".to_owned(),
            value: value.to_owned(),
            axis,
        }
    }

    fn find(&self, module: &Module<'_>) -> Option<(ValueId, i64)> {
        let function = module.function(&self.function)?;
        let value = module.named(function, &self.value)?;
        let size = module.value(value).tensor.as_ref()?.size(self.axis)?;
        Some((value, size))
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dimension {} of {}", self.axis, self.value)?;
        if self.function == "@main" {
            Ok(())
        } else {
            write!(f, " in {}", self.function)
        }
    }
}

/// A dimension, and every dimension that goes with it, given another size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resize {
    /// One of the dimensions that change together.
    pub dimension: Dimension,
    /// Its size now.
    pub from: i64,
    /// Its size then.
    pub to: i64,
}

impl fmt::Display for Resize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {} to {}", self.dimension, self.from, self.to)
    }
}

/// A change of a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Arguments and results are stored with the new sizes: the work of the added elements is paid
    /// for, padding is not, because nothing is padded at run time.
    Resize(Vec<Resize>),
    /// Arguments and results keep their sizes; the program pads what it reads and slices what it
    /// returns, and pays for both.
    PadInGraph(Vec<Resize>),
    /// An argument is stored with two of its dimensions exchanged.
    StoreSwapped {
        /// Which argument of `@main`, from 0.
        argument: usize,
        /// The dimensions.
        axes: (usize, usize),
    },
    /// The operands of a matmul are converted to another type before it.
    MatmulType {
        /// Line of the `dot_general` in the text, from 1.
        line: usize,
        /// The type as StableHLO writes it: `bf16`, `i8`, `f8E4M3FN`.
        element: String,
    },
    /// Matmuls of one left operand become one, their weights stored side by side.
    MergeMatmuls {
        /// Lines of the `dot_general`s in the text, from 1.
        lines: Vec<usize>,
    },
    /// Several changes, in this order. Changes before another must not move the lines that it names.
    Together(Vec<Change>),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, resizes: &[Resize]| {
            for (i, resize) in resizes.iter().enumerate() {
                write!(f, "{}{resize}", if i == 0 { "" } else { ", " })?;
            }
            Ok(())
        };
        match self {
            Self::Resize(resizes) => list(f, resizes),
            Self::PadInGraph(resizes) => {
                list(f, resizes)?;
                f.write_str(", padded at run time")
            }
            Self::StoreSwapped { argument, axes } => {
                write!(
                    f,
                    "argument {argument} stored with dimensions {} and {} exchanged",
                    axes.0, axes.1
                )
            }
            Self::MatmulType { line, element } => {
                write!(f, "operands of the matmul at line {line} in {element}")
            }
            Self::MergeMatmuls { lines } => {
                write!(
                    f,
                    "matmuls at lines {lines:?} as one, weights stored side by side"
                )
            }
            Self::Together(changes) => {
                for (i, change) in changes.iter().enumerate() {
                    write!(f, "{}{change}", if i == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
        }
    }
}

/// Why a program cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfError {
    /// The text holds no function.
    #[error("no function found: expected StableHLO text with a `func.func @main`")]
    NoFunction,
    /// Changes that hold changes that hold changes, without end.
    #[error("changes are nested too deeply: list them in one")]
    TooDeep,
    /// A change names what the program does not have.
    #[error("{what} is not in the program: name a value of a function as the text does")]
    Absent {
        /// What was named.
        what: String,
    },
    /// A dimension does not have the size that the change starts from.
    #[error("{dimension} is {found}, not {expected}: the change was made for another program")]
    OtherSize {
        /// The dimension.
        dimension: Dimension,
        /// Its size in the program.
        found: i64,
        /// Its size in the change.
        expected: i64,
    },
    /// Two wanted sizes are for dimensions that are one.
    #[error("two sizes, {first} and {second}, are wanted of dimensions that are one")]
    Contradiction {
        /// One size.
        first: i64,
        /// The other.
        second: i64,
    },
    /// A size would be zero or less.
    #[error("a dimension would have {size} elements: sizes start at 1")]
    NotPositive {
        /// The size.
        size: i64,
    },
    /// An operation does not allow the change.
    #[error("cannot be rewritten here: `{op}` at line {line} {why}")]
    Refused {
        /// Its name.
        op: String,
        /// Its line in the text, from 1.
        line: usize,
        /// What hinders.
        why: String,
    },
    /// An argument does not allow the change.
    #[error("argument {argument} cannot be stored otherwise: {why}")]
    Argument {
        /// Which, from 0.
        argument: usize,
        /// What hinders.
        why: &'static str,
    },
}

/// The text of the program with `change` made.
///
/// # Errors
///
/// Says which operation, argument or size does not allow the change.
pub fn apply(text: &str, change: &Change) -> Result<String, WhatIfError> {
    apply_nested(text, change, MAX_NESTING)
}

/// Changes within changes within changes, at most.
const MAX_NESTING: usize = 8;

fn apply_nested(text: &str, change: &Change, depth: usize) -> Result<String, WhatIfError> {
    let module = || crate::program::stablehlo::parse(text);
    match change {
        Change::Resize(resizes) => resize::apply(&module(), resizes),
        Change::PadInGraph(resizes) => pad::apply(&module(), resizes),
        Change::StoreSwapped { argument, axes } => store::apply(&module(), *argument, *axes),
        Change::MatmulType { line, element } => dtype::apply(&module(), *line, element),
        Change::MergeMatmuls { lines } => merge::apply(&module(), lines),
        Change::Together(changes) => {
            let depth = depth.checked_sub(1).ok_or(WhatIfError::TooDeep)?;
            let mut changes = changes.iter();
            changes.try_fold(text.to_owned(), |text, change| {
                apply_nested(&text, change, depth)
            })
        }
    }
}
