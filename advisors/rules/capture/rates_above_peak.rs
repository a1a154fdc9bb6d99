//! Operations that would be faster than the chip.

use profiler::evidence::ops::FlopsBasis;
use profiler::evidence::peaks::ChipBasis;
use profiler::evidence::{OpClass, OpProfile};
use profiler::units::{Picos, percent, with_digits};

use crate::finding::{Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::capture::{Remark, is_measured};

/// See the card.
#[derive(Debug)]
pub struct RatesAbovePeak;

/// Clocks vary and figures are rounded: a rate is impossible from here on.
const IMPOSSIBLE: f64 = 1.05;
/// Shorter operations are too coarsely timed to have a rate.
const MIN_DURATION: Picos = Picos(1_000_000);
/// Share of the step below which an operation is not worth a line.
const MIN_SHARE: f64 = 0.001;
/// Operations listed.
const NAMED: usize = 6;

impl Rule for RatesAbovePeak {
    fn code(&self) -> &'static str {
        "TT105"
    }

    fn name(&self) -> &'static str {
        "rates-above-peak"
    }

    fn card(&self) -> &'static str {
        include_str!("rates_above_peak.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        if !is_measured(context) {
            return Vec::new();
        }
        let ops: Vec<&OpProfile> = context
            .ops_above(MIN_SHARE, |op| is_stated_rate(op) && excess(op) > 0.0)
            .collect();
        if ops.is_empty() {
            return Vec::new();
        }
        vec![draft(context, &ops)]
    }
}

/// Whether bytes and FLOPs are those of the time on record. The wait for an asynchronous copy or
/// collective is not the time that it took; a bound of ours is no statement of the profile.
fn is_stated_rate(op: &OpProfile) -> bool {
    let asynchronous = matches!(op.class, OpClass::AsyncCopy(_) | OpClass::Collective(_));
    !asynchronous
        && op.mean_ps() >= MIN_DURATION.0 as f64
        && op.cost.flops_basis != Some(FlopsBasis::Kernel)
}

/// How much above what is possible, zero where it is possible.
fn excess(op: &OpProfile) -> f64 {
    (op.roofline.compute_ps.max(op.roofline.hbm_ps) / op.mean_ps() - IMPOSSIBLE).max(0.0)
}

fn draft(context: &Context<'_>, ops: &[&OpProfile]) -> Draft {
    let evidence = context.evidence;
    let time: f64 = ops.iter().map(|op| op.step_self_ps).sum();
    let operations = match ops.len() {
        1 => "an operation".to_owned(),
        count => format!("{count} operations"),
    };
    let mut remark = Remark::new(format!(
        "{operations} ({} of the step) would run above the chip's peak: the cost on record is wrong",
        percent(evidence.share_of_step(time))
    ))
    .advise("do not trust MFU, roofline or bandwidth figures that include them; their time is right")
    .advise("for a Pallas kernel: pass a cost_estimate to pallas_call that counts the blocks really computed");
    remark.ops = ops.iter().map(|op| op.id).collect();
    remark.evidence = ops
        .iter()
        .take(NAMED)
        .map(|op| exhibit(context, op))
        .collect();
    if evidence
        .chip
        .as_ref()
        .is_some_and(|chip| chip.basis != ChipBasis::Stated)
    {
        remark.caveats.push(
            "the chip is not stated in the profile: the wrong --chip would look the same"
                .to_owned(),
        );
    }
    remark.draft()
}

fn exhibit(context: &Context<'_>, op: &OpProfile) -> Exhibit {
    let times = |floor: f64| floor / op.mean_ps();
    let (compute, hbm) = (times(op.roofline.compute_ps), times(op.roofline.hbm_ps));
    let (rate, factor) = if compute >= hbm {
        (with_digits(op.tflops().unwrap_or(0.0), "TFLOP/s"), compute)
    } else {
        (
            with_digits(op.hbm_gb_per_s().unwrap_or(0.0), "GB/s of HBM"),
            hbm,
        )
    };
    Exhibit::text(
        context.op(op).name.clone(),
        format!("{rate}, {factor:.2} times the peak"),
        format!("stated cost over a mean of {}", Picos(op.mean_ps() as u64)),
    )
}
