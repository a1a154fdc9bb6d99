//! Metrics and progress bars read tensors in every step.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Edit, Exhibit, Fix, Numerics, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, ExprCall, Stmt};
use crate::python::{Heat, HeatKind, NodeId, Ranged as _, SourceContext, Value};
use crate::rule::Rule;
use crate::rules::source::host_sync::{is_metric, read_of, shown};

/// Steps between two reads that the fix proposes.
const EVERY: u32 = 100;

/// See the card.
#[derive(Debug)]
pub struct MetricsEachStep;

impl Rule for MetricsEachStep {
    fn code(&self) -> &'static str {
        "TS204"
    }

    fn name(&self) -> &'static str {
        "metrics-each-step"
    }

    fn card(&self) -> &'static str {
        include_str!("metrics_each_step.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let mut groups: BTreeMap<NodeId, (&Heat, Vec<Found<'_>>)> = BTreeMap::new();
        for (id, call) in context.calls() {
            if !is_metric(context, call) {
                continue;
            }
            let Some(heat) = context.heat(id).filter(|heat| heat.kind == HeatKind::Step) else {
                continue;
            };
            if let Some(what) = value_in(context, call) {
                groups
                    .entry(heat.region)
                    .or_insert((heat, Vec::new()))
                    .1
                    .push(Found { id, call, what });
            }
        }
        groups
            .into_values()
            .map(|(heat, found)| remark(context, heat, &found))
            .collect()
    }
}

struct Found<'a> {
    id: NodeId,
    call: &'a ExprCall,
    what: &'a Expr,
}

/// The tensor that a call for metrics needs the value of.
fn value_in<'a>(context: &SourceContext<'a>, call: &'a ExprCall) -> Option<&'a Expr> {
    let keywords = call.arguments.keywords.iter().map(|keyword| &keyword.value);
    let mut todo: Vec<&'a Expr> = call.arguments.args.iter().chain(keywords).collect();
    let mut seen = 0;
    while let Some(expression) = todo.pop() {
        seen += 1;
        if seen > 256 {
            return None;
        }
        match expression {
            Expr::Dict(dict) => todo.extend(dict.items.iter().map(|item| &item.value)),
            Expr::FString(text) => todo.extend(
                text.value
                    .elements()
                    .filter_map(|part| part.as_interpolation())
                    .map(|part| &*part.expression),
            ),
            Expr::Tuple(tuple) => todo.extend(tuple.elts.iter()),
            Expr::BinOp(op) if context.tensor(expression).is_none() => {
                todo.extend([&*op.left, &*op.right]);
            }
            Expr::Call(inner) => {
                if let Some(read) = read_of(context, inner) {
                    return Some(read.what);
                }
                let computes = matches!(&*inner.func, Expr::Attribute(attribute)
                    if attribute.attr.as_str() == "compute");
                if computes && context.value(expression) == Value::Unknown {
                    return Some(expression);
                }
                if context
                    .tensor(expression)
                    .is_some_and(|tensor| !tensor.on_host)
                {
                    return Some(expression);
                }
                todo.extend(inner.arguments.args.iter());
            }
            _ => {
                if context
                    .tensor(expression)
                    .is_some_and(|tensor| !tensor.on_host)
                {
                    return Some(expression);
                }
            }
        }
    }
    None
}

fn remark(context: &SourceContext<'_>, heat: &Heat, found: &[Found<'_>]) -> Remark {
    let first = found
        .first()
        .map(|found| shown(context.text(found.what)))
        .unwrap_or_default();
    let mut remark = Remark::new(
        AdviceKind::HostDispatch,
        Severity::Medium,
        format!(
            "metrics or a progress bar read `{first}` in every step: the host waits for the device each time"
        ),
    );
    remark.places = found
        .iter()
        .map(|found| context.place(found.call.range(), "needs the value now"))
        .collect();
    remark.evidence.push(Exhibit::text(
        "why it counts",
        heat.why.clone(),
        "loops, calls and classes of this file",
    ));
    remark.advice.push(format!(
        "log every N steps (`if step % {EVERY} == 0:`); in between keep the values on the device"
    ));
    remark
        .advice
        .push("or log the values of the step before: they are there by then".to_owned());
    remark.fix = found.first().and_then(|found| guard(context, found));
    remark
}

/// Puts the statement under `if step % 100 == 0:` where the loop counts its steps.
fn guard(context: &SourceContext<'_>, found: &Found<'_>) -> Option<Fix> {
    let statement = context.index.statement_of(found.id)?;
    let AnyNodeRef::StmtExpr(statement) = statement else {
        return None;
    };
    let around = context.index.get(context.loop_around(found.id)?)?;
    let AnyNodeRef::StmtFor(each) = around.node else {
        return None;
    };
    let (Expr::Tuple(targets), Expr::Call(iter)) = (&*each.target, &*each.iter) else {
        return None;
    };
    let counts = matches!(&*iter.func, Expr::Name(name) if name.id.as_str() == "enumerate");
    let Some(Expr::Name(step)) = targets.elts.first().filter(|_| counts) else {
        return None;
    };
    let own = each
        .body
        .iter()
        .any(|body| matches!(body, Stmt::Expr(body) if body.range() == statement.range()));
    let line = context.file.line_of(statement.range().start());
    let text = context.text(statement);
    let indent: String = context
        .file
        .line_text(line)
        .chars()
        .take_while(|c| c.is_whitespace())
        .collect();
    // Only a statement that has its line to itself can be moved.
    if !own || context.file.line_text(line).trim_start() != text {
        return None;
    }
    let edit: Edit = context.edit(
        statement.range(),
        format!("if {} % {EVERY} == 0:\n{indent}    {text}", step.id),
    );
    Some(Fix {
        title: format!("log every {EVERY} steps"),
        applicability: Applicability::Unsafe,
        numerics: Numerics::BitExact,
        edits: vec![edit],
    })
}

#[cfg(test)]
mod tests {
    use super::MetricsEachStep;
    use crate::rules::source::recompilation::found;

    #[test]
    fn a_progress_bar_reads_every_step() {
        let text = "import torch\nfor step, batch in enumerate(loader):\n    loss = model(batch).loss\n    loss.backward()\n    bar.set_postfix(loss=loss.item())\n";
        let findings = found(&MetricsEachStep, text);
        assert_eq!(findings.len(), 1);
        let fix = findings[0].fix.as_ref().expect("a fix");
        assert_eq!(
            fix.edits[0].replacement,
            "if step % 100 == 0:\n        bar.set_postfix(loss=loss.item())"
        );
    }

    #[test]
    fn rare_logging_is_left_alone() {
        let text = "import torch, wandb\nfor step, batch in enumerate(loader):\n    loss = model(batch).loss\n    loss.backward()\n    if step % args.logging_steps == 0:\n        wandb.log({'loss': loss.item()})\n    wandb.log({'step': step})\n";
        assert!(found(&MetricsEachStep, text).is_empty());
    }
}
