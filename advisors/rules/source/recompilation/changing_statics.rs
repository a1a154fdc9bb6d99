//! A static argument changes from step to step, or cannot be one.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, ExprCall};
use crate::python::{Framework, NodeId, Ranged as _, SourceContext, Trace};
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct ChangingStatics;

impl Rule for ChangingStatics {
    fn code(&self) -> &'static str {
        "TS107"
    }

    fn name(&self) -> &'static str {
        "static-argument-changes"
    }

    fn card(&self) -> &'static str {
        include_str!("changing_statics.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if context.runs_once() {
            return Vec::new();
        }
        let mut remarks = Vec::new();
        for (function, trace) in context.transforms.all() {
            if trace.framework != Framework::Jax || !trace.compiles || !trace.has_statics() {
                continue;
            }
            let Some(AnyNodeRef::StmtFunctionDef(def)) =
                context.index.get(function).map(|node| node.node)
            else {
                continue;
            };
            let parameters: Vec<&str> = def
                .parameters
                .posonlyargs
                .iter()
                .chain(&def.parameters.args)
                .map(|parameter| parameter.name().as_str())
                .collect();
            for call in calls(context, function, trace) {
                remarks.extend(remark(context, trace, &parameters, call));
            }
        }
        remarks
    }
}

/// The calls of the compiled function: by its own name where it is decorated, or by the name that
/// the compiled one is assigned to.
fn calls<'a>(
    context: &SourceContext<'a>,
    function: NodeId,
    trace: &Trace<'_>,
) -> Vec<&'a ExprCall> {
    if trace.runs_on_device {
        return context.calls_to(function).to_vec();
    }
    let Some(AnyNodeRef::StmtAssign(assign)) = context.index.statement_of(trace.at) else {
        return Vec::new();
    };
    let [Expr::Name(name)] = assign.targets.as_slice() else {
        return Vec::new();
    };
    context
        .calls()
        .filter(|(_, call)| matches!(&*call.func, Expr::Name(func) if func.id == name.id))
        .map(|(_, call)| call)
        .collect()
}

fn remark(
    context: &SourceContext<'_>,
    trace: &Trace<'_>,
    parameters: &[&str],
    call: &ExprCall,
) -> Option<Remark> {
    let id = context.index.id_of(call)?;
    for (position, parameter) in parameters.iter().enumerate() {
        if !trace.is_static(parameter) {
            continue;
        }
        let Some(argument) = call.arguments.find_argument_value(parameter, position) else {
            continue;
        };
        let unhashable = matches!(argument, Expr::List(_) | Expr::Dict(_) | Expr::Set(_));
        let varies = context
            .varies(argument)
            .filter(|_| context.loop_around(id).is_some() || context.heat(id).is_some());
        let title = if unhashable {
            format!(
                "the static argument `{parameter}` is a list, dict or set: it has no hash, and the call fails"
            )
        } else if let Some(name) = varies {
            format!(
                "the static argument `{parameter}` takes `{name}`, which differs in each turn of the loop: each value is a program to compile"
            )
        } else {
            continue;
        };
        let mut remark = Remark::new(AdviceKind::Recompilation, Severity::High, title);
        remark
            .places
            .push(context.place(argument.range(), "part of the key of the cache"));
        if let Some(node) = context.index.get(trace.at) {
            remark
                .places
                .push(context.place(node.node.range(), "static here"));
        }
        remark.evidence.push(Exhibit::text(
            "static arguments",
            format!("`{parameter}` of `{}`", trace.by),
            "static_argnums or static_argnames in this file",
        ));
        remark.advice.push(if unhashable {
            "pass a tuple".to_owned()
        } else {
            "make it an argument like the others: numbers are passed to the program, and only shapes and branches need them static; where a shape depends on it, round it up to a few buckets".to_owned()
        });
        return Some(remark);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::ChangingStatics;
    use crate::rules::source::recompilation::found;

    #[test]
    fn a_static_loop_variable_is_found() {
        let text = "import jax\nfrom functools import partial\n@partial(jax.jit, static_argnums=(1,))\ndef f(x, n):\n    return x * n\nfor i in range(9):\n    y = f(y, i)\n    z = f(y, 3)\n";
        let findings = found(&ChangingStatics, text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].places[0].line, 7);
        let named = "import jax\ndef f(x, n):\n    return x * n\ng = jax.jit(f, static_argnames='n')\nfor i in range(9):\n    y = g(y, n=i)\n    z = g(i, n=2)\n";
        assert_eq!(found(&ChangingStatics, named).len(), 1);
    }

    #[test]
    fn a_list_cannot_be_static() {
        let text = "import jax\ng = jax.jit(f, static_argnums=0)\n@jax.jit\ndef h(x):\n    return x\ndef f(n, x):\n    return x\ny = g([1, 2], x)\n";
        let findings = found(&ChangingStatics, text);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].title.contains("no hash"));
    }
}
