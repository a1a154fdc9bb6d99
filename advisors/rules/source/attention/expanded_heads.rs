//! TS305: keys and values repeated for each query head before attention.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Fix, Numerics, Remark, Severity};
use crate::python::rewrite::Rewrite;
use crate::python::{Ranged as _, SourceContext, TextRange, ast};
use crate::rule::Rule;
use crate::rules::source::keyword;
use crate::rules::source::operations::code::{Code, with_places};
use ast::{AnyNodeRef, Expr, ExprCall};

/// The rule.
#[derive(Debug)]
pub struct ExpandedHeads;

impl Rule for ExpandedHeads {
    fn code(&self) -> &'static str {
        "TS305"
    }

    fn name(&self) -> &'static str {
        "expanded-heads"
    }

    fn card(&self) -> &'static str {
        include_str!("expanded_heads.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !context.file.text.contains("scaled_dot_product_attention") {
            return Vec::new();
        }
        let Some(code) = Code::new(context).filter(|code| !code.is_torch_xla()) else {
            return Vec::new();
        };
        let mut rewrite = Rewrite::new(context, context.bindings);
        let mut places = Vec::new();
        let mut fixed = true;
        for (_, call, name) in code.named_calls() {
            if name != "torch.nn.functional.scaled_dot_product_attention"
                || keyword(call, "enable_gqa").is_some()
            {
                continue;
            }
            let argument =
                |at: usize, name: &str| call.arguments.args.get(at).or_else(|| keyword(call, name));
            let (Some(key), Some(value)) = (argument(1, "key"), argument(2, "value")) else {
                continue;
            };
            let (Some(keys), Some(values)) = (expansion(&code, key), expansion(&code, value))
            else {
                continue;
            };
            places.push(code.place(call, "keys and values for each query head"));
            places.push(code.place(keys.call, "keys repeated here"));
            if keys.exact
                && values.exact
                && only_here(&code, key, keys.call)
                && only_here(&code, value, values.call)
            {
                unexpand(&code, &mut rewrite, key, &keys);
                unexpand(&code, &mut rewrite, value, &values);
                let last = call
                    .arguments
                    .iter_source_order()
                    .last()
                    .map(|it| it.range());
                if let Some(last) = last {
                    rewrite.insert(last.end(), ", enable_gqa=True");
                }
            } else {
                fixed = false;
            }
        }
        if places.is_empty() {
            return Vec::new();
        }
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            Severity::Medium,
            "keys and values are repeated for each query head before scaled_dot_product_attention, which takes them as they are",
        );
        with_places(&mut remark, places);
        remark.advice = vec!["Pass keys and values unexpanded, with `enable_gqa=True`: they are stored and read once for each group of query heads.".to_owned()];
        if fixed {
            let (edits, _) = rewrite.finish();
            remark.fix = Some(Fix {
                title: "pass unexpanded heads".to_owned(),
                applicability: Applicability::Safe,
                numerics: Numerics::WithinTolerance,
                edits,
            });
        }
        vec![remark]
    }
}

/// A call that repeats heads.
#[derive(Clone, Copy)]
struct Expansion<'a> {
    call: &'a ExprCall,
    /// What it repeats.
    inner: &'a Expr,
    /// It certainly repeats whole heads of [batch, heads, length, width].
    exact: bool,
}

/// The expansion that an expression is the result of.
fn expansion<'a>(code: &Code<'_, 'a>, expression: &'a Expr) -> Option<Expansion<'a>> {
    let Expr::Call(call) = code.latest(expression) else {
        return None;
    };
    let arguments = &call.arguments.args;
    match (code.name(&call.func), &*call.func) {
        (Some(name), _) if name == "torch.repeat_interleave" => Some(Expansion {
            call,
            inner: arguments.first()?,
            exact: axis(arguments.get(2).or_else(|| keyword(call, "dim"))),
        }),
        (None, Expr::Attribute(method)) if method.attr.as_str() == "repeat_interleave" => {
            Some(Expansion {
                call,
                inner: &method.value,
                exact: axis(arguments.get(1).or_else(|| keyword(call, "dim"))),
            })
        }
        (name, Expr::Name(own))
            if own.id == "repeat_kv"
                || name
                    .as_deref()
                    .is_some_and(|name| name.ends_with(".repeat_kv")) =>
        {
            Some(Expansion {
                call,
                inner: arguments.first()?,
                exact: arguments.len() == 2,
            })
        }
        _ => None,
    }
}

/// Passes what was repeated: under its own name where it has one, else in the place of the call.
fn unexpand<'a>(
    code: &Code<'_, 'a>,
    rewrite: &mut Rewrite<'_, 'a>,
    argument: &'a Expr,
    expansion: &Expansion<'a>,
) {
    let index = code.context.index;
    let text = code.context.text(expansion.inner);
    let statement = index
        .id_of(expansion.call)
        .and_then(|id| index.get(id)?.parent)
        .filter(|id| {
            matches!(index.get(*id).map(|node| node.node), Some(AnyNodeRef::StmtAssign(assign))
                if assign.targets.len() == 1 && assign.targets.iter().all(Expr::is_name_expr))
        });
    match (argument, statement) {
        (Expr::Name(_), Some(statement)) if is_kept(code, expansion, argument) => {
            rewrite.delete(statement);
            rewrite.replace(argument.range(), text);
        }
        _ => rewrite.replace(expansion.call.range(), text),
    }
}

/// Whether what is repeated is a name that still means the same at the call of attention.
fn is_kept<'a>(code: &Code<'_, 'a>, expansion: &Expansion<'a>, argument: &'a Expr) -> bool {
    let Expr::Name(inner) = expansion.inner else {
        return false;
    };
    let index = code.context.index;
    let Some(id) = index.id_of(inner) else {
        return false;
    };
    let between = TextRange::new(expansion.call.range().end(), argument.range().start());
    code.bindings
        .visible(inner.id.as_str(), id, index)
        .iter()
        .all(|binding| {
            index
                .get(binding.id)
                .is_some_and(|node| !between.contains_range(node.node.range()))
        })
}

/// Whether an axis is that of heads.
fn axis(argument: Option<&Expr>) -> bool {
    match argument {
        Some(Expr::NumberLiteral(it)) => {
            it.value.as_int().is_some_and(|int| int.as_i64() == Some(1))
        }
        Some(Expr::UnaryOp(it)) => {
            it.op == ast::UnaryOp::USub
                && matches!(&*it.operand, Expr::NumberLiteral(it) if it.value.as_int().is_some_and(|int| int.as_i64() == Some(3)))
        }
        _ => false,
    }
}

/// Whether what is repeated is used by the call of attention alone.
fn only_here<'a>(code: &Code<'_, 'a>, argument: &'a Expr, made: &'a ExprCall) -> bool {
    let Expr::Name(name) = argument else {
        return true;
    };
    let index = code.context.index;
    let Some(id) = index.id_of(name) else {
        return false;
    };
    let Some(scope) = index.get(id).and_then(|node| node.function) else {
        return false;
    };
    let after = |range: TextRange| range.start() > made.range().end() && range != name.range;
    let others = code.within(scope).any(|(_, node)| {
        matches!(node, AnyNodeRef::ExprName(other) if other.id == name.id && other.ctx.is_load() && after(other.range))
    });
    // In a loop or a branch the order of the text is not the order of running.
    let made_in = index
        .id_of(made)
        .and_then(|id| index.statement_of(id))
        .map(|statement| statement.range());
    let plain = index.function_of(id).is_some_and(|function| {
        function
            .body
            .iter()
            .any(|statement| Some(statement.range()) == made_in)
    });
    !others && plain
}
