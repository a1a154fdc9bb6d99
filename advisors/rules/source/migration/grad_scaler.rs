//! Loss scaling, which bfloat16 does not need and the TPU has no kernel for.

use super::Places;
use super::guard::is_guarded;
use crate::finding::{Applicability, Numerics, Remark, Severity};
use crate::python::SourceContext;
use crate::python::{Ranged as _, TextRange, TextSize};
use crate::rule::Rule;
use crate::rules::source::counted;

/// The rule.
#[derive(Debug)]
pub struct GradScaler;

impl Rule for GradScaler {
    fn code(&self) -> &'static str {
        "TS504"
    }

    fn name(&self) -> &'static str {
        "grad-scaler"
    }

    fn card(&self) -> &'static str {
        include_str!("grad_scaler.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !context.file.text.contains("GradScaler") {
            return Vec::new();
        }
        // For the TPU it raises at its first step; for cuda it warns and switches itself off.
        let (mut raising, mut idle) = (Places::default(), Places::default());
        for (id, call, name) in context.calls_of(|name| {
            matches!(
                name,
                "torch.cuda.amp.GradScaler"
                    | "torch.amp.GradScaler"
                    | "torch.cuda.amp.grad_scaler.GradScaler"
                    | "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"
            )
        }) {
            if is_guarded(context, id) {
                continue;
            }
            let enabled = call.arguments.find_keyword("enabled");
            if enabled.is_some_and(|keyword| context.text(&keyword.value) == "False") {
                continue;
            }
            let edit = match enabled {
                Some(keyword) => context.edit(keyword.value.range(), "False"),
                None => {
                    let inside = call.arguments.end() - TextSize::from(1);
                    let text = if call.arguments.is_empty() {
                        "enabled=False"
                    } else {
                        ", enabled=False"
                    };
                    let last = call.arguments.iter_source_order().last();
                    let at = last.map_or(inside, |last| match last {
                        crate::python::ast::ArgOrKeyword::Arg(value) => value.end(),
                        crate::python::ast::ArgOrKeyword::Keyword(keyword) => keyword.end(),
                    });
                    context.edit(TextRange::empty(at), text)
                }
            };
            let device = call.arguments.find_argument_value("device", 0);
            let on_tpu = name == "torch.amp.GradScaler"
                && device.is_some_and(|device| !context.text(device).contains("cuda"));
            let places = if on_tpu { &mut raising } else { &mut idle };
            places.add(context.place(call.range(), ""), [edit]);
        }
        let fix = "the scaler is switched off: its calls stay and do nothing";
        let mut remarks = Vec::new();
        if !raising.is_empty() {
            let title = format!(
                "{}: unscaling has no TPU kernel (aten::_amp_foreach_non_finite_check_and_unscale_) \
                 and raises at the first step",
                counted(raising.len(), "GradScaler")
            );
            let (unsafe_, changes) = (Applicability::Unsafe, Numerics::Changes);
            remarks.push(raising.fixed(Severity::High, title, fix, unsafe_, changes));
        }
        if !idle.is_empty() {
            let title = format!(
                "{} for \"cuda\": without a GPU it warns and is off; bfloat16 needs none",
                counted(idle.len(), "GradScaler")
            );
            let (safe, exact) = (Applicability::Safe, Numerics::BitExact);
            remarks.push(idle.fixed(Severity::Info, title, fix, safe, exact));
        }
        for remark in &mut remarks {
            remark.advice = vec![
                "train in bfloat16, whose range is that of float32, without a GradScaler: \
                 enabled=False now, and its calls removed later"
                    .to_owned(),
            ];
        }
        remarks
    }
}
