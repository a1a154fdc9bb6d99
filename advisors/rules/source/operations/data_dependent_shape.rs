//! TS321: operations whose result has as many elements as values happen to fit.

use knowledge::advice::AdviceKind;

use crate::finding::{Remark, Severity};
use crate::python::{SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::keyword;
use crate::rules::source::operations::code::{Code, mask_name, with_places};
use ast::{AnyNodeRef, Expr};

/// The rule.
#[derive(Debug)]
pub struct DataDependentShape;

impl Rule for DataDependentShape {
    fn code(&self) -> &'static str {
        "TS321"
    }

    fn name(&self) -> &'static str {
        "data-dependent-shape"
    }

    fn card(&self) -> &'static str {
        include_str!("data_dependent_shape.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        let mut found: Vec<(String, String)> = Vec::new();
        let mut places = Vec::new();
        let mut traced = false;
        for (id, node) in context.index.nodes() {
            let what = match node.node {
                AnyNodeRef::ExprCall(call) => dynamic_call(&code, call),
                AnyNodeRef::ExprSubscript(it) if it.ctx.is_load() => {
                    selects(&code, it).then(|| "an index by a mask".to_owned())
                }
                _ => None,
            };
            let Some(what) = what else { continue };
            let jax = what.starts_with("jnp.");
            if jax && !code.is_traced(id) {
                continue;
            }
            let Some(why) = code.heat(id) else { continue };
            traced |= jax;
            places.push(code.place(node.node, what.clone()));
            found.push((what, why));
        }
        let Some((_, why)) = found.first() else {
            return Vec::new();
        };
        let mut kinds: Vec<&str> = found.iter().map(|(what, _)| what.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds.truncate(3);
        let (severity, cost) = if traced {
            (Severity::High, "JAX cannot trace it")
        } else {
            (
                Severity::Medium,
                "the program is split and waits for the count, and each new count is compiled",
            )
        };
        let mut remark = Remark::new(
            AdviceKind::Recompilation,
            severity,
            format!(
                "the shape of {} depends on values: {cost} ({why})",
                kinds.join(", ")
            ),
        );
        with_places(&mut remark, places);
        remark.advice = if traced {
            vec!["Give the largest count: `jnp.nonzero(x, size=N, fill_value=0)`, `jnp.unique(x, size=N)`; or choose with `jnp.where(mask, x, 0)` and keep the shape.".to_owned()]
        } else {
            vec![
                "Keep the shape: `torch.where(mask, x, 0)`, multiply by the mask, and divide sums by `mask.sum()`.".to_owned(),
                "Where elements must be picked, sort them to the front (`mask.long().argsort(descending=True, stable=True)`) or take a fixed number with `topk`, and mask the rest; or do it on the host, before the batch goes to the device.".to_owned(),
            ]
        };
        vec![remark]
    }
}

/// A call whose result has a shape that depends on values.
fn dynamic_call<'a>(code: &Code<'_, 'a>, call: &'a ast::ExprCall) -> Option<String> {
    let one = call.arguments.args.len() == 1 && call.arguments.keywords.is_empty();
    if let Some(name) = code.name(&call.func) {
        if let Some(name) = name.strip_prefix("torch.") {
            let dynamic = matches!(
                name,
                "nonzero" | "argwhere" | "unique" | "unique_consecutive" | "masked_select"
            ) || (name == "where" && one);
            return dynamic.then(|| format!("torch.{name}"));
        }
        let name = name.strip_prefix("jax.numpy.")?;
        let dynamic = matches!(name, "nonzero" | "argwhere" | "flatnonzero" | "unique")
            || (name == "where" && one);
        return (dynamic && keyword(call, "size").is_none()).then(|| format!("jnp.{name}"));
    }
    let Expr::Attribute(method) = &*call.func else {
        return None;
    };
    let name = method.attr.as_str();
    let known = matches!(name, "nonzero" | "masked_select")
        || (name == "unique" && call.arguments.args.is_empty() && method.value.is_name_expr());
    // A module's own method of that name is another thing.
    let own = matches!(&*method.value, Expr::Name(it) if it.id == "self")
        || code.name(&method.value).is_some();
    (known && code.is_torch() && !own && code.may_be_tensor(&method.value))
        .then(|| format!("`{name}`"))
}

/// `x[mask]`, read.
fn selects<'a>(code: &Code<'_, 'a>, it: &'a ast::ExprSubscript) -> bool {
    let mask = match &*it.slice {
        Expr::Tuple(_) | Expr::Slice(_) | Expr::StringLiteral(_) => false,
        slice @ Expr::Call(_) => code.is_mask(slice) || mask_name(code.context.text(slice)),
        slice => code.is_mask(slice),
    };
    code.is_torch()
        && mask
        && matches!(
            &*it.value,
            Expr::Name(_) | Expr::Attribute(_) | Expr::Call(_)
        )
        && code.may_be_tensor(&it.value)
}
