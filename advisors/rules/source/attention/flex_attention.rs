//! TS301: FlexAttention, which TorchTPU makes dense, or aborts on.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Exhibit, Fix, Numerics, Remark, Severity};
use crate::python::rewrite::Rewrite;
use crate::python::{Ranged as _, SourceContext};
use crate::rule::Rule;
use crate::rules::source::attention::flex::{self, Plan, Refused, Scope};

/// The newest version of torch_tpu whose FlexAttention was tried.
const TRIED: &str = "0.2.0";

/// The rule.
#[derive(Debug)]
pub struct FlexAttention;

impl Rule for FlexAttention {
    fn code(&self) -> &'static str {
        "TS301"
    }

    fn name(&self) -> &'static str {
        "flex-attention"
    }

    fn card(&self) -> &'static str {
        include_str!("flex_attention.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !context.names.imports("torch.nn.attention.flex_attention")
            && !context.names.imports("torch")
        {
            return Vec::new();
        }
        if !context.file.text.contains("flex_attention") {
            return Vec::new();
        }
        let scope = Scope {
            context,
            bindings: context.bindings,
        };
        let (plans, refused) = flex::all(scope);
        let mut out = Vec::new();
        for applicability in [Applicability::Safe, Applicability::Unsafe] {
            let group: Vec<&Plan<'_>> = plans
                .iter()
                .filter(|plan| plan.applicability == applicability)
                .collect();
            if !group.is_empty() {
                out.push(replaced(scope, &group, applicability));
            }
        }
        let mut by_reason: BTreeMap<&str, Vec<&Refused<'_>>> = BTreeMap::new();
        for call in &refused {
            by_reason.entry(&call.reason).or_default().push(call);
        }
        out.extend(
            by_reason
                .into_iter()
                .map(|(reason, calls)| left_alone(context, reason, &calls)),
        );
        out
    }
}

/// What a version does with a call, and how bad that is.
fn behaviour(context: &SourceContext<'_>, has_score: bool) -> (Severity, String) {
    let version = context.project.torch_tpu.as_deref().unwrap_or(TRIED);
    if version != TRIED {
        return (
            Severity::Low,
            format!(
                "torch_tpu {version} was not tried; in {TRIED} FlexAttention is dense, and a score_mod under torch.compile aborts the process"
            ),
        );
    }
    if has_score {
        (
            Severity::High,
            format!("every score_mod under torch.compile aborts the process on torch_tpu {TRIED}"),
        )
    } else {
        (
            Severity::Medium,
            format!(
                "torch_tpu {TRIED} rewrites it to attention with a dense bias, and skips no block"
            ),
        )
    }
}

fn evidence(context: &SourceContext<'_>, has_score: bool) -> Vec<Exhibit> {
    let version = context.project.torch_tpu.as_deref().unwrap_or(TRIED);
    let mut out = vec![Exhibit::text(
        "torch_tpu",
        version,
        "--torch-tpu, or the newest version whose behaviour is known",
    )];
    if version == TRIED {
        let what = if has_score {
            "the process aborts (`Check failed` in compiled_mode.cc) before XLA is reached; tried with a float, an int, a factor and a captured tensor"
        } else {
            "the mask is built by create_mask for all pairs, and added as a bias of the query's dtype"
        };
        out.push(Exhibit::text(
            "what it does",
            what,
            "the package torch_tpu 0.2.0, run",
        ));
    }
    out
}

fn replaced<'a>(scope: Scope<'_, 'a>, group: &[&Plan<'a>], applicability: Applicability) -> Remark {
    let context = scope.context;
    let has_score = group.iter().any(|plan| plan.score.is_some());
    let (severity, why) = behaviour(context, has_score);
    let mut kinds: Vec<String> = group.iter().map(|plan| plan.words()).collect();
    kinds.sort();
    kinds.dedup();
    let many = if group.len() == 1 {
        "FlexAttention".to_owned()
    } else {
        format!("{} calls of FlexAttention", group.len())
    };
    let title = format!("{many} with {}: {why}", kinds.join(", "));
    let mut remark = Remark::new(AdviceKind::OpSubstitution, severity, title);
    let mut rewrite = Rewrite::new(context, scope.bindings);
    let mut complete = true;
    for plan in group {
        remark
            .places
            .push(context.place(plan.call.range(), plan.words()));
        complete &= flex::rewrite_call(scope, plan, &mut rewrite).is_some();
    }
    remark.evidence = evidence(context, has_score);
    let causal = group.iter().all(|plan| plan.is_causal());
    remark.advice.push(if causal {
        "Call `F.scaled_dot_product_attention(..., is_causal=True)`: the flash kernel skips what is masked, and no mask is stored.".to_owned()
    } else {
        "Call `F.scaled_dot_product_attention` with the same mask, built densely from the same indices, as `attn_mask`; where it is causal alone, `is_causal=True`.".to_owned()
    });
    if group
        .iter()
        .any(|plan| plan.dense().is_some() || !plan.is_causal())
        && !causal
    {
        remark.caveats.push("A dense mask holds one value for each pair of query and key: that is what FlexAttention costs on this version as well. For a sliding window `torch.tpu.ops.splash_sdpa(local_window_size=...)` skips blocks.".to_owned());
    }
    let mut doubts: Vec<String> = group.iter().flat_map(|plan| plan.doubts.clone()).collect();
    doubts.sort();
    doubts.dedup();
    remark.caveats.extend(
        doubts
            .into_iter()
            .map(|doubt| format!("Not safe without a look: {doubt}.")),
    );
    if complete {
        let (edits, removed) = rewrite.finish();
        let public: Vec<String> = removed
            .into_iter()
            .filter(|name| flex::is_public(scope, name))
            .map(|name| format!("`{name}`"))
            .collect();
        if !public.is_empty() {
            remark.caveats.push(format!(
                "Nothing in this file uses {} any more, so the fix removes it: keep it if other files import it.",
                public.join(", ")
            ));
        }
        remark.fix = Some(Fix {
            title: "call scaled_dot_product_attention".to_owned(),
            applicability,
            numerics: Numerics::WithinTolerance,
            edits,
        });
    }
    remark
}

fn left_alone(context: &SourceContext<'_>, reason: &str, calls: &[&Refused<'_>]) -> Remark {
    let has_score = calls.iter().any(|call| call.has_score);
    let (severity, why) = behaviour(context, has_score);
    let title = format!("FlexAttention that is left as it is, since {reason}: {why}");
    let mut remark = Remark::new(AdviceKind::OpSubstitution, severity, title);
    for call in calls {
        remark.places.push(context.place(call.call.range(), reason));
    }
    remark.evidence = evidence(context, has_score);
    remark.advice = vec![
        "Where the mask is causal, full, padding, a sliding window or documents, call `F.scaled_dot_product_attention` with `is_causal=True` or a dense `attn_mask`.".to_owned(),
    ];
    if has_score {
        remark.advice.push("What only a score_mod can say runs in eager mode (dense, correct), or as attention written out: matmul, the change of the scores, softmax, matmul.".to_owned());
    }
    remark
}
