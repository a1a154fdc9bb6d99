//! What changed when a program had to be compiled again.

use super::graph::{AtenGraph, TensorType};
use super::{StableHlo, TorchTrace};

/// What differs from the earlier launch of the same operations at the same lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// A tensor has other sizes.
    Sizes {
        /// The tensor, as `input 0` or `result of linear`.
        tensor: String,
        /// Its type before.
        before: TensorType,
        /// Its type now.
        after: TensorType,
    },
    /// A tensor has another dtype.
    Dtype {
        /// The tensor.
        tensor: String,
        /// Its type before.
        before: TensorType,
        /// Its type now.
        after: TensorType,
    },
    /// The tensors are the same, a constant in the program is not: a Python number.
    Constant {
        /// The line of StableHLO before.
        before: String,
        /// The line now.
        after: String,
    },
    /// Nothing that the log shows.
    Unseen,
    /// These operations were not launched together before.
    NewOperations,
}

impl Change {
    /// The axis that changed and its sizes before and now, where it is one.
    #[must_use]
    pub fn axis(&self) -> Option<(usize, u64, u64)> {
        let Self::Sizes { before, after, .. } = self else {
            return None;
        };
        let mut pairs = before.sizes.iter().zip(&after.sizes).enumerate();
        let (axis, (before, after)) = pairs.find(|(_, (before, after))| before != after)?;
        Some((axis, *before, *after))
    }
}

/// Compares a graph and its program with earlier ones of the same operations.
#[must_use]
pub(super) fn between(
    trace: &TorchTrace,
    before: (&AtenGraph, Option<u32>),
    after: (&AtenGraph, Option<u32>),
) -> Change {
    let mut dtype = None;
    for (tensor, before, after) in pairs(before.0, after.0) {
        if before.sizes != after.sizes {
            return Change::Sizes {
                tensor,
                before: before.clone(),
                after: after.clone(),
            };
        }
        if before.dtype != after.dtype && dtype.is_none() {
            dtype = Some(Change::Dtype {
                tensor,
                before: before.clone(),
                after: after.clone(),
            });
        }
    }
    if let Some(dtype) = dtype {
        return dtype;
    }
    let program = |index: Option<u32>| trace.programs.get(index? as usize);
    match (program(before.1), program(after.1)) {
        (Some(before), Some(after)) => constant(before, after),
        _ => Change::Unseen,
    }
}

/// Tensors of two graphs of the same operations, those that are given before those that are made.
fn pairs<'a>(
    before: &'a AtenGraph,
    after: &'a AtenGraph,
) -> impl Iterator<Item = (String, &'a TensorType, &'a TensorType)> {
    let inputs = before.inputs.iter().zip(&after.inputs);
    let inputs = inputs.enumerate().map(|(at, (before, after))| {
        let name = format!("input {at}");
        (name, before, after)
    });
    let results = before
        .ops
        .iter()
        .zip(&after.ops)
        .flat_map(|(before, after)| {
            let results = before.results.iter().zip(&after.results);
            results.map(|(b, a)| (format!("result of `{}`", after.name), b, a))
        });
    inputs.chain(results)
}

fn constant(before: &StableHlo, after: &StableHlo) -> Change {
    // The first line holds the module's name.
    let lines = before.text.lines().zip(after.text.lines()).skip(1);
    let shown = |line: &str| line.trim().chars().take(120).collect();
    for (before, after) in lines {
        if before != after && before.contains("stablehlo.constant") {
            return Change::Constant {
                before: shown(before),
                after: shown(after),
            };
        }
    }
    Change::Unseen
}
