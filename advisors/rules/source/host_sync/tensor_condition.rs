//! Python decides by the value of a tensor.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Exhibit, Fix, Numerics, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, Stmt, StmtIf};
use crate::python::{
    Certainty, Framework, Heat, HeatKind, NodeId, Ranged as _, SourceContext, Tensor,
};
use crate::rule::Rule;
use crate::rules::source::host_sync::shown;

/// See the card.
#[derive(Debug)]
pub struct TensorCondition;

impl Rule for TensorCondition {
    fn code(&self) -> &'static str {
        "TS202"
    }

    fn name(&self) -> &'static str {
        "tensor-decides-in-python"
    }

    fn card(&self) -> &'static str {
        include_str!("tensor_condition.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let mut groups: BTreeMap<NodeId, (&Heat, Vec<Found<'_>>)> = BTreeMap::new();
        for (id, node) in context.index.nodes() {
            let (test, branch) = match node.node {
                AnyNodeRef::StmtIf(choice) => (&*choice.test, Some(choice)),
                AnyNodeRef::ElifElseClause(clause) => match &clause.test {
                    Some(test) => (test, None),
                    None => continue,
                },
                AnyNodeRef::StmtWhile(each) => (&*each.test, None),
                AnyNodeRef::StmtAssert(assert) => (&*assert.test, None),
                AnyNodeRef::ExprIf(choice) => (&*choice.test, None),
                _ => continue,
            };
            // The test of a loop runs in each turn of it.
            let at = context.index.id_of_expr(test).unwrap_or(id);
            let Some(heat) = context.heat(at) else {
                continue;
            };
            let Some((what, tensor)) = decided_by(context, test) else {
                continue;
            };
            let traced = heat.kind == HeatKind::Traced && heat.framework == Framework::Jax;
            if traced && tensor.certainty != Certainty::Certain {
                continue;
            }
            groups
                .entry(heat.region)
                .or_insert((heat, Vec::new()))
                .1
                .push(Found {
                    what,
                    tensor,
                    branch,
                });
        }
        groups
            .into_values()
            .map(|(heat, found)| remark(context, heat, &found))
            .collect()
    }
}

struct Found<'a> {
    what: &'a Expr,
    tensor: Tensor,
    branch: Option<&'a StmtIf>,
}

/// The part of a condition that is a tensor, whose truth Python asks for.
fn decided_by<'a>(context: &SourceContext<'a>, test: &'a Expr) -> Option<(&'a Expr, Tensor)> {
    // Guards of float16 are not reached on a TPU, which computes in bfloat16.
    if context.text(test).contains("float16 and") {
        return None;
    }
    let mut todo = vec![test];
    let mut seen = 0;
    while let Some(expression) = todo.pop() {
        seen += 1;
        if seen > 64 {
            return None;
        }
        match expression {
            Expr::BoolOp(op) => todo.extend(op.values.iter().rev()),
            Expr::UnaryOp(op) if op.op.is_not() => todo.push(&op.operand),
            // A name alone may be anything that is true or false, unless it surely is a tensor.
            Expr::Name(_) | Expr::Attribute(_) => {
                if let Some(tensor) = context.tensor(expression)
                    && tensor.certainty == Certainty::Certain
                    && !tensor.on_host
                    && !is_optional(context, expression)
                {
                    return Some((expression, tensor));
                }
            }
            _ => {
                if let Some(tensor) = context.tensor(expression)
                    && !tensor.on_host
                {
                    return Some((expression, tensor));
                }
            }
        }
    }
    None
}

/// Whether a name is a parameter that may be left out: then its truth asks whether it is there.
fn is_optional(context: &SourceContext<'_>, expression: &Expr) -> bool {
    let Expr::Name(name) = expression else {
        return true;
    };
    let Some(id) = context.index.id_of_expr(expression) else {
        return true;
    };
    context.index.function_of(id).is_some_and(|function| {
        function
            .parameters
            .find(name.id.as_str())
            .is_some_and(|parameter| {
                parameter.default.is_some()
                    || parameter
                        .parameter
                        .annotation
                        .as_deref()
                        .is_some_and(|text| context.text(text).contains("None"))
                    || parameter
                        .parameter
                        .annotation
                        .as_deref()
                        .is_some_and(|text| context.text(text).contains("Optional"))
            })
    })
}

fn remark(context: &SourceContext<'_>, heat: &Heat, found: &[Found<'_>]) -> Remark {
    let fails = heat.kind == HeatKind::Traced && heat.framework == Framework::Jax;
    let certain = found
        .iter()
        .any(|found| found.tensor.certainty == Certainty::Certain);
    let first = found
        .first()
        .map(|found| shown(context.text(found.what)))
        .unwrap_or_default();
    let others = match found.len() {
        0 | 1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    let (severity, title) = if fails {
        (
            Severity::High,
            format!(
                "Python decides by the traced `{first}`{others}: a traced value is neither true nor false, and tracing stops with an error"
            ),
        )
    } else {
        let severity = if certain {
            Severity::Medium
        } else {
            Severity::Low
        };
        let cost = if heat.kind == HeatKind::Step {
            "the host waits for the device in every step"
        } else {
            "the host waits for the device, and each branch is a graph of its own"
        };
        (
            severity,
            format!("Python decides by the tensor `{first}`{others}: {cost}"),
        )
    };
    let mut remark = Remark::new(AdviceKind::HostDispatch, severity, title);
    remark.places = found
        .iter()
        .map(|found| context.place(found.what.range(), "its value is needed on the host"))
        .collect();
    remark.evidence.push(Exhibit::text(
        "why it counts",
        heat.why.clone(),
        "loops, calls and classes of this file",
    ));
    remark.advice.push(match heat.framework {
        Framework::Torch => "compute both branches and choose on the device: `torch.where(condition, a, b)`; where the branch only guards work that does nothing otherwise (a clamp, a masked fill), drop the condition",
        Framework::Jax => "choose on the device: `jnp.where(condition, a, b)` where both branches are cheap, `jax.lax.cond` or `lax.while_loop` where they are not",
    }.to_owned());
    remark.caveats.push(
        "`if (x > t).any(): x = f(x)` changes all of `x` when one element is above `t`: `torch.where((x > t).any(), f(x), x)` is the same, `torch.where(x > t, f(x), x)` is not".to_owned(),
    );
    remark.fix = found
        .iter()
        .find_map(|found| unguarded(context, found.branch?));
    remark
}

/// `if mask.any(): x = x.masked_fill(mask, v)` does nothing where no element is set, so that the
/// condition can go.
fn unguarded(context: &SourceContext<'_>, branch: &StmtIf) -> Option<Fix> {
    let Expr::Call(test) = &*branch.test else {
        return None;
    };
    let Expr::Attribute(any) = &*test.func else {
        return None;
    };
    if any.attr.as_str() != "any"
        || !test.arguments.is_empty()
        || !branch.elif_else_clauses.is_empty()
        || branch.body.len() != 1
    {
        return None;
    }
    let Some(Stmt::Assign(assign)) = branch.body.first() else {
        return None;
    };
    let [Expr::Name(target)] = assign.targets.as_slice() else {
        return None;
    };
    let Expr::Call(call) = &*assign.value else {
        return None;
    };
    let mask = context.text(&*any.value);
    let arguments = &call.arguments.args;
    let same_mask = arguments
        .first()
        .is_some_and(|first| context.text(first) == mask);
    let is_target =
        |expression: &Expr| matches!(expression, Expr::Name(name) if name.id == target.id);
    let fills = match &*call.func {
        Expr::Attribute(fill) if fill.attr.as_str() == "masked_fill" => is_target(&fill.value),
        Expr::Attribute(_) => {
            context
                .qualified(&call.func)
                .is_some_and(|name| matches!(name.as_str(), "torch.where" | "jax.numpy.where"))
                && arguments.get(2).is_some_and(is_target)
        }
        _ => false,
    };
    // What is filled in must be free of effects and always computable.
    let plain = arguments.get(1).is_some_and(|value| {
        matches!(
            value,
            Expr::NumberLiteral(_) | Expr::Name(_) | Expr::UnaryOp(_) | Expr::Attribute(_)
        )
    });
    (same_mask && fills && plain).then(|| Fix {
        title: "drop the condition: nothing is filled where no element is set".to_owned(),
        applicability: Applicability::Safe,
        numerics: Numerics::BitExact,
        edits: vec![context.edit(branch.range(), context.text(assign))],
    })
}

#[cfg(test)]
mod tests {
    use super::TensorCondition;
    use crate::finding::Applicability;
    use crate::rules::source::recompilation::found;

    const MODULE: &str = "import torch\nfrom torch import nn\nclass A(nn.Module):\n    def forward(self, x: torch.Tensor, mask=None, scale: float = 1.0):\n";

    #[test]
    fn a_hidden_any_is_found() {
        let text =
            format!("{MODULE}        if (x > 3).any():\n            x = x * 0\n        return x\n");
        let findings = found(&TensorCondition, &text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].places[0].line, 5);
        assert!(findings[0].fix.is_none());
    }

    #[test]
    fn a_guarded_fill_loses_its_guard() {
        let text = format!(
            "{MODULE}        bad = torch.isnan(x)\n        if bad.any():\n            x = x.masked_fill(bad, 0.0)\n        return x\n"
        );
        let findings = found(&TensorCondition, &text);
        let fix = findings[0].fix.as_ref().expect("a fix");
        assert_eq!(fix.applicability, Applicability::Safe);
        assert_eq!(fix.edits[0].replacement, "x = x.masked_fill(bad, 0.0)");
    }

    #[test]
    fn shapes_flags_and_presence_are_no_values() {
        for test in [
            "mask is not None",
            "x.shape[0] > 3",
            "scale > 1.0",
            "x.dim() == 3 and mask is None",
            "self.training",
            "isinstance(x, torch.Tensor)",
            "not torch.is_floating_point(x)",
            "mask",
            "x.size(0) != x.numel()",
            "x.dtype == torch.float16",
            "len(x) > 2",
        ] {
            let text =
                format!("{MODULE}        if {test}:\n            x = x * 0\n        return x\n");
            assert!(found(&TensorCondition, &text).is_empty(), "{test}");
        }
    }
}
