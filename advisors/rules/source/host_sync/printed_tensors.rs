//! Tensors are printed or formatted in every step.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::{Expr, ExprCall};
use crate::python::{Framework, Heat, HeatKind, NodeId, Ranged as _, SourceContext};
use crate::rule::Rule;
use crate::rules::source::host_sync::{is_metric, read_of, shown};

/// See the card.
#[derive(Debug)]
pub struct PrintedTensors;

impl Rule for PrintedTensors {
    fn code(&self) -> &'static str {
        "TS203"
    }

    fn name(&self) -> &'static str {
        "tensor-printed-each-step"
    }

    fn card(&self) -> &'static str {
        include_str!("printed_tensors.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let mut groups: BTreeMap<NodeId, (&Heat, Vec<Printed<'_>>)> = BTreeMap::new();
        for (id, call) in context.calls() {
            let Some(kind) = prints(context, call) else {
                continue;
            };
            let Some(heat) = context.heat(id) else {
                continue;
            };
            let traced = heat.kind == HeatKind::Traced && heat.framework == Framework::Jax;
            let what = match kind {
                // Printing while tracing happens once a compilation, and prints no value.
                Prints::Python if !traced => printed(context, call),
                Prints::Callback if traced => call.arguments.args.first(),
                _ => None,
            };
            if let Some(what) = what {
                groups
                    .entry(heat.region)
                    .or_insert((heat, Vec::new()))
                    .1
                    .push((call, what));
            }
        }
        groups
            .into_values()
            .map(|(heat, found)| remark(context, heat, &found))
            .collect()
    }
}

/// A call that prints, and the tensor that it prints.
type Printed<'a> = (&'a ExprCall, &'a Expr);

enum Prints {
    /// `print`, a logger.
    Python,
    /// `jax.debug.print`: a callback from the device.
    Callback,
}

fn prints(context: &SourceContext<'_>, call: &ExprCall) -> Option<Prints> {
    match &*call.func {
        Expr::Name(name) if name.id.as_str() == "print" => Some(Prints::Python),
        Expr::Attribute(attribute) => {
            let name = context.qualified(&call.func);
            match name.as_deref() {
                Some("jax.debug.print" | "jax.debug.callback") => return Some(Prints::Callback),
                Some("torch_xla.core.xla_model.master_print" | "tqdm.write") => {
                    return Some(Prints::Python);
                }
                _ => {}
            }
            let owner = match &*attribute.value {
                Expr::Name(name) => name.id.as_str(),
                Expr::Attribute(inner) => inner.attr.as_str(),
                _ => "",
            };
            let logger = matches!(owner, "logger" | "logging" | "log" | "LOGGER" | "_logger");
            let level = matches!(
                attribute.attr.as_str(),
                "info" | "warning" | "error" | "critical"
            );
            (logger && level && !is_metric(context, call)).then_some(Prints::Python)
        }
        _ => None,
    }
}

/// The tensor that is printed: an argument, or a part of an f-string, or a read of one.
fn printed<'a>(context: &SourceContext<'a>, call: &'a ExprCall) -> Option<&'a Expr> {
    let keywords = call.arguments.keywords.iter().map(|keyword| &keyword.value);
    let mut todo: Vec<&'a Expr> = call.arguments.args.iter().chain(keywords).collect();
    let mut seen = 0;
    while let Some(expression) = todo.pop() {
        seen += 1;
        if seen > 256 {
            return None;
        }
        if let Some(tensor) = context.tensor(expression) {
            if tensor.on_host {
                continue;
            }
            return Some(expression);
        }
        match expression {
            Expr::FString(text) => todo.extend(
                text.value
                    .elements()
                    .filter_map(|part| part.as_interpolation())
                    .map(|part| &*part.expression),
            ),
            Expr::Call(inner) => match read_of(context, inner) {
                Some(read) => return Some(read.what),
                // `"…".format(loss)`, `round(loss.item(), 3)`, `str(loss)`.
                None => {
                    let formats = match &*inner.func {
                        Expr::Attribute(attribute) => {
                            attribute.attr.as_str() == "format"
                                && attribute.value.is_string_literal_expr()
                        }
                        Expr::Name(name) => {
                            matches!(name.id.as_str(), "round" | "str" | "repr" | "abs")
                        }
                        _ => false,
                    };
                    if formats {
                        todo.extend(inner.arguments.args.iter());
                    }
                }
            },
            Expr::BinOp(op) => todo.extend([&*op.left, &*op.right]),
            Expr::Tuple(tuple) => todo.extend(tuple.elts.iter()),
            _ => {}
        }
    }
    None
}

fn remark(context: &SourceContext<'_>, heat: &Heat, found: &[Printed<'_>]) -> Remark {
    let first = found
        .first()
        .map(|(_, what)| shown(context.text(*what)))
        .unwrap_or_default();
    let traced = heat.kind == HeatKind::Traced && heat.framework == Framework::Jax;
    let (severity, title) = if traced {
        (
            Severity::Low,
            format!(
                "a compiled function prints `{first}` from the device: each run calls back to the host"
            ),
        )
    } else {
        (
            Severity::Medium,
            format!(
                "`{first}` is printed in every step: its value must come to the host each time"
            ),
        )
    };
    let mut remark = Remark::new(AdviceKind::HostDispatch, severity, title);
    remark.places = found
        .iter()
        .map(|(call, _)| context.place(call.range(), "waits for the device, then prints"))
        .collect();
    remark.evidence.push(Exhibit::text(
        "why it counts",
        heat.why.clone(),
        "loops, calls and classes of this file",
    ));
    remark.advice.push(if traced {
        "remove it when done: `jax.debug.print` stays in the program and runs each time".to_owned()
    } else {
        "print every N steps (`if step % 100 == 0:`), or collect the tensors and print them at the end".to_owned()
    });
    remark
}

#[cfg(test)]
mod tests {
    use super::PrintedTensors;
    use crate::rules::source::recompilation::found;

    #[test]
    fn prints_in_every_step_are_found() {
        for line in [
            "print(loss)",
            "print('loss', loss.item())",
            "print(f'loss {loss:.3f}')",
            "print(f'loss {loss.item():.3f}')",
            "logger.info(f'{loss}')",
            "xm.master_print('loss', loss)",
        ] {
            let text = format!(
                "import torch, logging\nimport torch_xla.core.xla_model as xm\nlogger = logging.getLogger()\nfor batch in loader:\n    loss = model(batch).loss\n    loss.backward()\n    {line}\n"
            );
            assert_eq!(found(&PrintedTensors, &text).len(), 1, "{line}");
        }
        for line in [
            "print('step')",
            "print(loss.shape)",
            "print(f'{len(batch)}')",
            "if step % 10 == 0:\n        print(loss)",
        ] {
            let text = format!(
                "import torch\nfor step, batch in enumerate(loader):\n    loss = model(batch).loss\n    loss.backward()\n    {line}\n"
            );
            assert!(found(&PrintedTensors, &text).is_empty(), "{line}");
        }
    }
}
