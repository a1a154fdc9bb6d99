//! TS328: resizes by a factor on PyTorch/XLA, which fall back to the CPU.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Exhibit, Fix, Numerics, Remark, Severity};
use crate::python::{Ranged as _, SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::keyword;
use crate::rules::source::operations::code::{Code, with_places};
use ast::Expr;

/// The rule.
#[derive(Debug)]
pub struct ResizeByFactor;

impl Rule for ResizeByFactor {
    fn code(&self) -> &'static str {
        "TS328"
    }

    fn name(&self) -> &'static str {
        "resize-by-factor"
    }

    fn card(&self) -> &'static str {
        include_str!("resize_by_factor.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !["scale_factor"]
            .iter()
            .any(|word| context.file.text.contains(word))
        {
            return Vec::new();
        }
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        if !code.is_torch_xla() {
            return Vec::new();
        }
        let mut places = Vec::new();
        let mut edits = Vec::new();
        for (_, call, name) in code.named_calls() {
            let Some(factor) = keyword(call, "scale_factor") else {
                continue;
            };
            let resize = matches!(
                name.as_str(),
                "torch.nn.functional.interpolate"
                    | "torch.nn.functional.upsample"
                    | "torch.nn.Upsample"
            );
            let mode = match keyword(call, "mode") {
                Some(Expr::StringLiteral(mode)) => mode.value.to_str().to_owned(),
                _ => continue,
            };
            if !resize || !matches!(mode.as_str(), "bilinear" | "bicubic") {
                continue;
            }
            places.push(code.place(call, format!("{mode}, by a factor")));
            let whole = matches!(factor, Expr::NumberLiteral(it) if it.value.is_int());
            if whole
                && name.ends_with("interpolate")
                && let Some(input @ Expr::Name(_)) = call.arguments.args.first()
                && let Some(argument) = call
                    .arguments
                    .keywords
                    .iter()
                    .find(|keyword| keyword.value.range() == factor.range())
            {
                let (input, factor) = (context.text(input), context.text(factor));
                edits.push(context.edit(
                    argument.range,
                    format!("size=({input}.shape[-2] * {factor}, {input}.shape[-1] * {factor})"),
                ));
            }
        }
        if places.is_empty() {
            return Vec::new();
        }
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            Severity::Medium,
            "a resize by a factor has no lowering on PyTorch/XLA: it runs on the CPU in each step",
        );
        with_places(&mut remark, places);
        remark.evidence.push(Exhibit::text(
            "measured",
            "9 s a call of upsample_bilinear2d with scale_factor against 0.02 s on a GPU",
            "https://github.com/pytorch/xla/issues/2702",
        ));
        remark.advice =
            vec!["Give the size: `F.interpolate(x, size=(height, width), mode=...)`.".to_owned()];
        if !edits.is_empty() {
            remark.fix = Some(Fix {
                title: "give the size".to_owned(),
                applicability: Applicability::Safe,
                numerics: Numerics::BitExact,
                edits,
            });
        }
        vec![remark]
    }
}
