//! The loss is no number.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{MAX_PLACES, counted};

/// See the card.
#[derive(Debug)]
pub struct LossNotFinite;

impl Rule for LossNotFinite {
    fn code(&self) -> &'static str {
        "TL504"
    }

    fn name(&self) -> &'static str {
        "loss-not-finite"
    }

    fn card(&self) -> &'static str {
        include_str!("loss_not_finite.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let points = logs
            .progress
            .series
            .iter()
            .flat_map(|series| &series.points);
        let with_loss: Vec<_> = points.filter(|point| point.loss.is_some()).collect();
        let bad: Vec<_> = (with_loss.iter())
            .filter(|point| point.loss.is_some_and(|loss| !loss.is_finite()))
            .collect();
        let Some(first) = bad.first() else {
            return Vec::new();
        };
        let from = first
            .step
            .map(|step| format!(", from step {step} on"))
            .unwrap_or_default();
        let title = format!(
            "the loss is no number in {} of {}{from}: what these steps compute is lost",
            bad.len(),
            counted(with_loss.len() as u64, "step line"),
        );
        let mut remark = Remark::new(AdviceKind::Dtype, Severity::High, title);
        remark.places = bad
            .iter()
            .take(MAX_PLACES)
            .map(|point| place(logs, point.at, "", "loss: not finite"))
            .collect();
        let before = with_loss
            .iter()
            .take_while(|point| point.loss.is_some_and(f64::is_finite))
            .last();
        if let Some(loss) = before.and_then(|point| point.loss) {
            remark.evidence.push(Exhibit::number(
                "last loss before",
                loss,
                "",
                "the step lines",
            ));
        }
        remark.advice = [
            "find the first operation that gives it: JAX_DEBUG_NANS=1, torch.autograd.detect_anomaly()",
            "compute logits, softmax and losses in float32; guard empty batches and masks without a single true (0/0)",
            "lower the learning rate or clip gradients, and go on from the last good checkpoint",
        ]
        .map(str::to_owned)
        .to_vec();
        vec![remark]
    }
}
