//! Rules on shapes and values that make the program be compiled again.

pub mod changing_scalars;
pub mod changing_statics;
pub mod compile_options;
pub mod dynamic_section;
pub mod growing_cache;
pub mod host_random;
pub mod jit_in_loop;
pub mod missing_mark_step;
pub mod no_compilation_cache;
pub mod partial_batch;
pub mod runtime_slices;
pub mod short_buffer;
pub mod unpadded_batches;
pub mod weak_types;

use crate::python::ast::{AnyNodeRef, Expr, ExprCall};
use crate::python::{NodeId, SourceContext, TextSize};

/// Whether a loader is one for training: it shuffles, or is called so.
pub(super) fn trains(context: &SourceContext<'_>, id: NodeId, call: &ExprCall) -> bool {
    let shuffles = call
        .arguments
        .find_argument_value("shuffle", 2)
        .is_some_and(|shuffle| {
            !matches!(shuffle, Expr::BooleanLiteral(no) if !no.value)
                && !shuffle.is_none_literal_expr()
        });
    let named = match context.index.statement_of(id) {
        Some(AnyNodeRef::StmtAssign(assign)) => assign
            .targets
            .iter()
            .any(|target| context.text(target).to_ascii_lowercase().contains("train")),
        _ => false,
    };
    let data = call
        .arguments
        .args
        .first()
        .is_some_and(|data| context.text(data).to_ascii_lowercase().contains("train"));
    shuffles || named || data
}

/// Where a keyword argument can be added to a call, and what must stand before it.
pub(super) fn end_of_arguments(
    context: &SourceContext<'_>,
    call: &ExprCall,
) -> Option<(TextSize, &'static str)> {
    let last = call
        .arguments
        .args
        .iter()
        .map(crate::python::Ranged::end)
        .chain(
            call.arguments
                .keywords
                .iter()
                .map(crate::python::Ranged::end),
        )
        .max();
    match last {
        Some(last) => Some((last, ", ")),
        None => {
            // Behind the opening bracket.
            let start = call.arguments.range.start();
            let text = context.text(call.arguments.range);
            text.starts_with('(')
                .then(|| (start + TextSize::new(1), ""))
        }
    }
}

/// Whether a keyword argument is there and is not `None` or `False`.
pub(super) fn is_set(call: &ExprCall, name: &str) -> bool {
    call.arguments.find_keyword(name).is_some_and(|keyword| {
        !keyword.value.is_none_literal_expr()
            && !matches!(&keyword.value, Expr::BooleanLiteral(no) if !no.value)
    })
}

/// Whether a call passes `**kwargs`, so that what it passes is not known.
pub(super) fn passes_more(call: &ExprCall) -> bool {
    call.arguments
        .keywords
        .iter()
        .any(|keyword| keyword.arg.is_none())
}

/// The last part of a name or an attribute.
pub(super) fn last_word(expression: &Expr) -> &str {
    match expression {
        Expr::Name(name) => name.id.as_str(),
        Expr::Attribute(attribute) => attribute.attr.as_str(),
        _ => "",
    }
}

/// What one rule finds in a text.
#[cfg(test)]
pub(crate) fn found(rule: &dyn crate::Rule, text: &str) -> Vec<crate::finding::Finding> {
    let files = vec![("train.py".to_owned(), text.as_bytes().to_vec())];
    let checked = crate::python::check(&crate::python::Project::default(), files, &[rule]);
    assert!(checked.notes.is_empty(), "{:?}", checked.notes);
    checked.findings
}
