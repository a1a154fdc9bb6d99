//! A function that is new each time is compiled anew each time.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, ExprCall};
use crate::python::{NodeId, Ranged as _, SourceContext};
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct JitInLoop;

impl Rule for JitInLoop {
    fn code(&self) -> &'static str {
        "TS105"
    }

    fn name(&self) -> &'static str {
        "compiled-function-made-in-loop"
    }

    fn card(&self) -> &'static str {
        include_str!("jit_in_loop.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if context.runs_once() {
            return Vec::new();
        }
        context
            .calls()
            .filter_map(|(id, call)| remark(context, id, call))
            .collect()
    }
}

fn remark(context: &SourceContext<'_>, id: NodeId, call: &ExprCall) -> Option<Remark> {
    let name = context.qualified(&call.func)?;
    let compiles = matches!(
        name.as_str(),
        "jax.jit" | "jax.pjit" | "jax.pmap" | "jax.experimental.pjit.pjit" | "torch.compile"
    );
    let what = compiles
        .then(|| new_function(context, id, call))
        .flatten()?;
    let repeated = repeated(context, id)?;
    if kept(context, id) {
        return None;
    }
    let mut remark = Remark::new(
        AdviceKind::Recompilation,
        Severity::High,
        format!(
            "`{name}` of {what} {repeated}: the function is a new one each time, so that it is compiled each time"
        ),
    );
    remark
        .places
        .push(context.place(call.range(), "its cache is empty each time"));
    remark.evidence.push(Exhibit::text(
        "the key of the cache",
        "the function object: two lambdas of the same text are two functions",
        "https://docs.jax.dev/en/latest/jit-compilation.html#jit-and-caching",
    ));
    remark.advice.push("make the compiled function once, before the loop or at the top of the module, and pass what it closes over as arguments".to_owned());
    remark.advice.push("where it depends on a mesh, a shape or a dtype, keep the compiled functions in a dict by those (or `functools.lru_cache` the function that makes them)".to_owned());
    Some(remark)
}

/// What is compiled, where each evaluation makes a new function of it.
fn new_function(context: &SourceContext<'_>, id: NodeId, call: &ExprCall) -> Option<&'static str> {
    match call.arguments.args.first()? {
        Expr::Lambda(_) => Some("a lambda"),
        Expr::Call(inner) => {
            let name = context.qualified(&inner.func)?;
            let wraps = name.ends_with("partial") || name.starts_with("jax.");
            wraps.then_some("a function that is wrapped there")
        }
        Expr::Name(name) => {
            let at = context.index.get(id)?;
            // A function that is defined in the same function is a new one in each call.
            let own = context
                .index
                .nodes()
                .find_map(|(def, node)| match node.node {
                    AnyNodeRef::StmtFunctionDef(function)
                        if function.name.as_str() == name.id.as_str() =>
                    {
                        Some((def, node.function))
                    }
                    _ => None,
                })?;
            // Defined in the loop, or in a function that is called again and again.
            let in_loop = context.loop_around(own.0).is_some();
            let inner = own.1.is_some() && own.1 == at.function;
            let fresh = in_loop || (inner && context.loop_around(id).is_none());
            fresh.then_some("a function that is defined there")
        }
        _ => None,
    }
}

/// How it comes to be evaluated again and again.
fn repeated(context: &SourceContext<'_>, id: NodeId) -> Option<String> {
    if let Some(around) = context.loop_around(id) {
        let line = context
            .index
            .get(around)
            .map_or(0, |node| context.file.line_of(node.node.range().start()));
        return Some(format!("in the loop of line {line}"));
    }
    if let Some(heat) = context
        .heat(id)
        .filter(|heat| heat.kind != crate::python::HeatKind::Traced)
    {
        return Some(format!("in code that runs in every step ({})", heat.why));
    }
    // In a function that a loop of this file calls.
    let function = context.index.function_of(id)?;
    let function_id = context.index.id_of(function)?;
    let cached = function
        .decorator_list
        .iter()
        .any(|decorator| context.text(&decorator.expression).contains("cache"));
    let called = context.calls_to(function_id).iter().find(|call| {
        context
            .index
            .id_of(**call)
            .is_some_and(|call| context.loop_around(call).is_some())
    })?;
    let line = context.file.line_of(called.range().start());
    (!cached).then(|| format!("in `{}`, which a loop calls (line {line})", function.name))
}

/// Whether the compiled function is kept by a key, so that the loop makes each once.
fn kept(context: &SourceContext<'_>, id: NodeId) -> bool {
    let statement = context.index.statement_of(id);
    let assigned = match statement {
        Some(AnyNodeRef::StmtAssign(assign)) => assign
            .targets
            .iter()
            .any(|target| matches!(target, Expr::Subscript(_) | Expr::Attribute(_))),
        Some(AnyNodeRef::StmtReturn(_)) => false,
        _ => false,
    };
    let guarded = context
        .index
        .ancestors(id)
        .take_while(|(_, node)| !matches!(node.node, AnyNodeRef::StmtFunctionDef(_)))
        .any(|(_, node)| match node.node {
            AnyNodeRef::StmtIf(choice) => {
                let test = context.text(&*choice.test);
                test.contains("not in") || test.contains("is None")
            }
            _ => false,
        });
    assigned || guarded
}

#[cfg(test)]
mod tests {
    use super::JitInLoop;
    use crate::rules::source::recompilation::found;

    #[test]
    fn new_functions_in_loops_are_found() {
        for body in [
            "    y = jax.jit(lambda a: a * 2)(y)\n",
            "    y = jax.jit(jax.grad(f))(y)\n",
            "    def g(a):\n        return a * i\n    y = jax.jit(g)(y)\n",
            "    y = jax.jit(functools.partial(f, 2))(y)\n",
        ] {
            let text = format!(
                "import jax, functools\ndef f(a):\n    return a\ny = 1\nfor i in range(9):\n{body}"
            );
            assert_eq!(found(&JitInLoop, &text).len(), 1, "{body}");
        }
        let text = "import jax\ndef alloc(shape):\n    return jax.jit(lambda: jax.numpy.zeros(shape))()\nfor layer in layers:\n    alloc((2, 2))\n";
        assert_eq!(found(&JitInLoop, text).len(), 1);
    }

    #[test]
    fn functions_made_once_are_left_alone() {
        let text = "import jax\nf = jax.jit(lambda a: a)\nfor i in range(9):\n    y = f(y)\n    g[i] = jax.jit(lambda a: a)\n    h = jax.jit(f)\n";
        assert!(found(&JitInLoop, text).is_empty());
        let text =
            "import jax\ndef init(model):\n    return jax.jit(lambda: model.init(0))()\ninit(m)\n";
        assert!(found(&JitInLoop, text).is_empty());
    }
}
