//! TS331: recurrent cells in a Python loop over time.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::{SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::operations::code::{Code, with_places};
use ast::{AnyNodeRef, Expr};

/// The rule.
#[derive(Debug)]
pub struct UnrolledRecurrence;

impl Rule for UnrolledRecurrence {
    fn code(&self) -> &'static str {
        "TS331"
    }

    fn name(&self) -> &'static str {
        "unrolled-recurrence"
    }

    fn card(&self) -> &'static str {
        include_str!("unrolled_recurrence.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !["Cell"].iter().any(|word| context.file.text.contains(word)) {
            return Vec::new();
        }
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (id, call) in context.calls() {
            let Some(cell) = cell(&code, call) else {
                continue;
            };
            let time = context
                .index
                .ancestors(id)
                .take_while(|(_, node)| !matches!(node.node, AnyNodeRef::StmtFunctionDef(_)))
                .find_map(|(_, node)| match node.node {
                    AnyNodeRef::StmtFor(it) => Some(it),
                    _ => None,
                });
            let Some(time) = time.filter(|time| over_time(&code, time)) else {
                continue;
            };
            let Some(why) = code.heat(id) else { continue };
            found.push((
                code.place(
                    call,
                    format!("{cell} in a loop over `{}`", context.text(&*time.iter)),
                ),
                cell,
                why,
            ));
        }
        let Some((_, cell, why)) = found.first() else {
            return Vec::new();
        };
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            Severity::Medium,
            format!(
                "{cell} is called for each time step in Python: the graph holds every step, compiles slowly, and runs tiny matmuls ({why})"
            ),
        );
        remark.evidence.push(Exhibit::text(
            "measured",
            "an LSTM unrolled in Python: 1,748 s an epoch on a TPU, 302 s on a CPU, 12 s on a GPU",
            "https://github.com/pytorch/xla/issues/2422",
        ));
        remark.advice = vec![
            format!("Call the whole layer (`nn.{}`), which TorchTPU runs as one loop on the device, or a scan (`jax.lax.scan`, `torch_xla.experimental.scan`).", cell.trim_end_matches("Cell")),
            "Multiply the inputs of all steps with their weights once, before the loop: only the recurrent part has to wait.".to_owned(),
        ];
        let places = found.into_iter().map(|(place, ..)| place).collect();
        with_places(&mut remark, places);
        vec![remark]
    }
}

/// The recurrent cell that a call runs.
fn cell<'a>(code: &Code<'_, 'a>, call: &'a ast::ExprCall) -> Option<&'static str> {
    let made = match &*call.func {
        Expr::Attribute(attribute) => code.self_value(attribute)?,
        name @ Expr::Name(_) => code.bindings.value(name, code.context.index),
        _ => return None,
    };
    let Expr::Call(made) = made else { return None };
    let name = code.name(&made.func)?;
    ["LSTMCell", "GRUCell", "RNNCell"]
        .into_iter()
        .find(|cell| name == format!("torch.nn.{cell}"))
}

/// Whether a loop runs over time: a range of a size, or the parts of a tensor.
fn over_time(code: &Code<'_, '_>, time: &ast::StmtFor) -> bool {
    let over = code.context.text(&*time.iter);
    [
        "range(",
        "unbind(",
        "split(",
        "chunk(",
        "enumerate(",
        "size(",
    ]
    .iter()
    .any(|word| over.contains(word))
        || matches!(&*time.iter, Expr::Name(_))
}
