//! Python values that differ from turn to turn of a loop.

use ruff_python_ast::{AnyNodeRef, Expr};

use crate::python::SourceContext;
use crate::python::index::NodeId;
use crate::python::scopes::{Binding, Source};
use crate::python::value::Value;

/// How far a value is followed back.
const MAX_DEPTH: u32 = 6;

impl<'a> SourceContext<'a> {
    /// The innermost `for` or `while` statement around a node, within its function.
    #[must_use]
    pub fn loop_around(&self, id: NodeId) -> Option<NodeId> {
        self.index
            .ancestors(id)
            .take_while(|(_, node)| {
                !matches!(
                    node.node,
                    AnyNodeRef::StmtFunctionDef(_)
                        | AnyNodeRef::ExprLambda(_)
                        | AnyNodeRef::StmtClassDef(_)
                )
            })
            .find(|(_, node)| {
                matches!(node.node, AnyNodeRef::StmtFor(_) | AnyNodeRef::StmtWhile(_))
            })
            .map(|(id, _)| id)
    }

    /// The name by which a Python value, not a tensor, differs from turn to turn of a loop around
    /// the expression, or from call to call of the function around it; none where it does not, as
    /// far as can be seen.
    #[must_use]
    pub fn varies(&self, expression: &'a Expr) -> Option<&'a str> {
        self.varies_at(expression, 0)
    }

    fn varies_at(&self, expression: &'a Expr, depth: u32) -> Option<&'a str> {
        if depth > MAX_DEPTH {
            return None;
        }
        let next = |part: &'a Expr| self.varies_at(part, depth + 1);
        match expression {
            Expr::Name(name) => {
                if self.tensors.tensor(expression).is_some() {
                    return None;
                }
                let id = self.index.id_of_expr(expression)?;
                let scope = self.index.get(id)?.function;
                let bindings = self.scopes.bindings(scope, name.id.as_str())?;
                bindings
                    .iter()
                    .take(16)
                    .any(|binding| self.binding_varies(id, name.id.as_str(), binding, depth))
                    .then_some(name.id.as_str())
            }
            Expr::BinOp(op) => next(&op.left).or_else(|| next(&op.right)),
            Expr::UnaryOp(op) => next(&op.operand),
            Expr::If(choice) => next(&choice.test)
                .or_else(|| next(&choice.body))
                .or_else(|| next(&choice.orelse)),
            Expr::Compare(compare) => {
                next(&compare.left).or_else(|| compare.comparators.iter().find_map(next))
            }
            Expr::Call(call) => match &*call.func {
                Expr::Name(name)
                    if matches!(
                        name.id.as_str(),
                        "int" | "float" | "max" | "min" | "abs" | "round"
                    ) =>
                {
                    call.arguments.args.iter().find_map(next)
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn binding_varies(&self, at: NodeId, name: &str, binding: &'a Binding<'a>, depth: u32) -> bool {
        let node = self.index.get(binding.node).map(|node| node.node);
        let in_loop = self.loop_around(binding.node);
        let shares_loop = |from: Option<NodeId>| {
            from.is_some_and(|from| self.index.ancestors(at).any(|(id, _)| id == from))
        };
        match (&binding.source, node) {
            (Source::Assigned { value, .. }, Some(AnyNodeRef::StmtFor(each))) => {
                let host = match &*each.iter {
                    Expr::Call(call) => match &*call.func {
                        Expr::Name(func) => {
                            func.id.as_str() == "range"
                                || (func.id.as_str() == "enumerate" && is_first(&each.target, name))
                        }
                        _ => false,
                    },
                    _ => matches!(self.tensors.value(value), Value::Host),
                };
                host && shares_loop(Some(binding.node))
            }
            (Source::Augmented(assign), _) => {
                shares_loop(in_loop)
                    && matches!(
                        self.tensors.value(&assign.value),
                        Value::Host | Value::Literal
                    )
            }
            (Source::Assigned { value, path }, _) => {
                path.is_empty()
                    && shares_loop(in_loop)
                    && self.varies_at(value, depth + 1).is_some()
            }
            (Source::Parameter { .. }, _) => self.passed_varies(binding.node, name, depth),
            _ => false,
        }
    }

    /// Whether calls in loops of this file pass something that varies for a parameter.
    fn passed_varies(&self, parameter: NodeId, name: &str, depth: u32) -> bool {
        let Some(function) = self.index.get(parameter).and_then(|node| node.function) else {
            return false;
        };
        let Some(AnyNodeRef::StmtFunctionDef(def)) = self.index.get(function).map(|n| n.node)
        else {
            return false;
        };
        let skip = usize::from(self.scopes.class_of_method(function).is_some());
        let position = def
            .parameters
            .posonlyargs
            .iter()
            .chain(&def.parameters.args)
            .position(|parameter| parameter.name().as_str() == name)
            .and_then(|position| position.checked_sub(skip));
        self.scopes.calls_of(function).iter().take(8).any(|call| {
            call.arguments
                .find_argument_value(name, position.unwrap_or(usize::MAX))
                .is_some_and(|argument| self.varies_at(argument, depth + 1).is_some())
        })
    }
}

/// Whether the first target of a loop is that name.
fn is_first(target: &Expr, name: &str) -> bool {
    match target {
        Expr::Tuple(tuple) => {
            matches!(tuple.elts.first(), Some(Expr::Name(first)) if first.id.as_str() == name)
        }
        _ => false,
    }
}
