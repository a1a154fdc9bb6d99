//! A tensor grows in each turn of a loop, so that each turn is a program of its own.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, ExprCall};
use crate::python::{Framework, HeatKind, NodeId, Ranged as _, SourceContext};
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct GrowingCache;

impl Rule for GrowingCache {
    fn code(&self) -> &'static str {
        "TS103"
    }

    fn name(&self) -> &'static str {
        "growing-cache"
    }

    fn card(&self) -> &'static str {
        include_str!("growing_cache.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if context.runs_once() {
            return Vec::new();
        }
        let mut found: Vec<Remark> = Vec::new();
        for (id, node) in context.index.nodes() {
            let AnyNodeRef::StmtAssign(assign) = node.node else {
                continue;
            };
            let ([target], Expr::Call(call)) = (assign.targets.as_slice(), &*assign.value) else {
                continue;
            };
            if !grows(context, target, call) {
                continue;
            }
            let Some(heat) = context.heat(id).filter(|heat| heat.kind == HeatKind::Step) else {
                continue;
            };
            let name = context.text(target);
            if starts_anew(context, heat.region, id, name) {
                continue;
            }
            let mut remark = Remark::new(
                AdviceKind::Recompilation,
                Severity::High,
                format!(
                    "`{name}` grows in each turn of the loop: each length is a program to compile"
                ),
            );
            remark
                .places
                .push(context.place(assign.range(), "one shape more each turn"));
            remark.evidence.push(Exhibit::text(
                "why it counts",
                heat.why.clone(),
                "loops, calls and classes of this file",
            ));
            remark.advice.push(match heat.framework {
                Framework::Torch => "make it once with its final length, and write into it: `buffer.index_copy_(dim, position, new)`; for generation `StaticCache` (`cache_implementation=\"static\"`) with a fixed `max_length`",
                Framework::Jax => "make it once with its final length, and write into it: `jax.lax.dynamic_update_slice` at the position, with a mask of what is valid",
            }.to_owned());
            remark.advice.push(
                "results that are only collected belong in a Python list, joined once after the loop".to_owned(),
            );
            found.push(remark);
        }
        found
    }
}

/// Whether each turn begins with another value of that name: then it does not grow.
fn starts_anew(context: &SourceContext<'_>, region: NodeId, own: NodeId, name: &str) -> bool {
    context.index.descendants(region).any(|(id, node)| {
        let targets: &[Expr] = match node.node {
            AnyNodeRef::StmtAssign(assign) if id != own => &assign.targets,
            _ => return false,
        };
        targets.iter().any(|target| context.text(target) == name)
    })
}

/// `x = torch.cat([x, y])`.
fn grows(context: &SourceContext<'_>, target: &Expr, call: &ExprCall) -> bool {
    if !matches!(
        target,
        Expr::Name(_) | Expr::Attribute(_) | Expr::Subscript(_)
    ) {
        return false;
    }
    let joins = context.qualified(&call.func).is_some_and(|name| {
        matches!(
            name.as_str(),
            "torch.cat"
                | "torch.concat"
                | "torch.concatenate"
                | "torch.hstack"
                | "torch.vstack"
                | "jax.numpy.concatenate"
                | "jax.numpy.append"
                | "jax.numpy.hstack"
                | "jax.numpy.vstack"
                | "jax.lax.concatenate"
        )
    });
    let target_text = context.text(target);
    let parts: &[Expr] = match call.arguments.args.first() {
        Some(Expr::List(list)) => &list.elts,
        Some(Expr::Tuple(tuple)) => &tuple.elts,
        Some(_) => &call.arguments.args,
        None => return false,
    };
    let itself = parts
        .iter()
        .take(2)
        .find(|part| context.text(*part) == target_text);
    // Data that never left the host grow there at no such cost.
    let on_host = parts
        .iter()
        .any(|part| context.tensor(part).is_some_and(|tensor| tensor.on_host));
    joins && itself.is_some() && parts.len() >= 2 && !on_host
}

#[cfg(test)]
mod tests {
    use super::GrowingCache;
    use crate::rules::source::recompilation::found;

    #[test]
    fn a_decode_loop_grows_its_ids() {
        let text = "import torch\nwhile not done:\n    logits = model(ids).logits\n    new = logits.argmax(-1)\n    ids = torch.cat([ids, new], dim=-1)\n    both = torch.cat([logits, logits])\n";
        let findings = found(&GrowingCache, text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].places[0].line, 5);
    }

    #[test]
    fn joining_once_is_left_alone() {
        let text = "import torch\nids = torch.cat([ids, new])\nfor a in range(3):\n    ids = torch.cat([ids, a])\n";
        assert!(found(&GrowingCache, text).is_empty());
        let anew = "import torch\nfor batch in loader:\n    x = model(batch)\n    x = torch.cat([x, tokens])\n";
        assert!(found(&GrowingCache, anew).is_empty());
    }
}
