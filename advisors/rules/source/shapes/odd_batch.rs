//! A batch that is no multiple of the sublanes.

use knowledge::advice::AdviceKind;
use profiler::units::percent;

use super::{Found, MAX_PLACES, Role, literals, padded, waste};
use crate::finding::{Exhibit, Place, Remark, Severity};
use crate::python::SourceContext;
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct OddBatch;

/// Sublanes of a vector register for 32-bit types; packed types fill 16 or 32 rows.
const SUBLANES: u64 = 8;
/// Smaller batches are chosen for memory or for a trial.
const LEAST: u64 = 17;
/// Less padding than this is not worth a line.
const MIN_WASTE: f64 = 0.03;

impl Rule for OddBatch {
    fn code(&self) -> &'static str {
        "TS405"
    }

    fn name(&self) -> &'static str {
        "odd-batch"
    }

    fn card(&self) -> &'static str {
        include_str!("odd_batch.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let found = literals::found(context);
        let odd_ones: Vec<&Found> = found
            .iter()
            .filter(|one| {
                one.role == Role::Batch
                    && one.size >= LEAST
                    && waste(one.size, SUBLANES) >= MIN_WASTE
            })
            .collect();
        let Some(first) = odd_ones.first() else {
            return Vec::new();
        };
        // Where there is a sequence, its positions are rows too, and the batch alone says nothing.
        if literals_have_sequence(&found) {
            return Vec::new();
        }
        let to = padded(first.size, SUBLANES);
        let mut remark = Remark::new(
            AdviceKind::Padding,
            Severity::Info,
            format!(
                "the batch of {} is padded to {to} rows ({} empty) where it is the rows of a matmul",
                first.size,
                percent(waste(first.size, SUBLANES))
            ),
        );
        remark.places = odd_ones
            .iter()
            .take(MAX_PLACES)
            .map(|one| Place {
                label: format!("{} rows", padded(one.size, SUBLANES)),
                ..one.place.clone()
            })
            .collect();
        remark.evidence.push(Exhibit::text(
            "rows",
            format!("tiles hold 8 rows of 32-bit and 16 of 16-bit numbers: {} is the next multiple of 16", padded(first.size, 16)),
            "https://cloud.google.com/tpu/docs/performance-guide",
        ));
        remark.advice = vec![format!(
            "take {} or {to}; it has to divide over the devices as well",
            first.size / SUBLANES * SUBLANES
        )];
        remark.caveats = vec![
            "a batch that is folded with positions or pixels into rows pads nothing".to_owned(),
        ];
        vec![remark]
    }
}

fn literals_have_sequence(found: &[Found]) -> bool {
    found.iter().any(|one| one.role == Role::Sequence)
}

#[cfg(test)]
mod tests {
    use crate::rules::source::shapes::testing::in_source;

    #[test]
    fn a_batch_of_33_pads_to_40() {
        let found = in_source("TS405", "loader = DataLoader(data, batch_size=33)\n");
        let [one] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert!(
            one.title.contains("33 is padded to 40 rows (17.5 % empty)"),
            "{}",
            one.title
        );
    }

    #[test]
    fn sequences_fold_into_rows_and_even_batches_fill_them() {
        for text in [
            "batch_size = 64\n",
            "batch_size = 100000\n",
            "batch_size = 4\n",
            "batch_size = 33\nblock_size = 1024\n",
        ] {
            assert!(in_source("TS405", text).is_empty(), "{text}");
        }
    }
}
