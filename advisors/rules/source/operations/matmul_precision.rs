//! TS332: matmuls at a precision that takes six passes.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Fix, Numerics, Remark, Severity};
use crate::python::{SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::operations::code::{Code, with_places};
use ast::Expr;

/// The rule.
#[derive(Debug)]
pub struct MatmulPrecision;

impl Rule for MatmulPrecision {
    fn code(&self) -> &'static str {
        "TS332"
    }

    fn name(&self) -> &'static str {
        "matmul-precision"
    }

    fn card(&self) -> &'static str {
        include_str!("matmul_precision.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !["matmul_precision"]
            .iter()
            .any(|word| context.file.text.contains(word))
        {
            return Vec::new();
        }
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        let mut places = Vec::new();
        let mut edits = Vec::new();
        for (_, call, name) in code.named_calls() {
            let setting = match name.as_str() {
                "torch.set_float32_matmul_precision" => call.arguments.args.first(),
                "jax.config.update" => call.arguments.args.get(1).filter(|_| {
                    matches!(call.arguments.args.first(), Some(Expr::StringLiteral(it)) if it.value.to_str() == "jax_default_matmul_precision")
                }),
                "jax.default_matmul_precision" => call.arguments.args.first(),
                _ => None,
            };
            let Some(Expr::StringLiteral(text)) = setting else {
                continue;
            };
            if !matches!(text.value.to_str(), "highest" | "float32") {
                continue;
            }
            places.push(code.place(call, "six passes for all float32 matmuls"));
            edits.push(context.edit(text.range, "\"high\""));
        }
        if places.is_empty() {
            return Vec::new();
        }
        let mut remark = Remark::new(
            AdviceKind::Dtype,
            Severity::Medium,
            "float32 matmuls are asked for at the highest precision: six passes of the MXU instead of one",
        );
        with_places(&mut remark, places);
        remark.advice = vec![
            "Ask for \"high\" (three passes), or leave the default (one pass of bf16) and ask for more only in the operations that need it.".to_owned(),
        ];
        remark.caveats.push(
            "bf16 matmuls take one pass whatever is asked for. Compare losses before and after."
                .to_owned(),
        );
        remark.fix = Some(Fix {
            title: "ask for three passes".to_owned(),
            applicability: Applicability::Unsafe,
            numerics: Numerics::Changes,
            edits,
        });
        vec![remark]
    }
}
