//! What a candidate costs by arithmetic alone, before any compile: only to try the likely ones
//! first, never to rule one out.
//!
//! Each product of the program is followed through each mesh axis: a sum over a cut dimension is
//! an all-reduce (or, where the result is kept in parts, a reduce-scatter), weights of an axis that
//! also cuts the data are gathered, two operands cut along different dimensions mean that the
//! smaller one is gathered. The compiler merges, shares and hides much of that.

use crate::compiler::sharding::bounds::Rates;
use crate::compiler::sharding::candidate::{AxisUse, Candidate};
use crate::compiler::sharding::flow::{Product, Side};
use crate::compiler::sharding::problem::{Problem, Role};

/// Of the peak, what products of sound shapes reach.
const PRODUCT_EFFICIENCY: f64 = 0.8;

/// Picoseconds that a candidate is expected to take; the scale is rough, the order is what counts.
pub(super) fn estimate_ps(problem: &Problem, candidate: &Candidate, rates: &Rates) -> f64 {
    let axes: Vec<Cut<'_>> = candidate
        .sizes
        .iter()
        .zip(&candidate.uses)
        .map(|(size, uses)| Cut {
            size: *size as f64,
            uses,
        })
        .collect();
    let mut flops = 0.0;
    let mut bytes = 0.0;
    for product in &problem.flow.products {
        let (own_flops, own_bytes) = of_product(problem, product, &axes);
        flops += own_flops;
        bytes += own_bytes;
    }
    flops * 1e12 / (rates.flops_per_s * PRODUCT_EFFICIENCY) + bytes * 1e12 / rates.ici_bytes_per_s
}

/// A mesh axis and what it cuts.
struct Cut<'a> {
    size: f64,
    uses: &'a AxisUse,
}

/// How one mesh axis cuts a tensor of a product: the set of dimensions, if any.
fn cut_of(problem: &Problem, side: &Side, cut: &Cut<'_>) -> Option<u32> {
    let is_weight = is_weight(problem, side);
    let wanted = |axis: usize| match cut.uses.data {
        // The data takes the mesh axis; weights are gathered along it.
        Some(data) => !is_weight && axis == data,
        None => cut.uses.weights.contains(&axis),
    };
    let mut sets = side.axes.iter();
    sets.find(|set| problem.axis_of_set(**set).is_some_and(wanted))
        .copied()
}

fn is_weight(problem: &Problem, side: &Side) -> bool {
    side.argument
        .is_some_and(|argument| problem.role(argument) == Role::Parameter)
}

/// FLOPs on a device, and bytes that it sends and receives.
fn of_product(problem: &Problem, product: &Product, axes: &[Cut<'_>]) -> (f64, f64) {
    let [lhs, rhs] = &product.operands;
    let cuts = |side: &Side| -> Vec<Option<u32>> {
        axes.iter().map(|cut| cut_of(problem, side, cut)).collect()
    };
    let (lhs_cuts, rhs_cuts) = (cuts(lhs), cuts(rhs));
    let mut result_cuts = cuts(&product.result);
    // Of a result that nothing computes in parts, no part is there.
    for (position, cut) in result_cuts.iter_mut().enumerate() {
        let made = [&lhs_cuts, &rhs_cuts];
        *cut = cut.filter(|set| {
            made.iter()
                .any(|side| side.get(position) == Some(&Some(*set)))
        });
    }
    let local = |side: &Side, cuts: &[Option<u32>], without: usize| {
        let parts: f64 = axes
            .iter()
            .zip(cuts)
            .enumerate()
            .filter(|(position, (_, cut))| *position != without && cut.is_some())
            .map(|(_, (axis, _))| axis.size)
            .product();
        side.bytes / parts
    };
    let mut flops = product.flops;
    let mut bytes = 0.0;
    for (position, axis) in axes.iter().enumerate() {
        let share = (axis.size - 1.0) / axis.size;
        let at = |cuts: &[Option<u32>]| cuts.get(position).copied().flatten();
        let (left, right) = (at(&lhs_cuts), at(&rhs_cuts));
        for (side, cuts) in [(lhs, &lhs_cuts), (rhs, &rhs_cuts)] {
            let is_gathered = axis.uses.data.is_some()
                && is_weight(problem, side)
                && side.axes.iter().any(|set| {
                    let axis_of = problem.axis_of_set(*set);
                    axis_of.is_some_and(|a| axis.uses.weights.contains(&a))
                });
            if is_gathered {
                bytes += share * local(side, cuts, position);
            }
        }
        let summed = [left, right]
            .into_iter()
            .flatten()
            .any(|set| product.contracted.contains(&set));
        if summed {
            let is_kept_in_parts = product.result.axes.iter().any(|set| {
                let axis_of = problem.axis_of_set(*set);
                axis_of.is_some_and(|a| axis.uses.weights.contains(&a))
            });
            let times = if is_kept_in_parts { 1.0 } else { 2.0 };
            bytes += times * share * local(&product.result, &result_cuts, position);
        } else if let (Some(a), Some(b)) = (left, right)
            && (a != b || !is_batching(product, a))
        {
            let smaller = local(lhs, &lhs_cuts, position).min(local(rhs, &rhs_cuts, position));
            bytes += share * smaller;
        }
        if left.is_some() || right.is_some() {
            flops /= axis.size;
        }
    }
    (flops, bytes)
}

/// Whether a set that both operands have is one dimension of the result, and not two.
fn is_batching(product: &Product, set: u32) -> bool {
    let in_result = product.result.axes.iter().filter(|axis| **axis == set);
    in_result.count() == 1
}
