//! What a `score_mod` does to a score: nothing, a factor, a bias, or what attention cannot express.

use crate::python::ast;
use crate::rules::source::attention::flex::function::{self, Function, Scope, short};
use crate::rules::source::attention::flex::mask::number;
use ast::{AnyNodeRef, CmpOp, Expr, Operator};

/// Position of the score, the query and the key among the parameters.
const SCORE: usize = 0;
const QUERY: usize = 3;
const KEY: usize = 4;
/// Expressions are followed this deep.
const MAX_DEPTH: usize = 16;

/// What a score_mod does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Score {
    /// Nothing.
    Identity,
    /// The score times this.
    Scale(String),
    /// The score plus something; minus infinity masks.
    Additive,
    /// The score where `q >= kv`, minus infinity elsewhere.
    Causal,
}

/// What a score_mod does, or why attention cannot express it.
pub(crate) fn of<'a>(
    scope: Scope<'_, 'a>,
    function: &Function<'a>,
    name: &str,
) -> Result<Score, String> {
    if function.is(function.value, SCORE) {
        return Ok(Score::Identity);
    }
    if let Some(factor) = factor(scope, function) {
        return Ok(Score::Scale(factor));
    }
    if is_causal(scope, function) {
        return Ok(Score::Causal);
    }
    if additive(scope, function, function.value, 0) {
        return match function.not_elementwise(scope) {
            None => Ok(Score::Additive),
            Some(reason) => Err(format!(
                "the bias of `{name}` cannot be computed for all positions at once: {reason}"
            )),
        };
    }
    if caps(scope, function) {
        return Err(format!(
            "`{name}` caps scores with tanh, which no argument of scaled_dot_product_attention expresses"
        ));
    }
    Err(format!(
        "`{name}` is neither a factor nor a bias: `{}`",
        short(scope.context.text(function.value))
    ))
}

fn depends<'a>(scope: Scope<'_, 'a>, function: &Function<'a>, expression: &'a Expr) -> bool {
    function
        .uses(scope, expression)
        .first()
        .copied()
        .unwrap_or(true)
}

/// The score once, with a factor of one, plus what does not depend on it.
fn additive<'a>(
    scope: Scope<'_, 'a>,
    function: &Function<'a>,
    expression: &'a Expr,
    depth: usize,
) -> bool {
    let expression = function.look(expression);
    if depth > MAX_DEPTH {
        return false;
    }
    if function.is(expression, SCORE) {
        return true;
    }
    let inner = |expression: &'a Expr| additive(scope, function, expression, depth + 1);
    let free = |expression: &'a Expr| !depends(scope, function, expression);
    match expression {
        Expr::BinOp(it) if it.op == Operator::Add => {
            (inner(&it.left) && free(&it.right)) || (free(&it.left) && inner(&it.right))
        }
        Expr::BinOp(it) if it.op == Operator::Sub => inner(&it.left) && free(&it.right),
        Expr::Call(call)
            if scope.context.qualified(&call.func).as_deref() == Some("torch.where") =>
        {
            let [condition, yes, no] = &*call.arguments.args else {
                return false;
            };
            free(condition)
                && ((inner(yes) && (inner(no) || is_minus_infinity(scope, no)))
                    || (is_minus_infinity(scope, yes) && inner(no)))
        }
        _ => false,
    }
}

/// Whether a score_mod sets scores to minus infinity.
pub(crate) fn masks<'a>(scope: Scope<'_, 'a>, score_mod: &'a Expr) -> bool {
    function::resolve(scope, score_mod, 5, 0)
        .is_ok_and(|function| scope.context.text(function.value).contains("inf"))
}

fn is_minus_infinity(scope: Scope<'_, '_>, expression: &Expr) -> bool {
    let text: String = scope.context.text(expression).split_whitespace().collect();
    matches!(
        text.as_str(),
        "-float(\"inf\")"
            | "-float('inf')"
            | "float(\"-inf\")"
            | "float('-inf')"
            | "-math.inf"
            | "-torch.inf"
            | "-np.inf"
            | "-inf"
    )
}

/// `torch.where(q >= kv, score, -inf)`.
fn is_causal<'a>(scope: Scope<'_, 'a>, function: &Function<'a>) -> bool {
    let Expr::Call(call) = function.look(function.value) else {
        return false;
    };
    let [condition, yes, no] = &*call.arguments.args else {
        return false;
    };
    let Expr::Compare(compare) = function.look(condition) else {
        return false;
    };
    let ([op], [right]) = (&*compare.ops, &*compare.comparators) else {
        return false;
    };
    let sides = match op {
        CmpOp::GtE => (&*compare.left, right),
        CmpOp::LtE => (right, &*compare.left),
        _ => return false,
    };
    scope.context.qualified(&call.func).as_deref() == Some("torch.where")
        && function.is(yes, SCORE)
        && is_minus_infinity(scope, no)
        && function.is(sides.0, QUERY)
        && function.is(sides.1, KEY)
}

/// The number that the score is multiplied with, as text.
fn factor<'a>(scope: Scope<'_, 'a>, function: &Function<'a>) -> Option<String> {
    let Expr::BinOp(it) = function.look(function.value) else {
        return None;
    };
    let (other, inverse) = match it.op {
        Operator::Mult if function.is(&it.left, SCORE) => (&*it.right, false),
        Operator::Mult if function.is(&it.right, SCORE) => (&*it.left, false),
        Operator::Div if function.is(&it.left, SCORE) => (&*it.right, true),
        _ => return None,
    };
    let value = scope.bindings.value(other, scope.context.index);
    number(value)?;
    let global = matches!(other, Expr::Name(name)
        if scope.bindings.only(name, scope.context.index).is_some_and(|b| b.scope.is_none()));
    let text = scope.context.text(if global { other } else { value });
    Some(if inverse {
        format!("1 / {text}")
    } else {
        text.to_owned()
    })
}

fn caps<'a>(scope: Scope<'_, 'a>, function: &Function<'a>) -> bool {
    let index = scope.context.index;
    let Some(id) = index.id_of_expr(function.value) else {
        return false;
    };
    let own = index.get(id).into_iter().map(|node| node.node);
    own.chain(index.descendants(id).map(|(_, node)| node.node))
        .any(|node| match node {
            AnyNodeRef::ExprCall(call) => {
                let text = scope.context.text(&*call.func);
                text.rsplit('.')
                    .next()
                    .is_some_and(|name| name.contains("tanh"))
            }
            AnyNodeRef::ExprName(name) => name.id.contains("tanh"),
            _ => false,
        })
}
