//! Which dimensions of a program change together: classes of equal ones, and the arithmetic
//! between classes that reshapes, slices, pads and concatenations state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use crate::program::stablehlo::{Module, Op, ValueId};

use super::WhatIfError;

/// A dimension of a value.
pub(super) type Node = usize;

/// An operation as errors name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) op: String,
    pub(super) line: usize,
}

impl Site {
    pub(super) fn of(op: &Op) -> Self {
        Self {
            op: op.name.clone(),
            line: op.line,
        }
    }

    fn refuse(&self, why: impl Into<String>) -> WhatIfError {
        WhatIfError::Refused {
            op: self.op.clone(),
            line: self.line,
            why: why.into(),
        }
    }
}

/// How classes depend on each other.
#[derive(Clone, Debug)]
pub(super) enum Relation {
    /// `whole = Π parts`: a reshape that merges or splits.
    Product { whole: Node, parts: Vec<Node> },
    /// `whole = Σ parts`: a concatenation.
    Sum { whole: Node, parts: Vec<Node> },
    /// `part = whole · numerator / denominator`: a share of a dimension.
    Share {
        part: Node,
        whole: Node,
        numerator: i64,
        denominator: i64,
    },
    /// `part = whole + delta`: all of a dimension but a fixed number.
    Offset { part: Node, whole: Node, delta: i64 },
}

/// A number in the text that follows a dimension.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expr {
    /// The dimension's size.
    Size(Node),
    /// `size · numerator / denominator`.
    Share {
        of: Node,
        numerator: i64,
        denominator: i64,
    },
    /// `size + delta`.
    Offset { of: Node, delta: i64 },
    /// `whole - part - delta`: what is left behind a part.
    Rest { whole: Node, part: Node, delta: i64 },
}

/// The dimensions of all values of a module.
pub(super) struct Dims {
    /// First node of each value.
    first: Vec<Node>,
    sizes: Vec<Option<i64>>,
    parent: Vec<Node>,
    relations: Vec<(Relation, Site)>,
    frozen: Vec<(Node, Site, &'static str)>,
    /// `part + start <= whole`.
    inside: Vec<(Node, i64, Node, Site)>,
    numbers: Vec<(Range<usize>, Expr)>,
}

/// Sizes of the classes that change, by root.
pub(super) type Sizes = BTreeMap<Node, i64>;

impl Dims {
    pub(super) fn new(module: &Module<'_>) -> Self {
        let (mut first, mut sizes) = (Vec::new(), Vec::new());
        for value in module.values() {
            first.push(sizes.len());
            sizes.extend(value.tensor.iter().flat_map(|t| &t.dims).map(|d| d.size));
        }
        first.push(sizes.len());
        let parent = (0..sizes.len()).collect();
        let (relations, frozen, inside, numbers) = Default::default();
        Self {
            first,
            sizes,
            parent,
            relations,
            frozen,
            inside,
            numbers,
        }
    }

    /// The dimensions of `value`; none when its type is unknown.
    pub(super) fn of(&self, value: ValueId) -> Range<Node> {
        let at = value.index();
        match (self.first.get(at), self.first.get(at + 1)) {
            (Some(&from), Some(&to)) => from..to,
            _ => 0..0,
        }
    }

    /// Dimension `axis` of `value`.
    pub(super) fn node(&self, value: ValueId, axis: usize) -> Option<Node> {
        self.of(value).nth(axis)
    }

    /// The size that is written.
    pub(super) fn size(&self, node: Node) -> Option<i64> {
        self.sizes.get(node).copied().flatten()
    }

    /// The class of `node`.
    pub(super) fn root(&self, mut node: Node) -> Node {
        while let Some(&parent) = self.parent.get(node)
            && parent != node
        {
            node = parent;
        }
        node
    }

    /// States that two dimensions are one.
    pub(super) fn equal(&mut self, a: Node, b: Node) {
        let (a, b) = (self.compress(a), self.compress(b));
        // The lower node is the root: arguments come before what is made from them.
        let (low, high) = (a.min(b), a.max(b));
        if let Some(parent) = self.parent.get_mut(high) {
            *parent = low;
        }
    }

    /// The class of `node`, with shorter ways to it for the next who asks.
    fn compress(&mut self, node: Node) -> Node {
        let root = self.root(node);
        let mut at = node;
        while at != root
            && let Some(parent) = self.parent.get_mut(at)
        {
            at = std::mem::replace(parent, root);
        }
        root
    }

    /// States that two values have the same dimensions.
    pub(super) fn same(&mut self, a: ValueId, b: ValueId) {
        let (a, b) = (self.of(a), self.of(b));
        if a.len() == b.len() {
            a.zip(b).for_each(|(a, b)| self.equal(a, b));
        }
    }

    pub(super) fn relate(&mut self, relation: Relation, op: &Op) {
        self.relations.push((relation, Site::of(op)));
    }

    /// States that `op` allows no change of `node`.
    pub(super) fn freeze(&mut self, node: Node, op: &Op, why: &'static str) {
        self.frozen.push((node, Site::of(op), why));
    }

    /// Whether an operation so far allows no change of `node`.
    pub(super) fn is_frozen(&self, node: Node) -> bool {
        let root = self.root(node);
        self.frozen
            .iter()
            .any(|(frozen, ..)| self.root(*frozen) == root)
    }

    pub(super) fn freeze_value(&mut self, value: ValueId, op: &Op, why: &'static str) {
        self.of(value).for_each(|node| self.freeze(node, op, why));
    }

    /// States that `part`, from `start` on, lies inside of `whole`.
    pub(super) fn inside(&mut self, part: Node, start: i64, whole: Node, op: &Op) {
        self.inside.push((part, start, whole, Site::of(op)));
    }

    /// States that the number at `range` follows dimensions.
    pub(super) fn number(&mut self, range: Range<usize>, expr: Expr) {
        self.numbers.push((range, expr));
    }

    /// For each class that a reshape merges from others, those others, ones left out.
    pub(super) fn merged(&self) -> BTreeMap<Node, Vec<Node>> {
        let mut merged: BTreeMap<Node, Vec<Node>> = BTreeMap::new();
        for (relation, _) in &self.relations {
            if let Relation::Product { whole, parts } = relation {
                let several = parts.iter().copied().filter(|&p| self.size(p) != Some(1));
                merged.entry(self.root(*whole)).or_default().extend(several);
            }
        }
        merged
    }

    /// The sizes of all classes that change when those of `wanted` do.
    pub(super) fn solve(&self, wanted: &[(Node, i64)]) -> Result<Sizes, WhatIfError> {
        let mut touching: BTreeMap<Node, Vec<usize>> = BTreeMap::new();
        for (i, (relation, _)) in self.relations.iter().enumerate() {
            for node in relation.nodes() {
                touching.entry(self.root(node)).or_default().push(i);
            }
        }
        let mut sizes = Sizes::new();
        for &(node, size) in wanted {
            if let Some(first) = sizes
                .insert(self.root(node), size)
                .filter(|&old| old != size)
            {
                return Err(WhatIfError::Contradiction {
                    first,
                    second: size,
                });
            }
        }
        let mut queue: VecDeque<Node> = sizes.keys().copied().collect();
        // A sum, or a product of which only the whole is known, waits for what others say.
        let mut waiting: BTreeSet<usize> = BTreeSet::new();
        // Each step settles a class or takes one from those that wait, so this ends.
        loop {
            let (ready, patient) = match queue.pop_front() {
                Some(root) => (touching.get(&root).cloned().unwrap_or_default(), true),
                None => match waiting.pop_first() {
                    Some(one) => (vec![one], false),
                    None => break,
                },
            };
            for i in ready {
                let Some((relation, site)) = self.relations.get(i) else {
                    continue;
                };
                if patient && self.waits(relation, &sizes) {
                    waiting.insert(i);
                    continue;
                }
                for (node, size) in self.follow(relation, site, &sizes)? {
                    let root = self.root(node);
                    if self.now(node, &sizes) == Some(size) {
                        continue;
                    }
                    if let Some(&old) = sizes.get(&root) {
                        return Err(site.refuse(format!("needs {size} where others need {old}")));
                    }
                    sizes.insert(root, size);
                    queue.push_back(root);
                }
            }
        }
        self.check(&sizes)?;
        Ok(sizes)
    }

    fn waits(&self, relation: &Relation, sizes: &Sizes) -> bool {
        match relation {
            Relation::Sum { .. } => true,
            Relation::Product { parts, .. } => {
                !parts.iter().any(|p| sizes.contains_key(&self.root(*p)))
            }
            Relation::Share { .. } | Relation::Offset { .. } => false,
        }
    }

    /// The size of `node` once `sizes` hold.
    pub(super) fn now(&self, node: Node, sizes: &Sizes) -> Option<i64> {
        sizes
            .get(&self.root(node))
            .copied()
            .or_else(|| self.size(node))
    }

    /// Numbers in the text that change, with their new values.
    pub(super) fn changed_numbers(&self, sizes: &Sizes) -> Vec<(Range<usize>, i64)> {
        let changed = |node: Node| sizes.contains_key(&self.root(node));
        let now = |node| self.now(node, sizes);
        let value = |expr: &Expr| match *expr {
            Expr::Size(of) => changed(of).then(|| now(of))?,
            Expr::Share {
                of,
                numerator,
                denominator,
            } => changed(of).then(|| now(of)?.checked_mul(numerator)?.checked_div(denominator))?,
            Expr::Offset { of, delta } => changed(of).then(|| now(of)?.checked_add(delta))?,
            Expr::Rest { whole, part, delta } => (changed(whole) || changed(part))
                .then(|| now(whole)?.checked_sub(now(part)?)?.checked_sub(delta))?,
        };
        self.numbers
            .iter()
            .filter_map(|(range, e)| Some((range.clone(), value(e)?)))
            .collect()
    }

    /// What `relation` says of its members, given those that have changed.
    fn follow(
        &self,
        relation: &Relation,
        site: &Site,
        sizes: &Sizes,
    ) -> Result<Vec<(Node, i64)>, WhatIfError> {
        let now = |node: &Node| self.now(*node, sizes);
        let changed = |node: &Node| sizes.contains_key(&self.root(*node));
        let open = || site.refuse("has a dimension of unknown size");
        Ok(match relation {
            Relation::Share {
                part,
                whole,
                numerator,
                denominator,
            } => {
                let (from, to, by, over) = if changed(whole) {
                    (whole, part, numerator, denominator)
                } else {
                    (part, whole, denominator, numerator)
                };
                let size = now(from).ok_or_else(open)?;
                let size = divided(size, *by, *over).ok_or_else(|| {
                    site.refuse(format!(
                        "takes {numerator}/{denominator} of {size}, which is no whole number"
                    ))
                })?;
                vec![(*to, size)]
            }
            Relation::Offset { part, whole, delta } => {
                if changed(whole) {
                    vec![(*part, now(whole).ok_or_else(open)?.saturating_add(*delta))]
                } else {
                    vec![(*whole, now(part).ok_or_else(open)?.saturating_sub(*delta))]
                }
            }
            Relation::Product { whole, parts } => {
                let product = parts.iter().try_fold(1_i64, |n, p| n.checked_mul(now(p)?));
                let product = product.ok_or_else(open)?;
                if parts.iter().any(changed) {
                    vec![(*whole, product)]
                } else {
                    self.absorb(*whole, parts, product, site, sizes)?
                }
            }
            Relation::Sum { whole, parts } => {
                let sum = parts.iter().try_fold(0_i64, |n, p| n.checked_add(now(p)?));
                let sum = sum.ok_or_else(open)?;
                let whole_now = now(whole).ok_or_else(open)?;
                if sum == whole_now {
                    return Ok(Vec::new());
                }
                if !changed(whole) {
                    return Ok(vec![(*whole, sum)]);
                }
                let shares = parts
                    .iter()
                    .map(|p| Some((*p, divided(now(p)?, whole_now, sum)?)));
                shares.collect::<Option<Vec<_>>>().ok_or_else(|| {
                    site.refuse(format!("joins parts that cannot share {whole_now}"))
                })?
            }
        })
    }

    /// A product has changed and none of its parts: the last part that can takes it up.
    fn absorb(
        &self,
        whole: Node,
        parts: &[Node],
        product: i64,
        site: &Site,
        sizes: &Sizes,
    ) -> Result<Vec<(Node, i64)>, WhatIfError> {
        let whole = self.now(whole, sizes).unwrap_or(product);
        let able = parts.iter().rev().find_map(|p| {
            let size = self.now(*p, sizes).filter(|&s| s > 1)?;
            Some((*p, divided(size, whole, product)?))
        });
        able.map(|part| vec![part]).ok_or_else(|| {
            let parts: Vec<_> = parts
                .iter()
                .filter_map(|p| self.size(*p))
                .map(|s| s.to_string())
                .collect();
            site.refuse(format!(
                "splits {product} into {}, and neither can make {whole}",
                parts.join(" x ")
            ))
        })
    }

    /// Refuses changes of what must not change.
    fn check(&self, sizes: &Sizes) -> Result<(), WhatIfError> {
        for (node, site, why) in &self.frozen {
            if sizes
                .get(&self.root(*node))
                .is_some_and(|&new| Some(new) != self.size(*node))
            {
                return Err(site.refuse(*why));
            }
        }
        for (part, start, whole, site) in &self.inside {
            if let (Some(part), Some(whole)) = (self.now(*part, sizes), self.now(*whole, sizes))
                && part.saturating_add(*start) > whole
            {
                let end = part.saturating_add(*start);
                return Err(site.refuse(format!("would reach {end} in a dimension of {whole}")));
            }
        }
        for &size in sizes.values() {
            if size < 1 {
                return Err(WhatIfError::NotPositive { size });
            }
        }
        Ok(())
    }
}

impl Relation {
    fn nodes(&self) -> Vec<Node> {
        match self {
            Self::Product { whole, parts } | Self::Sum { whole, parts } => {
                parts.iter().copied().chain([*whole]).collect()
            }
            Self::Share { part, whole, .. } | Self::Offset { part, whole, .. } => {
                vec![*part, *whole]
            }
        }
    }
}

/// `size · by / over` when it is a whole number.
fn divided(size: i64, by: i64, over: i64) -> Option<i64> {
    let product = size.checked_mul(by)?;
    (product.checked_rem(over)? == 0).then(|| product / over)
}
