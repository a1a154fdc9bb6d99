//! Who takes part in a collective, in numbers and in words.
//!
//! The numbers stand in the instruction (`replica_groups=`), in one of three forms: a list, an
//! iota, or since 2026 a mesh with named axes. Where they are missing (a fusion's own text does not
//! say) the shapes tell how many share: an all-gather's result is so many times its operand.

use std::fmt;

use serde::Serialize;

use crate::program::collective::ReplicaGroups;

/// How the groups are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupBasis {
    /// The instruction says so.
    Stated,
    /// From the sizes of operand and result.
    Shapes,
    /// The instruction says "all", and that many devices are on record.
    Devices,
    /// Nothing tells.
    #[default]
    Unknown,
}

/// The groups of devices that talk to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Groups {
    /// Devices in a group.
    pub size: Option<u64>,
    /// Number of groups.
    pub count: Option<u64>,
    /// Distance between neighbours of a group, where it is the same for all.
    pub stride: Option<u64>,
    /// Names and sizes of the mesh axes that the groups run along, where the instruction names them.
    pub axes: Vec<(String, u64)>,
    /// Of a permute: the distance from source to target where one distance (modulo the devices)
    /// serves all pairs.
    pub shift: Option<i64>,
    /// How they are known.
    pub basis: GroupBasis,
}

/// Groups are expanded only up to this size; no slice has more devices in one group.
const MAX_GROUP: u64 = 1 << 16;

impl Groups {
    /// From the groups as an instruction states them; `devices` is how many there are in all.
    #[must_use]
    pub fn stated(groups: &ReplicaGroups, devices: Option<u64>) -> Self {
        let size = groups.group_size();
        if size == 0 {
            return Self::all(devices);
        }
        let first = if size <= MAX_GROUP {
            groups.groups().next()
        } else {
            None
        };
        Self {
            size: Some(size),
            count: Some(groups.group_count()),
            stride: first.as_deref().and_then(stride_of),
            axes: match groups {
                ReplicaGroups::Mesh(mesh) => mesh.named(),
                _ => Vec::new(),
            },
            shift: None,
            basis: GroupBasis::Stated,
        }
    }

    /// One group of all devices.
    #[must_use]
    pub fn all(devices: Option<u64>) -> Self {
        Self {
            size: devices,
            count: devices.map(|_| 1),
            stride: devices.map(|_| 1),
            basis: devices.map_or(GroupBasis::Unknown, |_| GroupBasis::Devices),
            ..Self::default()
        }
    }

    /// Of a size that only the shapes tell: the larger side is `ratio` times the smaller. Padding
    /// makes it inexact, so it is rounded.
    #[must_use]
    pub fn from_ratio(ratio: f64) -> Self {
        let size = ratio.round();
        if !(2.0..=MAX_GROUP as f64).contains(&size) {
            return Self::default();
        }
        Self {
            size: Some(size as u64),
            basis: GroupBasis::Shapes,
            ..Self::default()
        }
    }

    /// Of a permute, from its pairs.
    #[must_use]
    pub fn of_pairs(pairs: &[(i64, i64)]) -> Self {
        let mut members: Vec<i64> = pairs.iter().flat_map(|(s, t)| [*s, *t]).collect();
        members.sort_unstable();
        members.dedup();
        let devices = members.len() as i64;
        let shift = pairs.first().map(|(s, t)| t.saturating_sub(*s));
        let alike = |shift: &i64| {
            pairs.iter().all(|(s, t)| {
                let moved = t.saturating_sub(*s).saturating_sub(*shift);
                moved == 0 || moved.checked_rem(devices) == Some(0)
            })
        };
        Self {
            size: (!members.is_empty()).then_some(members.len() as u64),
            count: (!members.is_empty()).then_some(1),
            shift: shift.filter(alike),
            basis: if members.is_empty() {
                GroupBasis::Unknown
            } else {
                GroupBasis::Stated
            },
            ..Self::default()
        }
    }

    /// All devices that take part.
    #[must_use]
    pub fn devices(&self) -> Option<u64> {
        self.size?.checked_mul(self.count?)
    }
}

fn stride_of(group: &[i64]) -> Option<u64> {
    let [first, second, ..] = group else {
        return None;
    };
    let stride = second.checked_sub(*first)?;
    let even = group
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if b.checked_sub(*a) == Some(stride)));
    if even {
        u64::try_from(stride).ok().filter(|s| *s > 0)
    } else {
        None
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(size) = self.size else {
            return f.write_str("groups not stated");
        };
        if let Some(shift) = self.shift {
            return write!(f, "{size} devices, each to the one {shift:+} from it");
        }
        if !self.axes.is_empty() {
            let names: Vec<String> = self
                .axes
                .iter()
                .map(|(name, size)| format!("'{name}' of size {size}"))
                .collect();
            let axis = if names.len() == 1 { "axis" } else { "axes" };
            write!(f, "mesh {axis} {}", names.join(" and "))?;
            return match self.count {
                Some(count) if count > 1 => write!(f, " ({count} groups)"),
                _ => Ok(()),
            };
        }
        match (self.count, self.stride) {
            (Some(1), _) => write!(f, "all {size} devices"),
            (Some(count), Some(1)) => write!(
                f,
                "{count} groups of {size}, stride 1: the fastest-varying axis of size {size}"
            ),
            (Some(count), Some(stride)) if stride == count => write!(
                f,
                "{count} groups of {size}, stride {stride}: the slowest-varying axis of size {size}"
            ),
            (Some(count), Some(stride)) => write!(
                f,
                "{count} groups of {size}, stride {stride}: an axis of size {size} between others"
            ),
            (Some(count), None) => write!(f, "{count} groups of {size}, over several axes"),
            (None, _) => write!(f, "groups of {size}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        Groups::stated(&ReplicaGroups::parse(text).expect(text), Some(8)).to_string()
    }

    #[test]
    fn groups_are_told_as_the_axis_that_they_run_along() {
        assert_eq!(
            words("[4,2]<=[8]"),
            "4 groups of 2, stride 1: the fastest-varying axis of size 2"
        );
        assert_eq!(
            words("[4,2]<=[2,4]T(1,0)"),
            "4 groups of 2, stride 4: the slowest-varying axis of size 2"
        );
        assert_eq!(
            words("[4,2]<=[2,2,2]T(0,2,1)"),
            "4 groups of 2, stride 2: an axis of size 2 between others"
        );
        assert_eq!(
            words("{{0,1,4,5},{2,3,6,7}}"),
            "2 groups of 4, over several axes"
        );
        assert_eq!(words("[1,8]<=[8]"), "all 8 devices");
        assert_eq!(words("{}"), "all 8 devices");
    }

    #[test]
    fn a_mesh_names_its_axes() {
        assert_eq!(
            words("mesh['data'=2,'fsdp'=4] {'fsdp'}"),
            "mesh axis 'fsdp' of size 4 (2 groups)"
        );
        let stated = |text: &str| {
            let groups = Groups::stated(&ReplicaGroups::parse(text).expect(text), None);
            (groups.size, groups.count, groups.stride)
        };
        assert_eq!(
            stated("mesh['data'=2,'fsdp'=4] {'data'}"),
            (Some(2), Some(4), Some(4))
        );
        assert_eq!(
            stated("mesh['a'=8] {'a':(2)4}"),
            (Some(4), Some(2), Some(1))
        );
    }

    #[test]
    fn a_permute_is_told_by_its_distance() {
        let ring = Groups::of_pairs(&[(0, 1), (1, 2), (2, 3), (3, 0)]);
        assert_eq!(ring.to_string(), "4 devices, each to the one +1 from it");
        let swap = Groups::of_pairs(&[(0, 3), (1, 2)]);
        assert_eq!((swap.size, swap.shift), (Some(4), None));
        assert_eq!(Groups::of_pairs(&[]).size, None);
    }

    #[test]
    fn hostile_sizes_are_not_expanded() {
        let huge = ReplicaGroups::parse("[1,4611686018427387904]<=[4611686018427387904]");
        let groups = Groups::stated(&huge.expect("it parses"), None);
        assert_eq!((groups.size, groups.stride), (Some(1 << 62), None));
    }
}
