//! A table by the ids of a plane: mostly small numbers, sometimes 64-bit hashes.

use rustc_hash::FxHashMap;

/// Values by id. Ids are looked up for each event, so those that are small numbers are indices.
pub(super) struct IdTable<T> {
    small: Vec<Option<T>>,
    others: FxHashMap<i64, T>,
}

impl<T: Copy> IdTable<T> {
    /// A table for about that many ids. Small are those below four times as many.
    pub(super) fn sized(ids: usize) -> Self {
        Self {
            small: vec![None; ids.saturating_mul(4)],
            others: FxHashMap::default(),
        }
    }

    /// Sets the value of an id; the last one set counts.
    pub(super) fn insert(&mut self, id: i64, value: T) {
        match usize::try_from(id).ok().and_then(|i| self.small.get_mut(i)) {
            Some(slot) => *slot = Some(value),
            None => _ = self.others.insert(id, value),
        }
    }

    /// The value of an id.
    #[inline]
    pub(super) fn get(&self, id: i64) -> Option<T> {
        match usize::try_from(id).ok().and_then(|i| self.small.get(i)) {
            Some(slot) => *slot,
            None => self.others.get(&id).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::IdTable;

    #[test]
    fn ids_of_any_size_are_kept_apart() {
        let mut table = IdTable::sized(2);
        for (id, value) in [(0, 'a'), (7, 'b'), (8, 'c'), (i64::MIN, 'd'), (-1, 'e')] {
            table.insert(id, value);
        }
        table.insert(7, 'x');
        let found: Vec<_> = [0, 1, 7, 8, i64::MIN, -1, i64::MAX]
            .map(|id| table.get(id))
            .into();
        let wanted = [
            Some('a'),
            None,
            Some('x'),
            Some('c'),
            Some('d'),
            Some('e'),
            None,
        ];
        assert_eq!(found, wanted);
    }
}
