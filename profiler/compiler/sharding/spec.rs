//! How tensors lie on a mesh.

use serde::{Deserialize, Serialize};

use crate::compiler::sharding::mesh::Mesh;

/// How one tensor lies on a mesh: of each dimension the mesh axes that cut it, major to minor. A
/// tensor of no entries is whole on every device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Spec {
    /// Mesh axes by their index, for each dimension.
    pub dims: Vec<Vec<usize>>,
}

impl Spec {
    /// A tensor that is whole everywhere.
    #[must_use]
    pub fn replicated(rank: usize) -> Self {
        Self {
            dims: vec![Vec::new(); rank],
        }
    }

    /// Into how many parts it is cut.
    #[must_use]
    pub fn parts(&self, mesh: &Mesh) -> u64 {
        let axes = self.dims.iter().flatten();
        axes.filter_map(|axis| mesh.axes.get(*axis))
            .fold(1, |n, axis| n.saturating_mul(axis.size))
    }

    /// Whether it is whole on every device.
    #[must_use]
    pub fn is_replicated(&self) -> bool {
        self.dims.iter().all(Vec::is_empty)
    }

    /// Whether each dimension divides evenly, and no mesh axis is used twice.
    #[must_use]
    pub fn is_legal(&self, sizes: &[u64], mesh: &Mesh) -> bool {
        let mut used: Vec<usize> = self.dims.iter().flatten().copied().collect();
        used.sort_unstable();
        let repeats = used.windows(2).any(|pair| pair.first() == pair.last());
        let divides = self.dims.iter().zip(sizes).all(|(axes, size)| {
            let parts = axes
                .iter()
                .filter_map(|axis| mesh.axes.get(*axis))
                .fold(1u64, |n, axis| n.saturating_mul(axis.size));
            parts > 0 && size.is_multiple_of(parts)
        });
        let known = used.iter().all(|axis| *axis < mesh.axes.len());
        !repeats && known && divides && self.dims.len() == sizes.len()
    }
}

/// How all arguments of a program lie on a mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharding {
    /// The mesh.
    pub mesh: Mesh,
    /// Of each argument.
    pub arguments: Vec<Spec>,
}
