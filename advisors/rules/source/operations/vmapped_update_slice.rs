//! TS323: dynamic_update_slice under vmap, which becomes a serial loop.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::{SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::operations::code::{Code, with_places};
use ast::{AnyNodeRef, Expr};

/// The rule.
#[derive(Debug)]
pub struct VmappedUpdateSlice;

impl Rule for VmappedUpdateSlice {
    fn code(&self) -> &'static str {
        "TS323"
    }

    fn name(&self) -> &'static str {
        "vmapped-update-slice"
    }

    fn card(&self) -> &'static str {
        include_str!("vmapped_update_slice.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !["dynamic_update"]
            .iter()
            .any(|word| context.file.text.contains(word))
        {
            return Vec::new();
        }
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        let mut places = Vec::new();
        for (_, call, name) in code.named_calls() {
            let Some(argument) = call.arguments.args.first().filter(|_| name == "jax.vmap") else {
                continue;
            };
            if updates(&code, argument) {
                places.push(code.place(call, "one update after another"));
            }
        }
        if places.is_empty() {
            return Vec::new();
        }
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            Severity::Medium,
            "dynamic_update_slice under vmap becomes a scatter, which a TPU runs as a loop over the batch",
        );
        with_places(&mut remark, places);
        remark.evidence.push(Exhibit::text(
            "measured",
            "10 to 50 times slower than unrolled, [100,32] on v4-8",
            "https://github.com/openxla/xla/issues/12982",
        ));
        remark.advice = vec![
            "Choose by position instead: `jnp.where(jnp.arange(n) == start[:, None], update, operand)`, or the same with a range of positions.".to_owned(),
            "For a short batch, stack the updates of a Python loop.".to_owned(),
        ];
        vec![remark]
    }
}

/// Whether an expression is a function that updates a slice.
fn updates<'a>(code: &Code<'_, 'a>, expression: &'a Expr) -> bool {
    let value = code.bindings.value(expression, code.context.index);
    if code.name(value).as_deref().is_some_and(is_update) {
        return true;
    }
    let id = match value {
        Expr::Lambda(lambda) => code.context.index.id_of(lambda),
        Expr::Name(_) => code
            .function(value)
            .and_then(|function| code.context.index.id_of(function)),
        Expr::Call(call) if code.name(&call.func).as_deref() == Some("functools.partial") => {
            return call
                .arguments
                .args
                .first()
                .is_some_and(|inner| code.name(inner).as_deref().is_some_and(is_update));
        }
        _ => None,
    };
    id.is_some_and(|id| {
        code.within(id).any(|(_, node)| {
            matches!(node, AnyNodeRef::ExprCall(call) if code.name(&call.func).as_deref().is_some_and(is_update))
        })
    })
}

fn is_update(name: &str) -> bool {
    matches!(
        name,
        "jax.lax.dynamic_update_slice"
            | "jax.lax.dynamic_update_slice_in_dim"
            | "jax.lax.dynamic_update_index_in_dim"
    )
}
