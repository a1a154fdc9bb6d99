//! Attention that loses the flash kernel.

use knowledge::advice::AdviceKind;
use profiler::logs::torch_tpu::Saying;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;

/// See the card.
#[derive(Debug)]
pub struct SlowAttention;

impl Rule for SlowAttention {
    fn code(&self) -> &'static str {
        "TL206"
    }

    fn name(&self) -> &'static str {
        "slow-attention"
    }

    fn card(&self) -> &'static str {
        include_str!("slow_attention.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let said = logs.torch_tpu.saying(&Saying::SlowAttention);
        said.map(|message| {
            let why = if message.subject.is_empty() {
                "its shapes are not static, or it is switched off".to_owned()
            } else {
                message.subject.clone()
            };
            let mut remark = Remark::new(
                AdviceKind::AttentionKernel,
                Severity::Medium,
                format!("scaled_dot_product_attention runs without the flash kernel: {why}"),
            );
            remark.places.push(place(logs, message.at, &message.text, "the warning"));
            if !message.detail.is_empty() {
                remark.evidence.push(Exhibit::text("call", message.detail.clone(), "the warning"));
            }
            remark.evidence.push(Exhibit::text("condition that is not met", why, "the warning"));
            remark.advice = advice(&message.subject);
            remark.caveats.push(
                "Python prints such a warning once for each line of code: other calls may lose it too".to_owned(),
            );
            remark
        })
        .collect()
    }
}

fn advice(unmet: &str) -> Vec<String> {
    let mut advice = Vec::new();
    if let Some((_, after)) = unmet.split_once("head dimension is ") {
        let width: u64 = after
            .split(':')
            .next()
            .and_then(|w| w.parse().ok())
            .unwrap_or_default();
        let padded = width.div_ceil(128) * 128;
        advice.push(format!(
            "pad query, key and value from {width} to {padded} with zeros, pass `scale={width} ** -0.5`, and cut the result back to {width}"
        ));
    }
    if unmet.contains("not float32 or bfloat16") {
        advice.push(
            "convert query, key and value to bfloat16, the TPU's own 16-bit format".to_owned(),
        );
    }
    if unmet.contains("gradient") {
        advice.push(
            "detach the mask, or add a bias that learns to the scores in a kernel of your own"
                .to_owned(),
        );
    }
    if unmet.is_empty() {
        advice.push("use static shapes around attention: pad sequences to a few sizes instead of marking the axis dynamic".to_owned());
    }
    advice.push(
        "without the kernel the scores of all positions go through HBM: queries × keys of them for each head".to_owned(),
    );
    advice
}
