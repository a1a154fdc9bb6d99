//! Attention written out: softmax of a product, times a third tensor.

use crate::python::{NodeId, Ranged as _, TextRange, ast};
use crate::rules::source::operations::code::Code;
use ast::{AnyNodeRef, Expr, ExprCall, Operator};

/// Names and operations are followed this deep.
const MAX_DEPTH: usize = 16;

/// Attention written out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByHand<'a> {
    /// The product of weights and values.
    pub(crate) id: NodeId,
    /// Its place.
    pub(crate) range: TextRange,
    /// Queries and keys, as they are multiplied; none where that is an einsum.
    pub(crate) query_key: Option<(&'a Expr, &'a Expr)>,
    /// The values; none where they are in an einsum.
    pub(crate) value: Option<&'a Expr>,
    /// Weights are dropped at random.
    pub(crate) dropout: bool,
    /// It is JAX.
    pub(crate) jax: bool,
}

/// All attentions of a file that are written out.
pub(crate) fn find<'a>(code: &Code<'_, 'a>) -> Vec<ByHand<'a>> {
    let mut out = Vec::new();
    for (id, node) in code.context.index.nodes() {
        let (operands, einsum) = match node.node {
            AnyNodeRef::ExprBinOp(it) if it.op == Operator::MatMult => {
                (vec![&*it.left, &*it.right], false)
            }
            AnyNodeRef::ExprCall(call) => match product(code, call) {
                Some(found) => found,
                None => continue,
            },
            _ => continue,
        };
        for (at, operand) in operands.iter().enumerate() {
            // Weights come first, but for an einsum.
            if at > 0 && !einsum {
                break;
            }
            let mut dropout = false;
            let Some((input, jax)) = softmax(code, operand, &mut dropout, 0) else {
                continue;
            };
            let Some(query_key) = scores(code, input, 0) else {
                continue;
            };
            out.push(ByHand {
                id,
                range: node.node.range(),
                query_key,
                value: operands.get(1).copied().filter(|_| !einsum),
                dropout,
                jax,
            });
            break;
        }
    }
    out
}

/// The operands of a call that multiplies matrices, and whether it is an einsum.
fn product<'a>(code: &Code<'_, 'a>, call: &'a ExprCall) -> Option<(Vec<&'a Expr>, bool)> {
    let arguments: Vec<&Expr> = call.arguments.args.iter().collect();
    match (code.name(&call.func), &*call.func) {
        (Some(name), _) => match name.as_str() {
            "torch.matmul" | "torch.bmm" | "jax.numpy.matmul" | "jax.numpy.dot" => {
                (arguments.len() == 2).then_some((arguments, false))
            }
            "torch.einsum" | "jax.numpy.einsum" => {
                let operands = arguments.get(1..).unwrap_or_default().to_vec();
                (operands.len() == 2).then_some((operands, true))
            }
            _ => None,
        },
        (None, Expr::Attribute(method)) if matches!(method.attr.as_str(), "matmul" | "bmm") => {
            let [right] = arguments.as_slice() else {
                return None;
            };
            Some((vec![&*method.value, right], false))
        }
        _ => None,
    }
}

/// What goes into the softmax that an expression is the result of, and whether it is JAX.
fn softmax<'a>(
    code: &Code<'_, 'a>,
    expression: &'a Expr,
    dropout: &mut bool,
    depth: usize,
) -> Option<(&'a Expr, bool)> {
    if depth > MAX_DEPTH {
        return None;
    }
    let expression = code.latest(expression);
    let Expr::Call(call) = expression else {
        return None;
    };
    let first = call.arguments.args.first();
    let name = code.name(&call.func);
    match (name.as_deref(), &*call.func) {
        (Some("torch.softmax" | "torch.nn.functional.softmax" | "torch.special.softmax"), _) => {
            Some((first?, false))
        }
        (Some("jax.nn.softmax"), _) => Some((first?, true)),
        (Some("torch.nn.functional.dropout" | "torch.dropout"), _) => {
            *dropout = true;
            softmax(code, first?, dropout, depth + 1)
        }
        (Some(_), _) => None,
        (None, Expr::Attribute(method)) => match method.attr.as_str() {
            "softmax" if matches!(&*method.value, Expr::Name(own) if own.id == "self") => {
                Some((first?, false))
            }
            "softmax" if code.is_torch() => Some((&method.value, false)),
            "to" | "type_as" | "type" | "astype" | "half" | "bfloat16" | "float" => {
                softmax(code, &method.value, dropout, depth + 1)
            }
            own if own.contains("drop") => {
                *dropout = true;
                softmax(code, first?, dropout, depth + 1)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Query and key of the scores that an expression is made of.
fn scores<'a>(
    code: &Code<'_, 'a>,
    expression: &'a Expr,
    depth: usize,
) -> Option<Option<(&'a Expr, &'a Expr)>> {
    if depth > MAX_DEPTH {
        return None;
    }
    let inner = |expression: &'a Expr| scores(code, expression, depth + 1);
    match code.latest(expression) {
        Expr::BinOp(it) => match it.op {
            Operator::MatMult => {
                is_transposed(code, &it.right).then_some(Some((&it.left, &it.right)))
            }
            Operator::Add | Operator::Sub | Operator::Mult | Operator::Div => {
                inner(&it.left).or_else(|| inner(&it.right))
            }
            _ => None,
        },
        Expr::Call(call) => {
            if let Some((operands, einsum)) = product(code, call) {
                let [query, key] = operands.as_slice() else {
                    return None;
                };
                if einsum {
                    return Some(None);
                }
                return is_transposed(code, key).then_some(Some((query, key)));
            }
            match (code.name(&call.func).as_deref(), &*call.func) {
                (Some("torch.where" | "jax.numpy.where"), _) => {
                    call.arguments.args.iter().skip(1).find_map(inner)
                }
                (Some(_), _) => None,
                (None, Expr::Attribute(method)) => match method.attr.as_str() {
                    "masked_fill" | "masked_fill_" | "to" | "float" | "astype" | "add" | "add_"
                    | "mul" | "mul_" | "div" | "div_" => inner(&method.value),
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether the last two axes of an expression are swapped.
fn is_transposed<'a>(code: &Code<'_, 'a>, expression: &'a Expr) -> bool {
    match code.latest(expression) {
        Expr::Attribute(it) => matches!(it.attr.as_str(), "mT" | "T" | "mH"),
        Expr::Call(call) => {
            let last = match &*call.func {
                Expr::Attribute(method) => method.attr.as_str(),
                _ => return false,
            };
            matches!(
                last,
                "transpose" | "permute" | "swapaxes" | "t" | "matrix_transpose"
            )
        }
        _ => false,
    }
}
