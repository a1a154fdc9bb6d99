//! TS333: weights of experts that are stored transposed to their use.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::{SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::operations::code::{Code, with_places};
use ast::Expr;

/// The rule.
#[derive(Debug)]
pub struct TransposedExperts;

impl Rule for TransposedExperts {
    fn code(&self) -> &'static str {
        "TS333"
    }

    fn name(&self) -> &'static str {
        "transposed-experts"
    }

    fn card(&self) -> &'static str {
        include_str!("transposed_experts.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !["Parameter"]
            .iter()
            .any(|word| context.file.text.contains(word))
        {
            return Vec::new();
        }
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        let mut places = Vec::new();
        for (id, call) in context.calls() {
            let Some(weight) = multiplied(&code, call).filter(|_| code.heat(id).is_some()) else {
                continue;
            };
            let Some(attribute) = transposed(weight) else {
                continue;
            };
            let Some(made) = code
                .self_value(attribute)
                .filter(|made| is_stack(&code, made))
            else {
                continue;
            };
            places.push(code.place(
                call,
                format!("`{}` is transposed at use", context.text(attribute)),
            ));
            places.push(code.place(made, "stored as [experts, out, in]"));
        }
        if places.is_empty() {
            return Vec::new();
        }
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            Severity::Medium,
            "weights of experts are stored transposed to their use: all of them are laid out anew in each step",
        );
        with_places(&mut remark, places);
        remark.evidence.push(Exhibit::text("compiled", "a matmul of 64 experts: 1,963,082 estimated cycles and 201 MB of temporaries stored transposed, 2,122 and 0.1 MB stored as used", "programs of torch_tpu 0.2.0 compiled for v6e both ways"));
        remark.advice = vec!["Store [experts, in, out], and multiply without transposing; transpose once when a checkpoint is loaded.".to_owned()];
        vec![remark]
    }
}

/// The weights that a call multiplies with: its second operand.
fn multiplied<'a>(code: &Code<'_, 'a>, call: &'a ast::ExprCall) -> Option<&'a Expr> {
    let arguments = &call.arguments.args;
    match (code.name(&call.func).as_deref(), &*call.func) {
        (
            Some(
                "torch.bmm"
                | "torch.matmul"
                | "torch._grouped_mm"
                | "torch.nn.functional.grouped_mm",
            ),
            _,
        ) => arguments.get(1),
        (None, Expr::Attribute(method)) if matches!(method.attr.as_str(), "bmm" | "matmul") => {
            arguments.first()
        }
        _ => None,
    }
}

/// The attribute whose last two axes an expression swaps.
fn transposed(expression: &Expr) -> Option<&ast::ExprAttribute> {
    match expression {
        Expr::Attribute(it) if it.attr.as_str() == "mT" => it.value.as_attribute_expr(),
        Expr::Call(call) => {
            let method = call.func.as_attribute_expr()?;
            let swaps = matches!(method.attr.as_str(), "transpose" | "permute" | "swapaxes");
            method.value.as_attribute_expr().filter(|_| swaps)
        }
        _ => None,
    }
}

/// Whether a parameter is a stack of matrices.
fn is_stack<'a>(code: &Code<'_, 'a>, made: &'a Expr) -> bool {
    let Expr::Call(parameter) = made else {
        return false;
    };
    let Some(Expr::Call(inner)) = parameter.arguments.args.first() else {
        return false;
    };
    let sizes = inner
        .arguments
        .args
        .iter()
        .filter(|size| !size.is_starred_expr())
        .count();
    let in_tuple =
        matches!(inner.arguments.args.first(), Some(Expr::Tuple(tuple)) if tuple.elts.len() == 3);
    code.name(&parameter.func).as_deref() == Some("torch.nn.Parameter") && (sizes == 3 || in_tuple)
}
