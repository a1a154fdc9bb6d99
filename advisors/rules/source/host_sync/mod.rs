//! Rules on values that are read on the host.

pub mod compile_in_loop;
pub mod hidden_sync;
pub mod host_reads;
pub mod loader_without_workers;
pub mod metrics_each_step;
pub mod per_tensor_transfers;
pub mod printed_tensors;
pub mod tensor_condition;

use crate::python::ast::{AnyNodeRef, Expr, ExprCall};
use crate::python::{Certainty, Framework, NodeId, SourceContext, Tensor, Value};

/// A read of a tensor on the host.
#[derive(Clone, Debug)]
pub(super) struct Read<'a> {
    /// The tensor, as it is written.
    pub(super) what: &'a Expr,
    /// How it is read, as `.item()`.
    pub(super) how: String,
    /// What is known of the tensor.
    pub(super) tensor: Tensor,
}

/// What a call reads on the host, if it does.
pub(super) fn read_of<'a>(context: &SourceContext<'a>, call: &'a ExprCall) -> Option<Read<'a>> {
    let read = |what: &'a Expr, how: String| {
        // What a module returns, and is read, is a tensor and no record.
        let tensor = match context.value(what) {
            Value::Tensor(tensor) | Value::Output(tensor) if !tensor.on_host => tensor,
            _ => return None,
        };
        Some(Read { what, how, tensor })
    };
    if let Some(name) = context.qualified(&call.func) {
        let first = call.arguments.args.first()?;
        return match name.as_str() {
            "numpy.asarray" | "numpy.array" => read(first, format!("`{}`", short(&name)))
                .filter(|read| read.tensor.framework == Framework::Jax),
            "jax.device_get" | "jax.block_until_ready" => {
                let tensor = match context.value(first) {
                    Value::Tensor(tensor) | Value::Output(tensor) | Value::Many(tensor) => tensor,
                    _ => Tensor {
                        framework: Framework::Jax,
                        certainty: Certainty::Likely,
                        on_host: false,
                    },
                };
                let how = format!("`{name}`");
                Some(Read {
                    what: first,
                    how,
                    tensor,
                })
            }
            _ => None,
        };
    }
    match &*call.func {
        Expr::Name(name) => {
            let first = call.arguments.args.first()?;
            (call.arguments.len() == 1 && matches!(name.id.as_str(), "float" | "int" | "bool"))
                .then(|| read(first, format!("`{}()`", name.id)))?
        }
        Expr::Attribute(attribute) => {
            let word = attribute.attr.as_str();
            let what = &*attribute.value;
            match word {
                "item" | "tolist" | "numpy" | "cpu" | "block_until_ready"
                    if call.arguments.is_empty() =>
                {
                    if let Some(found) = read(what, format!("`.{word}()`")) {
                        return Some(found);
                    }
                    // Nothing but a tensor or a NumPy scalar has `.item()`.
                    let open =
                        word == "item" && context.value(what) == Value::Unknown && is_plain(what);
                    open.then(|| Read {
                        what,
                        how: "`.item()`".to_owned(),
                        tensor: Tensor {
                            framework: Framework::Torch,
                            certainty: Certainty::Likely,
                            on_host: false,
                        },
                    })
                }
                "to" if call
                    .arguments
                    .find_argument_value("device", 0)
                    .is_some_and(is_cpu_text) =>
                {
                    read(what, "`.to(\"cpu\")`".to_owned())
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_plain(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::Name(_) | Expr::Attribute(_) | Expr::Subscript(_)
    )
}

fn is_cpu_text(expression: &Expr) -> bool {
    match expression {
        Expr::StringLiteral(text) => text.value.to_str() == "cpu",
        Expr::Call(call) => call.arguments.args.first().is_some_and(is_cpu_text),
        _ => false,
    }
}

/// The last two parts of a dotted name, as `np.asarray` is known.
fn short(name: &str) -> String {
    name.replace("numpy.", "np.").replace("jax.np.", "jnp.")
}

/// A short form of an expression's text, for titles.
pub(super) fn shown(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 48 {
        let cut: String = line.chars().take(45).collect();
        format!("{cut}…")
    } else {
        line
    }
}

/// The call for metrics or a progress bar that a node is an argument of, if any.
pub(super) fn metric_call<'a>(context: &SourceContext<'a>, id: NodeId) -> Option<&'a ExprCall> {
    context
        .index
        .ancestors(id)
        .take_while(|(_, node)| node.node.is_expression() || is_part_of_call(node.node))
        .find_map(|(_, node)| match node.node {
            AnyNodeRef::ExprCall(call) if is_metric(context, call) => Some(call),
            _ => None,
        })
}

fn is_part_of_call(node: AnyNodeRef<'_>) -> bool {
    matches!(
        node,
        AnyNodeRef::Arguments(_)
            | AnyNodeRef::Keyword(_)
            | AnyNodeRef::FString(_)
            | AnyNodeRef::InterpolatedElement(_)
    )
}

/// Whether a call writes metrics, or moves a progress bar.
pub(super) fn is_metric(context: &SourceContext<'_>, call: &ExprCall) -> bool {
    if let Some(name) = context.qualified(&call.func) {
        return matches!(
            name.as_str(),
            "wandb.log" | "mlflow.log_metric" | "mlflow.log_metrics" | "neptune.log" | "comet.log"
        );
    }
    let Expr::Attribute(attribute) = &*call.func else {
        return false;
    };
    let owner = match &*attribute.value {
        Expr::Name(name) => name.id.as_str(),
        Expr::Attribute(inner) => inner.attr.as_str(),
        _ => "",
    };
    match attribute.attr.as_str() {
        "set_postfix" | "set_postfix_str" | "set_description" | "add_scalar" | "add_scalars"
        | "log_metric" | "log_metrics" | "log_dict" => true,
        "log" => {
            matches!(
                owner,
                "wandb" | "run" | "accelerator" | "fabric" | "self" | "trainer" | "wandb_run"
            ) || owner.contains("logger")
                || owner.contains("tracker")
        }
        _ => false,
    }
}
