//! Kernels that say nothing of what they cost.

use knowledge::advice::AdviceKind;
use profiler::evidence::ops::FlopsBasis;
use profiler::units::{self, Bytes, Picos, percent, with_digits};

use crate::finding::{Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::kernels::custom::Calls;

/// See the card.
#[derive(Debug)]
pub struct KernelWithoutCost;

/// Below this share of the step it is not worth a line.
const MIN_SHARE: f64 = 0.005;

impl Rule for KernelWithoutCost {
    fn code(&self) -> &'static str {
        "TT505"
    }

    fn name(&self) -> &'static str {
        "kernel-without-cost"
    }

    fn card(&self) -> &'static str {
        include_str!("kernel_without_cost.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let mut silent: Vec<Calls<'_>> = Calls::all(context)
            .into_iter()
            .filter(|calls| {
                calls
                    .first()
                    .is_some_and(|op| op.cost.flops_basis != Some(FlopsBasis::Stated))
            })
            .collect();
        silent.sort_by(|a, b| {
            b.time_ms()
                .total_cmp(&a.time_ms())
                .then_with(|| a.name.cmp(&b.name))
        });
        let time: f64 = silent.iter().map(Calls::time_ms).sum();
        if context.share(time) < MIN_SHARE {
            return Vec::new();
        }
        vec![draft(context, &silent, time)]
    }
}

fn draft(context: &Context<'_>, silent: &[Calls<'_>], time: f64) -> Draft {
    let kernels = match silent {
        [one] => format!("the kernel {} states", one.name),
        many => format!("{} kernels state", many.len()),
    };
    let mut evidence = vec![Exhibit::text(
        "what it hides",
        format!(
            "{} of the step has no FLOPs or bytes: MFU, HBM rate and roofline leave it out, and the compiler schedules around it blindly",
            percent(context.share(time))
        ),
        "self time of the kernels below over what a step takes",
    )];
    for calls in silent.iter().take(6) {
        let Some(op) = calls.first() else { continue };
        let known = match (&op.cost.flops, &op.cost.flops_basis) {
            (Some(flops), Some(_)) => format!(
                ", at most {} by its shapes",
                with_digits(flops / 1e9, "GFLOP")
            ),
            _ => String::new(),
        };
        evidence.push(Exhibit::text(
            calls.name.clone(),
            format!(
                "{:.0} calls a step of {}{known}, {} of operands that it does not update in place",
                calls.count(),
                Picos(calls.mean_ps() as u64),
                Bytes(op.cost.hbm_bytes.unwrap_or(0.0).max(0.0) as u64),
            ),
            "shapes of the call; of buffers updated in place it may touch any part",
        ));
    }
    Draft {
        title: format!(
            "{kernels} no cost: {} of each {} step",
            units::ms(time),
            context.evidence.step_time()
        ),
        kind: AdviceKind::CaptureQuality,
        ops: silent.iter().flat_map(Calls::ids).collect(),
        evidence,
        claim: None,
        advice: vec![
            "give pl.pallas_call a cost_estimate=pl.CostEstimate(flops, bytes_accessed, transcendentals): profiles then show the kernel's rate, and the scheduler knows what can hide behind it".to_owned(),
        ],
        caveats: vec![
            "where the work stands in the data (lengths of sequences), state that of a typical batch: an estimate that is too high shows up as more than the chip's peak".to_owned(),
        ],
    }
}
