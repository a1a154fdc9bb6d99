//! `torch.compile(dynamic=True)`, which TorchTPU refuses.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Exhibit, Fix, Numerics, Remark, Severity};
use crate::python::ast::{Expr, ExprCall, Keyword};
use crate::python::{Ranged as _, SourceContext, TextRange};
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct CompileOptions;

impl Rule for CompileOptions {
    fn code(&self) -> &'static str {
        "TS108"
    }

    fn name(&self) -> &'static str {
        "compile-option-refused"
    }

    fn card(&self) -> &'static str {
        include_str!("compile_options.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if context.runs_once() {
            return Vec::new();
        }
        context
            .calls()
            .flat_map(|(_, call)| {
                let name = context.qualified(&call.func).unwrap_or_default();
                let partial = name == "functools.partial"
                    && call.arguments.args.first().is_some_and(|first| {
                        context.qualified(first).as_deref() == Some("torch.compile")
                    });
                if name == "torch.compile" || partial {
                    remarks(context, call)
                } else {
                    Vec::new()
                }
            })
            .collect()
    }
}

fn remarks(context: &SourceContext<'_>, call: &ExprCall) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for keyword in &call.arguments.keywords {
        let dynamic = keyword.arg.as_deref() == Some("dynamic")
            && matches!(&keyword.value, Expr::BooleanLiteral(yes) if yes.value);
        if !dynamic {
            continue;
        }
        let mut remark = Remark::new(
            AdviceKind::Recompilation,
            Severity::High,
            "`torch.compile(dynamic=True)` stops on TorchTPU with NotImplementedError",
        );
        remark
            .places
            .push(context.place(keyword.range(), "refused on a TPU"));
        remark.evidence.push(Exhibit::text(
            "behaviour",
            "torch_tpu 0.2.0: importing it replaces `torch.compile`, with the backend `tpu` and `dynamic=False`",
            "https://pypi.org/project/torch-tpu/0.2.0/",
        ));
        remark.advice.push("leave `dynamic` out: shapes are then static; pad to a few buckets (`options={\"num_dynamic_buckets\": 4, \"bucket_size\": 128}`), or mark the one dynamic dimension with `torch._dynamo.mark_dynamic(x, 0, min=…, max=…)`".to_owned());
        remark.fix = removal(context, call, keyword).map(|range| Fix {
            title: "leave the option out".to_owned(),
            applicability: Applicability::Unsafe,
            numerics: Numerics::BitExact,
            edits: vec![context.edit(range, "")],
        });
        remarks.push(remark);
    }
    remarks
}

/// The range of a keyword with one comma beside it.
fn removal(context: &SourceContext<'_>, call: &ExprCall, keyword: &Keyword) -> Option<TextRange> {
    let arguments = &call.arguments;
    let mut ranges: Vec<TextRange> = arguments
        .args
        .iter()
        .map(|argument| argument.range())
        .chain(arguments.keywords.iter().map(|keyword| keyword.range()))
        .collect();
    ranges.sort_by_key(|range| range.start());
    let own = ranges.iter().position(|range| *range == keyword.range())?;
    if let Some(before) = own.checked_sub(1).and_then(|before| ranges.get(before)) {
        return Some(TextRange::new(before.end(), keyword.range().end()));
    }
    match ranges.get(own + 1) {
        Some(after) => Some(TextRange::new(keyword.range().start(), after.start())),
        None => {
            let whole = TextRange::new(arguments.range.start(), arguments.range.end());
            let text = context.text(whole);
            let inner = text.strip_prefix('(')?.strip_suffix(')')?;
            let start = whole.start() + size(1);
            let end = start + size(inner.len());
            Some(TextRange::new(start, end))
        }
    }
}

fn size(bytes: usize) -> crate::python::TextSize {
    crate::python::TextSize::try_from(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::CompileOptions;
    use crate::finding::Applicability;
    use crate::python::edits::apply;
    use crate::rules::source::recompilation::found;

    #[test]
    fn refused_options_are_taken_out() {
        for (before, after) in [
            (
                "f = torch.compile(g, dynamic=True)\n",
                "f = torch.compile(g)\n",
            ),
            (
                "f = torch.compile(dynamic=True, fullgraph=True)\n",
                "f = torch.compile(fullgraph=True)\n",
            ),
            ("f = torch.compile(dynamic=True)\n", "f = torch.compile()\n"),
        ] {
            let text = format!("import torch\n{before}");
            let findings = found(&CompileOptions, &text);
            let fix = findings[0].fix.as_ref().expect("a fix");
            assert_eq!(fix.applicability, Applicability::Unsafe);
            let edited = apply("train.py", &text, &[fix]).expect("parses");
            assert_eq!(edited.text, format!("import torch\n{after}"));
        }
    }

    #[test]
    fn what_runs_on_a_tpu_is_left_alone() {
        let text = "import torch\nf = torch.compile(g, backend='tpu', dynamic=False)\n";
        assert!(found(&CompileOptions, text).is_empty());
    }
}
