//! TS329: 64-bit floats in code that runs in each step.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Fix, Numerics, Remark, Severity};
use crate::python::{Ranged as _, SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::keyword;
use crate::rules::source::operations::code::{Code, with_places};
use ast::{AnyNodeRef, Expr};

/// The rule.
#[derive(Debug)]
pub struct Float64InStep;

impl Rule for Float64InStep {
    fn code(&self) -> &'static str {
        "TS329"
    }

    fn name(&self) -> &'static str {
        "float64-in-step"
    }

    fn card(&self) -> &'static str {
        include_str!("float64_in_step.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !["double", "float64"]
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
        let mut first = None;
        for (id, node) in context.index.nodes() {
            let AnyNodeRef::ExprCall(call) = node.node else {
                continue;
            };
            let name = code.name(&call.func);
            let method = match (&name, &*call.func) {
                (None, Expr::Attribute(method)) if code.is_torch() => Some(method),
                _ => None,
            };
            let double = method.is_some_and(|method| {
                method.attr.as_str() == "double"
                    && call.arguments.is_empty()
                    && code.may_be_tensor(&method.value)
            });
            let wide = |e: &Expr| {
                code.name(e).is_some_and(|name| {
                    matches!(
                        name.as_str(),
                        "torch.float64" | "torch.double" | "jax.numpy.float64"
                    )
                })
            };
            let dtype = call
                .arguments
                .args
                .iter()
                .find(|argument| wide(argument))
                .or_else(|| keyword(call, "dtype").filter(|dtype| wide(dtype)));
            let ours = name
                .as_deref()
                .is_some_and(|name| name.starts_with("torch.") || name.starts_with("jax."))
                || method.is_some_and(|method| {
                    matches!(
                        method.attr.as_str(),
                        "to" | "type" | "astype" | "softmax" | "sum" | "mean" | "cumsum"
                    )
                });
            let found = double || (ours && dtype.is_some());
            if !found {
                continue;
            }
            let Some(why) = code.heat(id) else { continue };
            first = first.or(Some(why));
            places.push(code.place(call, "64-bit floats"));
            match (double, method, dtype) {
                (true, Some(method), _) => edits.push(context.edit(method.attr.range, "float")),
                (_, _, Some(dtype)) => {
                    let text = context.text(dtype);
                    let narrow = match text.rsplit_once('.') {
                        Some((module, _)) => format!("{module}.float32"),
                        None => continue,
                    };
                    edits.push(context.edit(dtype.range(), narrow));
                }
                _ => {}
            }
        }
        let Some(why) = first else { return Vec::new() };
        let mut remark = Remark::new(
            AdviceKind::Dtype,
            Severity::Medium,
            format!(
                "64-bit floats in each step: a TPU emulates them with many operations on pairs of 32-bit floats ({why})"
            ),
        );
        with_places(&mut remark, places);
        remark.advice = vec!["Use float32. Where a sum needs more, sum in float32 over blocks, or do it once on the host.".to_owned()];
        if !edits.is_empty() {
            remark.fix = Some(Fix {
                title: "use float32".to_owned(),
                applicability: Applicability::Unsafe,
                numerics: Numerics::Changes,
                edits,
            });
        }
        vec![remark]
    }
}
