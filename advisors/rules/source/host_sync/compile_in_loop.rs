//! A program is lowered and compiled by hand in every turn of a loop.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::Expr;
use crate::python::{Ranged as _, SourceContext, Value};
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct CompileInLoop;

impl Rule for CompileInLoop {
    fn code(&self) -> &'static str {
        "TS208"
    }

    fn name(&self) -> &'static str {
        "lower-and-compile-in-loop"
    }

    fn card(&self) -> &'static str {
        include_str!("compile_in_loop.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if context.runs_once() || !context.names.imports("jax") {
            return Vec::new();
        }
        context
            .calls()
            .filter_map(|(id, call)| {
                let Expr::Attribute(compile) = &*call.func else {
                    return None;
                };
                let Expr::Call(lowered) = &*compile.value else {
                    return None;
                };
                let Expr::Attribute(lower) = &*lowered.func else {
                    return None;
                };
                if compile.attr.as_str() != "compile" || lower.attr.as_str() != "lower" {
                    return None;
                }
                // `"TEXT".lower()` and patterns have other arguments.
                if lowered.arguments.is_empty() && context.value(&lower.value) == Value::Host {
                    return None;
                }
                let heat = context.heat(id)?;
                let mut remark = Remark::new(
                    AdviceKind::HostDispatch,
                    Severity::High,
                    "`.lower(…).compile()` in every step: the host traces, lowers and looks up the program each time",
                );
                remark
                    .places
                    .push(context.place(call.range(), "once is enough"));
                remark.evidence.push(Exhibit::text(
                    "why it counts",
                    heat.why.clone(),
                    "loops, calls and classes of this file",
                ));
                remark.advice.push(
                    "compile before the loop, keep the compiled object, and call that".to_owned(),
                );
                Some(remark)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::CompileInLoop;
    use crate::rules::source::recompilation::found;

    #[test]
    fn compiling_in_the_loop_is_found_and_before_it_is_not() {
        let text = "import jax\nstep = jax.jit(f)\nfast = step.lower(state, batch).compile()\nfor batch in batches:\n    run = step.lower(state, batch).compile()\n    state = step(state, batch)\n";
        let findings = found(&CompileInLoop, text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].places[0].line, 5);
    }
}
