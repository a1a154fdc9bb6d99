//! Calls of `torch.cuda`, which raise or do nothing where there is a TPU.

use crate::python::Ranged as _;
use crate::python::ast::{AnyNodeRef, ExprCall};
use knowledge::torch_tpu::{CudaCall, OnTpu, cuda_call};

use super::Places;
use super::guard::{is_guarded, serves_several_devices};
use crate::finding::{Applicability, Numerics, Remark, Severity};
use crate::python::{NodeId, SourceContext};
use crate::rule::Rule;
use crate::rules::source::counted;

/// The rule.
#[derive(Debug)]
pub struct TorchCudaCall;

impl Rule for TorchCudaCall {
    fn code(&self) -> &'static str {
        "TS505"
    }

    fn name(&self) -> &'static str {
        "torch-cuda-call"
    }

    fn card(&self) -> &'static str {
        include_str!("torch_cuda_call.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !context.file.text.contains("cuda") {
            return Vec::new();
        }
        let mut raising = Places::default();
        let mut asking = Places::default();
        let mut without = Places::default();
        let mut idle = Places::default();
        let mut idle_matters = false;
        for (id, call, name) in context.calls_of(|name| name.starts_with("torch.cuda.")) {
            let name = name.strip_prefix("torch.cuda.").unwrap_or_default();
            // The process's device is another rule's.
            let Some(known) = cuda_call(name).filter(|known| known.name != "set_device") else {
                continue;
            };
            let asks = known.name == "is_available";
            let branches = name == "device_count" && is_in_condition(context, id);
            if is_guarded(context, id) || branches || (asks && !stops_the_run(context, id)) {
                continue;
            }
            let stops = asks || known.on_tpu == OnTpu::Raises;
            let label = label(known, stops);
            let edit = known.instead.as_deref().and_then(|instead| {
                let plain = context.text(call.func.as_ref()) == format!("torch.cuda.{name}");
                // What a process sees is not what a host has.
                let (range, text) = if takes_rank(context, call) {
                    (call.range(), format!("{instead}()"))
                } else {
                    (call.func.range(), instead.to_owned())
                };
                (plain && name != "device_count").then(|| context.edit(range, text))
            });
            let place = context.place(call.func.range(), label);
            match (stops, edit) {
                (true, Some(edit)) if asks => asking.add(place, [edit]),
                (true, Some(edit)) => raising.add(place, [edit]),
                (true, None) => without.add(place, []),
                (false, edit) => {
                    idle_matters |= !name.contains("seed") && name != "empty_cache";
                    idle.add(place, edit);
                }
            }
        }
        let several = serves_several_devices(context);
        let severity = |severity| if several { Severity::Low } else { severity };
        let applicability = if several {
            Applicability::Unsafe
        } else {
            Applicability::Safe
        };
        let fix = "the counterparts of torch.accelerator and torch.tpu";
        let mut remarks = Vec::new();
        if !raising.is_empty() {
            let title = format!(
                "{} of torch.cuda that stop a run without a GPU and have a counterpart",
                counted(raising.len(), "call")
            );
            let high = severity(Severity::High);
            let exact = Numerics::BitExact;
            remarks.push(raising.fixed(high, title, fix, applicability, exact));
        }
        if !asking.is_empty() {
            let title = format!(
                "{} that ends the run where no GPU is found, as on a TPU",
                counted(asking.len(), "check")
            );
            let fix = "any accelerator will do";
            let (unsafe_, exact) = (Applicability::Unsafe, Numerics::BitExact);
            let high = severity(Severity::High);
            let mut remark = asking.fixed(high, title, fix, unsafe_, exact);
            remark.caveats = vec![
                "where the code behind it needs CUDA kernels the check is right as it is"
                    .to_owned(),
            ];
            remarks.push(remark);
        }
        if !without.is_empty() {
            let title = format!(
                "{} of torch.cuda that raise without a GPU and have no counterpart",
                counted(without.len(), "call")
            );
            remarks.push(without.remark(severity(Severity::High), title));
        }
        if !idle.is_empty() {
            let title = format!(
                "{} of torch.cuda that do nothing without a GPU: no effect, zero or false",
                counted(idle.len(), "call")
            );
            let weight = if idle_matters {
                Severity::Low
            } else {
                Severity::Info
            };
            let exact = Numerics::BitExact;
            remarks.push(idle.fixed(weight, title, fix, applicability, exact));
        }
        for remark in &mut remarks {
            remark.advice = vec![
                "use torch.accelerator, which serves TPUs and GPUs: most of torch.tpu is kept for \
                 PyTorch itself and raises (torch.tpu.synchronize() is internal to TorchTPU)"
                    .to_owned(),
            ];
        }
        remarks
    }
}

/// Whether a call asks for the device of a rank, which on a TPU is the only one.
fn takes_rank(context: &SourceContext<'_>, call: &ExprCall) -> bool {
    let only = match &*call.arguments.args {
        [only] if call.arguments.keywords.is_empty() => only,
        _ => return false,
    };
    let named = only.is_name_expr() || only.is_attribute_expr();
    named && context.text(only).ends_with("rank")
}

fn label(known: &CudaCall, stops: bool) -> String {
    let mut words = match (&known.instead, stops) {
        (Some(instead), _) => format!("{instead} here"),
        (None, true) => "no counterpart".to_owned(),
        (None, false) => "no effect".to_owned(),
    };
    if !known.note.is_empty() {
        words = format!("{words}: {}", known.note);
    }
    words
}

/// Whether a call decides a branch: `if torch.cuda.device_count() > 1:` is false on a TPU, which has
/// one device in each process, and right.
fn is_in_condition(context: &SourceContext<'_>, id: NodeId) -> bool {
    let Some(own) = context.index.get(id).map(|node| node.node.range()) else {
        return false;
    };
    match context.index.statement_of(id) {
        Some(AnyNodeRef::StmtIf(branch)) => branch.test.range().contains_range(own),
        Some(AnyNodeRef::StmtAssert(_)) => true,
        _ => false,
    }
}

/// Whether the run ends where no GPU is found: `assert torch.cuda.is_available()`, `if not
/// torch.cuda.is_available(): raise`.
fn stops_the_run(context: &SourceContext<'_>, id: NodeId) -> bool {
    let statement = context.index.statement_of(id);
    match statement {
        Some(AnyNodeRef::StmtAssert(assert)) => !context.text(assert).contains(" or "),
        Some(AnyNodeRef::StmtIf(branch)) => {
            let negated = context.text(branch.test.as_ref()).starts_with("not ");
            let ends = branch.body.last().is_some_and(|last| {
                let text = context.text(last);
                last.is_raise_stmt() || text.starts_with("sys.exit") || text.starts_with("exit(")
            });
            negated && ends && !context.text(branch.test.as_ref()).contains(" and ")
        }
        _ => false,
    }
}
