//! What each StableHLO operation says about the dimensions of its operands and results.

use crate::program::stablehlo::{Block, Function, Integer, Module, Op, ValueId};

use super::dims::{Dims, Expr, Node, Relation};

/// Reads what all operations of `module` say.
pub(super) fn dimensions(module: &Module<'_>) -> Dims {
    let mut dims = Dims::new(module);
    for (_, op) in module.ops() {
        Rule {
            module,
            op,
            dims: &mut dims,
        }
        .apply();
    }
    dims
}

/// A slice whose bounds are this small a share is a share: halves of heads, thirds of qkv.
const LARGEST_DENOMINATOR: i64 = 16;
/// A slice that leaves this little out is all but a few: `logits[:, :-1]`.
const FEW: i64 = 16;

struct Rule<'a, 't> {
    module: &'a Module<'t>,
    op: &'a Op,
    dims: &'a mut Dims,
}

impl Rule<'_, '_> {
    fn apply(&mut self) {
        let known = self.op.typed && self.known().is_some();
        if !known {
            let why = if self.op.typed {
                "ties its dimensions in a way that is not known here"
            } else {
                "is written in a form that is not known here"
            };
            let values = self.op.operands.iter().map(|o| o.value);
            for value in values
                .chain(self.op.results.iter().copied())
                .collect::<Vec<_>>()
            {
                self.dims.freeze_value(value, self.op, why);
            }
        }
    }

    /// `None` when the operation is not known.
    fn known(&mut self) -> Option<()> {
        match self.op.name.as_str() {
            "return" | "func.return" | "stablehlo.return" | "sdy.return" => Some(()),
            "call" | "func.call" => self.call(),
            "stablehlo.custom_call" => self.custom_call(),
            "sdy.sharding_constraint" | "sdy.reshard" | "sdy.propagation_barrier" => {
                self.elementwise()
            }
            name => {
                if let Some(name) = name.strip_prefix("chlo.") {
                    self.chlo(name)
                } else {
                    self.stablehlo(name.strip_prefix("stablehlo.")?)
                }
            }
        }
    }

    fn stablehlo(&mut self, name: &str) -> Option<()> {
        match name {
            "constant" => self.constant(),
            "iota" | "create_token" | "after_all" => Some(()),
            "broadcast_in_dim" => self.broadcast_in_dim(),
            "broadcast" => self.broadcast(),
            "transpose" => self.transpose(),
            "reshape" => self.reshape(),
            "dot_general" | "dot" => self.dot(),
            "reduce" => self.reduce(),
            "slice" => self.slice(),
            "pad" => self.pad(),
            "concatenate" => self.concatenate(),
            "gather" => self.gather(),
            "scatter" => self.scatter(),
            "dynamic_slice" => self.dynamic_slice(),
            "dynamic_update_slice" => self.dynamic_update_slice(),
            "while" => self.repeat(),
            "if" | "case" => self.branches(),
            "rng_bit_generator" => {
                self.dims.same(self.operand(0)?, self.result(0)?);
                self.dims
                    .freeze_value(self.operand(0)?, self.op, "keeps a generator's state");
                Some(())
            }
            "optimization_barrier" => {
                for (operand, result) in self.op.operands.iter().zip(&self.op.results) {
                    self.dims.same(operand.value, *result);
                }
                Some(())
            }
            "sort" | "all_reduce" | "collective_permute" | "reverse" | "map" => self.elementwise(),
            _ if ELEMENTWISE.contains(&name) => self.elementwise(),
            _ => None,
        }
    }

    fn chlo(&mut self, name: &str) -> Option<()> {
        match name {
            "top_k" => {
                let (operand, results) = (self.operand(0)?, self.op.results.clone());
                let last = self.dims.of(operand).len().checked_sub(1)?;
                for result in results {
                    for axis in 0..last {
                        self.equal(operand, axis, result, axis)?;
                    }
                }
                Some(())
            }
            "ragged_dot" => self.ragged_dot(),
            _ if name.starts_with("broadcast_") => self.broadcast_trailing(),
            "scan" | "dynamic_reshape" => None,
            // The rest of the dialect is special functions of single elements.
            _ => self.elementwise(),
        }
    }

    fn operand(&self, index: usize) -> Option<ValueId> {
        self.op.operand(index)
    }

    fn result(&self, index: usize) -> Option<ValueId> {
        self.op.results.get(index).copied()
    }

    fn node(&self, value: ValueId, axis: usize) -> Option<Node> {
        self.dims.node(value, axis)
    }

    fn equal(&mut self, a: ValueId, a_axis: usize, b: ValueId, b_axis: usize) -> Option<()> {
        let (a, b) = (self.node(a, a_axis)?, self.node(b, b_axis)?);
        self.dims.equal(a, b);
        Some(())
    }

    fn integers(&self, keys: &[&str]) -> Option<Vec<Integer>> {
        keys.iter()
            .find_map(|key| self.op.integers(self.module.text, key))
    }

    /// Indices of the first of `keys` that is there; none when none is.
    fn axes(&self, keys: &[&str]) -> Vec<usize> {
        self.integers(keys)
            .unwrap_or_default()
            .iter()
            .map(Integer::index)
            .collect()
    }

    fn elementwise(&mut self) -> Option<()> {
        let values = self
            .op
            .results
            .iter()
            .copied()
            .chain(self.op.operands.iter().map(|o| o.value));
        let values: Vec<_> = values.collect();
        let first = *values.first()?;
        for value in values {
            self.dims.same(first, value);
        }
        Some(())
    }

    fn constant(&mut self) -> Option<()> {
        let result = self.result(0)?;
        let text = self.module.text.get(self.op.range.clone())?;
        let value = text.split_once("dense<").map_or("", |(_, value)| value);
        // One value for all elements takes any shape.
        if !value.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '(' | '+')) {
            self.dims
                .freeze_value(result, self.op, "holds a table of values");
        }
        Some(())
    }

    fn broadcast_in_dim(&mut self) -> Option<()> {
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

    fn broadcast(&mut self) -> Option<()> {
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
    fn broadcast_trailing(&mut self) -> Option<()> {
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

    fn transpose(&mut self) -> Option<()> {
        let (from, to) = (self.operand(0)?, self.result(0)?);
        for (axis, source) in self.axes(&["dims", "permutation"]).into_iter().enumerate() {
            self.equal(from, source, to, axis)?;
        }
        Some(())
    }

    fn reshape(&mut self) -> Option<()> {
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

    fn dot(&mut self) -> Option<()> {
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
    fn ragged_dot(&mut self) -> Option<()> {
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

    fn reduce(&mut self) -> Option<()> {
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

    fn slice(&mut self) -> Option<()> {
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
                Window::Fixed => {}
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
        let denominator = size / gcd(gcd(start, limit), size).max(1);
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
        if taken > 1 && size.saturating_sub(taken) <= FEW {
            let delta = taken.saturating_sub(size);
            self.dims
                .relate(Relation::Offset { part, whole, delta }, self.op);
            return Window::Offset(size);
        }
        Window::Fixed
    }

    fn pad(&mut self) -> Option<()> {
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
            match self.window(part, whole, low.value, low.value.saturating_add(size), 1) {
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
                // What goes in stays, so what is added behind it takes the change.
                Window::Fixed => {
                    self.dims
                        .freeze(part, self.op, "places a part of fixed size");
                    let delta = low.value.saturating_add(size).saturating_neg();
                    self.dims
                        .number(high.range, Expr::Offset { of: whole, delta });
                }
            }
        }
        Some(())
    }

    fn concatenate(&mut self) -> Option<()> {
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

    fn gather(&mut self) -> Option<()> {
        let (operand, indices, out) = (self.operand(0)?, self.operand(1)?, self.result(0)?);
        let offsets = self.axes(&["offset_dims"]);
        let mut dropped = self.axes(&["collapsed_slice_dims"]);
        let batch = self.axes(&["operand_batching_dims"]);
        let index_batch = self.axes(&["start_indices_batching_dims"]);
        dropped.extend(&batch);
        for (&a, &b) in batch.iter().zip(&index_batch) {
            self.equal(operand, a, indices, b)?;
        }
        let kept = (0..self.dims.of(operand).len()).filter(|a| !dropped.contains(a));
        let sizes = self.integers(&["slice_sizes"])?;
        for (axis, &offset) in kept.zip(&offsets) {
            self.cut(operand, axis, out, offset, sizes.get(axis)?)?;
        }
        self.indexed(indices, out, &offsets)
    }

    /// `out_axis` is what `size` leaves of `axis`.
    fn cut(
        &mut self,
        from: ValueId,
        axis: usize,
        to: ValueId,
        to_axis: usize,
        size: &Integer,
    ) -> Option<()> {
        let (whole, part) = (self.node(from, axis)?, self.node(to, to_axis)?);
        if self.dims.size(whole) == Some(size.value) {
            self.dims.equal(whole, part);
            self.dims.number(size.range.clone(), Expr::Size(whole));
        } else {
            self.dims
                .freeze(part, self.op, "takes a slice of fixed size");
        }
        Some(())
    }

    /// The dimensions of `out` that are no window are those of the indices.
    fn indexed(&mut self, indices: ValueId, out: ValueId, windows: &[usize]) -> Option<()> {
        let vector = *self.axes(&["index_vector_dim"]).first().unwrap_or(&0);
        let from = (0..self.dims.of(indices).len()).filter(|&a| a != vector);
        let to = (0..self.dims.of(out).len()).filter(|a| !windows.contains(a));
        for (a, b) in from.zip(to) {
            self.equal(indices, a, out, b)?;
        }
        Some(())
    }

    fn scatter(&mut self) -> Option<()> {
        let count = self.op.results.len();
        let windows = self.axes(&["update_window_dims"]);
        let mut dropped = self.axes(&["inserted_window_dims"]);
        let batch = self.axes(&["input_batching_dims"]);
        let index_batch = self.axes(&["scatter_indices_batching_dims"]);
        dropped.extend(&batch);
        let indices = self.operand(count)?;
        for index in 0..count {
            let (input, update) = (self.operand(index)?, self.operand(count + 1 + index)?);
            self.dims.same(input, self.result(index)?);
            for (&a, &b) in batch.iter().zip(&index_batch) {
                self.equal(input, a, indices, b)?;
            }
            let kept = (0..self.dims.of(input).len()).filter(|a| !dropped.contains(a));
            for (axis, &window) in kept.zip(&windows) {
                let (whole, part) = (self.node(input, axis)?, self.node(update, window)?);
                if self.dims.size(whole) == self.dims.size(part) {
                    self.dims.equal(whole, part);
                }
            }
            self.indexed(indices, update, &windows)?;
        }
        Some(())
    }

    fn dynamic_slice(&mut self) -> Option<()> {
        let (from, to) = (self.operand(0)?, self.result(0)?);
        for (axis, size) in self.integers(&["sizes", "slice_sizes"])?.iter().enumerate() {
            self.cut(from, axis, to, axis, size)?;
        }
        Some(())
    }

    fn dynamic_update_slice(&mut self) -> Option<()> {
        let (whole, update) = (self.operand(0)?, self.operand(1)?);
        self.dims.same(whole, self.result(0)?);
        for axis in 0..self.dims.of(whole).len() {
            let (a, b) = (self.node(whole, axis)?, self.node(update, axis)?);
            if self.dims.size(a) == self.dims.size(b) {
                self.dims.equal(a, b);
            }
        }
        Some(())
    }

    fn repeat(&mut self) -> Option<()> {
        for (index, operand) in self.op.operands.iter().enumerate() {
            self.dims.same(operand.value, self.result(index)?);
            for region in &self.op.regions {
                self.dims.same(operand.value, *region.arguments.get(index)?);
            }
            if let Some(returned) = self.op.regions.get(1).and_then(|r| self.module.returned(r)) {
                self.dims.same(operand.value, returned.operand(index)?);
            }
        }
        Some(())
    }

    fn branches(&mut self) -> Option<()> {
        for region in &self.op.regions {
            self.returns(region)?;
        }
        Some(())
    }

    fn returns(&mut self, block: &Block) -> Option<()> {
        let returned = self.module.returned(block)?;
        for (operand, &result) in returned.operands.iter().zip(&self.op.results) {
            self.dims.same(operand.value, result);
        }
        Some(())
    }

    fn call(&mut self) -> Option<()> {
        let callee: &Function = self.module.function(self.op.callee.as_deref()?)?;
        for (operand, &argument) in self.op.operands.iter().zip(&callee.body.arguments) {
            self.dims.same(operand.value, argument);
        }
        self.returns(&callee.body)
    }

    fn custom_call(&mut self) -> Option<()> {
        let text = self.module.text.get(self.op.range.clone())?;
        let sharding = ["@Sharding(", "\"Sharding\"", "@LayoutConstraint("];
        if sharding.iter().any(|s| text.contains(s)) {
            self.elementwise()
        } else {
            None
        }
    }
}

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

/// The dimension numbers of a `dot_general` or `dot`.
#[derive(Clone, Debug, Default)]
pub(super) struct DotAxes {
    pub left_batch: Vec<usize>,
    pub right_batch: Vec<usize>,
    pub left_contracting: Vec<usize>,
    pub right_contracting: Vec<usize>,
}

impl DotAxes {
    pub fn read(text: &str, op: &Op) -> Option<Self> {
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

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.saturating_abs(), b.saturating_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Operations whose operands and results have the same dimensions.
const ELEMENTWISE: [&str; 49] = [
    "abs",
    "add",
    "and",
    "atan2",
    "bitcast_convert",
    "cbrt",
    "ceil",
    "clamp",
    "compare",
    "complex",
    "convert",
    "cosine",
    "count_leading_zeros",
    "divide",
    "exponential",
    "exponential_minus_one",
    "floor",
    "imag",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "or",
    "popcnt",
    "power",
    "real",
    "reduce_precision",
    "remainder",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "select",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "uniform_dequantize",
    "uniform_quantize",
    "xor",
];
