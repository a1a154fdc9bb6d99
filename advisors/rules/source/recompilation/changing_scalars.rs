//! Python numbers that change from step to step are part of what is compiled.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, ExprCall};
use crate::python::{
    Framework, Heat, HeatKind, NodeId, Ranged as _, SourceContext, TextRange, Value,
};
use crate::rule::Rule;

/// Keyword arguments of operations that take a number.
const SCALARS: &[&str] = &[
    "alpha",
    "beta",
    "value",
    "p",
    "min",
    "max",
    "eps",
    "weight",
    "fill_value",
    "diagonal",
    "k",
];

/// See the card.
#[derive(Debug)]
pub struct ChangingScalars;

impl Rule for ChangingScalars {
    fn code(&self) -> &'static str {
        "TS104"
    }

    fn name(&self) -> &'static str {
        "python-scalar-changes-each-step"
    }

    fn card(&self) -> &'static str {
        include_str!("changing_scalars.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let mut groups: BTreeMap<NodeId, (&Heat, Vec<Found<'_>>)> = BTreeMap::new();
        for (id, node) in context.index.nodes() {
            let found = match node.node {
                AnyNodeRef::ExprCall(call) => {
                    compiled(context, call).or_else(|| operation(context, call))
                }
                _ => None,
            };
            let Some(found) = found else { continue };
            let Some(heat) = context.heat(id) else {
                continue;
            };
            groups
                .entry(heat.region)
                .or_insert((heat, Vec::new()))
                .1
                .push(found);
        }
        groups
            .into_values()
            .map(|(heat, found)| remark(context, heat, &found))
            .collect()
    }
}

struct Found<'a> {
    range: TextRange,
    name: &'a str,
    to: String,
    compiled: bool,
}

/// A function that `torch.compile` made takes a number that varies: it is a constant of the graph.
/// Functions of `jax.jit` take numbers as arguments, at no such cost.
fn compiled<'a>(context: &SourceContext<'a>, call: &'a ExprCall) -> Option<Found<'a>> {
    if context.value(&call.func) != Value::Compiled(Framework::Torch) {
        return None;
    }
    let keywords = call.arguments.keywords.iter().map(|keyword| &keyword.value);
    call.arguments
        .args
        .iter()
        .chain(keywords)
        .find_map(|argument| {
            let name = context.varies(argument)?;
            Some(Found {
                range: argument.range(),
                name,
                to: format!("the compiled `{}`", context.text(&*call.func)),
                compiled: true,
            })
        })
}

/// An operation takes a number that varies, as `torch.add(a, b, alpha=x)`.
fn operation<'a>(context: &SourceContext<'a>, call: &'a ExprCall) -> Option<Found<'a>> {
    let torch = |value: Value| matches!(value, Value::Tensor(tensor) if tensor.framework == Framework::Torch && !tensor.on_host);
    let library = context
        .qualified(&call.func)
        .is_some_and(|name| name.starts_with("torch."));
    let on_tensor = match &*call.func {
        Expr::Attribute(attribute) if !library => torch(context.value(&attribute.value)),
        _ => {
            library
                && call.arguments.args.first().is_some_and(|first| {
                    torch(context.value(first)) || context.value(first) == Value::Unknown
                })
        }
    };
    if !on_tensor {
        return None;
    }
    call.arguments.keywords.iter().find_map(|keyword| {
        let word = keyword.arg.as_ref()?.as_str();
        if !SCALARS.contains(&word) {
            return None;
        }
        let name = context.varies(&keyword.value)?;
        Some(Found {
            range: keyword.range(),
            name,
            to: format!("`{word}=` of `{}`", context.text(&*call.func)),
            compiled: false,
        })
    })
}

fn remark(context: &SourceContext<'_>, heat: &Heat, found: &[Found<'_>]) -> Remark {
    let compiled = found.iter().any(|found| found.compiled);
    let first = found
        .first()
        .map_or(("", ""), |found| (found.name, found.to.as_str()));
    let severity = if compiled || heat.kind == HeatKind::Step {
        Severity::High
    } else {
        Severity::Medium
    };
    let mut remark = Remark::new(
        AdviceKind::Recompilation,
        severity,
        format!(
            "the Python number `{}` differs from step to step and goes to {}: each value may be a program to compile",
            first.0, first.1
        ),
    );
    remark.places = found
        .iter()
        .map(|found| {
            context.place(
                found.range,
                format!("`{}` differs from step to step", found.name),
            )
        })
        .collect();
    remark.evidence.push(Exhibit::text(
        "why it counts",
        heat.why.clone(),
        "loops, calls and classes of this file",
    ));
    remark.advice.push("pass it as a tensor without dimensions that is on the device: `torch.tensor(x, device=device)`, filled with `.fill_(x)` in each step".to_owned());
    if !compiled {
        remark.caveats.push("with lazy tensors equal numbers share one parameter of the graph: a step in which two of them happen to be equal has a parameter less, and is compiled anew".to_owned());
    }
    remark
}

#[cfg(test)]
mod tests {
    use super::ChangingScalars;
    use crate::rules::source::recompilation::found;

    #[test]
    fn a_step_count_for_a_compiled_function_is_found() {
        let text = "import torch\nstep_fn = torch.compile(train)\nfor step, batch in enumerate(loader):\n    loss = step_fn(batch, step)\n    loss.backward()\n";
        let findings = found(&ChangingScalars, text);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].title.contains("`step`"));
    }

    #[test]
    fn numbers_that_reach_an_operation_through_a_call_are_found() {
        let text = "import torch\nimport torch_xla.core.xla_model as xm\ndef f(a, b, p):\n    c = torch.add(a, b, alpha=p)\n    xm.mark_step()\nfor i in range(9):\n    f(x, y, 1.0 if i % 2 else 0.5)\n";
        let findings = found(&ChangingScalars, text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].places[0].line, 4);
    }

    #[test]
    fn constants_and_jax_are_left_alone() {
        let text = "import torch\nfor step, batch in enumerate(loader):\n    y = torch.add(batch, batch, alpha=2.0)\n    model(y).backward()\n";
        assert!(found(&ChangingScalars, text).is_empty());
        let text = "import jax\nf = jax.jit(g)\nfor i in range(9):\n    y = f(y, i)\n";
        assert!(found(&ChangingScalars, text).is_empty());
    }
}
