//! TS334: updates of a JAX array where a mask holds.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Fix, Numerics, Remark, Severity};
use crate::python::{Ranged as _, SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::operations::code::{Code, with_places};
use ast::Expr;

/// The rule.
#[derive(Debug)]
pub struct MaskedUpdate;

impl Rule for MaskedUpdate {
    fn code(&self) -> &'static str {
        "TS334"
    }

    fn name(&self) -> &'static str {
        "masked-update"
    }

    fn card(&self) -> &'static str {
        include_str!("masked_update.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if ![".at["].iter().any(|word| context.file.text.contains(word)) {
            return Vec::new();
        }
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        let mut places = Vec::new();
        let mut edits = Vec::new();
        let mut traced = false;
        let mut exact = true;
        for (id, call) in context.calls() {
            let Expr::Attribute(method) = &*call.func else {
                continue;
            };
            let Expr::Subscript(subscript) = &*method.value else {
                continue;
            };
            let Expr::Attribute(at) = &*subscript.value else {
                continue;
            };
            let update = method.attr.as_str();
            if at.attr.as_str() != "at"
                || !matches!(update, "set" | "add" | "multiply" | "min" | "max")
            {
                continue;
            }
            if !context.names.imports("jax") || !code.is_mask(&subscript.slice) {
                continue;
            }
            traced |= code.is_traced(id);
            places.push(code.place(call, "where a mask holds"));
            let ([value], Some(choose)) = (&*call.arguments.args, jnp(&code)) else {
                continue;
            };
            let base = context.text(&*at.value);
            let compares = matches!(&*subscript.slice, Expr::Compare(it)
                if context.text(&*it.left) == base && it.comparators.iter().all(Expr::is_number_literal_expr));
            let simple = matches!(value, Expr::NumberLiteral(_) | Expr::UnaryOp(_));
            if update == "set" && simple {
                exact &= compares;
                edits.push(context.edit(
                    call.range(),
                    format!(
                        "{choose}.where({}, {}, {base})",
                        context.text(&*subscript.slice),
                        context.text(value)
                    ),
                ));
            }
        }
        if places.is_empty() {
            return Vec::new();
        }
        let (severity, cost) = if traced {
            (
                Severity::High,
                "JAX cannot trace it (NonConcreteBooleanIndexError)",
            )
        } else {
            (
                Severity::Low,
                "it is a gather and a scatter, and cannot be traced by jit",
            )
        };
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            severity,
            format!("an array is updated through a boolean mask: {cost}"),
        );
        with_places(&mut remark, places);
        remark.advice = vec!["Choose with the mask: `x = jnp.where(mask, y, x)`.".to_owned()];
        if !edits.is_empty() {
            remark.fix = Some(Fix {
                title: "choose with jnp.where".to_owned(),
                applicability: if exact {
                    Applicability::Safe
                } else {
                    Applicability::Unsafe
                },
                numerics: Numerics::BitExact,
                edits,
            });
        }
        vec![remark]
    }
}

/// The local name of `jax.numpy`.
fn jnp<'a>(code: &Code<'_, 'a>) -> Option<&'a str> {
    let names = code.context.names;
    names
        .imported()
        .find(|(_, full)| *full == "jax.numpy")
        .map(|(name, _)| name)
}
