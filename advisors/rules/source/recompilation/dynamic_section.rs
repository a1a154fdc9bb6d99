//! A section of dynamic shapes stands between the graphs of a step.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, ExprCall, Stmt};
use crate::python::{NodeId, Ranged as _, SourceContext};
use crate::rule::Rule;
use crate::rules::source::recompilation::last_word;

/// See the card.
#[derive(Debug)]
pub struct DynamicSection;

impl Rule for DynamicSection {
    fn code(&self) -> &'static str {
        "TS111"
    }

    fn name(&self) -> &'static str {
        "dynamic-section-in-step"
    }

    fn card(&self) -> &'static str {
        include_str!("dynamic_section.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let mut remarks = Vec::new();
        for (_, node) in context.index.nodes() {
            let body: &[Stmt] = match node.node {
                AnyNodeRef::StmtFor(each) => &each.body,
                AnyNodeRef::StmtWhile(each) => &each.body,
                _ => continue,
            };
            let cuts: Vec<usize> = body
                .iter()
                .enumerate()
                .filter(|(_, statement)| cuts_graph(context, statement))
                .map(|(at, _)| at)
                .collect();
            for pair in cuts.windows(2) {
                let section = body.get(pair[0] + 1..pair[1]).unwrap_or_default();
                remarks.extend(remark(context, section));
            }
        }
        remarks
    }
}

/// `xm.mark_step()` or `torch_xla.sync()`.
fn cuts_graph(context: &SourceContext<'_>, statement: &Stmt) -> bool {
    let Stmt::Expr(statement) = statement else {
        return false;
    };
    let Expr::Call(call) = &*statement.value else {
        return false;
    };
    context.qualified(&call.func).is_some_and(|name| {
        matches!(
            name.as_str(),
            "torch_xla.core.xla_model.mark_step" | "torch_xla.sync"
        )
    })
}

fn remark(context: &SourceContext<'_>, section: &[Stmt]) -> Option<Remark> {
    let (call, why) = section.iter().find_map(|statement| {
        let id: NodeId = context.index.id_of(statement)?;
        context
            .index
            .descendants(id)
            .filter_map(|(_, node)| match node.node {
                AnyNodeRef::ExprCall(call) => Some(call),
                _ => None,
            })
            .find_map(|call| dynamic(context, call).map(|why| (call, why)))
    })?;
    let name = context.text(&*call.func);
    let mut remark = Remark::new(
        AdviceKind::Recompilation,
        Severity::High,
        format!(
            "`{name}` between two marks of the step {why}: where its shapes differ, this graph is compiled in every step"
        ),
    );
    remark
        .places
        .push(context.place(call.range(), "a graph of its own, with shapes of its own"));
    remark.evidence.push(Exhibit::text(
        "section",
        format!("{} statements between two `mark_step`", section.len()),
        "the body of this loop",
    ));
    remark.advice.push("do it on the host, in the loader or on the CPU before the step: it computes little, and shapes may differ there".to_owned());
    remark.advice.push("or give each part fixed slots (a fixed number of image and text positions, padded and masked), so that the graph is the same in every step".to_owned());
    Some(remark)
}

/// What suggests that the shapes of a call's result depend on its data.
fn dynamic(context: &SourceContext<'_>, call: &ExprCall) -> Option<&'static str> {
    if let Some(name) = context.qualified(&call.func) {
        return matches!(
            name.as_str(),
            "torch.nonzero" | "torch.masked_select" | "torch.unique" | "torch.cat"
        )
        .then_some("makes a shape that depends on data");
    }
    let name = last_word(&call.func).to_ascii_lowercase();
    let merges = [
        "fuse",
        "fusion",
        "merge",
        "splice",
        "interleave",
        "ragged",
        "unpad",
        "pack_",
    ]
    .iter()
    .any(|word| name.contains(word));
    merges.then_some("joins parts whose lengths may differ from step to step")
}

#[cfg(test)]
mod tests {
    use super::DynamicSection;
    use crate::rules::source::recompilation::found;

    #[test]
    fn a_fusing_section_is_found() {
        let text = "import torch_xla.core.xla_model as xm\nfor batch in loader:\n    a = encoder(batch)\n    xm.mark_step()\n    b = fuse_embedding(a, batch)\n    xm.mark_step()\n    c = llm(b)\n";
        let findings = found(&DynamicSection, text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].places[0].line, 5);
        let plain = text.replace("fuse_embedding", "decoder");
        assert!(found(&DynamicSection, &plain).is_empty());
    }
}
