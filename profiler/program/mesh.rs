//! Replica groups along named axes of a mesh: `mesh['data'=2,'fsdp'=4] {'fsdp'}`.

use std::fmt;

use crate::program::collective::Strided;
use crate::program::scan::{Scan, items};

/// Groups of devices along axes of a mesh, as compilers write them since 2026.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MeshGroups {
    /// Names and sizes of the mesh's axes, major to minor.
    pub axes: Vec<(String, u64)>,
    /// What of the mesh a group runs along, major to minor.
    pub along: Vec<MeshAxis>,
    /// Whether devices lie in the mesh in the order of their numbers; where they do not, sizes
    /// are known but members are not.
    pub in_order: bool,
    total: u64,
    size: u64,
}

/// An axis that a group runs along, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MeshAxis {
    /// Index into [`MeshGroups::axes`].
    pub axis: usize,
    /// Of a part `'fsdp':(2)4` the 2: how often the part is repeated along the axis.
    pub outer: u64,
    /// Devices along it: the axis' size, or the 4 of such a part.
    pub size: u64,
}

impl MeshGroups {
    /// Reads it as it stands after `replica_groups=`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut scan = Scan::new(text.trim());
        if !scan.eat("mesh") {
            return None;
        }
        let mut axes = Vec::new();
        let mut in_order = true;
        for item in items(scan.bracketed(b'[')?) {
            match item
                .split_once('=')
                .map(|(name, size)| (name, size.trim().parse()))
            {
                Some((name, Ok(size))) => axes.push((unquoted(name).to_owned(), size)),
                // What follows the axes are device numbers in an order of their own.
                _ => {
                    in_order = false;
                    break;
                }
            }
        }
        scan.skip_space();
        if scan.peek() != Some(b'{') {
            in_order = false;
            scan.take_while(|byte| byte != b'{');
        }
        let along = items(scan.bracketed(b'{')?)
            .map(|item| axis_of(&axes, item))
            .collect::<Option<Vec<MeshAxis>>>()?;
        let mut sizes = axes.iter().map(|(_, size)| *size);
        let total = sizes.try_fold(1u64, |total, size| total.checked_mul(size))?;
        let mut sizes = along.iter().map(|axis| axis.size);
        let size = sizes.try_fold(1u64, |total, size| total.checked_mul(size))?;
        (total > 0 && size > 0 && total.is_multiple_of(size)).then_some(Self {
            axes,
            along,
            in_order,
            total,
            size,
        })
    }

    /// Devices in a group.
    #[must_use]
    pub fn group_size(&self) -> u64 {
        self.size
    }

    /// How many groups there are.
    #[must_use]
    pub fn group_count(&self) -> u64 {
        self.total / self.size
    }

    /// Names and sizes of what a group runs along.
    #[must_use]
    pub fn named(&self) -> Vec<(String, u64)> {
        let name = |axis: &MeshAxis| {
            let (name, _) = self.axes.get(axis.axis)?;
            Some((name.clone(), axis.size))
        };
        self.along.iter().filter_map(name).collect()
    }

    /// The devices group by group; none where their order is not known or parts do not fit
    /// together.
    pub(super) fn strided(&self) -> Option<Strided> {
        if !self.in_order {
            return None;
        }
        // Each axis in pieces, so that every part is a whole number of them.
        let mut others = Vec::new();
        let mut chosen: Vec<Vec<(u64, u64)>> = vec![Vec::new(); self.along.len()];
        let mut below = self.total;
        for (index, (_, size)) in self.axes.iter().enumerate() {
            below /= size;
            let mut cuts = vec![1, *size];
            for part in self.along.iter().filter(|part| part.axis == index) {
                cuts.extend([part.outer, part.outer.checked_mul(part.size)?]);
            }
            cuts.sort_unstable();
            cuts.dedup();
            for cut in cuts.windows(2) {
                let [from, to] = cut else { continue };
                if *from == 0 || !to.is_multiple_of(*from) || !size.is_multiple_of(*to) {
                    return None;
                }
                let piece = (to / from, size / to * below);
                let part = self.along.iter().position(|part| {
                    part.axis == index && part.outer <= *from && *to <= part.outer * part.size
                });
                match part.and_then(|part| chosen.get_mut(part)) {
                    Some(pieces) => pieces.push(piece),
                    None => others.push(piece),
                }
            }
        }
        others.extend(chosen.into_iter().flatten());
        Strided::new(others).filter(|devices| devices.total() == self.total)
    }
}

fn axis_of(axes: &[(String, u64)], item: &str) -> Option<MeshAxis> {
    let (name, part) = match item.split_once(':') {
        Some((name, part)) => (name, Some(part)),
        None => (item, None),
    };
    let axis = axes.iter().position(|(axis, _)| axis == unquoted(name))?;
    let (outer, size) = match part {
        Some(part) => {
            let (outer, size) = part.trim().strip_prefix('(')?.split_once(')')?;
            (outer.trim().parse().ok()?, size.trim().parse().ok()?)
        }
        None => (1, axes.get(axis)?.1),
    };
    Some(MeshAxis { axis, outer, size })
}

fn unquoted(name: &str) -> &str {
    name.trim().trim_matches('\'')
}

impl fmt::Display for MeshGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self
            .axes
            .iter()
            .map(|(name, size)| format!("'{name}'={size}"))
            .collect();
        let along: Vec<String> = self
            .along
            .iter()
            .filter_map(|part| {
                let (name, size) = self.axes.get(part.axis)?;
                Some(if part.size == *size {
                    format!("'{name}'")
                } else {
                    format!("'{name}':({}){}", part.outer, part.size)
                })
            })
            .collect();
        write!(f, "mesh[{}] {{{}}}", axes.join(","), along.join(","))
    }
}

#[cfg(test)]
mod tests {
    use crate::program::collective::ReplicaGroups;

    fn groups(text: &str) -> Vec<Vec<i64>> {
        ReplicaGroups::parse(text).expect(text).groups().collect()
    }

    #[test]
    fn groups_run_along_the_axes_that_are_named() {
        let mesh = "mesh['data'=2,'fsdp'=4]";
        assert_eq!(
            groups(&format!("{mesh} {{'fsdp'}}")),
            [[0, 1, 2, 3], [4, 5, 6, 7]]
        );
        assert_eq!(
            groups(&format!("{mesh} {{'data'}}")),
            [[0, 4], [1, 5], [2, 6], [3, 7]]
        );
        assert_eq!(
            groups(&format!("{mesh} {{'data','fsdp'}}")),
            [[0, 1, 2, 3, 4, 5, 6, 7]]
        );
        assert_eq!(
            groups(&format!("{mesh} {{'fsdp','data'}}")),
            [[0, 4, 1, 5, 2, 6, 3, 7]]
        );
    }

    #[test]
    fn a_part_of_an_axis_is_its_outer_or_inner_devices() {
        assert_eq!(
            groups("mesh['a'=8] {'a':(2)4}"),
            [[0, 1, 2, 3], [4, 5, 6, 7]]
        );
        assert_eq!(
            groups("mesh['a'=8] {'a':(1)2}"),
            [[0, 4], [1, 5], [2, 6], [3, 7]]
        );
    }

    #[test]
    fn sizes_and_text_are_kept() {
        for text in ["mesh['a'=2,'b'=4] {'b'}", "mesh['a'=8] {'a':(2)4}"] {
            let groups = ReplicaGroups::parse(text).expect(text);
            assert_eq!((groups.group_count(), groups.group_size()), (2, 4));
            assert_eq!(groups.to_string(), text);
        }
    }

    #[test]
    fn devices_in_another_order_have_sizes_but_no_members() {
        let text = "mesh['a'=2,'b'=4,device_ids=([2,4]<=[8])] {'a'}";
        let groups = ReplicaGroups::parse(text).expect("a mesh");
        assert_eq!((groups.group_count(), groups.group_size()), (4, 2));
        assert_eq!(groups.groups().count(), 0);
    }

    #[test]
    fn what_is_no_mesh_is_refused() {
        for text in [
            "mesh['a'=0] {'a'}",
            "mesh['a'=8] {'b'}",
            "mesh['a'=8] {'a':(2)}",
            "mesh['a'=8]",
            "mesh['a'=18446744073709551615,'b'=2] {'a'}",
        ] {
            assert_eq!(ReplicaGroups::parse(text), None, "{text}");
        }
        assert_eq!(groups("mesh['a'=8] {'a':(3)2}"), Vec::<Vec<i64>>::new());
    }
}
