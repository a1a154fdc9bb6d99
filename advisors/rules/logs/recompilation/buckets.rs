//! Sizes to pad to, from the sizes that were met.

/// More programs than this for one axis are too many to keep.
const MAX_BUCKETS: usize = 8;
/// Lanes of a TPU: sizes beyond are best multiples of it.
const LANES: u64 = 128;

/// What to pad an axis to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// The sizes that were met, ascending.
    sizes: Vec<u64>,
    /// The sizes to pad to, ascending.
    buckets: Vec<u64>,
}

impl Buckets {
    /// For these sizes: one size where few smaller ones stand beside the largest, as with a last
    /// batch; else multiples of 128, or powers of two where those are too many.
    #[must_use]
    pub(crate) fn of(sizes: &[u64]) -> Self {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let largest = sizes.last().copied().unwrap_or_default();
        let up = |step: u64| {
            let mut all: Vec<u64> = sizes
                .iter()
                .map(|size| size.div_ceil(step).saturating_mul(step))
                .collect();
            all.dedup();
            all
        };
        let buckets = if sizes.len() <= 4 && largest <= LANES {
            vec![largest]
        } else if up(LANES).len() <= MAX_BUCKETS.min(sizes.len().saturating_sub(1)) {
            up(LANES)
        } else {
            let mut powers: Vec<u64> = sizes
                .iter()
                .map(|size| size.checked_next_power_of_two().unwrap_or(*size))
                .collect();
            powers.dedup();
            let from = powers.len().saturating_sub(MAX_BUCKETS);
            powers.split_off(from)
        };
        Self { sizes, buckets }
    }

    /// Elements that padding adds, as a share of those that were met, each size counted once.
    fn waste(&self) -> f64 {
        let met: u64 = self.sizes.iter().sum();
        let padded: u64 = self
            .sizes
            .iter()
            .map(|size| {
                *self
                    .buckets
                    .iter()
                    .find(|bucket| *bucket >= size)
                    .unwrap_or(size)
            })
            .sum();
        padded as f64 / met.max(1) as f64 - 1.0
    }

    /// What to do, with the figures.
    #[must_use]
    pub(crate) fn advice(&self, axis: usize) -> Vec<String> {
        let joined = |sizes: &[u64]| {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            sizes.join(", ")
        };
        let Some((largest, smaller)) = self.sizes.split_last() else {
            return Vec::new();
        };
        if smaller.is_empty() {
            return vec![format!("pad axis {axis} so that its size does not change")];
        }
        if let [one] = self.buckets.as_slice() {
            let mut advice = Vec::new();
            let who = if axis == 0 { "batches" } else { "sizes" };
            if axis == 0 {
                advice.push(format!(
                    "{who} of {} beside {largest}: drop the last partial batch (`DataLoader(..., drop_last=True)`)",
                    joined(smaller)
                ));
            }
            advice.push(format!(
                "pad {} to {one}, with a mask in the loss: one program instead of {}",
                joined(smaller),
                self.sizes.len()
            ));
            return advice;
        }
        vec![format!(
            "pad axis {axis} to the next of {} in the collator: {} programs instead of {} for the sizes met ({}), with {:.0} % more elements if each size is as frequent as the others",
            joined(&self.buckets),
            self.buckets.len(),
            self.sizes.len(),
            joined(
                self.sizes
                    .get(..self.sizes.len().min(8))
                    .unwrap_or_default()
            ) + if self.sizes.len() > 8 { ", …" } else { "" },
            self.waste() * 100.0
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::Buckets;

    #[test]
    fn a_ragged_last_batch_is_padded_to_the_full_one() {
        let advice = Buckets::of(&[17, 32, 20]).advice(0);
        assert!(advice[0].starts_with("batches of 17, 20 beside 32: drop the last"));
        assert!(advice[1].starts_with("pad 17, 20 to 32, with a mask"));
    }

    #[test]
    fn sequences_get_few_buckets() {
        let buckets = Buckets::of(&[37, 100, 130, 200, 250, 380, 381]);
        assert_eq!(buckets.buckets, [128, 256, 384]);
        let advice = buckets.advice(1);
        assert!(advice[0].contains("3 programs instead of 7"), "{advice:?}");
        let wide: Vec<u64> = (1..60).map(|n| n * 131).collect();
        assert!(Buckets::of(&wide).buckets.len() <= 8);
        assert!(Buckets::of(&wide).buckets.contains(&8192));
    }

    #[test]
    fn extremes_do_not_panic() {
        for sizes in [&[][..], &[0], &[u64::MAX, 1, 2, 3, 4, 5], &[0, 0]] {
            let _ = Buckets::of(sizes).advice(0);
        }
    }
}
