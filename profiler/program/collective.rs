//! Who talks to whom in a collective: replica groups and source-target pairs.

use std::fmt;

use crate::program::mesh::MeshGroups;
use crate::program::scan::{Scan, ints, items};
use crate::program::shape::product;

/// The groups of devices that take part in a collective together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReplicaGroups {
    /// `{{0,1},{2,3}}`; empty means one group of all devices.
    List(Vec<Vec<i64>>),
    /// `[2,4]<=[8]` or `[2,4]<=[4,2]T(1,0)`: the numbers 0.. reshaped, transposed and cut into
    /// groups. Never expanded unless asked for, as there may be thousands of devices.
    Iota {
        /// Number of groups and devices of each (more dimensions are folded into the groups).
        groups: u64,
        /// Devices in a group.
        group_size: u64,
        /// The shape of the numbers before the transposition.
        reshape: Vec<u64>,
        /// The transposition; empty for none.
        transpose: Vec<u64>,
    },
    /// `mesh['data'=2,'fsdp'=4] {'fsdp'}`: along axes with names.
    Mesh(MeshGroups),
}

impl ReplicaGroups {
    /// Reads any form, as it stands after `replica_groups=`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(mesh) = MeshGroups::parse(text) {
            return Some(Self::Mesh(mesh));
        }
        let mut scan = Scan::new(text.trim());
        if let Some(list) = scan.bracketed(b'{') {
            return Some(Self::List(items(list).map(ints).collect()));
        }
        let uints = |list: &str| -> Option<Vec<u64>> {
            items(list).map(|item| item.trim().parse().ok()).collect()
        };
        let mut sizes = uints(scan.bracketed(b'[')?)?;
        let group_size = sizes.pop()?;
        let groups = product(&sizes);
        if !scan.eat("<=") {
            return None;
        }
        let reshape = uints(scan.bracketed(b'[')?)?;
        let transpose = if scan.eat("T") {
            uints(scan.bracketed(b'(')?)?
        } else {
            Vec::new()
        };
        Some(Self::Iota {
            groups,
            group_size,
            reshape,
            transpose,
        })
    }

    /// Devices in the largest group; 0 where the text says "all" without a number.
    #[must_use]
    pub fn group_size(&self) -> u64 {
        match self {
            Self::List(groups) => groups.iter().map(Vec::len).max().unwrap_or(0) as u64,
            Self::Iota { group_size, .. } => *group_size,
            Self::Mesh(mesh) => mesh.group_size(),
        }
    }

    /// How many groups there are; 0 where the text says "all" without a number.
    #[must_use]
    pub fn group_count(&self) -> u64 {
        match self {
            Self::List(groups) => groups.len() as u64,
            Self::Iota { groups, .. } => *groups,
            Self::Mesh(mesh) => mesh.group_count(),
        }
    }

    /// The groups one by one. Of a form that does not add up, none.
    pub fn groups(&self) -> impl Iterator<Item = Vec<i64>> + '_ {
        let (list, devices) = match self {
            Self::List(groups) => (groups.as_slice(), None),
            Self::Iota {
                reshape, transpose, ..
            } => (&[][..], Strided::transposed(reshape, transpose)),
            Self::Mesh(mesh) => (&[][..], mesh.strided()),
        };
        let (count, size) = (self.group_count(), self.group_size());
        let devices = devices.filter(|devices| count.checked_mul(size) == Some(devices.total));
        let expanded = devices.into_iter().flat_map(move |devices| {
            (0..count).map(move |group| (0..size).map(|i| devices.at(group * size + i)).collect())
        });
        list.iter().cloned().chain(expanded)
    }
}

/// The numbers 0.. in another order, each computed on demand.
pub(super) struct Strided {
    total: u64,
    /// For each dimension of the result, major to minor: its size and its stride in the numbers.
    dims: Vec<(u64, u64)>,
}

impl Strided {
    /// From sizes and strides, major to minor; none where there are too many to count.
    pub(super) fn new(dims: Vec<(u64, u64)>) -> Option<Self> {
        let mut sizes = dims.iter().map(|dim| dim.0);
        let total = sizes.try_fold(1u64, |total, size| total.checked_mul(size))?;
        Some(Self { total, dims })
    }

    /// A reshaped and transposed iota.
    fn transposed(reshape: &[u64], transpose: &[u64]) -> Option<Self> {
        let mut sizes = reshape.iter();
        let total = sizes.try_fold(1u64, |total, &size| total.checked_mul(size))?;
        let mut strides = vec![1u64; reshape.len()];
        for i in (0..reshape.len().saturating_sub(1)).rev() {
            strides[i] = strides[i + 1].saturating_mul(reshape[i + 1]);
        }
        let dims = if transpose.is_empty() {
            reshape.iter().copied().zip(strides).collect()
        } else {
            if transpose.len() != reshape.len() {
                return None;
            }
            let pick = |&dim: &u64| {
                let dim = usize::try_from(dim).ok()?;
                Some((*reshape.get(dim)?, *strides.get(dim)?))
            };
            transpose.iter().map(pick).collect::<Option<Vec<_>>>()?
        };
        // A repeated dimension is no transposition and could count past the total.
        Self::new(dims).filter(|devices| devices.total == total)
    }

    /// How many there are.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    fn at(&self, mut position: u64) -> i64 {
        let mut value = 0u64;
        for &(size, stride) in self.dims.iter().rev() {
            let size = size.max(1);
            value = value.saturating_add((position % size).saturating_mul(stride));
            position /= size;
        }
        i64::try_from(value).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for ReplicaGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |list: &[u64]| {
            list.iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        match self {
            Self::List(groups) => {
                f.write_str("{")?;
                for (i, group) in groups.iter().enumerate() {
                    let ids: Vec<_> = group.iter().map(i64::to_string).collect();
                    write!(f, "{}{{{}}}", if i > 0 { "," } else { "" }, ids.join(","))?;
                }
                f.write_str("}")
            }
            Self::Iota {
                groups,
                group_size,
                reshape,
                transpose,
            } => {
                write!(f, "[{groups},{group_size}]<=[{}]", join(reshape))?;
                if transpose.is_empty() {
                    Ok(())
                } else {
                    write!(f, "T({})", join(transpose))
                }
            }
            Self::Mesh(mesh) => mesh.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(text: &str) -> Vec<Vec<i64>> {
        ReplicaGroups::parse(text).expect(text).groups().collect()
    }

    #[test]
    fn iota_groups_expand_as_the_list_form_would_say() {
        assert_eq!(groups("{{0,1},{2,3}}"), [[0, 1], [2, 3]]);
        assert_eq!(groups("[2,4]<=[8]"), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(groups("[2,4]<=[4,2]T(1,0)"), [[0, 2, 4, 6], [1, 3, 5, 7]]);
        assert_eq!(
            groups("[4,2]<=[2,2,2]T(0,2,1)"),
            [[0, 2], [1, 3], [4, 6], [5, 7]]
        );
        assert_eq!(groups("{}"), Vec::<Vec<i64>>::new());
    }

    #[test]
    fn forms_that_do_not_add_up_give_no_groups() {
        assert_eq!(groups("[2,4]<=[9]"), Vec::<Vec<i64>>::new());
        assert_eq!(groups("[2,2]<=[2,2]T(0,7)"), Vec::<Vec<i64>>::new());
        assert_eq!(groups("[1,4]<=[4,1]T(0,0)"), Vec::<Vec<i64>>::new());
        assert_eq!(ReplicaGroups::parse("[2,4]"), None);
    }

    #[test]
    fn size_and_text_need_no_expansion() {
        let huge = ReplicaGroups::parse("[1024,8]<=[64,128]T(1,0)").expect("ok");
        assert_eq!((huge.group_count(), huge.group_size()), (1024, 8));
        assert_eq!(huge.to_string(), "[1024,8]<=[64,128]T(1,0)");
        assert_eq!(
            ReplicaGroups::parse("{{0,1},{2,3}}")
                .expect("ok")
                .to_string(),
            "{{0,1},{2,3}}"
        );
    }
}
