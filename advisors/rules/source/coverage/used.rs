//! The ATen operators that Python source is certain to call.

use std::collections::BTreeMap;

use knowledge::torch_tpu::{method_operators, operators};
use ruff_python_ast::{AnyNodeRef, Expr, ExprCall, StmtFunctionDef};
use ruff_text_size::{Ranged as _, TextRange};

use crate::python::{NodeId, SourceContext};

/// A call that needs operators.
#[derive(Debug)]
pub struct Use<'a> {
    /// The call's node.
    pub id: NodeId,
    /// The call.
    pub call: &'a ExprCall,
    /// What is called, in full: `torch.linalg.det`, or `.kthvalue` for a method.
    pub name: String,
    /// The part of the text that names it.
    pub range: TextRange,
    /// The operators.
    pub operators: Vec<String>,
}

/// Calls of the file whose operators are certain, in source order.
pub fn uses<'a>(context: &SourceContext<'a>) -> Vec<Use<'a>> {
    if !context.names.imports("torch") {
        return Vec::new();
    }
    let mut uses = Vec::new();
    for (id, call) in context.calls() {
        let (name, operators) = match context.qualified(&call.func) {
            Some(name) => {
                let operators = resized(context, call, &name).unwrap_or_else(|| operators(&name));
                (name, operators)
            }
            None => match call.func.as_ref() {
                Expr::Attribute(method) if !method.value.is_string_literal_expr() => {
                    let name = method.attr.as_str();
                    (format!(".{name}"), method_operators(name))
                }
                _ => continue,
            },
        };
        if operators.is_empty() {
            continue;
        }
        let range = match call.func.as_ref() {
            Expr::Attribute(method) if name.starts_with('.') => method.attr.range(),
            func => func.range(),
        };
        uses.push(Use {
            id,
            call,
            name,
            range,
            operators,
        });
    }
    uses
}

/// The operator of a resize, which its mode decides.
fn resized(context: &SourceContext<'_>, call: &ExprCall, name: &str) -> Option<Vec<String>> {
    let at = match name {
        "torch.nn.functional.interpolate" | "torch.nn.functional.upsample" => 3,
        "torch.nn.Upsample" => 2,
        _ => return None,
    };
    let mode = call.arguments.find_argument_value("mode", at);
    let mode = mode.and_then(|mode| mode.as_string_literal_expr());
    let antialias = call.arguments.find_keyword("antialias");
    let antialias = antialias.is_some_and(|keyword| context.text(&keyword.value) == "True");
    let operator = match (mode.map(|mode| mode.value.to_str()), antialias) {
        (Some("linear"), _) => "upsample_linear1d",
        (Some("bilinear"), true) => "_upsample_bilinear2d_aa",
        (Some("bicubic"), true) => "_upsample_bicubic2d_aa",
        (Some("bilinear"), false) => "upsample_bilinear2d",
        (Some("bicubic"), false) => "upsample_bicubic2d",
        (Some("trilinear"), _) => "upsample_trilinear3d",
        _ => return Some(Vec::new()),
    };
    Some(vec![operator.to_owned()])
}

/// Whether a call's tensors are on the host: its text says so, or it prepares weights.
#[must_use]
pub fn is_on_host(context: &SourceContext<'_>, used: &Use<'_>) -> bool {
    let statement = context.index.statement_of(used.id);
    let text = match statement {
        Some(simple) if !simple.is_stmt_if() && !simple.is_stmt_for() => context.text(simple),
        _ => context.text(used.call),
    };
    let signs = [".cpu()", "\"cpu\"", "numpy", "np."];
    if signs.iter().any(|sign| text.contains(sign)) || prepares_data(context, used) {
        return true;
    }
    let Some(function) = context.index.function_of(used.id) else {
        return false;
    };
    let name = function.name.as_str();
    let prepares_weights = name.contains("init")
        || name.starts_with("convert")
        || name.contains("reset_parameters")
        || only_called_while_building(context, function);
    (prepares_weights && !used.name.starts_with("torch.nn.")) || on_plain_tensors(context, used)
}

/// Whether a call is in a class or file that prepares inputs on the host.
fn prepares_data(context: &SourceContext<'_>, used: &Use<'_>) -> bool {
    let class = context.index.class_of(used.id);
    let of_class = class.is_some_and(|class| {
        let name = class.name.as_str();
        ["Processor", "Dataset", "Transform", "Collator"]
            .iter()
            .any(|sign| name.contains(sign))
    });
    of_class || context.file.path.contains("processing")
}

/// Whether a function of the file is called, and only from constructors.
fn only_called_while_building(context: &SourceContext<'_>, function: &StmtFunctionDef) -> bool {
    let mut calls = context
        .calls()
        .filter(|(_, call)| {
            let name = call.func.as_name_expr();
            name.is_some_and(|name| name.id == function.name.id)
        })
        .peekable();
    calls.peek().is_some()
        && calls.all(|(id, _)| {
            let caller = context.index.function_of(id);
            caller.is_some_and(|caller| caller.name.as_str() == "__init__")
        })
}

/// Whether the arguments were made by `torch.tensor` without a device in the same function.
fn on_plain_tensors(context: &SourceContext<'_>, used: &Use<'_>) -> bool {
    let Some(function) = context.index.function_of(used.id) else {
        return false;
    };
    let Some(within) = context.index.id_of(function) else {
        return false;
    };
    let mut names = used
        .call
        .arguments
        .args
        .iter()
        .map(|argument| argument.as_name_expr())
        .peekable();
    names.peek().is_some()
        && names.all(|name| {
            name.is_some_and(|name| {
                context.index.descendants(within).any(|(_, node)| {
                    let Some(assign) = node.node.as_stmt_assign() else {
                        return false;
                    };
                    let made = assign.value.as_call_expr().is_some_and(|call| {
                        let maker = context.qualified(&call.func);
                        maker.as_deref() == Some("torch.tensor")
                            && call.arguments.find_keyword("device").is_none()
                    });
                    made && assign
                        .targets
                        .iter()
                        .filter_map(Expr::as_name_expr)
                        .any(|target| target.id == name.id)
                })
            })
        })
}

/// Whether a call is part of a model: in a method of a class that is made of modules, or a module
/// that is built.
#[must_use]
pub fn is_in_model(context: &SourceContext<'_>, used: &Use<'_>) -> bool {
    let builds = used
        .name
        .strip_prefix("torch.nn.")
        .is_some_and(|rest| rest.starts_with(char::is_uppercase));
    if builds || used.name.starts_with("torch.nn.functional.") {
        return true;
    }
    let ancestors = context.index.ancestors(used.id);
    let mut classes = ancestors.filter_map(|(_, node)| match node.node {
        AnyNodeRef::StmtClassDef(class) => Some(class),
        _ => None,
    });
    classes.any(|class| {
        let forward = class.body.iter().any(|statement| {
            let function = statement.as_function_def_stmt();
            function.is_some_and(|function| function.name.as_str() == "forward")
        });
        forward
            || class
                .bases()
                .iter()
                .any(|base| context.text(base).ends_with("Module"))
    })
}

/// How many calls need each operator.
#[must_use]
pub fn counts(context: &SourceContext<'_>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for used in uses(context) {
        for operator in used.operators {
            *counts.entry(operator).or_default() += 1;
        }
    }
    counts
}
