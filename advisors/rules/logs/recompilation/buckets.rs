//! Sizes to pad to, from the sizes that were met.

/// More programs than this for one axis are too many to keep.
const MAX_BUCKETS: usize = 8;
/// Lanes and sublanes of a TPU's registers: sizes are padded to them in any case.
const LANES: u64 = 128;
const SUBLANES: u64 = 8;
/// Padding, as a share, that one program less is worth: compiles take long, but only once.
const COST_OF_A_PROGRAM: f64 = 0.08;

/// What to pad an axis to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// The sizes that were met, ascending.
    sizes: Vec<u64>,
    /// The sizes to pad to, ascending.
    buckets: Vec<u64>,
}

impl Buckets {
    /// For these sizes of an axis. The full batch, where few smaller ones stand beside a round
    /// number; else multiples of 8 or 128 or powers of two, whichever are few and add little.
    #[must_use]
    pub(crate) fn of(sizes: &[u64], axis: usize) -> Self {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let largest = sizes.last().copied().unwrap_or_default();
        if axis == 0 && sizes.len() <= 4 && largest.is_multiple_of(SUBLANES) {
            let buckets = vec![largest];
            return Self { sizes, buckets };
        }
        let up = |step: u64| -> Vec<u64> {
            let next = |size: &u64| size.div_ceil(step).saturating_mul(step);
            sizes.iter().map(next).collect()
        };
        let power = |size: &u64| size.checked_next_power_of_two().unwrap_or(*size);
        let powers: Vec<u64> = sizes.iter().map(power).collect();
        let candidates = [up(SUBLANES), up(LANES), powers].map(|mut buckets| {
            buckets.dedup();
            Self {
                sizes: sizes.clone(),
                buckets,
            }
        });
        let cost = |one: &Self| one.waste() + COST_OF_A_PROGRAM * one.buckets.len() as f64;
        let few = candidates
            .into_iter()
            .filter(|one| one.buckets.len() <= MAX_BUCKETS)
            .min_by(|a, b| cost(a).total_cmp(&cost(b)));
        few.unwrap_or_else(|| {
            // Sizes of many magnitudes: the largest powers of two, small sizes padded to the first.
            let mut powers: Vec<u64> = sizes.iter().map(power).collect();
            powers.dedup();
            let from = powers.len().saturating_sub(MAX_BUCKETS);
            let buckets = powers.split_off(from);
            Self { sizes, buckets }
        })
    }

    /// Elements that padding adds, as a share of those that were met, each size counted once.
    fn waste(&self) -> f64 {
        let padded = |size: &u64| {
            let next = self.buckets.iter().find(|bucket| *bucket >= size);
            *next.unwrap_or(size) as f64
        };
        let met: f64 = self.sizes.iter().map(|size| *size as f64).sum();
        self.sizes.iter().map(padded).sum::<f64>() / met.max(1.0) - 1.0
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
            if axis == 0 && one == largest && self.sizes.len() <= 4 {
                advice.push(format!(
                    "batches of {} beside {largest}: drop the last partial batch (`DataLoader(..., drop_last=True)`)",
                    joined(smaller)
                ));
            }
            let padded = if one == largest { smaller } else { &self.sizes };
            advice.push(format!(
                "pad {} to {one} and mask what is added: one program instead of {}",
                joined(padded),
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
        let advice = Buckets::of(&[17, 32, 20], 0).advice(0);
        assert!(advice[0].starts_with("batches of 17, 20 beside 32: drop the last"));
        assert!(advice[1].starts_with("pad 17, 20 to 32 and mask"));
    }

    #[test]
    fn sequences_get_few_buckets() {
        let buckets = Buckets::of(&[37, 100, 130, 200, 250, 380, 381], 1);
        assert_eq!(buckets.buckets, [128, 256, 384]);
        let advice = buckets.advice(1);
        assert!(advice[0].contains("3 programs instead of 7"), "{advice:?}");
        let wide: Vec<u64> = (1..60).map(|n| n * 131).collect();
        assert!(Buckets::of(&wide, 1).buckets.len() <= 8);
        assert!(Buckets::of(&wide, 1).buckets.contains(&8192));
    }

    #[test]
    fn sizes_that_creep_are_no_last_batch() {
        let advice = Buckets::of(&[44, 45, 46, 47], 0).advice(0);
        assert_eq!(
            advice,
            ["pad 44, 45, 46, 47 to 48 and mask what is added: one program instead of 4"]
        );
    }

    #[test]
    fn extremes_do_not_panic() {
        for sizes in [&[][..], &[0], &[u64::MAX, 1, 2, 3, 4, 5], &[0, 0]] {
            let _ = Buckets::of(sizes, 0).advice(0);
        }
    }
}
