//! The device waits for its input, or for data to cross PCIe between programs.

use knowledge::advice::AdviceKind;
use profiler::evidence::{GapCause, HostKind};

use crate::finding::{Basis, Draft};
use crate::rule::{Context, Rule};
use crate::rules::idle::Gaps;

/// See the card.
#[derive(Debug)]
pub struct InputStall;

impl Rule for InputStall {
    fn code(&self) -> &'static str {
        "TT204"
    }

    fn name(&self) -> &'static str {
        "input-or-transfer-stall"
    }

    fn card(&self) -> &'static str {
        include_str!("input_or_transfer_stall.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let gaps = Gaps::of(context, &[GapCause::Input, GapCause::Transfer]);
        gaps.map(|gaps| draft(context, &gaps)).into_iter().collect()
    }
}

fn draft(context: &Context<'_>, gaps: &Gaps<'_>) -> Draft {
    let of = |cause| gaps.between.of(cause).map_or(0, |time| time.total_ps.0);
    let is_input = of(GapCause::Input) >= of(GapCause::Transfer);
    let floor_ms = gaps.floor_ms(gaps.count);
    let formula = format!(
        "{} of gaps covered at least half by input or copies, less {:.1} launches; low: half of it",
        gaps.basis_part(),
        gaps.count
    );
    Draft {
        title: format!(
            "the cores wait for {}: {}",
            if is_input {
                "the next batch"
            } else {
                "copies between host and device"
            },
            gaps.title_part(context)
        ),
        kind: AdviceKind::InputPipeline,
        ops: Vec::new(),
        evidence: gaps.exhibits(),
        claim: Some(gaps.claim(
            floor_ms,
            gaps.expected_ms(floor_ms) / 2.0,
            Basis::Modelled,
            formula,
        )),
        advice: advice(gaps, is_input),
        caveats: vec![
            "hidden only if loading a batch takes no longer than a step: otherwise the rest stays"
                .to_owned(),
        ],
    }
}

fn advice(gaps: &Gaps<'_>, is_input: bool) -> Vec<String> {
    if is_input {
        return vec![
            "load ahead on other threads or processes (more grain or DataLoader workers, tf.data prefetch) and keep two batches on the device".to_owned(),
            "if a batch takes longer than a step: decode and tokenize offline, read from more files at once".to_owned(),
        ];
    }
    let copies_out = gaps.between.activities.iter().any(|a| {
        a.kind == HostKind::FromDevice
            && a.in_gaps_ps.0 as f64 >= 0.5 * gaps.between.total_ps.0 as f64
    });
    let mut advice = vec![
        "copy the next step's inputs while this one runs (device_put ahead of time), many small arrays as one".to_owned(),
        "leave on the device what does not change from step to step".to_owned(),
    ];
    if copies_out {
        advice.insert(
            0,
            "write checkpoints and outputs asynchronously: copy_to_host_async, read a step later"
                .to_owned(),
        );
    }
    advice
}
