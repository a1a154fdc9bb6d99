//! A tensor is cut by a length that is known only at run time.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, ExprSubscript};
use crate::python::{
    Certainty, Framework, Heat, HeatKind, NodeId, Ranged as _, SourceContext, TextRange,
};
use crate::rule::Rule;
use crate::rules::source::host_sync::shown;

/// See the card.
#[derive(Debug)]
pub struct RuntimeSlices;

impl Rule for RuntimeSlices {
    fn code(&self) -> &'static str {
        "TS109"
    }

    fn name(&self) -> &'static str {
        "slice-by-runtime-value"
    }

    fn card(&self) -> &'static str {
        include_str!("runtime_slices.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let mut groups: BTreeMap<NodeId, (&Heat, Vec<Cut<'_>>)> = BTreeMap::new();
        for (id, node) in context.index.nodes() {
            let AnyNodeRef::ExprSubscript(subscript) = node.node else {
                continue;
            };
            let Some(bound) = bound(context, subscript) else {
                continue;
            };
            let Some(heat) = context.heat(id) else {
                continue;
            };
            let on_device = context
                .tensor(&subscript.value)
                .is_some_and(|tensor| !tensor.on_host);
            if on_device {
                groups
                    .entry(heat.region)
                    .or_insert((heat, Vec::new()))
                    .1
                    .push(Cut {
                        range: subscript.range(),
                        bound,
                    });
            }
        }
        groups
            .into_values()
            .map(|(heat, cuts)| remark(context, heat, &cuts))
            .collect()
    }
}

struct Cut<'a> {
    range: TextRange,
    bound: &'a Expr,
}

/// The bound of a slice that comes out of a tensor.
fn bound<'a>(context: &SourceContext<'a>, subscript: &'a ExprSubscript) -> Option<&'a Expr> {
    let dimensions: Vec<&Expr> = match &*subscript.slice {
        Expr::Tuple(tuple) => tuple.elts.iter().collect(),
        one => vec![one],
    };
    dimensions.into_iter().find_map(|dimension| {
        let Expr::Slice(slice) = dimension else {
            return None;
        };
        [slice.lower.as_deref(), slice.upper.as_deref()]
            .into_iter()
            .flatten()
            .find(|bound| from_tensor(context, bound, 0))
    })
}

/// Whether a value was read from a tensor: `n.item()`, `int(t)`, `t.max()`, or a name for one.
fn from_tensor<'a>(context: &SourceContext<'a>, value: &'a Expr, depth: u32) -> bool {
    if depth > 4 {
        return false;
    }
    if context
        .tensor(value)
        .is_some_and(|tensor| !tensor.on_host && tensor.certainty == Certainty::Certain)
    {
        return true;
    }
    match value {
        Expr::Call(call) => crate::rules::source::host_sync::read_of(context, call)
            .is_some_and(|read| read.tensor.certainty == Certainty::Certain),
        Expr::BinOp(op) => {
            from_tensor(context, &op.left, depth + 1) || from_tensor(context, &op.right, depth + 1)
        }
        Expr::UnaryOp(op) => from_tensor(context, &op.operand, depth + 1),
        Expr::Name(name) => {
            let Some(id) = context.index.id_of_expr(value) else {
                return false;
            };
            let assigned = context.assigned(id, name.id.as_str());
            !assigned.is_empty()
                && assigned
                    .into_iter()
                    .all(|value| from_tensor(context, value, depth + 1))
        }
        _ => false,
    }
}

fn remark(context: &SourceContext<'_>, heat: &Heat, cuts: &[Cut<'_>]) -> Remark {
    let first = cuts
        .first()
        .map(|cut| shown(context.text(cut.bound)))
        .unwrap_or_default();
    let traced = heat.kind == HeatKind::Traced && heat.framework == Framework::Jax;
    let title = if traced {
        format!(
            "a traced function slices by `{first}`, a traced value: shapes must be static, and tracing stops with an error"
        )
    } else {
        format!(
            "a tensor is cut at `{first}`, which was read from a tensor: each value is a shape, and a program to compile"
        )
    };
    let mut remark = Remark::new(AdviceKind::Recompilation, Severity::High, title);
    remark.places = cuts
        .iter()
        .map(|cut| context.place(cut.range, "its shape depends on data"))
        .collect();
    remark.evidence.push(Exhibit::text(
        "why it counts",
        heat.why.clone(),
        "loops, calls and classes of this file",
    ));
    remark.advice.push(
        "keep the full length, and mask what is not valid (`torch.arange(n) < length`)".to_owned(),
    );
    remark.advice.push(
        match heat.framework {
            Framework::Torch => "or round the length up to one of a few buckets before slicing",
            Framework::Jax => "or take a part of fixed length: `jax.lax.dynamic_slice`",
        }
        .to_owned(),
    );
    remark
}

#[cfg(test)]
mod tests {
    use super::RuntimeSlices;
    use crate::rules::source::recompilation::found;

    #[test]
    fn lengths_out_of_tensors_are_found() {
        let text = "import torch\nfrom torch import nn\nclass A(nn.Module):\n    def forward(self, x: torch.Tensor, mask: torch.Tensor, n: int):\n        length = mask.sum(-1).max().item()\n        a = x[:, :length]\n        b = x[:, : mask.sum().max()]\n        c = x[:, :n]\n        d = x[:, : x.shape[1] // 2]\n        return a\n";
        let findings = found(&RuntimeSlices, text);
        assert_eq!(findings.len(), 1);
        let lines: Vec<u64> = findings[0].places.iter().map(|place| place.line).collect();
        assert_eq!(lines, [6, 7]);
    }
}
