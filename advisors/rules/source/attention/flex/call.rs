//! Calls of FlexAttention, and where their block masks are made.

use crate::python::bindings::Bound;
use crate::python::{NodeId, Ranged as _, TextRange, ast};
use crate::rules::source::attention::flex::function::{Scope, self_value};
use ast::{AnyNodeRef, Expr, ExprCall};

const FLEX: &str = "torch.nn.attention.flex_attention.flex_attention";
const CREATE: &str = "torch.nn.attention.flex_attention.create_block_mask";
/// Names and wrappers are followed this deep.
const MAX_DEPTH: usize = 4;

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Argument<'a> {
    /// Its place among the parameters of the function; none for what is not known.
    pub(crate) parameter: Option<usize>,
    /// The whole of it, with its keyword.
    pub(crate) range: TextRange,
    /// Its value.
    pub(crate) value: &'a Expr,
}

/// The arguments of a call in source order; none where some are passed on with stars.
pub(crate) fn arguments<'a>(call: &'a ExprCall, parameters: &[&str]) -> Option<Vec<Argument<'a>>> {
    let mut out = Vec::new();
    for (at, value) in call.arguments.args.iter().enumerate() {
        if value.is_starred_expr() {
            return None;
        }
        out.push(Argument {
            parameter: (at < parameters.len()).then_some(at),
            range: value.range(),
            value,
        });
    }
    for keyword in &call.arguments.keywords {
        let name = keyword.arg.as_ref()?.as_str();
        out.push(Argument {
            parameter: parameters.iter().position(|known| *known == name),
            range: keyword.range,
            value: &keyword.value,
        });
    }
    out.sort_by_key(|argument| argument.range.start());
    Some(out)
}

/// The value of a parameter among arguments.
pub(crate) fn value<'a>(arguments: &[Argument<'a>], parameter: usize) -> Option<&'a Expr> {
    arguments
        .iter()
        .find(|argument| argument.parameter == Some(parameter))
        .map(|argument| argument.value)
}

/// Calls of `flex_attention`, of names for it, and of what `torch.compile` makes of it.
pub(crate) fn calls<'a>(scope: Scope<'_, 'a>) -> Vec<(NodeId, &'a ExprCall)> {
    scope
        .context
        .calls()
        .filter(|(_, call)| is_flex(scope, &call.func, 0))
        .collect()
}

fn is_flex<'a>(scope: Scope<'_, 'a>, expression: &'a Expr, depth: usize) -> bool {
    let context = scope.context;
    if depth > MAX_DEPTH {
        return false;
    }
    if context.qualified(expression).as_deref() == Some(FLEX) {
        return true;
    }
    match expression {
        Expr::Name(name) => {
            let bound = scope.bindings.only(name, context.index).map(|b| b.what);
            matches!(bound, Some(Bound::Assigned(assign)) if is_flex(scope, &assign.value, depth + 1))
        }
        Expr::Attribute(attribute) if matches!(&*attribute.value, Expr::Name(own) if own.id == "self") =>
        {
            let class = context
                .index
                .id_of(attribute)
                .and_then(|id| context.index.class_of(id));
            class
                .and_then(|class| self_value(scope, class, attribute.attr.as_str()))
                .is_some_and(|value| is_flex(scope, value, depth + 1))
        }
        Expr::Call(call) => {
            context.qualified(&call.func).as_deref() == Some("torch.compile")
                && call
                    .arguments
                    .args
                    .first()
                    .is_some_and(|inner| is_flex(scope, inner, depth + 1))
        }
        _ => false,
    }
}

/// What holds a block mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder<'a> {
    /// Nothing: it is made in the call.
    Inline,
    /// A name, by the node that binds it.
    Name(NodeId),
    /// An attribute of `self`.
    Attribute(&'a str),
}

/// A call of `create_block_mask`, and what holds its result.
#[derive(Clone, Debug)]
pub(crate) struct Creation<'a> {
    pub(crate) call: &'a ExprCall,
    pub(crate) id: NodeId,
    pub(crate) arguments: Vec<Argument<'a>>,
    pub(crate) holder: Holder<'a>,
}

const PARAMETERS: &[&str] = &["mask_mod", "B", "H", "Q_LEN", "KV_LEN", "device"];

/// Where a block mask is made, or why that is not known.
pub(crate) fn creation<'a>(scope: Scope<'_, 'a>, mask: &'a Expr) -> Result<Creation<'a>, String> {
    let context = scope.context;
    let text = context.text(mask);
    let (made, holder) = match mask {
        Expr::Call(call) => (call, Holder::Inline),
        Expr::Name(name) => match scope.bindings.only(name, context.index) {
            Some(binding) => match binding.what {
                Bound::Assigned(assign) => match &*assign.value {
                    Expr::Call(call) => (call, Holder::Name(binding.id)),
                    _ => return Err(format!("`{text}` is not made by create_block_mask")),
                },
                Bound::Parameter => {
                    return Err(format!(
                        "the block mask `{text}` is a parameter: what it masks is decided where it is made"
                    ));
                }
                _ => return Err(format!("where `{text}` is made is not to be seen here")),
            },
            None => return Err(format!("`{text}` is not assigned exactly once")),
        },
        Expr::Attribute(attribute) => {
            let class = context
                .index
                .id_of(attribute)
                .and_then(|id| context.index.class_of(id));
            let made = class
                .filter(|_| matches!(&*attribute.value, Expr::Name(own) if own.id == "self"))
                .and_then(|class| self_value(scope, class, attribute.attr.as_str()));
            match made {
                Some(Expr::Call(call)) => (call, Holder::Attribute(attribute.attr.as_str())),
                _ => {
                    return Err(format!(
                        "`{text}` is not made by create_block_mask, once, in its class"
                    ));
                }
            }
        }
        _ => return Err("where the block mask is made is not to be seen here".to_owned()),
    };
    if !is_create(scope, &made.func, 0) {
        return Err(format!(
            "`{}` is not create_block_mask",
            context.text(&*made.func)
        ));
    }
    let arguments = arguments(made, PARAMETERS)
        .ok_or_else(|| "the arguments of create_block_mask are passed on with stars".to_owned())?;
    let id = context
        .index
        .id_of(made)
        .ok_or_else(|| "the block mask cannot be found".to_owned())?;
    Ok(Creation {
        call: made,
        id,
        arguments,
        holder,
    })
}

fn is_create<'a>(scope: Scope<'_, 'a>, expression: &'a Expr, depth: usize) -> bool {
    let context = scope.context;
    if context.qualified(expression).as_deref() == Some(CREATE) {
        return true;
    }
    if depth > MAX_DEPTH {
        return false;
    }
    match expression {
        Expr::Name(name) => {
            let bound = scope.bindings.only(name, context.index).map(|b| b.what);
            matches!(bound, Some(Bound::Assigned(assign)) if is_create(scope, &assign.value, depth + 1))
        }
        Expr::Call(call) => {
            context.qualified(&call.func).as_deref() == Some("torch.compile")
                && call
                    .arguments
                    .args
                    .first()
                    .is_some_and(|inner| is_create(scope, inner, depth + 1))
        }
        _ => false,
    }
}

/// Uses of what holds a block mask that are not among the given ranges.
pub(crate) fn other_uses(
    scope: Scope<'_, '_>,
    holder: Holder<'_>,
    known: &[TextRange],
) -> Option<TextRange> {
    let index = scope.context.index;
    index.nodes().find_map(|(id, node)| {
        let range = match (holder, node.node) {
            (Holder::Name(binding), AnyNodeRef::ExprName(name)) => {
                let seen = scope.bindings.visible(name.id.as_str(), id, index);
                (!name.ctx.is_store() && seen.iter().any(|b| b.id == binding)).then_some(name.range)
            }
            (Holder::Attribute(own), AnyNodeRef::ExprAttribute(it)) => {
                (it.attr.as_str() == own && !it.ctx.is_store()).then_some(it.range)
            }
            _ => None,
        }?;
        (!known.contains(&range)).then_some(range)
    })
}
