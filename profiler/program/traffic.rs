//! Bytes that an instruction moves, by memory space.

use std::collections::BTreeMap;

use crate::program::shape::{Array, MemorySpace, Shape};
use crate::units::Bytes;

/// Bytes moved in one memory space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceTraffic {
    /// Read, elements only.
    pub read: Bytes,
    /// Written, elements only.
    pub written: Bytes,
    /// Read, tile padding included.
    pub read_padded: Bytes,
    /// Written, tile padding included.
    pub written_padded: Bytes,
}

impl SpaceTraffic {
    /// Read and written together, elements only.
    #[must_use]
    pub fn total(&self) -> Bytes {
        Bytes(self.read.0.saturating_add(self.written.0))
    }

    /// Read and written together, tile padding included.
    #[must_use]
    pub fn total_padded(&self) -> Bytes {
        Bytes(self.read_padded.0.saturating_add(self.written_padded.0))
    }
}

/// Bytes moved, by memory space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    spaces: BTreeMap<MemorySpace, SpaceTraffic>,
}

impl Traffic {
    /// What moves in one space.
    #[must_use]
    pub fn of(&self, space: MemorySpace) -> SpaceTraffic {
        self.spaces.get(&space).copied().unwrap_or_default()
    }

    /// What moves in HBM.
    #[must_use]
    pub fn hbm(&self) -> SpaceTraffic {
        self.of(MemorySpace::Hbm)
    }

    /// What crosses to and from the host's memory.
    #[must_use]
    pub fn host(&self) -> SpaceTraffic {
        self.of(MemorySpace::Host)
    }

    /// All spaces with traffic, HBM first.
    pub fn iter(&self) -> impl Iterator<Item = (MemorySpace, SpaceTraffic)> + '_ {
        self.spaces
            .iter()
            .map(|(&space, &traffic)| (space, traffic))
    }

    /// Bytes read and written in all spaces, elements only.
    #[must_use]
    pub fn total(&self) -> Bytes {
        Bytes(
            self.spaces
                .values()
                .fold(0, |sum, space| sum.saturating_add(space.total().0)),
        )
    }

    pub(super) fn read(&mut self, shape: &Shape) {
        for array in shape.arrays() {
            self.read_part(array, array.elements());
        }
    }

    pub(super) fn write(&mut self, shape: &Shape) {
        for array in shape.arrays() {
            self.write_part(array, array.elements());
        }
    }

    /// Adds a read of some of an array's elements.
    pub(super) fn read_part(&mut self, array: &Array, elements: u64) {
        let (bytes, padded) = part(array, elements);
        let space = self.spaces.entry(array.memory_space()).or_default();
        space.read.0 = space.read.0.saturating_add(bytes);
        space.read_padded.0 = space.read_padded.0.saturating_add(padded);
    }

    /// Adds a write of some of an array's elements.
    pub(super) fn write_part(&mut self, array: &Array, elements: u64) {
        let (bytes, padded) = part(array, elements);
        let space = self.spaces.entry(array.memory_space()).or_default();
        space.written.0 = space.written.0.saturating_add(bytes);
        space.written_padded.0 = space.written_padded.0.saturating_add(padded);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.add_times(other, 1);
    }

    pub(super) fn add_times(&mut self, other: &Self, times: u64) {
        let add = |sum: &mut Bytes, more: Bytes| {
            sum.0 = sum.0.saturating_add(more.0.saturating_mul(times));
        };
        for (space, traffic) in other.iter() {
            let sum = self.spaces.entry(space).or_default();
            add(&mut sum.read, traffic.read);
            add(&mut sum.written, traffic.written);
            add(&mut sum.read_padded, traffic.read_padded);
            add(&mut sum.written_padded, traffic.written_padded);
        }
    }
}

/// Bytes of some of an array's elements, without and with their share of the padding.
fn part(array: &Array, elements: u64) -> (u64, u64) {
    let all = array.elements();
    let (bytes, padded) = (array.bytes().0, array.padded_bytes().0);
    if elements >= all || all == 0 {
        return (bytes, padded);
    }
    let share = |bytes: u64| {
        let share = (u128::from(bytes) * u128::from(elements)).div_ceil(u128::from(all));
        u64::try_from(share).unwrap_or(u64::MAX)
    };
    (share(bytes), share(padded))
}
