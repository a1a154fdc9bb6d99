//! Process groups over NCCL.

use crate::python::ast::{AnyNodeRef, Expr};
use crate::python::{Ranged as _, TextRange};

use super::Places;
use super::guard::{is_guarded, serves_several_devices};
use crate::finding::{Applicability, Edit, Numerics, Remark, Severity};
use crate::python::SourceContext;
use crate::rule::Rule;
use crate::rules::source::counted;

/// The rule.
#[derive(Debug)]
pub struct NcclBackend;

impl Rule for NcclBackend {
    fn code(&self) -> &'static str {
        "TS506"
    }

    fn name(&self) -> &'static str {
        "nccl-backend"
    }

    fn card(&self) -> &'static str {
        include_str!("nccl_backend.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !context.file.text.contains("nccl") || serves_several_devices(context) {
            return Vec::new();
        }
        let mut places = Places::default();
        for (id, node) in context.index.nodes() {
            match node.node {
                AnyNodeRef::ExprCall(call) => {
                    let name = context.qualified(&call.func).unwrap_or_default();
                    let of_groups = matches!(
                        name.as_str(),
                        "torch.distributed.init_process_group" | "torch.distributed.new_group"
                    );
                    let is_option = call
                        .func
                        .as_attribute_expr()
                        .is_some_and(|method| method.attr.as_str() == "add_argument")
                        && context.text(call).contains("backend");
                    let backend = if of_groups {
                        call.arguments.find_argument_value("backend", 0)
                    } else if is_option {
                        call.arguments.find_argument_value("default", usize::MAX)
                    } else {
                        None
                    };
                    if let Some(edit) = backend.and_then(|backend| edit(context, backend))
                        && !is_guarded(context, id)
                    {
                        places.add(
                            context.place(TextRange::new(start(&edit), end(&edit)), ""),
                            [edit],
                        );
                    }
                }
                AnyNodeRef::StmtAssign(assign) => {
                    let to_backend = assign.targets.iter().any(|target| {
                        context
                            .text(target)
                            .to_ascii_lowercase()
                            .ends_with("backend")
                    });
                    if let Some(edit) = edit(context, &assign.value)
                        && to_backend
                        && !is_guarded(context, id)
                    {
                        places.add(context.place(assign.value.range(), ""), [edit]);
                    }
                }
                _ => {}
            }
        }
        if places.is_empty() {
            return Vec::new();
        }
        let title = format!(
            "{} of process groups over \"nccl\", which needs GPUs",
            counted(places.len(), "place")
        );
        let fix = "the backend of TorchTPU, \"tpu_dist\"";
        let (safe, numerics) = (Applicability::Safe, Numerics::WithinTolerance);
        let mut remark = places.fixed(Severity::High, title, fix, safe, numerics);
        remark.advice = vec![
            "torch.distributed.init_process_group(\"tpu_dist\"): torch_tpu registers it, and runs \
             the collectives over the links between the chips"
                .to_owned(),
        ];
        vec![remark]
    }
}

fn start(edit: &Edit) -> crate::python::TextSize {
    u32::try_from(edit.start).unwrap_or(0).into()
}

fn end(edit: &Edit) -> crate::python::TextSize {
    u32::try_from(edit.end).unwrap_or(0).into()
}

/// The edit of a backend that is NCCL.
fn edit(context: &SourceContext<'_>, backend: &Expr) -> Option<Edit> {
    match backend {
        Expr::StringLiteral(literal) => {
            let text = context.text(backend);
            match literal.value.to_str() {
                "nccl" => Some(context.edit(backend.range(), text.replace("nccl", "tpu_dist"))),
                "cpu:gloo,cuda:nccl" | "cuda:nccl,cpu:gloo" => {
                    Some(context.edit(backend.range(), text.replace("cuda:nccl", "tpu:tpu_dist")))
                }
                _ => None,
            }
        }
        // "nccl" if torch.cuda.is_available() else "gloo"
        Expr::If(choice) => {
            let first = choice.body.as_string_literal_expr()?;
            let is_cuda = context.text(choice.test.as_ref()) == "torch.cuda.is_available()";
            let ends = choice.orelse.is_string_literal_expr();
            (first.value.to_str() == "nccl" && is_cuda && ends).then(|| {
                let at = TextRange::empty(choice.orelse.start());
                let tpu = "\"tpu_dist\" if torch.accelerator.is_available() else ";
                context.edit(at, tpu)
            })
        }
        _ => None,
    }
}
