//! Replacements of bytes in a text, applied together.

use std::collections::BTreeMap;
use std::ops::Range;

/// Replacements and insertions, by place.
#[derive(Default)]
pub(super) struct Edits {
    replaced: BTreeMap<usize, (usize, String)>,
    inserted: BTreeMap<usize, String>,
}

impl Edits {
    /// Replaces the bytes of `range`. The first replacement of a place stands.
    pub(super) fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.replaced
            .entry(range.start)
            .or_insert_with(|| (range.end, text.into()));
    }

    /// Inserts before byte `at`, behind what was inserted there before.
    pub(super) fn insert(&mut self, at: usize, text: &str) {
        self.inserted.entry(at).or_default().push_str(text);
    }

    /// `text` with all edits.
    pub(super) fn apply(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 1024);
        let mut at = 0;
        let mut places: Vec<usize> = self
            .replaced
            .keys()
            .chain(self.inserted.keys())
            .copied()
            .collect();
        places.sort_unstable();
        places.dedup();
        for place in places {
            // What lies inside of a replaced range went with it.
            let Some(between) = text.get(at..place) else {
                continue;
            };
            out.push_str(between);
            at = place;
            if let Some(inserted) = self.inserted.get(&place) {
                out.push_str(inserted);
            }
            if let Some((end, new)) = self.replaced.get(&place) {
                out.push_str(new);
                at = (*end).max(at);
            }
        }
        out.push_str(text.get(at..).unwrap_or(""));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_apply_in_the_order_of_their_places() {
        let mut edits = Edits::default();
        edits.replace(4..5, "five");
        edits.insert(0, "<");
        edits.insert(4, "|");
        edits.replace(4..5, "late");
        assert_eq!(edits.apply("abcdefg"), "<abcd|fivefg");
    }
}
