//! Operations that change shapes: broadcasts, reshapes, reductions, slices, pads.

use crate::program::stablehlo::Integer;

use super::Rule;
use crate::compiler::what_if::dims::{Dims, Expr, Node, Relation};

/// A slice whose bounds are this small a share is a share: halves of heads, thirds of qkv.
const LARGEST_DENOMINATOR: i64 = 16;
/// A slice that leaves this little out is all but a few: `logits[:, :-1]`.
const FEW: i64 = 16;

enum Window {
    /// All of the dimension.
    All,
    /// A share, with the dimension's size as denominator.
    Share(i64),
    /// All but a few of the dimension, whose size this is.
    Offset(i64),
    /// A part that does not follow the dimension.
    Fixed,
}

impl Rule<'_, '_> {
    pub(super) fn broadcast_in_dim(&mut self) -> Option<()> {
        let (from, to) = (self.operand(0)?, self.result(0)?);
        for (axis, target) in self
            .axes(&["dims", "broadcast_dimensions"])
            .into_iter()
            .enumerate()
        {
            let (a, b) = (self.node(from, axis)?, self.node(to, target)?);
            if self.dims.size(a) == self.dims.size(b) {
                self.dims.equal(a, b);
            }
        }
        Some(())
    }

    pub(super) fn broadcast(&mut self) -> Option<()> {
        let (from, to) = (self.operand(0)?, self.result(0)?);
        let sizes = self.integers(&["sizes", "broadcast_sizes"])?;
        for (axis, size) in sizes.iter().enumerate() {
            let node = self.node(to, axis)?;
            self.dims.number(size.range.clone(), Expr::Size(node));
        }
        for axis in 0..self.dims.of(from).len() {
            self.equal(from, axis, to, sizes.len() + axis)?;
        }
        Some(())
    }

    /// Shapes aligned at their last dimensions, ones stretched.
    pub(super) fn broadcast_trailing(&mut self) -> Option<()> {
        let to = self.dims.of(self.result(0)?);
        for operand in &self.op.operands {
            let from = self.dims.of(operand.value);
            for (a, b) in from.rev().zip(to.clone().rev()) {
                if self.dims.size(a) == self.dims.size(b) {
                    self.dims.equal(a, b);
                }
            }
        }
        Some(())
    }

    pub(super) fn transpose(&mut self) -> Option<()> {
        let (from, to) = (self.operand(0)?, self.result(0)?);
        for (axis, source) in self.axes(&["dims", "permutation"]).into_iter().enumerate() {
            self.equal(from, source, to, axis)?;
        }
        Some(())
    }

    pub(super) fn reshape(&mut self) -> Option<()> {
        let from: Vec<Node> = self.dims.of(self.operand(0)?).collect();
        let to: Vec<Node> = self.dims.of(self.result(0)?).collect();
        let size = |dims: &Dims, n: Option<&Node>| n.and_then(|&n| dims.size(n));
        let (mut i, mut j) = (0, 0);
        while i < from.len() || j < to.len() {
            let (a, b) = (size(self.dims, from.get(i)), size(self.dims, to.get(j)));
            // Ones come and go.
            if a == Some(1) && b != Some(1) {
                i += 1;
                continue;
            }
            if b == Some(1) && a != Some(1) {
                j += 1;
                continue;
            }
            let (mut left, mut right) = (a?, b?);
            let (mut to_i, mut to_j) = (i + 1, j + 1);
            while left != right {
                if left < right {
                    left = left.checked_mul(size(self.dims, from.get(to_i))?)?;
                    to_i += 1;
                } else {
                    right = right.checked_mul(size(self.dims, to.get(to_j))?)?;
                    to_j += 1;
                }
            }
            self.regroup(&from[i..to_i], &to[j..to_j]);
            (i, j) = (to_i, to_j);
        }
        Some(())
    }

    fn regroup(&mut self, from: &[Node], to: &[Node]) {
        match (from, to) {
            ([a], [b]) => self.dims.equal(*a, *b),
            ([whole], parts) | (parts, [whole]) => {
                let relation = Relation::Product {
                    whole: *whole,
                    parts: parts.to_vec(),
                };
                self.dims.relate(relation, self.op);
            }
            _ => {
                for &node in from.iter().chain(to) {
                    self.dims.freeze(node, self.op, "mixes its dimensions");
                }
            }
        }
    }

    pub(super) fn reduce(&mut self) -> Option<()> {
        let reduced = self.axes(&["dimensions"]);
        let first = self.operand(0)?;
        for (index, &result) in self.op.results.iter().enumerate() {
            let operand = self.operand(index)?;
            self.dims.same(first, operand);
            let kept = (0..self.dims.of(operand).len()).filter(|axis| !reduced.contains(axis));
            for (out, axis) in kept.enumerate() {
                self.equal(operand, axis, result, out)?;
            }
        }
        Some(())
    }

    pub(super) fn slice(&mut self) -> Option<()> {
        let (from, to) = (self.operand(0)?, self.result(0)?);
        let bounds = self.bounds()?;
        for (axis, (start, limit, stride)) in bounds.into_iter().enumerate() {
            let (whole, part) = (self.node(from, axis)?, self.node(to, axis)?);
            match self.window(part, whole, start.value, limit.value, stride) {
                Window::All => self.dims.number(limit.range, Expr::Size(whole)),
                Window::Share(denominator) => {
                    for bound in [start, limit] {
                        let expr = Expr::Share {
                            of: whole,
                            numerator: bound.value,
                            denominator,
                        };
                        self.dims.number(bound.range, expr);
                    }
                }
                Window::Offset(size) => {
                    let delta = limit.value.saturating_sub(size);
                    self.dims
                        .number(limit.range, Expr::Offset { of: whole, delta });
                }
                Window::Fixed if stride == 1 => {
                    self.dims.inside(part, start.value, whole, self.op);
                    let expr = Expr::Offset {
                        of: part,
                        delta: start.value,
                    };
                    self.dims.number(limit.range, expr);
                }
                Window::Fixed => self.dims.freeze(part, self.op, "takes every n-th element"),
            }
        }
        Some(())
    }

    /// Start, limit and stride of each dimension of a slice.
    fn bounds(&self) -> Option<Vec<(Integer, Integer, i64)>> {
        let text = self.module.text;
        if let Some(starts) = self.op.integers(text, "start_indices") {
            let limits = self.op.integers(text, "limit_indices")?;
            let strides = self.op.integers(text, "strides")?;
            let strides = strides.into_iter().map(|s| s.value);
            return Some(
                starts
                    .into_iter()
                    .zip(limits)
                    .zip(strides)
                    .map(|((a, b), c)| (a, b, c))
                    .collect(),
            );
        }
        let bounds = self.op.slice_bounds(text)?;
        let read = |[start, limit, stride]: [Option<Integer>; 3]| {
            Some((start?, limit?, stride.map_or(1, |s| s.value)))
        };
        bounds.into_iter().map(read).collect()
    }

    /// How `part`, which is `start..limit` of `whole`, follows it.
    fn window(&mut self, part: Node, whole: Node, start: i64, limit: i64, stride: i64) -> Window {
        let Some(size) = self.dims.size(whole) else {
            return Window::Fixed;
        };
        if stride != 1 || size < 1 {
            return Window::Fixed;
        }
        if (start, limit) == (0, size) {
            self.dims.equal(part, whole);
            return Window::All;
        }
        let taken = limit.saturating_sub(start);
        let denominator = self.denominator(start, limit, whole);
        if taken > 1 && denominator <= LARGEST_DENOMINATOR {
            let relation = Relation::Share {
                part,
                whole,
                numerator: taken,
                denominator: size,
            };
            self.dims.relate(relation, self.op);
            return Window::Share(size);
        }
        // A kernel of fixed size: its padding is cut off again.
        let few = taken > 1 && size.saturating_sub(taken) <= FEW;
        if few && (start > 0 || !self.dims.is_frozen(whole)) {
            let delta = taken.saturating_sub(size);
            self.dims
                .relate(Relation::Offset { part, whole, delta }, self.op);
            return Window::Offset(size);
        }
        Window::Fixed
    }

    /// Into how many equal shares `whole` falls when both bounds are between two of them.
    fn denominator(&self, start: i64, limit: i64, whole: Node) -> i64 {
        let size = self.dims.size(whole).unwrap_or(0);
        size / gcd(gcd(start, limit), size).max(1)
    }

    pub(super) fn pad(&mut self) -> Option<()> {
        let (from, to) = (self.operand(0)?, self.result(0)?);
        let low = self.integers(&["low", "edge_padding_low"])?;
        let high = self.integers(&["high", "edge_padding_high"])?;
        let interior = self.integers(&["interior", "interior_padding"])?;
        for (axis, ((low, high), inner)) in low.into_iter().zip(high).zip(interior).enumerate() {
            let (part, whole) = (self.node(from, axis)?, self.node(to, axis)?);
            if inner.value != 0 || low.value < 0 || high.value < 0 {
                for node in [part, whole] {
                    self.dims
                        .freeze(node, self.op, "pads between elements or cuts");
                }
                continue;
            }
            let size = self.dims.size(part)?;
            let end = low.value.saturating_add(size);
            // Behind a part that begins the whole, the rest is filled: both may change.
            let fills = low.value == 0 && self.denominator(0, end, whole) > LARGEST_DENOMINATOR;
            let window = if fills && high.value > 0 {
                Window::Fixed
            } else {
                self.window(part, whole, low.value, end, 1)
            };
            match window {
                Window::Share(denominator) => {
                    for edge in [low, high] {
                        let expr = Expr::Share {
                            of: whole,
                            numerator: edge.value,
                            denominator,
                        };
                        self.dims.number(edge.range, expr);
                    }
                }
                Window::All | Window::Offset(_) => {}
                Window::Fixed => {
                    self.dims.inside(part, low.value, whole, self.op);
                    self.dims.number(
                        high.range,
                        Expr::Rest {
                            whole,
                            part,
                            delta: low.value,
                        },
                    );
                }
            }
        }
        Some(())
    }

    pub(super) fn concatenate(&mut self) -> Option<()> {
        let joined = *self.axes(&["dim", "dimension"]).first()?;
        let result = self.result(0)?;
        let mut parts = Vec::new();
        for index in 0..self.op.operands.len() {
            let operand = self.operand(index)?;
            for axis in 0..self.dims.of(operand).len() {
                if axis == joined {
                    parts.push(self.node(operand, axis)?);
                } else {
                    self.equal(operand, axis, result, axis)?;
                }
            }
        }
        let whole = self.node(result, joined)?;
        self.dims.relate(Relation::Sum { whole, parts }, self.op);
        Some(())
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.saturating_abs(), b.saturating_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
