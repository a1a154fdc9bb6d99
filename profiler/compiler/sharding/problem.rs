//! What there is to decide: a program's arguments, their roles, and the axes that they share.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};

use crate::compiler::sharding::flow::Flow;
use crate::compiler::sharding::signature::{Signature, SignatureError};
use crate::units::Bytes;

/// Arguments smaller than this stay whole: gathering them costs latency and saves nothing.
pub const SMALL_ARGUMENT: Bytes = Bytes(128 << 10);
/// Axes of weights that are looked at; of more, those that most bytes have.
const MAX_WEIGHT_AXES: usize = 8;

/// An axis of the program: dimensions of its tensors that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogicalAxis {
    /// `batch`, `sequence`, `embed`, `heads`, `hidden`, `vocab`, `expert`; with a number where
    /// there are several.
    pub name: String,
    /// Divides the sizes of all dimensions on the axis.
    pub divisor: u64,
    /// Bytes of the weights that have it.
    pub weight_bytes: Bytes,
    /// The set of dimensions in the program's flow.
    pub(super) set: u32,
}

/// What an argument is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It has the batch axis: inputs, targets, masks, caches.
    Data,
    /// A weight.
    Parameter,
    /// What an optimizer keeps of a parameter.
    OptimizerState,
    /// A scalar, or something without an axis that could be cut.
    Other,
}

/// Arguments that share a decision: the same place in every layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Their name, with layer numbers as `*`.
    pub name: String,
    /// What they are for.
    pub role: Role,
    /// Sizes of each.
    pub dims: Vec<u64>,
    /// Which arguments, in order.
    pub members: Vec<usize>,
    /// Of each dimension the logical axis: index into [`Problem::axes`].
    pub axes: Vec<Option<usize>>,
}

/// A program with everything that a search needs to know of it.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The signature of `@main`.
    pub signature: Signature,
    /// The logical axes that a mesh can cut: first those of the data, then those of weights.
    pub axes: Vec<LogicalAxis>,
    /// Axes of the data that may be cut: the batch, and the sequence where there is one.
    pub data_axes: Vec<usize>,
    /// Axes of the weights that may be cut, most bytes first.
    pub weight_axes: Vec<usize>,
    /// Arguments that share a decision.
    pub groups: Vec<Group>,
    /// Of each argument, its group.
    pub group_of: Vec<usize>,
    /// FLOPs of the products of one run, loops counted once.
    pub product_flops: f64,
    pub(super) flow: Flow,
}

/// Why a program cannot be searched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemError {
    /// Its signature cannot be used.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// It is sharded already.
    #[error(
        "the program already holds shardings ({what}): export it from a plain `jax.jit` without shardings and constraints, and search again"
    )]
    Sharded {
        /// What was found.
        what: &'static str,
    },
    /// There is nothing to cut.
    #[error(
        "no argument of @main has a dimension that a mesh could cut: expected tensors of fixed size with a batch axis or weights of at least 128 KiB"
    )]
    NothingToCut,
}

impl Problem {
    /// Reads a StableHLO program's text.
    ///
    /// # Errors
    /// When it has no usable `@main`, is sharded already, or has nothing to cut.
    pub fn read(text: &str) -> Result<Self, ProblemError> {
        let signature = Signature::parse(text)?;
        for what in [
            "sdy.sharding_constraint",
            "sdy.manual_computation",
            "@Sharding",
            "@SPMDFullToShardShape",
        ] {
            if text.contains(what) {
                return Err(ProblemError::Sharded { what });
            }
        }
        let flow = Flow::read(text, &layer_ties(&signature));
        let mut reader = Roles::new(&signature, &flow);
        reader.find();
        let Roles {
            axes,
            data_axes,
            weight_axes,
            roles,
            ..
        } = reader;
        if data_axes.is_empty() && weight_axes.is_empty() {
            return Err(ProblemError::NothingToCut);
        }
        let (groups, group_of) = grouped(&signature, &flow, &axes, &roles);
        let product_flops = flow.products.iter().map(|product| product.flops).sum();
        Ok(Self {
            signature,
            axes,
            data_axes,
            weight_axes,
            groups,
            group_of,
            product_flops,
            flow,
        })
    }

    /// What an argument is for.
    #[must_use]
    pub fn role(&self, argument: usize) -> Role {
        let group = self.group_of.get(argument);
        group
            .and_then(|group| self.groups.get(*group))
            .map_or(Role::Other, |group| group.role)
    }

    /// Of each dimension of an argument, its logical axis.
    #[must_use]
    pub fn axes_of(&self, argument: usize) -> &[Option<usize>] {
        let group = self.group_of.get(argument);
        group
            .and_then(|group| self.groups.get(*group))
            .map_or(&[], |group| &group.axes)
    }

    /// Whether the program trains: it gives back weights that were donated to it.
    #[must_use]
    pub fn trains(&self) -> bool {
        let mut arguments = self.signature.arguments.iter().enumerate();
        arguments.any(|(index, port)| port.is_donated && self.role(index) == Role::Parameter)
    }

    /// The logical axis that a set of dimensions is.
    pub(super) fn axis_of_set(&self, set: u32) -> Option<usize> {
        self.axes.iter().position(|axis| axis.set == set)
    }
}

/// Finds the roles of arguments and the axes that matter.
struct Roles<'a> {
    signature: &'a Signature,
    flow: &'a Flow,
    axes: Vec<LogicalAxis>,
    data_axes: Vec<usize>,
    weight_axes: Vec<usize>,
    roles: Vec<Role>,
}

impl<'a> Roles<'a> {
    fn new(signature: &'a Signature, flow: &'a Flow) -> Self {
        Self {
            signature,
            flow,
            axes: Vec::new(),
            data_axes: Vec::new(),
            weight_axes: Vec::new(),
            roles: Vec::new(),
        }
    }

    fn sets(&self, argument: usize) -> &'a [u32] {
        self.flow.arguments.get(argument).map_or(&[], Vec::as_slice)
    }

    fn find(&mut self) {
        let batch = self.batch();
        let count = self.signature.arguments.len();
        let is_data = |roles: &Self, argument: usize| {
            batch.is_some_and(|batch| roles.sets(argument).contains(&batch))
        };
        self.roles = (0..count)
            .map(|argument| {
                if is_data(self, argument) {
                    Role::Data
                } else if self.sets(argument).is_empty() {
                    Role::Other
                } else {
                    Role::Parameter
                }
            })
            .collect();
        self.mark_optimizer_state();
        if let Some(batch) = batch {
            self.add_data_axis(batch, "batch");
            if let Some(sequence) = self.sequence(batch) {
                self.add_data_axis(sequence, "sequence");
            }
        }
        self.find_weight_axes();
    }

    /// The batch: of the arguments' leading dimensions the one that leads most tensors.
    fn batch(&self) -> Option<u32> {
        let leads = |set: u32| {
            let found = self.flow.leads.iter().find(|(lead, _)| *lead == set);
            found.map_or(0, |(_, count)| *count)
        };
        let firsts = (0..self.signature.arguments.len())
            .filter_map(|argument| self.sets(argument).first().copied())
            .filter(|set| self.flow.divisor(*set) > 1);
        let mut best: Option<(u64, u32)> = None;
        for set in firsts {
            let count = leads(set);
            if count > 0 && best.is_none_or(|(most, _)| count > most) {
                best = Some((count, set));
            }
        }
        best.map(|(_, set)| set)
    }

    /// The sequence: the data's second dimension, if no weight has it.
    fn sequence(&self, batch: u32) -> Option<u32> {
        let weights: Vec<u32> = self
            .with_role(Role::Parameter)
            .flat_map(|a| self.sets(a))
            .copied()
            .collect();
        self.with_role(Role::Data)
            .filter_map(|argument| match self.sets(argument) {
                [first, second, ..] if *first == batch => Some(*second),
                _ => None,
            })
            .find(|set| *set != batch && !weights.contains(set) && self.flow.divisor(*set) > 1)
    }

    fn with_role(&self, role: Role) -> impl Iterator<Item = usize> + '_ {
        let roles = self.roles.iter().enumerate();
        roles.filter(move |(_, r)| **r == role).map(|(a, _)| a)
    }

    /// A second tree with the same leaves as the parameters' is what the optimizer keeps.
    fn mark_optimizer_state(&mut self) {
        let split = |argument: usize| {
            let port = self.signature.arguments.get(argument)?;
            let (tree, leaf) = tree_and_leaf(&port.name)?;
            port.is_donated.then_some((tree, leaf, port.dims()))
        };
        let parameters: Vec<usize> = self.with_role(Role::Parameter).collect();
        let used: Vec<usize> = self
            .flow
            .products
            .iter()
            .flat_map(|product| product.operands.iter().filter_map(|side| side.argument))
            .collect();
        let mut marked = Vec::new();
        for (position, argument) in parameters.iter().enumerate() {
            let Some((tree, leaf, dims)) = split(*argument) else {
                continue;
            };
            let has_original = parameters.iter().take(position).any(|earlier| {
                split(*earlier).is_some_and(|(t, l, d)| t != tree && l == leaf && d == dims)
            });
            if has_original && !used.contains(argument) {
                marked.push(*argument);
            }
        }
        for argument in marked {
            if let Some(role) = self.roles.get_mut(argument) {
                *role = Role::OptimizerState;
            }
        }
    }

    fn add_data_axis(&mut self, set: u32, name: &str) {
        self.data_axes.push(self.axes.len());
        self.axes.push(LogicalAxis {
            name: name.to_owned(),
            divisor: self.flow.divisor(set),
            weight_bytes: Bytes(0),
            set,
        });
    }

    /// Axes of weights that take part in products or look-ups, by their bytes.
    fn find_weight_axes(&mut self) {
        let mut in_products: Vec<u32> = self
            .flow
            .products
            .iter()
            .flat_map(|product| &product.operands)
            .flat_map(|side| &side.axes)
            .chain(&self.flow.looked_up)
            .copied()
            .collect();
        in_products.sort_unstable();
        in_products.dedup();
        let mut found: Vec<(u32, u64)> = Vec::new();
        for argument in self.with_role(Role::Parameter) {
            let bytes = self
                .signature
                .arguments
                .get(argument)
                .map_or(0, |p| p.bytes().0);
            if bytes < SMALL_ARGUMENT.0 {
                continue;
            }
            let mut sets = self.sets(argument).to_vec();
            sets.sort_unstable();
            sets.dedup();
            for set in sets {
                let is_data = self.axes.iter().any(|axis| axis.set == set);
                if is_data || in_products.binary_search(&set).is_err() || self.flow.divisor(set) < 2
                {
                    continue;
                }
                match found.iter_mut().find(|(known, _)| *known == set) {
                    Some((_, sum)) => *sum = sum.saturating_add(bytes),
                    None => found.push((set, bytes)),
                }
            }
        }
        found.sort_by_key(|(set, bytes)| (std::cmp::Reverse(*bytes), *set));
        for (set, bytes) in found.into_iter().take(MAX_WEIGHT_AXES) {
            let name = self.weight_axis_name(set);
            self.weight_axes.push(self.axes.len());
            self.axes.push(LogicalAxis {
                name,
                divisor: self.flow.divisor(set),
                weight_bytes: Bytes(bytes),
                set,
            });
        }
    }

    fn weight_axis_name(&self, set: u32) -> String {
        let in_data = self
            .with_role(Role::Data)
            .any(|argument| self.sets(argument).contains(&set));
        let leads_a_stack = self
            .with_role(Role::Parameter)
            .any(|argument| matches!(self.sets(argument), [first, _, _, ..] if *first == set));
        let is_batching = self.flow.batching.binary_search(&set).is_ok();
        let base = if self.flow.looked_up.binary_search(&set).is_ok() {
            "vocab"
        } else if is_batching && leads_a_stack {
            "expert"
        } else if is_batching {
            "heads"
        } else if in_data || self.is_in_most(set) {
            "embed"
        } else {
            "hidden"
        };
        let taken = |name: &str| self.axes.iter().any(|axis| axis.name == name);
        let mut name = base.to_owned();
        let mut number = 2;
        while taken(&name) {
            name = format!("{base}{number}");
            number += 1;
        }
        name
    }

    fn is_in_most(&self, set: u32) -> bool {
        let (mut with, mut all) = (0usize, 0usize);
        for argument in self.with_role(Role::Parameter) {
            all += 1;
            with += usize::from(self.sets(argument).contains(&set));
        }
        2 * with > all
    }
}

/// The first part of a JAX path and the rest: `params['w']` is `params` and `['w']`.
fn tree_and_leaf(name: &str) -> Option<(&str, &str)> {
    // `result[0]['w']`: the tree is the tuple's element.
    let from = if name.starts_with("result[") { 7 } else { 0 };
    let at = name.get(from..)?.find(['[', '.'])? + from;
    Some((name.get(..at)?, name.get(at..)?))
}

/// A name with its numbers as `*`, so that the layers of a model have one.
fn pattern(name: &str) -> String {
    let mut out = String::new();
    let mut in_number = false;
    for c in name.chars() {
        if c.is_ascii_digit() {
            if !in_number {
                out.push('*');
            }
            in_number = true;
        } else {
            in_number = false;
            out.push(c);
        }
    }
    out
}

/// The name under which the layers of a model are one.
fn group_name(index: usize, name: &str) -> String {
    // `result[0]` and `result[1]` are trees, not layers.
    match tree_and_leaf(name) {
        Some((tree, leaf)) => format!("{tree}{}", pattern(leaf)),
        None if name == format!("arg{index}") => name.to_owned(),
        None => pattern(name),
    }
}

/// Pairs of arguments that stand in the same place of different layers.
fn layer_ties(signature: &Signature) -> Vec<(usize, usize)> {
    let mut firsts: BTreeMap<(String, &[u64]), usize> = BTreeMap::new();
    let mut ties = Vec::new();
    for (index, port) in signature.arguments.iter().enumerate() {
        match firsts.entry((group_name(index, &port.name), port.dims())) {
            Entry::Occupied(first) => ties.push((*first.get(), index)),
            Entry::Vacant(place) => {
                place.insert(index);
            }
        }
    }
    ties
}

fn grouped(
    signature: &Signature,
    flow: &Flow,
    axes: &[LogicalAxis],
    roles: &[Role],
) -> (Vec<Group>, Vec<usize>) {
    let mut groups: Vec<Group> = Vec::new();
    let mut group_of = Vec::new();
    for (index, port) in signature.arguments.iter().enumerate() {
        let role = roles.get(index).copied().unwrap_or(Role::Other);
        let name = group_name(index, &port.name);
        let sets = flow.arguments.get(index).map_or(&[][..], Vec::as_slice);
        let own: Vec<Option<usize>> = sets
            .iter()
            .map(|set| axes.iter().position(|axis| axis.set == *set))
            .collect();
        let found = groups.iter().position(|group| {
            group.name == name
                && group.role == role
                && group.dims == port.dims()
                && group.axes == own
        });
        let group = found.unwrap_or_else(|| {
            groups.push(Group {
                name,
                role,
                dims: port.dims().to_vec(),
                members: Vec::new(),
                axes: own,
            });
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(group) {
            group.members.push(index);
        }
        group_of.push(group);
    }
    (groups, group_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: &str = include_str!("../../../tests/fixtures/programs/sharding/block_train.mlir");

    #[test]
    fn a_transformer_step_shows_its_axes() {
        let problem = Problem::read(BLOCK).expect("a problem");
        let axes: Vec<(&str, u64)> = problem
            .axes
            .iter()
            .map(|axis| (axis.name.as_str(), axis.divisor))
            .collect();
        assert_eq!(
            axes,
            [
                ("batch", 16),
                ("sequence", 2048),
                ("embed", 4096),
                ("hidden", 14336),
                ("heads", 8)
            ]
        );
        assert!(problem.trains());
    }

    #[test]
    fn layers_share_a_decision() {
        let problem = Problem::read(BLOCK).expect("a problem");
        let told: Vec<(&str, Role, usize)> = problem
            .groups
            .iter()
            .filter(|group| group.dims.len() > 1)
            .map(|group| (group.name.as_str(), group.role, group.members.len()))
            .collect();
        assert_eq!(
            told[..2],
            [
                ("result[0]['layer_*']['down']", Role::Parameter, 2),
                ("result[0]['layer_*']['gate']", Role::Parameter, 2),
            ]
        );
        assert!(told.contains(&("result[1]['layer_*']['down']", Role::OptimizerState, 2)));
        assert!(told.contains(&("arg36", Role::Data, 1)));
    }

    #[test]
    fn programs_that_are_cut_off_are_read_as_far_as_they_go() {
        for end in (0..BLOCK.len()).step_by(997) {
            let read = Problem::read(&BLOCK[..end]);
            assert!(read.is_err() || end > 5_000, "{end}");
        }
    }

    #[test]
    fn programs_that_are_sharded_already_are_refused() {
        let text = BLOCK.replacen("return", "sdy.sharding_constraint\n return", 1);
        assert!(matches!(
            Problem::read(&text),
            Err(ProblemError::Sharded { .. })
        ));
    }
}
