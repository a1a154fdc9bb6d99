//! Chips in a mesh or torus, and how a group of devices lies in it.

use std::collections::BTreeSet;

use crate::chip::{ChipFacts, Generation};

/// The chips of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Chips along each axis: two axes, or three.
    pub axes: Vec<u64>,
    /// Whether an axis is closed to a ring.
    pub wraps: Vec<bool>,
    /// Devices on a chip; devices are numbered chip by chip, chips with the first axis fastest.
    pub devices_per_chip: u64,
}

/// How a group lies along one axis of the chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisUse {
    /// Which axis.
    pub axis: usize,
    /// Chips of the group along it.
    pub size: u64,
    /// Distance of neighbours: so many groups share the links.
    pub stride: u64,
    /// Whether the group's chips form a ring.
    pub wraps: bool,
}

impl AxisUse {
    /// Links that bring data into the chip where fewest do, shared by the groups that lie between
    /// each other.
    #[must_use]
    pub fn links_in(&self) -> f64 {
        let links = if self.wraps { 2.0 } else { 1.0 };
        links / self.stride.max(1) as f64
    }

    /// Hops from the farthest member.
    #[must_use]
    pub fn hops(&self) -> u64 {
        let span = self.size.saturating_sub(1).saturating_mul(self.stride);
        if self.wraps {
            self.size.saturating_mul(self.stride) / 2
        } else {
            span
        }
    }
}

/// How a group of devices lies in the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Devices of the group on one chip.
    pub on_chip: u64,
    /// Axes that it spans; empty where all of it is on one chip.
    pub axes: Vec<AxisUse>,
    /// Groups that use the same links at the same time, as their members sit on the same chips.
    pub sharing: u64,
    /// Whether the group is a box of chips along whole axes; otherwise `axes` is what holds it.
    pub is_regular: bool,
}

impl Placement {
    /// Chips of the group.
    #[must_use]
    pub fn chips(&self) -> u64 {
        self.axes
            .iter()
            .fold(1, |chips: u64, axis| chips.saturating_mul(axis.size))
    }
}

impl Topology {
    /// A slice of that shape, closed where the generation closes it: on chips with a torus of three
    /// dimensions axes that are multiples of 4, on the others axes of 16.
    #[must_use]
    pub fn new(facts: &ChipFacts, axes: &[u64]) -> Self {
        let dimensions = dimensions(facts);
        let closes = |size: u64| {
            if dimensions == 3 {
                size >= 4 && size.is_multiple_of(4)
            } else {
                size == 16
            }
        };
        Self {
            axes: axes.iter().map(|size| (*size).max(1)).collect(),
            wraps: axes.iter().map(|size| closes(*size)).collect(),
            devices_per_chip: u64::from(facts.devices_per_chip.value.max(1)),
        }
    }

    /// The most compact slice of at least so many devices, as Google's slices are.
    #[must_use]
    pub fn of_devices(facts: &ChipFacts, devices: u64) -> Self {
        let per_chip = u64::from(facts.devices_per_chip.value.max(1));
        let mut left = devices.div_ceil(per_chip).max(1);
        let mut axes = vec![1u64; dimensions(facts)];
        // The slices that exist have axes of powers of two; what is left over is one factor.
        while left > 1 {
            let factor = if left.is_multiple_of(2) { 2 } else { left };
            left /= factor;
            if let Some(least) = axes.iter_mut().min() {
                *least = least.saturating_mul(factor);
            }
        }
        axes.sort_unstable();
        if dimensions(facts) == 3 {
            // As in 2x2x1: what is short comes last.
            axes.sort_unstable_by(|a, b| {
                let short = |size: &u64| u64::from(*size == 1);
                short(a).cmp(&short(b)).then(a.cmp(b))
            });
        }
        Self::new(facts, &axes)
    }

    /// Devices of the slice.
    #[must_use]
    pub fn devices(&self) -> u64 {
        self.axes
            .iter()
            .fold(self.devices_per_chip, |all, size| all.saturating_mul(*size))
    }

    /// The chip of a device, as its place along each axis; none for a device that is not there.
    #[must_use]
    pub fn chip_of(&self, device: i64) -> Option<Vec<u64>> {
        let device = u64::try_from(device).ok()?;
        let mut chip = device / self.devices_per_chip.max(1);
        let mut place = Vec::with_capacity(self.axes.len());
        for size in &self.axes {
            place.push(chip % size);
            chip /= size;
        }
        (chip == 0).then_some(place)
    }

    /// How a group lies in the slice; none where a member is not there.
    #[must_use]
    pub fn place(&self, group: &[i64]) -> Option<Placement> {
        let places: Vec<Vec<u64>> = group
            .iter()
            .map(|device| self.chip_of(*device))
            .collect::<Option<_>>()?;
        let chips: BTreeSet<&[u64]> = places.iter().map(Vec::as_slice).collect();
        let on_chip = (group.len() as u64).div_ceil(chips.len().max(1) as u64);
        let mut axes = Vec::new();
        let mut is_regular = on_chip * chips.len() as u64 == group.len() as u64;
        for (axis, length) in self.axes.iter().enumerate() {
            let along: BTreeSet<u64> = places.iter().filter_map(|p| p.get(axis).copied()).collect();
            let along: Vec<u64> = along.into_iter().collect();
            let [first, second, ..] = along.as_slice() else {
                continue;
            };
            let stride = second - first;
            let even = along
                .windows(2)
                .all(|pair| matches!(pair, [a, b] if b - a == stride));
            is_regular &= even;
            let size = along.len() as u64;
            let closed = self.wraps.get(axis).copied().unwrap_or(false);
            axes.push(AxisUse {
                axis,
                size,
                stride: if even { stride } else { 1 },
                wraps: closed && even && size.saturating_mul(stride) == *length,
            });
        }
        let box_of = axes
            .iter()
            .fold(1u64, |chips, axis| chips.saturating_mul(axis.size));
        is_regular &= box_of == chips.len() as u64;
        Some(Placement {
            sharing: if axes.is_empty() {
                1
            } else {
                (self.devices_per_chip / on_chip.max(1)).max(1)
            },
            on_chip,
            axes,
            is_regular,
        })
    }
}

/// Dimensions of the torus, where the facts do not say by the generation.
fn dimensions(facts: &ChipFacts) -> usize {
    let known = facts.ici_dimensions.as_ref().map(|found| found.value);
    match (known, facts.generation) {
        (Some(3), _) | (None, Generation::V4 | Generation::V5p | Generation::Tpu7x) => 3,
        _ => 2,
    }
}
