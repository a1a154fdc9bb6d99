//! Which operation of one run is which of the other, although the compiler numbered them anew.
//!
//! Keys go from strong to weak. Within a key, operations are told apart by name where both runs
//! have the same names, else by the order in which they ran.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::diff::keys::{self, Traits};
use crate::evidence::Evidence;

/// How two operations were found to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matched {
    /// Program, name without numbers, shape, framework op and source line are equal.
    Same,
    /// All but the source line: code above it was edited.
    SourceMoved,
    /// All but the shape.
    ShapeChanged,
    /// Program, name without numbers and framework op are equal.
    ShapeAndSource,
    /// Name without numbers, shape and framework op are equal, the program's name is not.
    OtherProgram,
    /// Program, class, shape and framework op are equal, the name is not: fused otherwise.
    NameChanged,
    /// The only ones left of that name in that program.
    NameOnly,
    /// Only the first run has it.
    Removed,
    /// Only the second run has it.
    Added,
}

impl Matched {
    /// All, from the strongest to the weakest.
    pub const ALL: [Self; 9] = [
        Self::Same,
        Self::SourceMoved,
        Self::ShapeChanged,
        Self::ShapeAndSource,
        Self::OtherProgram,
        Self::NameChanged,
        Self::NameOnly,
        Self::Removed,
        Self::Added,
    ];

    /// A word for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::SourceMoved => "line moved",
            Self::ShapeChanged => "new shape",
            Self::ShapeAndSource => "shape+line",
            Self::OtherProgram => "other program",
            Self::NameChanged => "renamed",
            Self::NameOnly => "by name",
            Self::Removed => "removed",
            Self::Added => "added",
        }
    }

    /// What it means.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Same => "equal program, name without numbers, shape, framework op and source",
            Self::SourceMoved => "equal but for the source line",
            Self::ShapeChanged => "equal but for the shape",
            Self::ShapeAndSource => "equal program, name without numbers and framework op",
            Self::OtherProgram => "equal name without numbers, shape and framework op",
            Self::NameChanged => "equal program, class, shape and framework op",
            Self::NameOnly => "the only ones left of that name in that program",
            Self::Removed => "only in the first run",
            Self::Added => "only in the second run",
        }
    }

    /// The key of an operation at this strength; none where it says too little.
    fn key<'t>(self, op: &'t Traits<'_>) -> Option<[&'t str; 5]> {
        let known = |text: &str| !text.is_empty();
        let (module, stem, shape) = (op.module, op.stem.as_str(), op.shape);
        let (framework_op, source) = (op.framework_op, op.source);
        match self {
            Self::Same => Some([module, stem, shape, framework_op, source]),
            Self::SourceMoved => Some([module, stem, shape, framework_op, ""]),
            Self::ShapeChanged => (known(framework_op) || known(source)).then_some([
                module,
                stem,
                framework_op,
                source,
                "",
            ]),
            Self::ShapeAndSource => {
                known(framework_op).then_some([module, stem, framework_op, "", ""])
            }
            Self::OtherProgram => Some([
                stem,
                shape,
                keys::without_function(framework_op),
                op.class,
                "",
            ]),
            Self::NameChanged => {
                known(framework_op).then_some([module, op.class, shape, framework_op, ""])
            }
            Self::NameOnly => Some([module, stem, "", "", ""]),
            Self::Removed | Self::Added => None,
        }
    }
}

/// Positions in [`Evidence::ops`] of one operation in both runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub before: Option<usize>,
    pub after: Option<usize>,
    pub matched: Matched,
}

/// Every operation of both runs, once.
pub(super) fn pairs(before: &Evidence<'_>, after: &Evidence<'_>) -> Vec<Pair> {
    let (before, after) = (keys::traits(before), keys::traits(after));
    let (mut old, mut new) = (in_order(&before), in_order(&after));
    let mut pairs = Vec::with_capacity(old.len().max(new.len()));
    for matched in Matched::ALL {
        // Within a key, in the order in which they ran.
        let mut keyed: BTreeMap<[&str; 5], [Vec<usize>; 2]> = BTreeMap::new();
        for (side, (list, traits)) in [(&old, &before), (&new, &after)].into_iter().enumerate() {
            for &at in list {
                if let Some(key) = traits.get(at).and_then(|op| matched.key(op)) {
                    keyed.entry(key).or_default()[side].push(at);
                }
            }
        }
        let found = pairs.len();
        for [a, b] in keyed.into_values() {
            let ambiguous = matched == Matched::NameOnly && (a.len() != 1 || b.len() != 1);
            if !ambiguous {
                let both = pair_up(&a, &b, &before, &after);
                pairs.extend(both.into_iter().map(|(a, b)| Pair {
                    before: Some(a),
                    after: Some(b),
                    matched,
                }));
            }
        }
        let taken = |of: fn(&Pair) -> Option<usize>| -> BTreeSet<usize> {
            pairs.iter().skip(found).filter_map(of).collect()
        };
        let (gone_old, gone_new) = (taken(|pair| pair.before), taken(|pair| pair.after));
        old.retain(|at| !gone_old.contains(at));
        new.retain(|at| !gone_new.contains(at));
    }
    pairs.extend(old.into_iter().map(|at| Pair {
        before: Some(at),
        after: None,
        matched: Matched::Removed,
    }));
    pairs.extend(new.into_iter().map(|at| Pair {
        before: None,
        after: Some(at),
        matched: Matched::Added,
    }));
    pairs
}

fn in_order(ops: &[Traits<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ops.len()).collect();
    order.sort_by_key(|at| (ops[*at].first, *at));
    order
}

/// Pairs operations of equal keys, both lists in the order in which they ran.
fn pair_up(
    before: &[usize],
    after: &[usize],
    old: &[Traits<'_>],
    new: &[Traits<'_>],
) -> Vec<(usize, usize)> {
    let names = |list: &[usize], ops: &'_ [Traits<'_>]| -> BTreeMap<String, usize> {
        list.iter()
            .map(|at| (ops[*at].name.to_owned(), *at))
            .collect()
    };
    if before.len() == after.len() {
        let (by_name, other) = (names(before, old), names(after, new));
        // The same program: names are surer than the order, which threads may change.
        if by_name.len() == before.len() && by_name.keys().eq(other.keys()) {
            return by_name.into_values().zip(other.into_values()).collect();
        }
        return before.iter().copied().zip(after.iter().copied()).collect();
    }
    if before.len() < after.len() {
        let cost = |a: usize, b: usize| (old[before[a]].ms - new[after[b]].ms).abs();
        let kept = align(before.len(), after.len(), cost);
        before
            .iter()
            .zip(kept)
            .map(|(a, b)| (*a, after[b]))
            .collect()
    } else {
        let cost = |b: usize, a: usize| (old[before[a]].ms - new[after[b]].ms).abs();
        let kept = align(after.len(), before.len(), cost);
        after
            .iter()
            .zip(kept)
            .map(|(b, a)| (before[a], *b))
            .collect()
    }
}

/// Above this many comparisons the order alone decides.
const MOST_COMPARISONS: usize = 4_000_000;

/// For each of `few` the one of `many` that it is, both in order, so that their costs are least.
fn align(few: usize, many: usize, cost: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    let skips = many.saturating_sub(few);
    if few.saturating_mul(skips + 1) > MOST_COMPARISONS {
        return (0..few).collect();
    }
    // `best[i][s]`: least cost of the first `i` when `s` of `many` were skipped before them.
    let width = skips + 1;
    let mut best = vec![0.0f64; (few + 1) * width];
    for i in 1..=few {
        for s in 0..width {
            let taken = best[(i - 1) * width + s] + cost(i - 1, i - 1 + s);
            let skipped = if s > 0 {
                best[i * width + s - 1]
            } else {
                f64::INFINITY
            };
            best[i * width + s] = taken.min(skipped);
        }
    }
    let mut kept = vec![0; few];
    let (mut i, mut s) = (few, skips);
    while i > 0 {
        // The last of equals is skipped: a run that stopped earlier lost its end.
        if s > 0 && best[i * width + s - 1] <= best[i * width + s] {
            s -= 1;
        } else {
            kept[i - 1] = i - 1 + s;
            i -= 1;
        }
    }
    kept
}
