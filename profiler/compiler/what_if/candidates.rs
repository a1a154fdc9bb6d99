//! Which changes are worth a compile: dimensions of the matmuls that fill no whole tile, and
//! weights that are transposed before every use.

use std::collections::BTreeMap;

use crate::program::stablehlo::types::TensorType;
use crate::program::stablehlo::{Module, Op};

use super::dims::{Dims, Node};
use super::dtype::is_dot;
use super::rules::{self, DotAxes};
use super::{Change, Dimension, Resize};

/// The tile that a chip lays arrays out in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Elements in the minor dimension: 128 on every TPU so far.
    pub lanes: i64,
    /// Elements in the dimension before it: 8 for 32-bit types.
    pub sublanes: i64,
}

impl Default for Tiles {
    fn default() -> Self {
        Self {
            lanes: 128,
            sublanes: 8,
        }
    }
}

/// A change that may pay.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The change.
    pub change: Change,
    /// Share of the program's matmul FLOPs (an operation in a loop counted once) that the changed
    /// dimensions take part in, 0 to 1. For a stored weight: the share of the matmuls it feeds.
    pub share: f64,
}

/// Dimensions below this share of the program's FLOPs are not worth a compile.
const LEAST_SHARE: f64 = 0.02;
/// A dimension may grow by this factor: 80 to 128.
const MOST_GROWTH: f64 = 1.6;
/// Dimensions that change together, at most: the number of changes is quadratic in it.
const MOST_DIMENSIONS: usize = 6;

/// Changes worth a compile: each dimension alone, pairs, all together; then stored weights.
/// In the order of their shares, combinations behind what they are made of.
#[must_use]
pub fn candidates(module: &Module<'_>, tiles: Tiles) -> Vec<Candidate> {
    let dims = rules::dimensions(module);
    let work = Work::of(module, &dims);
    let mut out = Vec::new();
    let single = work.resizes(module, &dims, tiles);
    let solves = |resizes: &[&(Resize, f64)]| {
        let wanted = resizes.iter().filter_map(|(r, _)| {
            let (value, _) = r.dimension.find(module)?;
            Some((dims.node(value, r.dimension.axis)?, r.to))
        });
        dims.solve(&wanted.collect::<Vec<_>>()).is_ok()
    };
    let single: Vec<_> = single
        .into_iter()
        .filter(|s| solves(&[s]))
        .take(MOST_DIMENSIONS)
        .collect();
    let mut add = |parts: &[&(Resize, f64)]| {
        if solves(parts) {
            let share = parts.iter().map(|(_, share)| *share).fold(0.0, f64::max);
            let change = Change::Resize(parts.iter().map(|(r, _)| r.clone()).collect());
            out.push(Candidate { change, share });
        }
    };
    single.iter().for_each(|s| add(&[s]));
    if single.len() > 2 {
        for (i, a) in single.iter().enumerate() {
            single.iter().skip(i + 1).for_each(|b| add(&[a, b]));
        }
    }
    if single.len() > 1 {
        add(&single.iter().collect::<Vec<_>>());
    }
    out.extend(stored_transposed(module, &work));
    out
}

/// FLOPs of the matmuls, by dimension.
struct Work {
    total: f64,
    by_class: BTreeMap<Node, f64>,
    by_value: BTreeMap<usize, f64>,
}

impl Work {
    fn of(module: &Module<'_>, dims: &Dims) -> Self {
        let mut work = Self {
            total: 0.0,
            by_class: BTreeMap::new(),
            by_value: BTreeMap::new(),
        };
        for (_, op) in module.ops() {
            work.add(module, dims, op);
        }
        work
    }

    fn add(&mut self, module: &Module<'_>, dims: &Dims, op: &Op) -> Option<()> {
        let ragged = op.name == "chlo.ragged_dot";
        if !ragged && !is_dot(op) {
            return None;
        }
        let (left, right, out) = (op.operand(0)?, op.operand(1)?, *op.results.first()?);
        let (batch, contracting) = if ragged {
            let axes = op.integers(module.text, "lhs_contracting_dimensions")?;
            (Vec::new(), axes.iter().map(|n| n.index()).collect())
        } else {
            let axes = DotAxes::read(module.text, op)?;
            (axes.left_batch, axes.left_contracting)
        };
        let elements =
            |t: &TensorType| t.dims.iter().try_fold(1.0, |n, d| Some(n * lossy(d.size?)));
        let depth = contracting.iter().try_fold(1.0, |n, &a| {
            Some(n * lossy(dims.size(dims.node(left, a)?)?))
        })?;
        let flops = 2.0 * elements(module.value(out).tensor.as_ref()?)? * depth;
        self.total += flops;
        let batches: Vec<Node> = batch
            .iter()
            .filter_map(|&a| Some(dims.root(dims.node(left, a)?)))
            .collect();
        let mut classes: Vec<Node> = dims
            .of(left)
            .chain(dims.of(right))
            .map(|n| dims.root(n))
            .collect();
        classes.sort_unstable();
        classes.dedup();
        for class in classes.into_iter().filter(|c| !batches.contains(c)) {
            *self.by_class.entry(class).or_default() += flops;
        }
        for value in [left, right] {
            *self.by_value.entry(value.index()).or_default() += flops;
        }
        Some(())
    }

    fn share(&self, flops: f64) -> f64 {
        if self.total > 0.0 {
            flops / self.total
        } else {
            0.0
        }
    }

    /// Dimensions that fill no whole tile, the most worked on first.
    fn resizes(&self, module: &Module<'_>, dims: &Dims, tiles: Tiles) -> Vec<(Resize, f64)> {
        let names = names(module, dims);
        let mut out = Vec::new();
        for (&class, &flops) in &self.by_class {
            let share = self.share(flops);
            let Some(from) = dims.size(class).filter(|_| share >= LEAST_SHARE) else {
                continue;
            };
            let Some(dimension) = names.get(&class) else {
                continue;
            };
            let lanes = tiles.lanes.max(1);
            let to = from.saturating_add(lanes - 1) / lanes * lanes;
            let grows = lossy(to) / lossy(from);
            // The merged dimension of heads and head size follows from its parts.
            if to > from && grows <= MOST_GROWTH && !dims.is_product(class) {
                out.push((
                    Resize {
                        dimension: dimension.clone(),
                        from,
                        to,
                    },
                    share,
                ));
            }
        }
        out.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
        out
    }
}

/// A name for each class: the first argument of `@main` that has it, else the first value.
fn names(module: &Module<'_>, dims: &Dims) -> BTreeMap<Node, Dimension> {
    let mut names = BTreeMap::new();
    let main = module.main().map(|f| f.name.as_str());
    let (first, rest): (Vec<_>, Vec<_>) = module
        .functions
        .iter()
        .partition(|f| Some(f.name.as_str()) == main);
    for function in first.into_iter().chain(rest) {
        let results = function
            .body
            .ops
            .iter()
            .flat_map(|&id| &module.op(id).results);
        for &value in function.body.arguments.iter().chain(results) {
            for (axis, node) in dims.of(value).enumerate() {
                names.entry(dims.root(node)).or_insert_with(|| Dimension {
                    function: function.name.clone(),
                    value: module.value(value).name.clone(),
                    axis,
                });
            }
        }
    }
    names
}

/// Arguments whose only reader is a transpose that exchanges two dimensions.
fn stored_transposed(module: &Module<'_>, work: &Work) -> Vec<Candidate> {
    let mut out = Vec::new();
    let uses = module.uses();
    let arguments = module
        .main()
        .map(|f| f.body.arguments.as_slice())
        .unwrap_or_default();
    for (argument, value) in arguments.iter().enumerate() {
        let Some([(reader, _)]) = uses.get(value.index()).map(Vec::as_slice) else {
            continue;
        };
        let op = module.op(*reader);
        if op.name != "stablehlo.transpose" {
            continue;
        }
        let order = ["dims", "permutation"]
            .iter()
            .find_map(|k| op.integers(module.text, k));
        let order: Vec<usize> = order
            .unwrap_or_default()
            .iter()
            .map(|n| n.index())
            .collect();
        let moved: Vec<usize> = (0..order.len()).filter(|&i| order[i] != i).collect();
        let &[a, b] = moved.as_slice() else { continue };
        let flops = op
            .results
            .first()
            .and_then(|r| work.by_value.get(&r.index()));
        let share = work.share(flops.copied().unwrap_or(0.0));
        if share >= LEAST_SHARE {
            out.push(Candidate {
                change: Change::StoreSwapped {
                    argument,
                    axes: (a, b),
                },
                share,
            });
        }
    }
    out
}

/// Counts of elements as floats: exact below 2^53, and a share needs no more.
#[expect(clippy::cast_precision_loss, reason = "a share needs three digits")]
fn lossy(size: i64) -> f64 {
    size as f64
}
