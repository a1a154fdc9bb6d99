//! TS306: a causal mask that is built and passed, where `is_causal=True` says the same.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Exhibit, Fix, Numerics, Remark, Severity};
use crate::python::rewrite::Rewrite;
use crate::python::{Ranged as _, SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::keyword;
use crate::rules::source::operations::code::{Code, with_places};
use ast::{Expr, ExprCall};

/// Names are followed this deep.
const MAX_DEPTH: usize = 8;

/// The rule.
#[derive(Debug)]
pub struct ExplicitCausalMask;

impl Rule for ExplicitCausalMask {
    fn code(&self) -> &'static str {
        "TS306"
    }

    fn name(&self) -> &'static str {
        "explicit-causal-mask"
    }

    fn card(&self) -> &'static str {
        include_str!("explicit_causal_mask.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let text = &context.file.text;
        if !text.contains("scaled_dot_product_attention")
            || !(text.contains("tril") || text.contains("triu"))
        {
            return Vec::new();
        }
        let Some(code) = Code::new(context).filter(|code| !code.is_torch_xla()) else {
            return Vec::new();
        };
        let mut rewrite = Rewrite::new(context, context.bindings);
        let mut places = Vec::new();
        let mut square = true;
        for (_, call, name) in code.named_calls() {
            if name != "torch.nn.functional.scaled_dot_product_attention" {
                continue;
            }
            let positional = call.arguments.args.get(3);
            let Some(mask) = positional.or_else(|| keyword(call, "attn_mask")) else {
                continue;
            };
            let Some(made) = triangle(&code, mask, 0) else {
                continue;
            };
            places.push(code.place(call, "a causal mask as a tensor"));
            places.push(code.place(made.call, "made here"));
            square &= made.square;
            let range = call
                .arguments
                .keywords
                .iter()
                .find(|keyword| keyword.value.range() == mask.range())
                .map_or(mask.range(), keyword_range);
            rewrite.replace(range, "is_causal=True");
        }
        if places.is_empty() {
            return Vec::new();
        }
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            Severity::Medium,
            "a causal mask is built and passed to scaled_dot_product_attention: the kernel reads it, and computes what it masks",
        );
        with_places(&mut remark, places);
        remark.evidence.push(Exhibit::text(
            "torch_tpu 0.2.0",
            "the mask stays an operand of the kernel; for 2048 tokens it is 126 MB of traffic a call, none with is_causal",
            "programs of torch_tpu 0.2.0 compiled for v6e both ways",
        ));
        remark.advice =
            vec!["Pass `is_causal=True` and no mask: what is masked is not computed.".to_owned()];
        remark.caveats.push("`is_causal` counts from the upper left corner: with fewer queries than keys (a cache) a mask from the lower right is another one.".to_owned());
        let (edits, _) = rewrite.finish();
        remark.fix = Some(Fix {
            title: "say is_causal".to_owned(),
            applicability: if square {
                Applicability::Safe
            } else {
                Applicability::Unsafe
            },
            numerics: Numerics::WithinTolerance,
            edits,
        });
        vec![remark]
    }
}

fn keyword_range(keyword: &ast::Keyword) -> crate::python::TextRange {
    keyword.range
}

/// A lower triangle that is made.
#[derive(Clone, Copy)]
struct Triangle<'a> {
    call: &'a ExprCall,
    /// As many rows as columns, certainly.
    square: bool,
}

/// The lower triangle of truth values that an expression is.
fn triangle<'a>(code: &Code<'_, 'a>, expression: &'a Expr, depth: usize) -> Option<Triangle<'a>> {
    if depth > MAX_DEPTH {
        return None;
    }
    let value = match expression {
        Expr::Name(_) => code.bindings.value(expression, code.context.index),
        other => other,
    };
    match value {
        Expr::Call(call) => {
            let arguments = &call.arguments.args;
            match (code.name(&call.func).as_deref(), &*call.func) {
                (Some("torch.tril"), _) => (arguments.len() == 1
                    && keyword(call, "diagonal").is_none())
                .then(|| ones(code, arguments.first()?, call, true))
                .flatten(),
                (Some(_), _) => None,
                (None, Expr::Attribute(method)) => match method.attr.as_str() {
                    "tril" if arguments.is_empty() => ones(code, &method.value, call, true),
                    "to" | "bool" | "unsqueeze" | "view" | "cuda" => {
                        triangle(code, &method.value, depth + 1)
                    }
                    _ => None,
                },
                _ => None,
            }
        }
        // `~torch.triu(torch.ones(...), diagonal=1)`.
        Expr::UnaryOp(it) if it.op == ast::UnaryOp::Invert => {
            let inner = code.bindings.value(&it.operand, code.context.index);
            let mut inner = inner;
            while let Expr::Call(call) = inner
                && let Expr::Attribute(method) = &*call.func
                && matches!(method.attr.as_str(), "to" | "bool")
            {
                inner = &method.value;
            }
            let Expr::Call(call) = inner else { return None };
            let one = |e: Option<&Expr>| matches!(e, Some(Expr::NumberLiteral(it)) if it.value.as_int().is_some_and(|int| int.as_i64() == Some(1)));
            let arguments = &call.arguments.args;
            let upper = code.name(&call.func).as_deref() == Some("torch.triu")
                && one(arguments.get(1).or_else(|| keyword(call, "diagonal")));
            upper
                .then(|| ones(code, arguments.first()?, call, false))
                .flatten()
        }
        _ => None,
    }
}

/// A matrix of ones, as truth values where it is not negated later.
fn ones<'a>(
    code: &Code<'_, 'a>,
    expression: &'a Expr,
    whole: &'a ExprCall,
    lower: bool,
) -> Option<Triangle<'a>> {
    let Expr::Call(call) = code.bindings.value(expression, code.context.index) else {
        return None;
    };
    if code.name(&call.func).as_deref() != Some("torch.ones") {
        return None;
    }
    let dtype = keyword(call, "dtype").and_then(|dtype| code.name(dtype));
    // A mask of floats is added: ones and zeros mask nothing. Its `.bool()` is not followed here.
    let outer = code
        .context
        .index
        .id_of(whole)
        .and_then(|id| code.context.index.get(id)?.parent)
        .and_then(|id| code.context.index.get(id)?.parent)
        .and_then(|id| code.context.index.get(id));
    let made_bool = outer.is_some_and(|node| {
        code.context.text(node.node).ends_with(".bool()")
            || code.context.text(node.node).contains("torch.bool")
    });
    if dtype.as_deref() != Some("torch.bool") && lower && !made_bool {
        return None;
    }
    let sizes: Vec<&str> = call
        .arguments
        .args
        .iter()
        .map(|size| code.context.text(size))
        .collect();
    let square = match sizes.as_slice() {
        [rows, columns] => rows == columns,
        [all] => {
            let inner = all.trim_matches(['(', ')', '[', ']']);
            inner
                .split_once(',')
                .is_some_and(|(rows, columns)| rows.trim() == columns.trim())
        }
        _ => false,
    };
    Some(Triangle {
        call: whole,
        square,
    })
}
