//! A buffer is shorter than the largest bucket that is cut from it.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, ExprCall};
use crate::python::{Ranged as _, SourceContext};
use crate::rule::Rule;
use crate::rules::source::recompilation::last_word;

/// See the card.
#[derive(Debug)]
pub struct ShortBuffer;

impl Rule for ShortBuffer {
    fn code(&self) -> &'static str {
        "TS110"
    }

    fn name(&self) -> &'static str {
        "buffer-shorter-than-bucket"
    }

    fn card(&self) -> &'static str {
        include_str!("short_buffer.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if context.runs_once() {
            return Vec::new();
        }
        // What each name or attribute is assigned, by its text.
        let mut assigned: BTreeMap<&str, &Expr> = BTreeMap::new();
        for (_, node) in context.index.nodes() {
            if let AnyNodeRef::StmtAssign(assign) = node.node {
                for target in &assign.targets {
                    if matches!(target, Expr::Name(_) | Expr::Attribute(_)) {
                        assigned
                            .entry(context.text(target))
                            .or_insert(&assign.value);
                    }
                }
            }
        }
        let mut seen = Vec::new();
        let mut remarks = Vec::new();
        for (_, node) in context.index.nodes() {
            let AnyNodeRef::ExprSubscript(subscript) = node.node else {
                continue;
            };
            let Expr::Slice(slice) = &*subscript.slice else {
                continue;
            };
            let (None, Some(upper)) = (&slice.lower, &slice.upper) else {
                continue;
            };
            let buffer = context.text(&*subscript.value);
            let (Some(Expr::Call(made)), Some(Expr::Call(padded))) = (
                assigned.get(buffer).copied(),
                assigned.get(context.text(&**upper)).copied(),
            ) else {
                continue;
            };
            if seen.contains(&buffer) || !pads(context, padded) {
                continue;
            }
            let Some(length) = length(context, made) else {
                continue;
            };
            // A length that comes from the buckets is long enough.
            let origin = assigned
                .get(context.text(length))
                .map_or("", |value| context.text(*value));
            let text = context.text(length);
            if says_bucket(text) || says_bucket(origin) || !text.contains("max") {
                continue;
            }
            seen.push(buffer);
            let upper_text = context.text(&**upper);
            let mut remark = Remark::new(
                AdviceKind::Recompilation,
                Severity::Medium,
                format!(
                    "`{buffer}` is `{text}` long, but is cut to the padded length `{upper_text}`: where the largest bucket is longer, Python cuts it short in silence, to a shape that was never compiled"
                ),
            );
            remark.places.push(context.place(
                subscript.range(),
                "shorter than asked for, without an error",
            ));
            remark
                .places
                .push(context.place(made.range(), "its length is not a bucket"));
            remark.evidence.push(Exhibit::text(
                "lengths",
                format!("`{text}` against `{upper_text} = {}`", context.text(padded)),
                "assignments in this file",
            ));
            remark.advice.push(format!("make the buffer as long as the largest bucket: `max(buckets)` or `buckets[-1]` instead of `{text}`"));
            remark
                .advice
                .push("or make the largest bucket equal to the limit".to_owned());
            remarks.push(remark);
        }
        remarks
    }
}

/// The length of a new host array of one dimension or more.
fn length<'a>(context: &SourceContext<'a>, made: &'a ExprCall) -> Option<&'a Expr> {
    let name = context.qualified(&made.func)?;
    let creates = matches!(
        name.as_str(),
        "torch.zeros" | "torch.empty" | "torch.ones" | "numpy.zeros" | "numpy.empty" | "numpy.ones"
    );
    let first = made.arguments.args.first().filter(|_| creates)?;
    match first {
        Expr::Tuple(tuple) => tuple.elts.first(),
        Expr::List(list) => list.elts.first(),
        other => Some(other),
    }
}

/// Whether a call rounds a length up to a bucket.
fn pads(context: &SourceContext<'_>, call: &ExprCall) -> bool {
    let name = last_word(&call.func);
    (name.contains("pad") || name.contains("bucket"))
        && call
            .arguments
            .args
            .iter()
            .any(|argument| says_bucket(context.text(argument)))
}

fn says_bucket(text: &str) -> bool {
    text.contains("padding") || text.contains("bucket") || text.contains("padded")
}

#[cfg(test)]
mod tests {
    use super::ShortBuffer;
    use crate::rules::source::recompilation::found;

    #[test]
    fn a_buffer_of_the_limit_cut_to_a_bucket_is_found() {
        let text = "import torch\nclass R:\n    def __init__(self, c):\n        self.max_tokens = c.max_tokens\n        self.buckets = make(c)\n        self.ids = torch.zeros(self.max_tokens, dtype=torch.int32)\n        self.ok = torch.zeros(self.buckets[-1])\n    def run(self, n):\n        padded = pad_to_bucket(n, self.buckets)\n        a = self.ids[:padded]\n        b = self.ok[:padded]\n        c = self.ids[:n]\n";
        let findings = found(&ShortBuffer, text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].places[0].line, 10);
        assert_eq!(findings[0].places[1].line, 6);
    }
}
