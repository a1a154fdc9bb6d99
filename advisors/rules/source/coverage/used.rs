//! The ATen operators that Python source is certain to call.

use std::collections::BTreeMap;

use crate::python::ast::{AnyNodeRef, Expr, ExprCall};
use crate::python::{Ranged as _, TextRange};
use knowledge::torch_tpu::{method_operators, operators};

use super::graph::Calls;
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

/// How often each operator is called, and where first.
#[must_use]
pub fn counts(context: &SourceContext<'_>) -> BTreeMap<String, Calls> {
    let mut counts: BTreeMap<String, Calls> = BTreeMap::new();
    for used in uses(context) {
        for operator in used.operators {
            let calls = counts.entry(operator).or_default();
            calls.count += 1;
            if calls.place.is_none() {
                let line = context.file.line_of(used.range.start());
                calls.place = Some(format!("{}:{line}", context.file.path));
            }
        }
    }
    counts
}
