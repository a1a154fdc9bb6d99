//! Settings of CUDA libraries and pinned memory, which say nothing to a TPU.

use crate::python::Ranged as _;
use crate::python::ast::AnyNodeRef;

use super::Places;
use super::guard::{is_guarded, serves_several_devices};
use crate::finding::{Applicability, Numerics, Remark, Severity};
use crate::python::SourceContext;
use crate::rule::Rule;
use crate::rules::source::counted;

/// The rule.
#[derive(Debug)]
pub struct CudaSettings;

impl Rule for CudaSettings {
    fn code(&self) -> &'static str {
        "TS512"
    }

    fn name(&self) -> &'static str {
        "cuda-settings"
    }

    fn card(&self) -> &'static str {
        include_str!("cuda_settings.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if serves_several_devices(context) {
            return Vec::new();
        }
        let (mut settings, mut pinned) = (Places::default(), Places::default());
        let mut precision = false;
        for (id, node) in context.index.nodes() {
            match node.node {
                AnyNodeRef::StmtAssign(assign) => {
                    let target = assign.targets.first();
                    let name = target.and_then(|target| context.qualified(target));
                    if let Some(name) = name.filter(|name| is_setting(name))
                        && !is_guarded(context, id)
                    {
                        precision |= name.ends_with("allow_tf32");
                        settings.add(context.place(assign.range(), ""), []);
                    }
                }
                AnyNodeRef::ExprCall(call) => {
                    let name = context.qualified(&call.func).unwrap_or_default();
                    let pin = call.arguments.find_keyword("pin_memory");
                    if is_setting(&name) && !is_guarded(context, id) {
                        settings.add(context.place(call.range(), ""), []);
                    } else if let Some(pin) = pin.filter(|pin| {
                        name == "torch.utils.data.DataLoader" && context.text(&pin.value) == "True"
                    }) {
                        let edit = context.edit(pin.value.range(), "False");
                        pinned.add(context.place(pin.range(), ""), [edit]);
                    }
                }
                _ => {}
            }
        }
        let mut remarks = Vec::new();
        if !settings.is_empty() {
            let title = format!(
                "{} of CUDA's libraries without effect on a TPU",
                counted(settings.len(), "setting")
            );
            let mut remark = settings.remark(Severity::Info, title);
            let matmul = "torch.set_float32_matmul_precision says how many bfloat16 passes a float32 \
                          matmul takes: medium 1, high 3, highest 6";
            remark.advice = if precision {
                vec![matmul.to_owned()]
            } else {
                vec!["they can stay: they neither raise nor do anything".to_owned()]
            };
            remarks.push(remark);
        }
        if !pinned.is_empty() {
            let title = format!(
                "{} with pin_memory=True: the TPU's runtime must have an allocator for it",
                counted(pinned.len(), "DataLoader")
            );
            let (fix, unsafe_) = ("memory is not pinned", Applicability::Unsafe);
            let exact = Numerics::BitExact;
            let mut remark = pinned.fixed(Severity::Info, title, fix, unsafe_, exact);
            remark.advice = vec![
                "keep it where it works; at \"host memory allocator is not implemented for this \
                 client\" leave it out"
                    .to_owned(),
            ];
            remarks.push(remark);
        }
        remarks
    }
}

fn is_setting(name: &str) -> bool {
    name.starts_with("torch.backends.cudnn.") || name.starts_with("torch.backends.cuda.")
}
