//! TS326: operations that TorchTPU does not have, and what to call instead.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Fix, Numerics, Remark, Severity};
use crate::python::{Ranged as _, SourceContext};
use crate::rule::Rule;
use crate::rules::source::operations::code::{Code, with_places};

/// The rule.
#[derive(Debug)]
pub struct MissingOperation;

impl Rule for MissingOperation {
    fn code(&self) -> &'static str {
        "TS326"
    }

    fn name(&self) -> &'static str {
        "missing-operation"
    }

    fn card(&self) -> &'static str {
        include_str!("missing_operation.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if ![
            "median",
            "kthvalue",
            "mode",
            "erfc",
            "renorm",
            "smooth_l1",
            "huber",
            "Huber",
            "SmoothL1",
            "_int_mm",
            "lstsq",
            "eig",
        ]
        .iter()
        .any(|word| context.file.text.contains(word))
        {
            return Vec::new();
        }
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        if code.is_torch_xla()
            || context
                .project
                .torch_tpu
                .as_deref()
                .is_some_and(|version| version != "0.2.0")
        {
            return Vec::new();
        }
        let mut out = Vec::new();
        for (name, instead) in MISSING {
            let mut hot = None;
            let mut places = Vec::new();
            let mut edits = Vec::new();
            for (id, call, called) in code.named_calls() {
                if called != *name {
                    continue;
                }
                hot = hot.or_else(|| code.heat(id));
                places.push(code.place(call, "not in torch_tpu 0.2.0"));
                if *name == "torch.erfc"
                    && let [argument] = &*call.arguments.args
                    && call.arguments.keywords.is_empty()
                {
                    let function = context.text(&*call.func).trim_end_matches('c');
                    edits.push(context.edit(
                        call.range(),
                        format!("(1 - {function}({}))", context.text(argument)),
                    ));
                }
            }
            if places.is_empty() || (hot.is_none() && !name.contains("Loss")) {
                continue;
            }
            let mut remark = Remark::new(
                AdviceKind::OpSubstitution,
                Severity::High,
                format!(
                    "`{name}` has no kernel in torch_tpu 0.2.0: it stops with `not implemented for TPU`, or runs on the CPU where falling back is allowed"
                ),
            );
            with_places(&mut remark, places);
            remark.advice.push((*instead).to_owned());
            if !edits.is_empty() {
                remark.fix = Some(Fix {
                    title: "subtract erf from one".to_owned(),
                    applicability: Applicability::Unsafe,
                    numerics: Numerics::Changes,
                    edits,
                });
                remark.caveats.push("Beyond about 4 the difference is zero in float32, where erfc is small but not zero.".to_owned());
            }
            out.push(remark);
        }
        out
    }
}

/// Operations without a kernel and without a decomposition in torch_tpu 0.2.0, as its own list of
/// operators and a run of it tell, with what to call instead.
const MISSING: &[(&str, &str)] = &[
    (
        "torch.median",
        "Sort, and take the middle: `torch.sort(x, dim).values.select(dim, (n - 1) // 2)`, which is the lower median, as torch.median gives; or `torch.quantile(x, 0.5)`, which interpolates.",
    ),
    (
        "torch.nanmedian",
        "Replace NaN with infinity, sort, and take the middle of those that count.",
    ),
    (
        "torch.kthvalue",
        "`torch.topk(x, k, dim, largest=False)`, and the last of what it gives.",
    ),
    (
        "torch.mode",
        "Sort and count runs, or compare all with all where the axis is short.",
    ),
    ("torch.erfc", "`1 - torch.erf(x)`."),
    ("torch.special.erfc", "`1 - torch.erf(x)`."),
    (
        "torch.renorm",
        "Divide by the norm where it is above the limit: `x * (limit / x.norm(dim=..., keepdim=True)).clamp(max=1)`.",
    ),
    (
        "torch.nn.functional.smooth_l1_loss",
        "`d = (x - y).abs(); torch.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta).mean()`.",
    ),
    (
        "torch.nn.functional.huber_loss",
        "`d = (x - y).abs(); torch.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta)).mean()`.",
    ),
    (
        "torch.nn.SmoothL1Loss",
        "Write it out in the loss: `d = (x - y).abs(); torch.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta).mean()`.",
    ),
    (
        "torch.nn.HuberLoss",
        "Write it out in the loss: `d = (x - y).abs(); torch.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta)).mean()`.",
    ),
    (
        "torch._int_mm",
        "Multiply in bf16, or with a quantized kernel of the TPU.",
    ),
    (
        "torch.linalg.lstsq",
        "Solve the normal equations (`torch.linalg.solve`), or do it on the host.",
    ),
    (
        "torch.linalg.eigh",
        "Do it on the host, outside of the step.",
    ),
    (
        "torch.linalg.eig",
        "Do it on the host, outside of the step.",
    ),
];
