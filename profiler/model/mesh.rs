//! The axes of a job laid over the chips of a slice, each as compact as it can be.
//!
//! Axes are laid in the order of their traffic: tensor first, on the devices of one chip and then
//! on neighbours, pipeline last. Each takes factors of the torus's dimensions in turn, so that its
//! groups are boxes rather than lines, as `mesh_utils.create_device_mesh` of JAX does
//! (<https://docs.jax.dev/en/latest/jax.experimental.mesh_utils.html>). What a slice has no room for
//! is spread over slices.

use std::collections::BTreeMap;

use super::parallelism::{Axis, Parallelism};
use crate::compiler::ici::Topology;

/// The largest group whose members are listed.
const MAX_GROUP: u64 = 1 << 16;

/// Where each axis lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mesh {
    /// By axis: sizes with the distance in device numbers of neighbours.
    digits: BTreeMap<Axis, Vec<(u64, u64)>>,
    /// By axis: slices that it is spread over.
    slices: BTreeMap<Axis, u64>,
}

/// Devices that take part in a collective together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Those within the first slice.
    pub members: Vec<i64>,
    /// Slices, with as many in each.
    pub slices: u64,
}

/// The smallest prime factor of a number from 2 on.
fn smallest_factor(number: u64) -> u64 {
    (2..=number.isqrt())
        .find(|factor| number.is_multiple_of(*factor))
        .unwrap_or(number)
}

impl Mesh {
    /// Lays the axes of a job over a slice's chips.
    #[must_use]
    pub fn lay(topology: &Topology, split: &Parallelism) -> Self {
        let mut mesh = Self::default();
        // What is left of a chip's devices and of each dimension, and the distance of neighbours.
        let mut left = vec![topology.devices_per_chip.max(1)];
        let mut stride = vec![1u64];
        let mut distance = topology.devices_per_chip.max(1);
        for size in &topology.axes {
            left.push((*size).max(1));
            stride.push(distance);
            distance = distance.saturating_mul((*size).max(1));
        }
        for axis in Axis::ALL {
            let mut wanted = split.size(axis).max(1);
            let mut extent = vec![1u64; left.len()];
            while wanted > 1 {
                let factor = smallest_factor(wanted);
                wanted /= factor;
                let fits = |at: &usize| {
                    left.get(*at)
                        .is_some_and(|left| left.is_multiple_of(factor))
                };
                // A chip's own devices first, then the dimension that the axis uses least.
                let place = (0..left.len()).filter(fits).min_by_key(|at| {
                    let used = extent.get(*at).copied().unwrap_or(1);
                    let room = left.get(*at).copied().unwrap_or(1);
                    (*at != 0, used, std::cmp::Reverse(room))
                });
                let Some(place) = place else {
                    let slices = mesh.slices.entry(axis).or_insert(1);
                    *slices = slices.saturating_mul(factor);
                    continue;
                };
                if let (Some(left), Some(stride), Some(extent)) = (
                    left.get_mut(place),
                    stride.get_mut(place),
                    extent.get_mut(place),
                ) {
                    mesh.digits.entry(axis).or_default().push((factor, *stride));
                    *left /= factor;
                    *stride = stride.saturating_mul(factor);
                    *extent = extent.saturating_mul(factor);
                }
            }
        }
        mesh
    }

    /// The group of the first device along some axes together.
    #[must_use]
    pub fn group(&self, axes: &[Axis]) -> Group {
        let mut members = vec![0u64];
        let mut slices = 1u64;
        for axis in axes {
            for (size, stride) in self.digits.get(axis).into_iter().flatten() {
                if (members.len() as u64).saturating_mul(*size) > MAX_GROUP {
                    break;
                }
                members = (0..*size)
                    .flat_map(|at| {
                        let moved = at.saturating_mul(*stride);
                        members.iter().map(move |member| member + moved)
                    })
                    .collect();
            }
            slices = slices.saturating_mul(self.slices.get(axis).copied().unwrap_or(1));
        }
        members.sort_unstable();
        Group {
            members: members
                .into_iter()
                .map(|member| i64::try_from(member).unwrap_or(i64::MAX))
                .collect(),
            slices,
        }
    }

    /// How far the next stage is; none where it is in another slice.
    #[must_use]
    pub fn next(&self, axis: Axis) -> Option<i64> {
        let (_, stride) = self.digits.get(&axis)?.first()?;
        i64::try_from(*stride).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Mesh;
    use crate::compiler::ici::Topology;
    use crate::model::parallelism::{Axis, Parallelism};

    fn topology() -> Topology {
        Topology {
            axes: vec![4, 4, 8],
            wraps: vec![true; 3],
            devices_per_chip: 2,
        }
    }

    fn split(tensor: u64, expert: u64, fsdp: u64, data: u64) -> Parallelism {
        Parallelism {
            data,
            fsdp,
            tensor,
            expert,
            pipeline: 1,
        }
    }

    #[test]
    fn tensor_stays_on_a_chip_and_experts_form_a_box() {
        let mesh = Mesh::lay(&topology(), &split(2, 8, 16, 1));
        assert_eq!(mesh.group(&[Axis::Tensor]).members, [0, 1]);
        let experts = topology().place(&mesh.group(&[Axis::Expert]).members);
        let experts = experts.expect("within the slice");
        assert_eq!((experts.on_chip, experts.axes.len()), (1, 3));
        assert!(experts.is_regular && experts.axes.iter().all(|axis| axis.size == 2));
    }

    #[test]
    fn groups_along_all_axes_are_all_devices() {
        let mesh = Mesh::lay(&topology(), &split(4, 4, 16, 1));
        let all = mesh.group(&[Axis::Tensor, Axis::Expert, Axis::Fsdp]);
        assert_eq!(all.members, (0..256).collect::<Vec<i64>>());
        assert_eq!(all.slices, 1);
    }

    #[test]
    fn what_a_slice_has_no_room_for_is_spread_over_slices() {
        let mesh = Mesh::lay(&topology(), &split(1, 1, 256, 6));
        assert_eq!(mesh.group(&[Axis::Fsdp]).slices, 1);
        let data = mesh.group(&[Axis::Data]);
        assert_eq!((data.members, data.slices), (vec![0], 6));
        assert_eq!(mesh.next(Axis::Data), None);
    }
}
