//! A constraint asks for a sharding that its operand's cannot be turned into step by step.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, ExprCall, StmtFunctionDef};
use crate::python::{NodeId, Ranged as _, SourceContext};
use crate::rule::Rule;

/// Mesh axes by dimension of a tensor.
type Spec = Vec<Vec<String>>;

/// See the card.
#[derive(Debug)]
pub struct ConflictingSpecs;

impl Rule for ConflictingSpecs {
    fn code(&self) -> &'static str {
        "TS701"
    }

    fn name(&self) -> &'static str {
        "conflicting-sharding-specs"
    }

    fn card(&self) -> &'static str {
        include_str!("conflicting_specs.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if context.runs_once() || !context.names.imports("jax") {
            return Vec::new();
        }
        context
            .calls_of(|name| matches!(name, "jax.jit" | "jax.pjit" | "jax.experimental.pjit.pjit"))
            .flat_map(|(id, call, _)| in_function(context, id, call))
            .collect()
    }
}

/// The constraints in a jitted function, against the shardings of its arguments.
fn in_function(context: &SourceContext<'_>, id: NodeId, call: &ExprCall) -> Vec<Remark> {
    let given = || -> Option<(&StmtFunctionDef, &Expr)> {
        let Expr::Name(name) = call.arguments.args.first()? else {
            return None;
        };
        let function = context
            .index
            .nodes()
            .find_map(|(_, node)| match node.node {
                AnyNodeRef::StmtFunctionDef(function)
                    if function.name.as_str() == name.id.as_str() =>
                {
                    Some(function)
                }
                _ => None,
            })?;
        let shardings = &call.arguments.find_keyword("in_shardings")?.value;
        Some((function, shardings))
    };
    let Some((function, shardings)) = given() else {
        return Vec::new();
    };
    let parts: Vec<&Expr> = match shardings {
        Expr::Tuple(tuple) => tuple.elts.iter().collect(),
        Expr::List(list) => list.elts.iter().collect(),
        _ => return Vec::new(),
    };
    // Parameters, and what elementwise operations make of them.
    let mut specs: BTreeMap<&str, Spec> = BTreeMap::new();
    for (parameter, sharding) in function.parameters.args.iter().zip(parts) {
        if let Some(spec) = spec(context, id, sharding, 0) {
            specs.insert(parameter.name().as_str(), spec);
        }
    }
    let mut remarks = Vec::new();
    for statement in &function.body {
        let crate::python::ast::Stmt::Assign(assign) = statement else {
            continue;
        };
        let [Expr::Name(target)] = assign.targets.as_slice() else {
            continue;
        };
        if let Expr::Call(constraint) = &*assign.value
            && context
                .qualified(&constraint.func)
                .is_some_and(|name| name.ends_with("with_sharding_constraint"))
            && let [operand, sharding, ..] = &*constraint.arguments.args
        {
            let from = of(&specs, operand);
            let to = spec(context, id, sharding, 0);
            if let (Some(from), Some(to)) = (from, &to)
                && conflict(from, to)
            {
                remarks.push(remark(context, constraint, call, from, to));
            }
            match to {
                Some(to) => specs.insert(target.id.as_str(), to),
                None => specs.remove(target.id.as_str()),
            };
            continue;
        }
        match of(&specs, &assign.value).cloned() {
            Some(spec) => specs.insert(target.id.as_str(), spec),
            None => specs.remove(target.id.as_str()),
        };
    }
    remarks
}

/// The sharding of an expression: of a name, or of names of one sharding in an elementwise operation.
fn of<'s>(specs: &'s BTreeMap<&str, Spec>, expression: &Expr) -> Option<&'s Spec> {
    match expression {
        Expr::Name(name) => specs.get(name.id.as_str()),
        Expr::BinOp(op) if !matches!(op.op, crate::python::ast::Operator::MatMult) => {
            match (&*op.left, &*op.right) {
                (one, Expr::NumberLiteral(_)) | (Expr::NumberLiteral(_), one) => {
                    of_name(specs, one)
                }
                (left, right) => {
                    let left = of_name(specs, left)?;
                    (Some(left) == of_name(specs, right)).then_some(left)
                }
            }
        }
        _ => None,
    }
}

fn of_name<'s>(specs: &'s BTreeMap<&str, Spec>, expression: &Expr) -> Option<&'s Spec> {
    match expression {
        Expr::Name(name) => specs.get(name.id.as_str()),
        _ => None,
    }
}

/// The axes of `NamedSharding(mesh, PartitionSpec(…))`, of a `PartitionSpec`, or of a name for one.
fn spec(context: &SourceContext<'_>, at: NodeId, sharding: &Expr, depth: u32) -> Option<Spec> {
    if depth > 4 {
        return None;
    }
    match sharding {
        Expr::Name(name) => {
            let assigned = context.assigned(at, name.id.as_str());
            match assigned.as_slice() {
                [only] => spec(context, at, only, depth + 1),
                _ => None,
            }
        }
        Expr::Call(call) => {
            let name = context.qualified(&call.func)?;
            if name.ends_with(".NamedSharding") {
                return spec(
                    context,
                    at,
                    call.arguments.find_argument_value("spec", 1)?,
                    depth + 1,
                );
            }
            if !name.ends_with(".PartitionSpec") && !name.ends_with("sharding.P") {
                return None;
            }
            call.arguments
                .args
                .iter()
                .map(|dimension| match dimension {
                    Expr::NoneLiteral(_) => Some(Vec::new()),
                    Expr::StringLiteral(axis) => Some(vec![axis.value.to_str().to_owned()]),
                    Expr::Tuple(axes) => axes
                        .elts
                        .iter()
                        .map(|axis| match axis {
                            Expr::StringLiteral(axis) => Some(axis.value.to_str().to_owned()),
                            _ => None,
                        })
                        .collect(),
                    _ => None,
                })
                .collect()
        }
        _ => None,
    }
}

/// Whether several axes change their dimension and end (or begin) on one dimension together. One
/// axis that moves is an all-to-all; axes that only disappear are an all-gather.
fn conflict(from: &Spec, to: &Spec) -> bool {
    let place = |spec: &Spec, axis: &str| {
        spec.iter()
            .position(|axes| axes.iter().any(|own| own == axis))
    };
    let moved: Vec<(usize, usize)> = from
        .iter()
        .flatten()
        .filter_map(|axis| {
            let (before, after) = (place(from, axis)?, place(to, axis)?);
            (before != after).then_some((before, after))
        })
        .collect();
    let [first, rest @ ..] = moved.as_slice() else {
        return false;
    };
    rest.iter().any(|next| {
        (next.1 == first.1 && next.0 != first.0) || (next.0 == first.0 && next.1 != first.1)
    })
}

fn shown(spec: &Spec) -> String {
    let dimensions: Vec<String> = spec
        .iter()
        .map(|axes| match axes.as_slice() {
            [] => "None".to_owned(),
            [axis] => format!("'{axis}'"),
            several => {
                let names: Vec<String> = several.iter().map(|axis| format!("'{axis}'")).collect();
                format!("({})", names.join(", "))
            }
        })
        .collect();
    format!("P({})", dimensions.join(", "))
}

fn remark(
    context: &SourceContext<'_>,
    constraint: &ExprCall,
    jit: &ExprCall,
    from: &Spec,
    to: &Spec,
) -> Remark {
    let (from, to) = (shown(from), shown(to));
    let mut remark = Remark::new(
        AdviceKind::Resharding,
        Severity::High,
        format!(
            "a constraint turns {from} into {to}: several mesh axes change their dimension at once, which the partitioner does by replicating the whole tensor on each device"
        ),
    );
    remark
        .places
        .push(context.place(constraint.range(), format!("to {to}")));
    remark
        .places
        .push(context.place(jit.range(), format!("arguments arrive as {from}")));
    remark.evidence.push(Exhibit::text(
        "shardings",
        format!("{from} to {to}"),
        "PartitionSpec in this file",
    ));
    remark.advice.push(format!("give the arguments the sharding {to} from the start, or keep {from} here: one of the two is not needed"));
    remark.advice.push("or go in two steps, one mesh axis at a time, with a constraint between them: each is then an all-to-all".to_owned());
    remark
}

#[cfg(test)]
mod tests {
    use super::ConflictingSpecs;
    use crate::rules::source::recompilation::found;

    fn program(from: &str, to: &str) -> String {
        format!(
            "import jax\nfrom jax.sharding import PartitionSpec as P, NamedSharding\ns = NamedSharding(mesh, {from})\nt = NamedSharding(mesh, {to})\ndef f(a, b):\n    d = a + b\n    d = jax.lax.with_sharding_constraint(d, t)\n    return d\ng = jax.jit(f, in_shardings=(s, s), out_shardings=t)\n"
        )
    }

    #[test]
    fn two_axes_that_move_together_conflict() {
        let text = program("P('y', None, 'x')", "P(None, ('x', 'y'), None)");
        let findings = found(&ConflictingSpecs, &text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].places[0].line, 7);
    }

    #[test]
    fn one_axis_may_move_or_vanish() {
        for (from, to) in [
            ("P('x', None)", "P(None, 'x')"),
            ("P('x', 'y')", "P(None, None)"),
            ("P('x', 'y')", "P('x', 'y')"),
            ("P('x', None)", "P('x', 'y')"),
        ] {
            assert!(
                found(&ConflictingSpecs, &program(from, to)).is_empty(),
                "{from} {to}"
            );
        }
    }
}
