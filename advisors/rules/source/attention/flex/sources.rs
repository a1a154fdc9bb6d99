//! What values are made of: whether query and key come from the same tensor.

use std::collections::BTreeSet;

use crate::python::bindings::Bound;
use crate::python::{NodeId, ast};
use crate::rules::source::attention::flex::function::Scope;
use ast::{AnyNodeRef, Expr};

/// Values are followed through so many bindings.
const MAX_BINDINGS: usize = 64;

/// Whether two values are computed from the same parameters, at least one.
pub(crate) fn same<'a>(scope: Scope<'_, 'a>, a: &'a Expr, b: &'a Expr) -> bool {
    match (of(scope, a), of(scope, b)) {
        (Some(a), Some(b)) => a == b && !a.is_empty(),
        _ => false,
    }
}

/// The parameters that a value comes from; none when not all is known.
fn of<'a>(scope: Scope<'_, 'a>, expression: &'a Expr) -> Option<BTreeSet<NodeId>> {
    let index = scope.context.index;
    let mut out = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![index.id_of_expr(expression)?];
    while let Some(root) = open.pop() {
        let nodes = std::iter::once(root).chain(index.descendants(root).map(|(id, _)| id));
        for id in nodes {
            let Some(AnyNodeRef::ExprName(name)) = index.get(id).map(|node| node.node) else {
                continue;
            };
            if !name.ctx.is_load() || name.id == "self" {
                continue;
            }
            for binding in scope.bindings.visible(name.id.as_str(), id, index) {
                if !seen.insert(binding.id) || binding.scope.is_none() {
                    continue;
                }
                if seen.len() > MAX_BINDINGS {
                    return None;
                }
                match binding.what {
                    Bound::Parameter => {
                        out.insert(binding.id);
                    }
                    Bound::Assigned(assign) => open.push(index.id_of_expr(&assign.value)?),
                    Bound::Import | Bound::Function(_) => {}
                    // A tuple: `q, k, v = ...`.
                    Bound::Other => {
                        let statement =
                            index
                                .ancestors(binding.id)
                                .find_map(|(_, node)| match node.node {
                                    AnyNodeRef::StmtAssign(assign) => Some(&*assign.value),
                                    _ => None,
                                })?;
                        open.push(index.id_of_expr(statement)?);
                    }
                }
            }
        }
    }
    Some(out)
}
