//! The state that a step carries begins as Python numbers, and comes back as arrays.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Fix, Numerics, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, Number};
use crate::python::{Framework, NodeId, Ranged as _, SourceContext, Value};
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct WeakTypes;

impl Rule for WeakTypes {
    fn code(&self) -> &'static str {
        "TS106"
    }

    fn name(&self) -> &'static str {
        "weakly-typed-state"
    }

    fn card(&self) -> &'static str {
        include_str!("weak_types.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if context.runs_once() || !context.names.imports("jax") {
            return Vec::new();
        }
        context
            .index
            .nodes()
            .filter_map(|(id, node)| match node.node {
                AnyNodeRef::StmtAssign(assign) => {
                    let Expr::Call(call) = &*assign.value else {
                        return None;
                    };
                    context.loop_around(id)?;
                    let compiled = context.value(&call.func) == Value::Compiled(Framework::Jax);
                    let carried = call.arguments.args.iter().find_map(|argument| {
                        let Expr::Name(name) = argument else {
                            return None;
                        };
                        let name = name.id.as_str();
                        let comes_back = assign.targets.iter().any(|target| binds(target, name));
                        comes_back.then_some(name)
                    });
                    let name = carried.filter(|_| compiled)?;
                    remark(context, id, name)
                }
                _ => None,
            })
            .collect()
    }
}

/// Whether a target binds a name.
fn binds(target: &Expr, name: &str) -> bool {
    match target {
        Expr::Name(own) => own.id.as_str() == name,
        Expr::Tuple(tuple) => tuple
            .elts
            .iter()
            .any(|part| matches!(part, Expr::Name(own) if own.id.as_str() == name)),
        _ => false,
    }
}

fn remark(context: &SourceContext<'_>, id: NodeId, name: &str) -> Option<Remark> {
    let literal = context.assigned(id, name).into_iter().find_map(number_in)?;
    let mut remark = Remark::new(
        AdviceKind::Recompilation,
        Severity::Medium,
        format!(
            "`{name}` begins with the Python number `{}` and comes back as an array: the step is compiled twice",
            context.text(literal)
        ),
    );
    remark.places.push(context.place(
        literal.range(),
        "weakly typed in the first call, not in the second",
    ));
    if let Some(node) = context.index.get(id) {
        remark.places.push(context.place(
            node.node.range(),
            "the state comes back with a type of its own",
        ));
    }
    remark.advice.push(
        "give it its type from the start: `jnp.asarray(0, jnp.int32)`, `np.float32(lr)`".to_owned(),
    );
    let jnp = context
        .names
        .imported()
        .find(|(_, full)| *full == "jax.numpy")
        .map(|(name, _)| name);
    if let (Some(jnp), Expr::NumberLiteral(number)) = (jnp, literal) {
        let dtype = match &number.value {
            Number::Int(_) => "int32",
            _ => "float32",
        };
        let text = context.text(literal);
        remark.fix = Some(Fix {
            title: "a number with a type".to_owned(),
            applicability: Applicability::Unsafe,
            numerics: Numerics::WithinTolerance,
            edits: vec![context.edit(
                literal.range(),
                format!("{jnp}.asarray({text}, {jnp}.{dtype})"),
            )],
        });
    }
    Some(remark)
}

/// A number that is written out in what a state starts from.
fn number_in(value: &Expr) -> Option<&Expr> {
    match value {
        Expr::NumberLiteral(_) => Some(value),
        Expr::Tuple(tuple) => tuple.elts.iter().find(|part| part.is_number_literal_expr()),
        Expr::List(list) => list.elts.iter().find(|part| part.is_number_literal_expr()),
        Expr::Dict(dict) => dict
            .items
            .iter()
            .map(|item| &item.value)
            .find(|part| part.is_number_literal_expr()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::WeakTypes;
    use crate::rules::source::recompilation::found;

    #[test]
    fn a_state_that_begins_as_a_number_is_found() {
        let text = "import jax\nimport jax.numpy as jnp\n@jax.jit\ndef step(state, x):\n    return (state[0] + x, state[1] + 1), x\nstate = (jnp.zeros(3), 0)\nfor x in xs:\n    state, y = step(state, x)\n";
        let findings = found(&WeakTypes, text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].places[0].line, 6);
        let fix = findings[0].fix.as_ref().expect("a fix");
        assert_eq!(fix.edits[0].replacement, "jnp.asarray(0, jnp.int32)");
        let typed = text.replace("jnp.zeros(3), 0", "jnp.zeros(3), jnp.int32(0)");
        assert!(found(&WeakTypes, &typed).is_empty());
    }
}
