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
        let spans = spans.into_iter();
        let mut some = Vec::with_capacity(spans.size_hint().0);
        some.extend(spans.filter(|(start, end)| start < end));
        // Spans of several threads are as many sorted runs, which this sort only merges.
        some.sort();
        Self::joined(some)
    }

    /// The union of what of some spans lies inside `window`.
    #[must_use]
    pub fn union_within(window: (u64, u64), spans: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self::union(spans.into_iter().map(|span| clip(span, window)))
    }

    /// The union with another set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut spans = Vec::with_capacity(self.spans.len() + other.spans.len());
        let mut theirs = other.spans.iter().copied().peekable();
        for own in &self.spans {
            while let Some(earlier) = theirs.next_if(|span| span < own) {
                spans.push(earlier);
            }
            spans.push(*own);
        }
        spans.extend(theirs);
        Self::joined(spans)
    }

    /// Of sorted spans.
    fn joined(mut spans: Vec<(u64, u64)>) -> Self {
        spans.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        Self { spans }
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
        let clipped = self.spans.iter().map(|span| clip(*span, window));
        Self {
            spans: clipped.filter(|(s, e)| s < e).collect(),
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

fn clip(span: (u64, u64), window: (u64, u64)) -> (u64, u64) {
    (span.0.max(window.0), span.1.min(window.1))
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

        #[test]
        fn a_union_of_two_sets_is_the_union_of_their_spans(
            a in prop::collection::vec((0u64..200, 0u64..30), 0..20),
            b in prop::collection::vec((0u64..200, 0u64..30), 0..20),
            window in (0u64..200, 0u64..100),
        ) {
            let spans = |of: &[(u64, u64)]| of.iter().map(|(s, d)| (*s, s + d)).collect::<Vec<_>>();
            let (a, b) = (spans(&a), spans(&b));
            let all = Intervals::union(a.iter().chain(&b).copied());
            let window = (window.0, window.0 + window.1);
            prop_assert_eq!(Intervals::union(a.clone()).or(&Intervals::union(b.clone())), all.clone());
            let within = Intervals::union_within(window, a.iter().chain(&b).copied());
            prop_assert_eq!(within, all.clip(window));
        }
    }
}
