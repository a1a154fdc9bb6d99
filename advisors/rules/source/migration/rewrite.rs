//! Pieces of new text: device strings, arguments taken out of calls.

use crate::python::ast::{ArgOrKeyword, Expr, ExprCall};
use crate::python::{Ranged as _, TextRange};

use crate::finding::Edit;
use crate::python::SourceContext;

/// What stands for the TPU in place of an expression that names a GPU: `"cuda"`, `'cuda:0'`,
/// `f"cuda:{rank}"`, `"cuda:" + str(rank)`. The quotes are kept. A process of TorchTPU has one
/// device, so that an index is dropped.
pub(crate) fn tpu_for(context: &SourceContext<'_>, device: &Expr) -> Option<String> {
    let named = match device {
        Expr::StringLiteral(literal) => {
            let value = literal.value.to_str();
            let index = value.strip_prefix("cuda:");
            value == "cuda" || index.is_some_and(|index| index.parse::<u32>().is_ok())
        }
        Expr::FString(_) => {
            let text = context.text(device).trim_start_matches(['f', 'F']);
            text.trim_start_matches(['"', '\'']).starts_with("cuda:")
        }
        Expr::BinOp(sum) => {
            let left = sum.left.as_string_literal_expr();
            left.is_some_and(|left| left.value.to_str() == "cuda:")
        }
        _ => false,
    };
    let quote = if context.text(device).contains('"') {
        '"'
    } else {
        '\''
    };
    named.then(|| format!("{quote}tpu{quote}"))
}

/// Whether an expression names the CPU.
pub(crate) fn is_cpu(context: &SourceContext<'_>, device: &Expr) -> bool {
    let text = context.text(device).replace('\'', "\"");
    matches!(text.as_str(), "\"cpu\"" | "torch.device(\"cpu\")")
}

/// Edits that take several arguments out of a call. Neighbours would overlap one another, so they
/// are taken out as runs.
pub(crate) fn without_arguments(
    context: &SourceContext<'_>,
    call: &ExprCall,
    names: &[&str],
) -> Vec<Edit> {
    let mut all: Vec<(TextRange, bool)> = call
        .arguments
        .iter_source_order()
        .map(|argument| match argument {
            ArgOrKeyword::Arg(value) => (value.range(), false),
            ArgOrKeyword::Keyword(keyword) => {
                let name = keyword.arg.as_ref().map(|name| name.as_str());
                let goes = name.is_some_and(|name| names.contains(&name));
                (keyword.range(), goes)
            }
        })
        .collect();
    all.sort_by_key(|(range, _)| range.start());
    if all.iter().all(|(_, goes)| *goes) {
        let Some((first, _)) = all.first() else {
            return Vec::new();
        };
        let inside = TextRange::new(
            first.start(),
            call.arguments.end() - crate::python::TextSize::from(1),
        );
        return vec![context.edit(inside, "")];
    }
    let mut edits = Vec::new();
    let mut kept: Option<TextRange> = None;
    let mut leading: Option<TextRange> = None;
    for (range, goes) in all {
        match (goes, kept) {
            (true, Some(before)) => {
                edits.push(context.edit(TextRange::new(before.end(), range.end()), ""));
                // The next one goes from where this one ended.
                kept = Some(TextRange::empty(range.end()));
            }
            (true, None) => leading = leading.or(Some(range)),
            (false, _) => {
                if let Some(first) = leading.take() {
                    edits.push(context.edit(TextRange::new(first.start(), range.start()), ""));
                }
                kept = Some(range);
            }
        }
    }
    edits
}
