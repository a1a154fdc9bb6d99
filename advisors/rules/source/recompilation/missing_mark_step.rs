//! A loop over lazy tensors never ends its graph.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Exhibit, Fix, Numerics, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, Stmt};
use crate::python::{HeatKind, NodeId, Ranged as _, SourceContext, TextRange, Value};
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct MissingMarkStep;

impl Rule for MissingMarkStep {
    fn code(&self) -> &'static str {
        "TS112"
    }

    fn name(&self) -> &'static str {
        "missing-mark-step"
    }

    fn card(&self) -> &'static str {
        include_str!("missing_mark_step.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let lazy = context.names.imports("torch_xla") && !context.names.imports("torch_tpu");
        // Loaders for a device, trainers and the like end the graph themselves.
        let ended = [
            "MpDeviceLoader",
            "ParallelLoader",
            "mark_step",
            "torch_xla.sync",
            "optimizer_step",
            "torch_xla.step",
            "eager_mode",
            "accelerat",
            "Trainer",
        ]
        .iter()
        .any(|word| context.file.text.contains(word));
        if !lazy || ended || context.runs_once() {
            return Vec::new();
        }
        context
            .index
            .nodes()
            .filter_map(|(id, node)| match node.node {
                AnyNodeRef::StmtFor(each) => remark(context, id, &each.body, each.iter.range()),
                AnyNodeRef::StmtWhile(each) => remark(context, id, &each.body, each.test.range()),
                _ => None,
            })
            .collect()
    }
}

fn remark(
    context: &SourceContext<'_>,
    id: NodeId,
    body: &[Stmt],
    head: TextRange,
) -> Option<Remark> {
    if context
        .heat(id)
        .is_some_and(|heat| heat.kind != HeatKind::Step)
        || context.loop_around(id).is_some()
    {
        return None;
    }
    let work = context
        .index
        .descendants(id)
        .filter(|(_, node)| match node.node {
            AnyNodeRef::StmtAssign(assign) => match context.value(&assign.value) {
                Value::Tensor(tensor) | Value::Output(tensor) => !tensor.on_host,
                _ => false,
            },
            AnyNodeRef::ExprCall(call) => {
                matches!(&*call.func, Expr::Attribute(attribute) if attribute.attr.as_str() == "backward")
            }
            _ => false,
        })
        .count();
    if work < 2 {
        return None;
    }
    let random = context
        .index
        .descendants(id)
        .any(|(_, node)| match node.node {
            AnyNodeRef::ExprCall(call) => context
                .qualified(&call.func)
                .is_some_and(|name| name.starts_with("torch.rand") || name == "torch.normal"),
            _ => false,
        });
    let why = if random {
        "the graph, and the chain of random seeds in it, grows with each turn"
    } else {
        "the graph grows with each turn until something reads a value"
    };
    let mut remark = Remark::new(
        AdviceKind::Recompilation,
        Severity::High,
        format!("the loop never calls `mark_step`: {why}, and each is compiled anew"),
    );
    remark
        .places
        .push(context.place(head, "no graph ends in this loop"));
    remark.evidence.push(Exhibit::number(
        "statements that give lazy tensors",
        work as f64,
        "a turn",
        "assignments in the loop",
    ));
    remark.advice.push(
        "end each turn with `xm.mark_step()` (`torch_xla.sync()` in newer versions)".to_owned(),
    );
    remark.fix = fix(context, body);
    Some(remark)
}

fn fix(context: &SourceContext<'_>, body: &[Stmt]) -> Option<Fix> {
    let (name, _) = context
        .names
        .imported()
        .find(|(_, full)| *full == "torch_xla.core.xla_model")?;
    let last = body.last()?;
    let first_line = context.file.line_of(last.range().start());
    let line = context.file.line_text(first_line);
    let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    // The statement must begin its line, and end it but for a comment.
    let own = line
        .trim_start()
        .starts_with(context.text(last).lines().next().unwrap_or_default());
    let end_line = context.file.line_of(last.range().end());
    let end = context.file.line_range(end_line);
    let tail = context
        .text(TextRange::new(last.range().end(), end.end()))
        .trim();
    if !own || !(tail.is_empty() || tail.starts_with('#')) || last.is_continue_stmt() {
        return None;
    }
    let at = TextRange::empty(
        end.start() + crate::python::TextSize::of(context.file.line_text(end_line)),
    );
    Some(Fix {
        title: format!("`{name}.mark_step()` at the end of each turn"),
        applicability: Applicability::Safe,
        numerics: Numerics::BitExact,
        edits: vec![context.edit(at, format!("\n{indent}{name}.mark_step()"))],
    })
}

#[cfg(test)]
mod tests {
    use super::MissingMarkStep;
    use crate::python::edits::apply;
    use crate::rules::source::recompilation::found;

    const LOOP: &str = "import torch\nimport torch_xla.core.xla_model as xm\ndev = xm.xla_device()\nfor _ in range(10):\n    a = torch.randn(8, 8, device=dev)\n    b = a @ a  # squared\n";

    #[test]
    fn a_loop_of_lazy_tensors_gets_a_mark() {
        let findings = found(&MissingMarkStep, LOOP);
        assert_eq!(findings.len(), 1);
        let fix = findings[0].fix.as_ref().expect("a fix");
        let edited = apply("train.py", LOOP, &[fix]).expect("parses");
        assert!(
            edited
                .text
                .ends_with("b = a @ a  # squared\n    xm.mark_step()\n")
        );
        assert!(found(&MissingMarkStep, &edited.text).is_empty());
    }

    #[test]
    fn loops_of_python_values_need_none() {
        let text = "import torch_xla.core.xla_model as xm\nfor i in range(3):\n    n = i + 1\n    m = n * 2\n    print(m)\n";
        assert!(found(&MissingMarkStep, text).is_empty());
    }
}
