//! Meshes: devices in a grid whose axes have names.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An axis of a mesh.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MeshAxis {
    /// Its name: `data`, `fsdp`, `tensor`, `sequence`, `expert`.
    pub name: String,
    /// Devices along it.
    pub size: u64,
}

/// Devices in a grid, numbered row by row: the last axis is the fastest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mesh {
    /// Axes, major to minor.
    pub axes: Vec<MeshAxis>,
}

impl Mesh {
    /// How many devices.
    #[must_use]
    pub fn devices(&self) -> u64 {
        self.axes
            .iter()
            .fold(1, |n, axis| n.saturating_mul(axis.size))
    }

    /// The axes along which the devices of a group differ; all of them where the group says so by
    /// being empty.
    #[must_use]
    pub fn axes_of_group(&self, group: &[i64]) -> Vec<usize> {
        let Some((first, others)) = group.split_first() else {
            return (0..self.axes.len()).collect();
        };
        let place = |device: i64| {
            let mut rest = u64::try_from(device).unwrap_or(0);
            let mut place: Vec<u64> = self
                .axes
                .iter()
                .rev()
                .map(|axis| {
                    let at = rest % axis.size.max(1);
                    rest /= axis.size.max(1);
                    at
                })
                .collect();
            place.reverse();
            place
        };
        let start = place(*first);
        let mut differs = vec![false; self.axes.len()];
        for device in others {
            for ((differs, here), there) in differs.iter_mut().zip(&start).zip(place(*device)) {
                *differs |= *here != there;
            }
        }
        let differs = differs.into_iter().enumerate();
        differs.filter(|(_, d)| *d).map(|(axis, _)| axis).collect()
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, axis) in self.axes.iter().enumerate() {
            let between = if index > 0 { " x " } else { "" };
            write!(f, "{between}{}={}", axis.name, axis.size)?;
        }
        Ok(())
    }
}

/// All meshes of one and two axes with that many devices, as sizes: `[8]`, `[2, 4]`, `[4, 2]`.
#[must_use]
pub fn shapes(devices: u64) -> Vec<Vec<u64>> {
    let mut found = vec![vec![devices]];
    let sides = (2..devices).take_while(|side| side.saturating_mul(2) <= devices);
    for side in sides.filter(|side| devices.is_multiple_of(*side)) {
        found.push(vec![side, devices / side]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(sizes: &[u64]) -> Mesh {
        let axes = sizes.iter().enumerate().map(|(i, size)| MeshAxis {
            name: format!("a{i}"),
            size: *size,
        });
        Mesh {
            axes: axes.collect(),
        }
    }

    #[test]
    fn shapes_are_the_factorisations() {
        assert_eq!(shapes(4), [vec![4], vec![2, 2]]);
        assert_eq!(shapes(8), [vec![8], vec![2, 4], vec![4, 2]]);
        assert_eq!(shapes(7), [vec![7]]);
        assert_eq!(shapes(1), [vec![1]]);
    }

    #[test]
    fn a_group_lies_along_the_axes_where_it_differs() {
        let mesh = mesh(&[2, 4]);
        assert_eq!(mesh.axes_of_group(&[0, 1, 2, 3]), [1]);
        assert_eq!(mesh.axes_of_group(&[1, 5]), [0]);
        assert_eq!(mesh.axes_of_group(&[0, 1, 4, 5]), [0, 1]);
        assert_eq!(mesh.axes_of_group(&[]), [0, 1]);
        assert_eq!(mesh.axes_of_group(&[-5, 3]), [1]);
    }
}
