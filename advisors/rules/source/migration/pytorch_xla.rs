//! PyTorch/XLA, which TorchTPU replaces.

use crate::python::ast::{AnyNodeRef, Expr};
use crate::python::{Ranged as _, TextRange};
use knowledge::torch_tpu::xla_idiom;

use super::Places;
use super::guard::is_optional;
use crate::finding::{Applicability, Edit, Numerics, Remark, Severity};
use crate::python::{NodeId, SourceContext};
use crate::rule::Rule;
use crate::rules::source::counted;

/// The rule.
#[derive(Debug)]
pub struct PytorchXla;

impl Rule for PytorchXla {
    fn code(&self) -> &'static str {
        "TS510"
    }

    fn name(&self) -> &'static str {
        "pytorch-xla"
    }

    fn card(&self) -> &'static str {
        include_str!("pytorch_xla.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        // A file that can do without torch_xla is right on TorchTPU.
        if !context.names.imports("torch_xla") || !needs_it(context) {
            return Vec::new();
        }
        let torch = context
            .names
            .imported()
            .any(|(name, full)| name == "torch" && full == "torch");
        let (mut rewritten, mut shown) = (Places::default(), Places::default());
        for (id, call, name) in context.calls_of(|name| name.starts_with("torch_xla")) {
            let Some(idiom) = xla_idiom(&name) else {
                let place = context.place(call.func.range(), "no counterpart is known");
                shown.add(place, []);
                continue;
            };
            let first = call.arguments.args.first();
            let text = idiom.template.as_ref().and_then(|template| {
                if !template.contains("{0}") {
                    return Some(template.clone());
                }
                let plain =
                    first.filter(|first| first.is_name_expr() || first.is_attribute_expr())?;
                Some(template.replace("{0}", context.text(plain)))
            });
            let place = context.place(call.range(), idiom.write.clone());
            match text.filter(|_| torch) {
                // What needs nothing in its place goes, with its line where it stands alone.
                Some(text) if text == "None" => {
                    rewritten.add(place, [removal(context, id, call.range())]);
                }
                Some(text) => rewritten.add(place, [context.edit(call.range(), text)]),
                None => shown.add(place, []),
            }
        }
        // The device by its name, and the process group's backend.
        for (_, call) in context.calls() {
            let name = context.qualified(&call.func).unwrap_or_default();
            let tpu = match name.as_str() {
                "torch.device" => "tpu",
                "torch.distributed.init_process_group" => "tpu_dist",
                _ => continue,
            };
            let first = call.arguments.args.first();
            let backend = call.arguments.find_argument_value("backend", 0);
            let Some(Expr::StringLiteral(literal)) = first.or(backend) else {
                continue;
            };
            if matches!(literal.value.to_str(), "xla" | "xla:0") {
                let place = context.place(literal.range(), format!("\"{tpu}\" here"));
                rewritten.add(place, [context.edit(literal.range(), format!("\"{tpu}\""))]);
            }
        }
        let mut remarks = Vec::new();
        if !rewritten.is_empty() {
            let title = format!(
                "{} of PyTorch/XLA with a counterpart in TorchTPU",
                counted(rewritten.len(), "call")
            );
            let fix = "the counterparts of torch and TorchTPU";
            let (unsafe_, numerics) = (Applicability::Unsafe, Numerics::WithinTolerance);
            remarks.push(rewritten.fixed(Severity::Medium, title, fix, unsafe_, numerics));
        }
        if !shown.is_empty() {
            let title = format!(
                "{} of PyTorch/XLA to be written anew for TorchTPU",
                counted(shown.len(), "call")
            );
            remarks.push(shown.remark(Severity::Medium, title));
        }
        if remarks.is_empty() {
            let mut imports = Places::default();
            for (_, node) in context.index.nodes() {
                if node.node.is_stmt_import() || node.node.is_stmt_import_from() {
                    let text = context.text(node.node);
                    if text.contains("torch_xla") {
                        imports.add(context.place(node.node.range(), ""), []);
                    }
                }
            }
            let title = "torch_xla is imported: it and torch_tpu claim the same devices";
            remarks.push(imports.remark(Severity::Medium, title));
        }
        for remark in &mut remarks {
            remark.advice = vec![
                "TorchTPU is PyTorch's own eager mode and torch.compile on the device \"tpu\": no \
                 lazy tensors, no step marks; take torch_xla out of the environment"
                    .to_owned(),
            ];
        }
        remarks
    }
}

/// The edit that takes a call away: its whole line where other statements are left in the block, or
/// else the call, for `None`.
fn removal(context: &SourceContext<'_>, id: NodeId, call: TextRange) -> Edit {
    let statement = context.index.statement_of(id);
    let alone = statement.is_some_and(|statement| {
        let line = context.file.line_text(context.file.line_of(call.start()));
        statement.is_stmt_expr()
            && statement.range() == call
            && line.trim() == context.text(statement)
    });
    let parent = statement
        .and_then(|statement| context.index.id_of(statement))
        .and_then(|id| context.index.get(id)?.parent)
        .and_then(|id| context.index.get(id));
    let body = parent.map(|parent| match parent.node {
        AnyNodeRef::StmtFor(repeat) => repeat.body.len(),
        AnyNodeRef::StmtWith(with) => with.body.len(),
        AnyNodeRef::StmtFunctionDef(function) => function.body.len(),
        _ => 0,
    });
    if alone && body.is_some_and(|body| body > 1) {
        let line = context.file.line_of(call.start());
        context.edit(context.file.line_range(line), "")
    } else {
        context.edit(call, "None")
    }
}

/// Whether the file imports it without a way around it.
fn needs_it(context: &SourceContext<'_>) -> bool {
    context.index.nodes().any(|(id, node)| {
        let of_xla = match node.node {
            AnyNodeRef::StmtImport(import) => import
                .names
                .iter()
                .any(|alias| alias.name.split('.').next() == Some("torch_xla")),
            AnyNodeRef::StmtImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                module.split('.').next() == Some("torch_xla")
            }
            _ => false,
        };
        of_xla && !is_optional(context, id)
    })
}
