//! Unions of half-open time intervals: the honest way to add up times that overlap.

/// Sorted, disjoint intervals `[start, end)` in picoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    spans: Vec<(u64, u64)>,
}

impl Intervals {
    /// The union of spans in any order; empty ones vanish, touching ones join.
    #[must_use]
    pub fn union(spans: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut spans: Vec<(u64, u64)> = spans.into_iter().filter(|(s, e)| s < e).collect();
        if !spans.is_sorted() {
            spans.sort_unstable();
        }
        let mut union: Vec<(u64, u64)> = Vec::new();
        for (start, end) in spans {
            match union.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => union.push((start, end)),
            }
        }
        Self { spans: union }
    }

    /// The intervals.
    #[must_use]
    pub fn spans(&self) -> &[(u64, u64)] {
        &self.spans
    }

    /// Total length in picoseconds.
    #[must_use]
    pub fn total_ps(&self) -> u64 {
        self.spans.iter().map(|(s, e)| e - s).sum()
    }

    /// What of `self` lies inside `window`.
    #[must_use]
    pub fn clip(&self, window: (u64, u64)) -> Self {
        let clip = |(s, e): &(u64, u64)| ((*s).max(window.0), (*e).min(window.1));
        Self {
            spans: self.spans.iter().map(clip).filter(|(s, e)| s < e).collect(),
        }
    }

    /// What of `self` is not in `other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let mut rest = Vec::new();
        let mut next = 0;
        for (start, end) in &self.spans {
            let mut at = *start;
            while other.spans.get(next).is_some_and(|span| span.1 <= at) {
                next += 1;
            }
            let mut look = next;
            while let Some((s, e)) = other.spans.get(look).filter(|span| span.0 < *end) {
                if at < *s {
                    rest.push((at, *s));
                }
                at = at.max(*e);
                look += 1;
            }
            if at < *end {
                rest.push((at, *end));
            }
        }
        Self { spans: rest }
    }
}

#[cfg(test)]
mod tests {
    use super::Intervals;
    use proptest::prelude::*;

    #[test]
    fn overlapping_spans_count_once() {
        let union = Intervals::union([(5, 10), (0, 6), (20, 20), (10, 12)]);
        assert_eq!(union.spans(), [(0, 12)]);
        assert_eq!(union.total_ps(), 12);
    }

    #[test]
    fn minus_leaves_what_is_not_covered() {
        let busy = Intervals::union([(2, 4), (6, 8)]);
        let window = Intervals::union([(0, 10)]);
        assert_eq!(window.minus(&busy).spans(), [(0, 2), (4, 6), (8, 10)]);
    }

    proptest! {
        #[test]
        fn a_set_is_its_part_outside_and_its_part_inside_another(
            a in prop::collection::vec((0u64..200, 0u64..30), 0..20),
            b in prop::collection::vec((0u64..200, 0u64..30), 0..20),
        ) {
            let a = Intervals::union(a.into_iter().map(|(s, d)| (s, s + d)));
            let b = Intervals::union(b.into_iter().map(|(s, d)| (s, s + d)));
            let outside = a.minus(&b);
            let inside = a.minus(&outside);
            prop_assert_eq!(outside.total_ps() + inside.total_ps(), a.total_ps());
            prop_assert_eq!(inside.minus(&b).total_ps(), 0);
        }
    }
}
