//! Which changes are worth a compile: dimensions of the matmuls that fill no whole tile, and
//! weights that are transposed before every use, matmuls of one
//! operand that could be one.

use std::collections::BTreeMap;

use crate::program::stablehlo::{Module, Op, ValueId};

use super::dims::{Dims, Node, Sizes};
use super::dtype::is_dot;
use super::merge;
use super::rules::{self, DotAxes};
use super::{Change, Dimension, Resize};

/// The tile that a chip lays arrays out in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Elements in the minor dimension: 128 on every TPU so far.
    pub lanes: i64,
}

impl Default for Tiles {
    fn default() -> Self {
        Self { lanes: 128 }
    }
}

/// A change that may pay.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The change.
    pub change: Change,
    /// Share of the program's FLOPs in matmuls and convolutions (an operation in a loop counted once) that the changed
    /// dimensions take part in, 0 to 1. For a stored weight: the share of the matmuls it feeds.
    pub share: f64,
}

/// Dimensions below this share of the program's FLOPs are not worth a compile.
const LEAST_SHARE: f64 = 0.02;
/// A dimension may grow by this factor: 80 to 128.
const MOST_GROWTH: f64 = 1.6;
/// Sizes that are tried, at most: the number of changes is quadratic in it.
const MOST_SIZES: usize = 6;

/// Changes worth a compile: each size alone, pairs, all together; then stored weights. In the order
/// of their shares, combinations behind what they are made of.
///
/// Dimensions of one size that could change apart (the vocabularies of an embedding and of an output
/// matrix, the head sizes of keys and of values) are one candidate: a model has one number for them.
#[must_use]
pub fn candidates(module: &Module<'_>, tiles: Tiles) -> Vec<Candidate> {
    let dims = rules::dimensions(module);
    let work = Work::of(module, &dims);
    let node = |r: &Resize| dims.node(r.dimension.find(module)?.0, r.dimension.axis);
    let solve = |resizes: &[Resize]| {
        let wanted: Vec<_> = resizes
            .iter()
            .filter_map(|r| Some((node(r)?, r.to)))
            .collect();
        dims.solve(&wanted).ok()
    };
    let mut single: Vec<(Vec<Resize>, f64)> = Vec::new();
    for (resize, share) in work.resizes(module, &dims, tiles) {
        if solve(std::slice::from_ref(&resize)).is_none() {
            continue;
        }
        let same = |group: &[Resize]| group.first().is_some_and(|r| r.from == resize.from);
        let Some((group, most)) = single.iter_mut().find(|(group, _)| same(group)) else {
            single.push((vec![resize], share));
            continue;
        };
        let follows =
            |sizes: Sizes| node(&resize).is_some_and(|n| sizes.contains_key(&dims.root(n)));
        if !solve(group).is_some_and(follows) {
            group.push(resize);
            if solve(group).is_none() {
                group.pop();
                continue;
            }
        }
        *most = share.max(*most);
    }
    single.retain(|(_, share)| *share >= LEAST_SHARE);
    single.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
    single.truncate(MOST_SIZES);

    let mut out = Vec::new();
    let mut add = |parts: &[&(Vec<Resize>, f64)]| {
        let resizes: Vec<Resize> = parts.iter().flat_map(|(r, _)| r.iter().cloned()).collect();
        if solve(&resizes).is_some() {
            let share = parts.iter().map(|(_, share)| *share).fold(0.0, f64::max);
            out.push(Candidate {
                change: Change::Resize(resizes),
                share,
            });
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
    let stored = stored_transposed(module, &work);
    if stored.len() > 1 {
        let share = stored.iter().map(|c| c.share).sum::<f64>().min(1.0);
        let change = Change::Together(stored.iter().map(|c| c.change.clone()).collect());
        out.push(Candidate { change, share });
    }
    out.extend(stored);
    for (lines, weights) in merge::groups(module) {
        let flops = weights
            .iter()
            .filter_map(|w| work.by_value.get(&w.index()))
            .sum();
        let share = work.share(flops);
        if share >= LEAST_SHARE {
            out.push(Candidate {
                change: Change::MergeMatmuls { lines },
                share,
            });
        }
    }
    out
}

/// FLOPs of matmuls and convolutions, by dimension.
struct Work {
    total: f64,
    by_class: BTreeMap<Node, f64>,
    by_value: BTreeMap<usize, f64>,
    /// Classes that are merged from others.
    merged: BTreeMap<Node, Vec<Node>>,
}

impl Work {
    fn of(module: &Module<'_>, dims: &Dims) -> Self {
        let mut work = Self {
            total: 0.0,
            by_class: BTreeMap::new(),
            by_value: BTreeMap::new(),
            merged: dims.merged(),
        };
        for (_, op) in module.ops() {
            work.add(module, dims, op);
        }
        work
    }

    fn add(&mut self, module: &Module<'_>, dims: &Dims, op: &Op) -> Option<()> {
        let (left, right, out) = (op.operand(0)?, op.operand(1)?, *op.results.first()?);
        let elements = |value: ValueId| {
            let tensor = module.value(value).tensor.as_ref()?;
            tensor
                .dims
                .iter()
                .try_fold(1.0, |n, d| Some(n * lossy(d.size?)))
        };
        let size = |value: ValueId, axis: usize| Some(lossy(dims.size(dims.node(value, axis)?)?));
        let mut batches = Vec::new();
        // Multiply-adds for each element of the result.
        let depth = if is_dot(op) {
            let axes = DotAxes::read(module.text, op)?;
            let batch = axes.left_batch.iter().filter_map(|&a| dims.node(left, a));
            batches.extend(batch.map(|n| dims.root(n)));
            axes.left_contracting
                .iter()
                .try_fold(1.0, |n, &a| Some(n * size(left, a)?))?
        } else if op.name == "chlo.ragged_dot" {
            let axes = op.integers(module.text, "lhs_contracting_dimensions")?;
            axes.iter()
                .try_fold(1.0, |n, a| Some(n * size(left, a.index())?))?
        } else if op.name == "stablehlo.convolution" {
            let [_, kernel, _] = rules::convolution_axes(module.text, op)?;
            let features = kernel.iter().position(|name| name == "o")?;
            elements(right)? / size(right, features)?
        } else {
            return None;
        };
        let flops = 2.0 * elements(out)? * depth;
        self.total += flops;
        // A dimension that heads and head size were merged into is worked on as both.
        let mut classes: Vec<Node> = dims.of(left).chain(dims.of(right)).collect();
        classes.iter_mut().for_each(|n| *n = dims.root(*n));
        for node in classes.clone() {
            classes.extend(
                self.merged
                    .get(&node)
                    .into_iter()
                    .flatten()
                    .map(|&n| dims.root(n)),
            );
        }
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

    /// Dimensions that fill no whole tile, with their share. Those without matmuls (an embedding's
    /// vocabulary) have none.
    fn resizes(&self, module: &Module<'_>, dims: &Dims, tiles: Tiles) -> Vec<(Resize, f64)> {
        let mut out = Vec::new();
        for (class, dimension) in names(module, dims) {
            let Some(from) = dims.size(class) else {
                continue;
            };
            let lanes = tiles.lanes.max(1);
            let to = from.saturating_add(lanes - 1) / lanes * lanes;
            let grows = lossy(to) / lossy(from);
            // A dimension that is merged from others follows from them.
            if to > from && grows <= MOST_GROWTH && !self.merged.contains_key(&class) {
                let share = self.share(self.by_class.get(&class).copied().unwrap_or(0.0));
                out.push((
                    Resize {
                        dimension,
                        from,
                        to,
                    },
                    share,
                ));
            }
        }
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
fn lossy(size: i64) -> f64 {
    size as f64
}
