//! Candidates: what each axis of a mesh cuts, and all of them that are legal.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::compiler::sharding::mesh::{Mesh, MeshAxis};
use crate::compiler::sharding::problem::{Problem, Role, SMALL_ARGUMENT};
use crate::compiler::sharding::spec::{Sharding, Spec};

/// Candidates that are enumerated; of larger spaces the first ones.
pub const MAX_CANDIDATES: usize = 20_000;
/// Axes of the weights that one mesh axis cuts: more than that many never meet in one model.
const MAX_TOGETHER: usize = 4;

/// What one axis of a mesh cuts. Axes are indices into [`Problem::axes`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AxisUse {
    /// The axis of the data, or none.
    pub data: Option<usize>,
    /// Axes of the weights, sorted, no two of them in one argument.
    pub weights: Vec<usize>,
}

impl AxisUse {
    /// Whether it cuts nothing, so that its devices repeat each other's work.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.data.is_none() && self.weights.is_empty()
    }
}

/// A mesh and what each of its axes cuts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Candidate {
    /// Devices along each mesh axis.
    pub sizes: Vec<u64>,
    /// What each mesh axis cuts.
    pub uses: Vec<AxisUse>,
}

impl Candidate {
    /// A short text that names it: `2:batch/embed x 2:-/heads+hidden`. It is the same in every run
    /// on the same program.
    #[must_use]
    pub fn key(&self, problem: &Problem) -> String {
        let name = |axis: &usize| {
            let axis = problem.axes.get(*axis);
            axis.map_or("?", |axis| axis.name.as_str())
        };
        let mut key = String::new();
        for (index, (size, uses)) in self.sizes.iter().zip(&self.uses).enumerate() {
            let between = if index > 0 { " x " } else { "" };
            let data = uses.data.as_ref().map_or("-", name);
            let weights: Vec<&str> = uses.weights.iter().map(name).collect();
            let weights = if weights.is_empty() {
                "-".to_owned()
            } else {
                weights.join("+")
            };
            // Writing to a string cannot fail.
            let _ = write!(key, "{between}{size}:{data}/{weights}");
        }
        key
    }

    /// The mesh, its axes named after what they do.
    #[must_use]
    pub fn mesh(&self, problem: &Problem) -> Mesh {
        let mut mesh = Mesh::default();
        for (size, uses) in self.sizes.iter().zip(&self.uses) {
            let base = strategy(problem, uses);
            let mut name = base.to_owned();
            let mut number = 2;
            while mesh.axes.iter().any(|axis| axis.name == name) {
                name = format!("{base}{number}");
                number += 1;
            }
            mesh.axes.push(MeshAxis { name, size: *size });
        }
        mesh
    }

    /// How every argument lies.
    #[must_use]
    pub fn sharding(&self, problem: &Problem) -> Sharding {
        let arguments = 0..problem.signature.arguments.len();
        Sharding {
            mesh: self.mesh(problem),
            arguments: arguments.map(|a| self.spec(problem, a)).collect(),
        }
    }

    fn spec(&self, problem: &Problem, argument: usize) -> Spec {
        let Some(port) = problem.signature.arguments.get(argument) else {
            return Spec::default();
        };
        let axes = problem.axes_of(argument);
        let mut spec = Spec::replicated(port.dims().len());
        let is_data = problem.role(argument) == Role::Data;
        for (mesh_axis, uses) in self.uses.iter().enumerate() {
            let of = |wanted: &[usize]| {
                axes.iter()
                    .position(|axis| axis.is_some_and(|axis| wanted.contains(&axis)))
            };
            let dim = if is_data && let Some(data) = uses.data {
                of(&[data])
            } else if is_data || port.bytes() >= SMALL_ARGUMENT {
                of(&uses.weights)
            } else {
                None
            };
            if let Some(axes) = dim.and_then(|dim| spec.dims.get_mut(dim)) {
                axes.push(mesh_axis);
            }
        }
        spec
    }

    /// Whether every axis that is cut divides evenly, in all tensors that have it.
    #[must_use]
    pub fn is_legal(&self, problem: &Problem) -> bool {
        let divides = |axis: usize| {
            let mut parts = 1u64;
            for (size, uses) in self.sizes.iter().zip(&self.uses) {
                if uses.data == Some(axis) || uses.weights.contains(&axis) {
                    parts = parts.saturating_mul(*size);
                }
            }
            let divisor = problem.axes.get(axis).map_or(1, |axis| axis.divisor);
            parts > 0 && divisor.is_multiple_of(parts)
        };
        if !(0..problem.axes.len()).all(divides) {
            return false;
        }
        let sharding = self.sharding(problem);
        let mut ports = problem.signature.arguments.iter().zip(&sharding.arguments);
        ports.all(|(port, spec)| spec.is_legal(port.dims(), &sharding.mesh))
    }

    /// How far two candidates are apart: mesh axes that do something else, in the better of the two
    /// orders. None where no single decision leads from one to the other.
    #[must_use]
    pub fn distance(&self, other: &Self) -> usize {
        let differs = |a: &AxisUse, b: &AxisUse| {
            usize::from(a.data != b.data) + usize::from(a.weights != b.weights)
        };
        match (self.uses.as_slice(), other.uses.as_slice()) {
            ([a], [b]) => differs(a, b),
            ([a], [b, c]) | ([b, c], [a]) => differs(a, b).min(differs(a, c)),
            ([a, b], [c, d]) => {
                let straight = differs(a, c) + differs(b, d);
                let crossed = differs(a, d) + differs(b, c);
                let reshaped = usize::from(self.sizes != other.sizes);
                (straight + reshaped).min(crossed + 1)
            }
            _ => usize::MAX,
        }
    }
}

/// The usual name for what a mesh axis does.
fn strategy(problem: &Problem, uses: &AxisUse) -> &'static str {
    let named = |wanted: &str| {
        let mut weights = uses
            .weights
            .iter()
            .filter_map(|axis| problem.axes.get(*axis));
        weights.any(|axis| axis.name.starts_with(wanted))
    };
    let on_batch = uses.data.is_some() && uses.data == problem.data_axes.first().copied();
    if named("expert") {
        "expert"
    } else if on_batch && uses.weights.is_empty() {
        "data"
    } else if on_batch {
        "fsdp"
    } else if uses.data.is_some() {
        "sequence"
    } else {
        "tensor"
    }
}

/// All candidates of a program, and what was left out.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// Legal candidates, mesh by mesh, in a fixed order.
    pub candidates: Vec<Candidate>,
    /// Left out because an axis does not divide evenly.
    pub uneven: usize,
    /// Left out because another candidate says the same: a mesh axis that cuts nothing, two mesh
    /// axes that cut the same, a mesh with its equal axes swapped.
    pub repeated: usize,
    /// Whether there were more than [`MAX_CANDIDATES`].
    pub is_cut_off: bool,
}

impl Space {
    /// Enumerates candidates on meshes of these sizes.
    #[must_use]
    pub fn enumerate(problem: &Problem, shapes: &[Vec<u64>]) -> Self {
        let uses = axis_uses(problem);
        let mut space = Self::default();
        for sizes in shapes {
            let mut choice = vec![0usize; sizes.len()];
            loop {
                let picked: Vec<AxisUse> = choice
                    .iter()
                    .filter_map(|index| uses.get(*index).cloned())
                    .collect();
                if space.candidates.len() >= MAX_CANDIDATES {
                    space.is_cut_off = true;
                    return space;
                }
                space.add(problem, sizes, picked, &choice);
                if !advance(&mut choice, uses.len()) {
                    break;
                }
            }
        }
        space
    }

    fn add(&mut self, problem: &Problem, sizes: &[u64], uses: Vec<AxisUse>, choice: &[usize]) {
        let swapped = choice
            .windows(2)
            .zip(sizes.windows(2))
            .any(|(c, s)| c.first() == c.last() || s.first() == s.last() && c.first() > c.last());
        if uses.iter().any(AxisUse::is_idle) || swapped {
            self.repeated += 1;
            return;
        }
        let candidate = Candidate {
            sizes: sizes.to_vec(),
            uses,
        };
        if candidate.is_legal(problem) {
            self.candidates.push(candidate);
        } else {
            self.uneven += 1;
        }
    }
}

/// Counts up; false when all was counted.
fn advance(choice: &mut [usize], base: usize) -> bool {
    for digit in choice.iter_mut().rev() {
        *digit += 1;
        if *digit < base {
            return true;
        }
        *digit = 0;
    }
    false
}

/// Everything that one mesh axis can cut.
fn axis_uses(problem: &Problem) -> Vec<AxisUse> {
    let data = [None]
        .into_iter()
        .chain(problem.data_axes.iter().map(|axis| Some(*axis)));
    let sets = weight_sets(problem);
    data.flat_map(|data| {
        sets.iter().map(move |weights| AxisUse {
            data,
            weights: weights.clone(),
        })
    })
    .collect()
}

/// Sets of weight axes of which no two are in one argument.
fn weight_sets(problem: &Problem) -> Vec<Vec<usize>> {
    let meet = |a: usize, b: usize| {
        problem.groups.iter().any(|group| {
            group.role != Role::Data
                && group.axes.contains(&Some(a))
                && group.axes.contains(&Some(b))
        })
    };
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    for axis in &problem.weight_axes {
        let with: Vec<Vec<usize>> = sets
            .iter()
            .filter(|set| set.len() < MAX_TOGETHER && set.iter().all(|other| !meet(*axis, *other)))
            .map(|set| {
                let mut set = set.clone();
                set.push(*axis);
                set.sort_unstable();
                set
            })
            .collect();
        sets.extend(with);
    }
    sets
}
