//! Matmuls, grouped matmuls and convolutions.

use crate::program::stablehlo::{Integer, Op};

use super::Rule;

/// The dimension numbers of a `dot_general` or `dot`.
#[derive(Clone, Debug, Default)]
pub(in crate::compiler::what_if) struct DotAxes {
    pub(in crate::compiler::what_if) left_batch: Vec<usize>,
    pub(in crate::compiler::what_if) right_batch: Vec<usize>,
    pub(in crate::compiler::what_if) left_contracting: Vec<usize>,
    pub(in crate::compiler::what_if) right_contracting: Vec<usize>,
}

impl DotAxes {
    pub(in crate::compiler::what_if) fn read(text: &str, op: &Op) -> Option<Self> {
        let indices = |list: Vec<Integer>| list.iter().map(Integer::index).collect::<Vec<_>>();
        match op.name.as_str() {
            "stablehlo.dot" => Some(Self {
                left_contracting: vec![1],
                right_contracting: vec![0],
                ..Self::default()
            }),
            "stablehlo.dot_general" => {
                let pair = |pretty: &str, left: &str, right: &str| {
                    let found = op.integer_pair(text, pretty);
                    let (a, b) = found
                        .or_else(|| Some((op.integers(text, left)?, op.integers(text, right)?)))?;
                    Some((indices(a), indices(b)))
                };
                let batch = pair(
                    "batching_dims",
                    "lhs_batching_dimensions",
                    "rhs_batching_dimensions",
                );
                let contracting = pair(
                    "contracting_dims",
                    "lhs_contracting_dimensions",
                    "rhs_contracting_dimensions",
                );
                let (left_batch, right_batch) = batch.unwrap_or_default();
                let (left_contracting, right_contracting) = contracting.unwrap_or_default();
                Some(Self {
                    left_batch,
                    right_batch,
                    left_contracting,
                    right_contracting,
                })
            }
            _ => None,
        }
    }
}

impl Rule<'_, '_> {
    pub(super) fn dot(&mut self) -> Option<()> {
        let (left, right, out) = (self.operand(0)?, self.operand(1)?, self.result(0)?);
        let axes = DotAxes::read(self.module.text, self.op)?;
        let mut next = 0;
        for (&a, &b) in axes.left_batch.iter().zip(&axes.right_batch) {
            self.equal(left, a, right, b)?;
            self.equal(left, a, out, next)?;
            next += 1;
        }
        for (&a, &b) in axes.left_contracting.iter().zip(&axes.right_contracting) {
            self.equal(left, a, right, b)?;
        }
        for axis in 0..self.dims.of(left).len() {
            if !axes.left_batch.contains(&axis) && !axes.left_contracting.contains(&axis) {
                self.equal(left, axis, out, next)?;
                next += 1;
            }
        }
        for axis in 0..self.dims.of(right).len() {
            if !axes.right_batch.contains(&axis) && !axes.right_contracting.contains(&axis) {
                self.equal(right, axis, out, next)?;
                next += 1;
            }
        }
        Some(())
    }

    /// Rows in groups, each group by a matrix of its own.
    pub(super) fn ragged_dot(&mut self) -> Option<()> {
        let (left, right, groups) = (self.operand(0)?, self.operand(1)?, self.operand(2)?);
        let out = self.result(0)?;
        let contracting = self.axes(&["lhs_contracting_dimensions"]);
        let right_contracting = self.axes(&["rhs_contracting_dimensions"]);
        let ragged = self.axes(&["lhs_ragged_dimensions"]);
        let group = self.axes(&["rhs_group_dimensions"]);
        let batched = !self.axes(&["lhs_batching_dimensions"]).is_empty();
        if batched || group.len() != 1 || ragged.iter().any(|a| contracting.contains(a)) {
            return None;
        }
        for (&a, &b) in contracting.iter().zip(&right_contracting) {
            self.equal(left, a, right, b)?;
        }
        self.equal(groups, 0, right, *group.first()?)?;
        let mut next = 0;
        for axis in (0..self.dims.of(left).len()).filter(|a| !contracting.contains(a)) {
            self.equal(left, axis, out, next)?;
            next += 1;
        }
        let used = |a: &usize| right_contracting.contains(a) || group.contains(a);
        for axis in (0..self.dims.of(right).len()).filter(|a| !used(a)) {
            self.equal(right, axis, out, next)?;
            next += 1;
        }
        Some(())
    }

    /// `dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`: batches and features follow each
    /// other, what the window moves over stays.
    pub(super) fn convolution(&mut self) -> Option<()> {
        let [input, kernel, output] = convolution_axes(self.module.text, self.op)?;
        let (left, right, out) = (self.operand(0)?, self.operand(1)?, self.result(0)?);
        let at = |axes: &[String], name: &str| axes.iter().position(|a| a == name);
        let whole = |key| {
            self.integers(&[key])
                .is_none_or(|n| n.iter().all(|n| n.value == 1))
        };
        let grouped = !whole("feature_group_count") || !whole("batch_group_count");
        self.equal(left, at(&input, "b")?, out, at(&output, "b")?)?;
        let (a, b) = (at(&input, "f")?, at(&kernel, "i")?);
        let (c, d) = (at(&kernel, "o")?, at(&output, "f")?);
        self.equal(right, c, out, d)?;
        if grouped {
            for (value, axis) in [(left, a), (right, b), (right, c)] {
                let node = self.node(value, axis)?;
                self.dims
                    .freeze(node, self.op, "works in groups of features");
            }
        } else {
            self.equal(left, a, right, b)?;
        }
        for (value, axes) in [(left, &input), (right, &kernel), (out, &output)] {
            for axis in (0..axes.len()).filter(|&i| axes[i].bytes().all(|c| c.is_ascii_digit())) {
                let node = self.node(value, axis)?;
                self.dims.freeze(node, self.op, "moves a window over it");
            }
        }
        Some(())
    }
}

/// The names of the dimensions of a convolution's input, kernel and output.
pub(in crate::compiler::what_if) fn convolution_axes(
    text: &str,
    op: &Op,
) -> Option<[Vec<String>; 3]> {
    let (_, numbers) = text.get(op.range.clone())?.split_once("dim_numbers = ")?;
    let mut lists = numbers.split('[').skip(1).map(|list| {
        let inside = list.split(']').next().unwrap_or("");
        inside
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect::<Vec<_>>()
    });
    Some([lists.next()?, lists.next()?, lists.next()?])
}
