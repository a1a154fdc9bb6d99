//! The edits of plans: calls, masks, and what they leave unused.

use crate::python::bindings::Bound;
use crate::python::imports::Rewrite;
use crate::python::{NodeId, Ranged as _, TextRange, TextSize, ast};
use crate::rules::source::attention::flex::call::{self, Holder};
use crate::rules::source::attention::flex::function::Scope;
use crate::rules::source::attention::flex::plan::{
    self, GQA, KEY, MASK, Plan, QUERY, SCALE, SCORE,
};
use crate::rules::source::attention::flex::score::Score;
use ast::AnyNodeRef;

/// Names of the index tensors, and the subscripts that make them broadcast.
const INDICES: [(&str, &str); 4] = [
    ("b_idx", "[:, None, None, None]"),
    ("h_idx", "[:, None, None]"),
    ("q_idx", "[:, None]"),
    ("kv_idx", "[None, :]"),
];

/// The statement of a node, when lines can be put before it: where it starts, and its indentation.
pub(crate) fn simple_statement(scope: Scope<'_, '_>, id: NodeId) -> Option<(TextSize, String)> {
    let index = scope.context.index;
    let blocked = index
        .ancestors(id)
        .take_while(|(_, node)| !node.node.is_statement())
        .any(|(_, node)| {
            matches!(
                node.node,
                AnyNodeRef::ExprLambda(_)
                    | AnyNodeRef::ExprListComp(_)
                    | AnyNodeRef::ExprGenerator(_)
                    | AnyNodeRef::ExprSetComp(_)
                    | AnyNodeRef::ExprDictComp(_)
                    | AnyNodeRef::ExprIf(_)
                    | AnyNodeRef::ExprBoolOp(_)
            )
        });
    let statement = index.statement_of(id)?;
    let simple = matches!(
        statement,
        AnyNodeRef::StmtAssign(_)
            | AnyNodeRef::StmtAnnAssign(_)
            | AnyNodeRef::StmtReturn(_)
            | AnyNodeRef::StmtExpr(_)
            | AnyNodeRef::StmtAugAssign(_)
    );
    let start = statement.range().start();
    let file = scope.context.file;
    let line = file.line_range(file.line_of(start));
    let before = file.text.get(line.start().to_usize()..start.to_usize())?;
    (simple && !blocked && before.trim().is_empty()).then(|| (start, before.to_owned()))
}

/// Index tensors: named by lines before a statement where that is possible, else written out.
struct Indices {
    texts: [String; 4],
    lines: Vec<String>,
}

fn indices(
    scope: Scope<'_, '_>,
    at: NodeId,
    sizes: [Option<String>; 4],
    device: &str,
    torch: &str,
    named: bool,
) -> Indices {
    let mut out = Indices {
        texts: std::array::from_fn(|_| "0".to_owned()),
        lines: Vec::new(),
    };
    for (((name, subscript), size), text) in INDICES.into_iter().zip(sizes).zip(&mut out.texts) {
        let Some(size) = size else { continue };
        let value = format!("{torch}({size}, device={device}){subscript}");
        let free = scope
            .bindings
            .visible(name, at, scope.context.index)
            .is_empty();
        if named && free {
            out.lines.push(format!("{name} = {value}"));
            name.clone_into(text);
        } else {
            *text = value;
        }
    }
    out
}

/// Puts lines before a statement.
fn lines_before(rewrite: &mut Rewrite<'_, '_>, start: TextSize, indent: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(line);
        text.push('\n');
        text.push_str(indent);
    }
    rewrite.insert(start, text);
}

/// Makes the edits of one call.
pub(crate) fn call<'a>(
    scope: Scope<'_, 'a>,
    plan: &Plan<'a>,
    rewrite: &mut Rewrite<'_, 'a>,
) -> Option<()> {
    let context = scope.context;
    let callee = rewrite.functional("scaled_dot_product_attention");
    let query = call::value(&plan.arguments, QUERY)?;
    let mut mask = None;
    if let Some((_, made)) = plan.dense() {
        let text = dense_mask(scope, plan, rewrite)?;
        match made.holder {
            Holder::Inline => mask = Some(text),
            _ => {
                rewrite.replace(made.call.range(), text);
                let held = call::value(&plan.arguments, MASK)?;
                mask = Some(context.text(held).to_owned());
            }
        }
    }
    let mut news: Vec<String> = Vec::new();
    if plan.score == Some(Score::Additive) {
        news.push(format!(
            "attn_mask={}",
            bias(scope, plan, rewrite, mask.as_deref())?
        ));
    } else if plan.is_causal() {
        news.push("is_causal=True".to_owned());
    } else if let Some(mask) = mask {
        news.push(format!("attn_mask={mask}"));
    }
    let given_scale =
        call::value(&plan.arguments, SCALE).filter(|value| !value.is_none_literal_expr());
    let factor = match &plan.score {
        Some(Score::Scale(factor)) => Some(match given_scale {
            Some(scale) if scale.is_number_literal_expr() || scale.is_name_expr() => {
                format!("scale={factor} * {}", context.text(scale))
            }
            Some(scale) => format!("scale={factor} * ({})", context.text(scale)),
            None => {
                let query = context.text(query);
                let query = if query.contains(' ') {
                    format!("({query})")
                } else {
                    query.to_owned()
                };
                format!("scale={factor} * {query}.size(-1) ** -0.5")
            }
        }),
        _ => None,
    };
    if given_scale.is_none() {
        news.extend(factor.clone());
    }
    rewrite.replace(plan.call.func.range(), callee);
    let slots = plan
        .arguments
        .iter()
        .filter(|argument| matches!(argument.parameter, Some(SCORE | MASK)))
        .count();
    let mut news = news.into_iter();
    let mut left = slots;
    let mut before = TextRange::empty(plan.call.arguments.range.start());
    for argument in &plan.arguments {
        let positional = argument.range == argument.value.range();
        match argument.parameter {
            Some(SCORE | MASK) => {
                left -= 1;
                // The last place takes all that is left.
                let text: Vec<String> = if left == 0 {
                    news.by_ref().collect()
                } else {
                    news.next().into_iter().collect()
                };
                if text.is_empty() {
                    rewrite.remove_argument(argument.range, before);
                } else {
                    rewrite.replace(argument.range, text.join(", "));
                }
            }
            Some(SCALE) if given_scale.is_none() => rewrite.remove_argument(argument.range, before),
            Some(SCALE) if factor.is_some() => {
                rewrite.replace(argument.range, factor.clone().unwrap_or_default());
            }
            Some(parameter @ (SCALE | GQA)) if positional => {
                let name = plan::PARAMETERS.get(parameter).copied().unwrap_or_default();
                rewrite.insert(argument.range.start(), format!("{name}="));
            }
            Some(parameter) if parameter > GQA => rewrite.remove_argument(argument.range, before),
            _ => {}
        }
        before = argument.range;
    }
    if plan.is_causal() || plan.dense().is_none() {
        unhold(scope, plan, rewrite);
    }
    Some(())
}

/// An attribute that holds the block mask goes when this was its only use.
fn unhold<'a>(scope: Scope<'_, 'a>, plan: &Plan<'a>, rewrite: &mut Rewrite<'_, 'a>) {
    let index = scope.context.index;
    if let Some((_, made)) = &plan.mask
        && let Holder::Attribute(_) = made.holder
        && let Some(id) = index
            .ancestors(made.id)
            .find_map(|(id, node)| node.node.is_statement().then_some(id))
    {
        rewrite.delete_unused_attribute(id);
    }
    // The same for a compiled function that an attribute holds.
    if let ast::Expr::Attribute(attribute) = &*plan.call.func
        && let Some(class) = index.id_of(attribute).and_then(|id| index.class_of(id))
    {
        let name = attribute.attr.as_str();
        let statement = index.nodes().find_map(|(id, node)| match node.node {
            AnyNodeRef::StmtAssign(assign) if class.range().contains_range(assign.range) => {
                let [ast::Expr::Attribute(target)] = assign.targets.as_slice() else {
                    return None;
                };
                (target.attr.as_str() == name).then_some(id)
            }
            _ => None,
        });
        if let Some(id) = statement {
            rewrite.delete_unused_attribute(id);
        }
    }
}

/// The dense mask that stands where the block mask was made.
fn dense_mask<'a>(
    scope: Scope<'_, 'a>,
    plan: &Plan<'a>,
    rewrite: &mut Rewrite<'_, 'a>,
) -> Option<String> {
    let context = scope.context;
    let (mask, made) = plan.dense()?;
    let query = call::value(&plan.arguments, QUERY)?;
    let device = plan::device(scope, plan, query)?;
    let size = |parameter: usize| {
        call::value(&made.arguments, parameter).map(|value| context.text(value).to_owned())
    };
    let [batch, head, rows, columns] = mask.uses();
    let needed = |used: bool, parameter: usize| {
        size(parameter).filter(|size| used && !matches!(size.as_str(), "None" | "1"))
    };
    let sizes = [
        needed(batch, 1),
        needed(head, 2),
        size(3).filter(|_| rows),
        size(4).filter(|_| columns),
    ];
    let statement = simple_statement(scope, made.id);
    let arange = rewrite.torch("arange");
    let indices = indices(scope, made.id, sizes, &device, &arange, statement.is_some());
    if let Some((start, indent)) = statement {
        lines_before(rewrite, start, &indent, &indices.lines);
    }
    let texts: Vec<&str> = indices.texts.iter().map(String::as_str).collect();
    let text = mask.dense(scope, texts.try_into().ok()?);
    // What is written over several lines needs brackets where the call had them.
    Some(if text.contains('\n') {
        format!("({text})")
    } else {
        text
    })
}

/// The bias, computed on lines before the call; its name.
fn bias<'a>(
    scope: Scope<'_, 'a>,
    plan: &Plan<'a>,
    rewrite: &mut Rewrite<'_, 'a>,
    mask: Option<&str>,
) -> Option<String> {
    let context = scope.context;
    let query = context.text(call::value(&plan.arguments, QUERY)?);
    let key = context.text(call::value(&plan.arguments, KEY)?);
    let score_mod = call::value(&plan.arguments, SCORE)?;
    let function =
        crate::rules::source::attention::flex::function::resolve(scope, score_mod, 5, 0).ok()?;
    let used = function.uses(scope, function.value);
    let uses = |at: usize| used.get(at).copied().unwrap_or(true);
    let (start, indent) = simple_statement(scope, plan.id)?;
    let sizes = [
        uses(1).then(|| format!("{query}.size(0)")),
        uses(2).then(|| format!("{query}.size(1)")),
        Some(format!("{query}.size(-2)")),
        Some(format!("{key}.size(-2)")),
    ];
    let arange = rewrite.torch("arange");
    let found = indices(
        scope,
        plan.id,
        sizes,
        &format!("{query}.device"),
        &arange,
        true,
    );
    let name = ["attn_bias", "attn_mask", "score_bias"]
        .into_iter()
        .find(|name| {
            scope
                .bindings
                .visible(name, plan.id, context.index)
                .is_empty()
        })?;
    let [batch, head, rows, columns] = &found.texts;
    let called = if score_mod.is_lambda_expr() {
        let texts = ["0.0", batch, head, rows, columns];
        let body = crate::rules::source::attention::flex::mask::substitute(
            scope,
            &function,
            function.value,
            &|at| texts.get(at).copied(),
        );
        format!("({body})")
    } else {
        format!(
            "{}(0.0, {batch}, {head}, {rows}, {columns})",
            context.text(score_mod)
        )
    };
    let mut lines = found.lines;
    lines.push(format!("{name} = {called}.to({query}.dtype)"));
    let seen = match (&plan.mask, mask) {
        (Some(_), Some(mask)) => Some(mask.to_owned()),
        (Some(_), None) => Some(format!("{rows} >= {columns}")),
        (None, _) => None,
    };
    if let Some(seen) = seen {
        let choose = rewrite.torch("where");
        lines.push(format!(
            "{name} = {choose}({seen}, {name}, float(\"-inf\"))"
        ));
    }
    lines_before(rewrite, start, &indent, &lines);
    Some(name.to_owned())
}

/// Functions that a rewrite would remove although other files may import them.
pub(crate) fn is_public(scope: Scope<'_, '_>, name: &str) -> bool {
    !name.starts_with('_')
        && scope
            .bindings
            .of(name)
            .iter()
            .any(|binding| binding.scope.is_none() && matches!(binding.what, Bound::Function(_)))
}
