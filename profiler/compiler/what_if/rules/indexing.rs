//! Gathers, scatters and slices at run-time places.

use crate::compiler::what_if::dims::Expr;
use crate::program::stablehlo::{Integer, ValueId};

use super::Rule;

impl Rule<'_, '_> {
    pub(super) fn gather(&mut self) -> Option<()> {
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
            self.dims.inside(part, 0, whole, self.op);
            self.dims.number(size.range.clone(), Expr::Size(part));
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

    pub(super) fn scatter(&mut self) -> Option<()> {
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

    pub(super) fn dynamic_slice(&mut self) -> Option<()> {
        let (from, to) = (self.operand(0)?, self.result(0)?);
        for (axis, size) in self.integers(&["sizes", "slice_sizes"])?.iter().enumerate() {
            self.cut(from, axis, to, axis, size)?;
        }
        Some(())
    }

    pub(super) fn dynamic_update_slice(&mut self) -> Option<()> {
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
}
