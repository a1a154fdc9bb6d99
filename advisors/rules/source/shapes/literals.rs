//! Sizes that stand as numbers in Python: arguments, defaults, constants, dictionaries.

use crate::python::ast::{AnyNodeRef, Expr, Number, Operator};
use crate::python::{Ranged, TextRange};

use super::{Found, is_test, role_of};
use crate::python::{NodeId, SourceContext};

/// Operators within each other that a number is computed through.
const MAX_DEPTH: usize = 8;

/// The sizes of a file, in source order. Tests and configuration classes of a library have none:
/// their sizes are no run's.
pub(crate) fn found(context: &SourceContext<'_>) -> Vec<Found> {
    if is_test(&context.file.path) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut add = |name: &str, value: &Expr, range: TextRange| {
        if let (Some(role), Some(size)) = (role_of(name), number(value, 0)) {
            found.push(Found {
                role,
                name: name.to_owned(),
                size,
                place: context.place(range, ""),
            });
        }
    };
    for (id, node) in context.index.nodes() {
        let holds_sizes = matches!(
            node.node,
            AnyNodeRef::Keyword(_)
                | AnyNodeRef::StmtAssign(_)
                | AnyNodeRef::StmtAnnAssign(_)
                | AnyNodeRef::ParameterWithDefault(_)
                | AnyNodeRef::ExprDict(_)
                | AnyNodeRef::ExprCall(_)
        );
        if !holds_sizes || is_defaults(context, id) {
            continue;
        }
        match node.node {
            AnyNodeRef::Keyword(keyword) => {
                if let Some(name) = &keyword.arg
                    && is_constructor(context, id)
                {
                    add(name.as_str(), &keyword.value, keyword.range());
                }
            }
            AnyNodeRef::StmtAssign(assign) => {
                if let [Expr::Name(name)] = assign.targets.as_slice() {
                    add(name.id.as_str(), &assign.value, assign.range());
                }
            }
            AnyNodeRef::StmtAnnAssign(assign) => {
                if let (Expr::Name(name), Some(value)) = (&*assign.target, &assign.value) {
                    add(name.id.as_str(), value, assign.range());
                }
            }
            AnyNodeRef::ParameterWithDefault(parameter) => {
                if let Some(value) = &parameter.default {
                    add(parameter.parameter.name.as_str(), value, parameter.range());
                }
            }
            AnyNodeRef::ExprDict(dict) => {
                for item in &dict.items {
                    if let Some(Expr::StringLiteral(name)) = &item.key {
                        let range = TextRange::new(name.start(), item.value.end());
                        add(name.value.to_str(), &item.value, range);
                    }
                }
            }
            AnyNodeRef::ExprCall(call) => {
                let function = context.qualified(&call.func).unwrap_or_default();
                let arguments = &call.arguments.args;
                let layer = function.strip_prefix("torch.nn.").unwrap_or_default();
                if matches!(layer, "Embedding" | "EmbeddingBag")
                    && let [rows, width, ..] = &**arguments
                {
                    add("num_embeddings", rows, rows.range());
                    add("embedding_dim", width, width.range());
                }
                if is_add_argument(&call.func)
                    && let Some(Expr::StringLiteral(flag)) = arguments.last()
                    && let Some(default) = call.arguments.find_keyword("default")
                {
                    let name = flag.value.to_str().trim_start_matches('-').to_owned();
                    add(&name, &default.value, default.range());
                }
            }
            _ => {}
        }
    }
    found
}

/// Layers that multiply with a matrix of two literal sizes.
pub(crate) struct Matrix {
    /// Inputs and outputs.
    pub sizes: [u64; 2],
    /// Where.
    pub range: TextRange,
}

/// The `nn.Linear` calls of a file whose sizes are both numbers.
pub(crate) fn matrices(context: &SourceContext<'_>) -> Vec<Matrix> {
    if is_test(&context.file.path) {
        return Vec::new();
    }
    context
        .calls_of(|name| name == "torch.nn.Linear")
        .filter_map(|(_, call, _)| {
            let argument = |at: usize, name: &str| {
                let named = call.arguments.find_keyword(name).map(|found| &found.value);
                number(call.arguments.args.get(at).or(named)?, 0)
            };
            Some(Matrix {
                sizes: [argument(0, "in_features")?, argument(1, "out_features")?],
                range: call.range(),
            })
        })
        .collect()
}

/// Whether a keyword argument is of something that is made: a class, a `dict`, or a loader.
fn is_constructor(context: &SourceContext<'_>, keyword: NodeId) -> bool {
    let call = context
        .index
        .ancestors(keyword)
        .find_map(|(_, node)| match node.node {
            AnyNodeRef::ExprCall(call) => Some(call),
            _ => None,
        });
    let Some(call) = call else { return false };
    let name = match &*call.func {
        Expr::Name(name) => name.id.as_str(),
        Expr::Attribute(attribute) => attribute.attr.as_str(),
        _ => return false,
    };
    name == "dict" || name.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Whether a node stands in a configuration class of a library: its defaults describe a published
/// checkpoint, not a run.
fn is_defaults(context: &SourceContext<'_>, id: NodeId) -> bool {
    context.index.class_of(id).is_some_and(|class| {
        let bases = class.arguments.as_ref().map(|arguments| &arguments.args);
        bases.into_iter().flatten().any(|base| {
            let name = match base {
                Expr::Name(name) => name.id.as_str(),
                Expr::Attribute(attribute) => attribute.attr.as_str(),
                _ => "",
            };
            name.ends_with("Config")
        })
    })
}

fn is_add_argument(function: &Expr) -> bool {
    matches!(function, Expr::Attribute(attribute) if attribute.attr.as_str() == "add_argument")
}

/// A whole number, written out or computed from such.
fn number(expression: &Expr, depth: usize) -> Option<u64> {
    if depth > MAX_DEPTH {
        return None;
    }
    match expression {
        Expr::NumberLiteral(literal) => match &literal.value {
            Number::Int(int) => int.as_u64(),
            _ => None,
        },
        Expr::BinOp(operation) => {
            let left = number(&operation.left, depth + 1)?;
            let right = number(&operation.right, depth + 1)?;
            match operation.op {
                Operator::Add => left.checked_add(right),
                Operator::Sub => left.checked_sub(right),
                Operator::Mult => left.checked_mul(right),
                Operator::FloorDiv => left.checked_div(right),
                Operator::Pow => left.checked_pow(u32::try_from(right).ok()?),
                Operator::LShift => left.checked_shl(u32::try_from(right).ok()?),
                _ => None,
            }
        }
        // `field(default=1023)` of a dataclass.
        Expr::Call(call) => {
            let is_field = matches!(&*call.func, Expr::Name(name) if name.id.as_str() == "field");
            let default = call
                .arguments
                .find_keyword("default")
                .filter(|_| is_field)?;
            number(&default.value, depth + 1)
        }
        _ => None,
    }
}
