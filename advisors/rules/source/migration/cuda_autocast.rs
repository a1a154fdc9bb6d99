//! Automatic mixed precision for a GPU: on a TPU it is off, and everything runs in float32.

use crate::python::Ranged as _;
use crate::python::ast::{Expr, ExprCall};

use super::Places;
use super::guard::{is_guarded, serves_several_devices};
use crate::finding::{Applicability, Edit, Numerics, Remark, Severity};
use crate::python::SourceContext;
use crate::rule::Rule;
use crate::rules::source::counted;

/// The rule.
#[derive(Debug)]
pub struct CudaAutocast;

impl Rule for CudaAutocast {
    fn code(&self) -> &'static str {
        "TS503"
    }

    fn name(&self) -> &'static str {
        "cuda-autocast"
    }

    fn card(&self) -> &'static str {
        include_str!("cuda_autocast.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !context.file.text.contains("autocast") {
            return Vec::new();
        }
        let mut places = Places::default();
        for (id, call, name) in context.calls_of(|name| {
            matches!(
                name,
                "torch.cuda.amp.autocast"
                    | "torch.cuda.amp.autocast_mode.autocast"
                    | "torch.autocast"
                    | "torch.amp.autocast"
                    | "torch.amp.autocast_mode.autocast"
            )
        }) {
            // Autocast that is switched off does the same on every device: nothing.
            let enabled = call
                .arguments
                .find_keyword("enabled")
                .map(|keyword| context.text(&keyword.value));
            if enabled == Some("False") || is_guarded(context, id) {
                continue;
            }
            let edits = if name.starts_with("torch.cuda") {
                old_form(context, call)
            } else {
                new_form(context, call)
            };
            if let Some(edits) = edits {
                places.add(context.place(call.range(), "off on a TPU"), edits);
            }
        }
        if places.is_empty() {
            return Vec::new();
        }
        let title = format!(
            "autocast for \"cuda\" in {}: on a TPU it is off, and the model computes in float32",
            counted(places.len(), "place")
        );
        let several = serves_several_devices(context);
        let (severity, applicability) = if several {
            (Severity::Low, Applicability::Unsafe)
        } else {
            (Severity::Medium, Applicability::Safe)
        };
        let fix = "autocast for \"tpu\" with bfloat16";
        let mut remark = places.fixed(severity, title, fix, applicability, Numerics::Changes);
        remark.advice = vec![
            "torch.autocast(\"tpu\", dtype=torch.bfloat16): the matrix units multiply bfloat16, and \
             its range is that of float32, so that no GradScaler is needed"
                .to_owned(),
        ];
        vec![remark]
    }
}

/// `torch.cuda.amp.autocast(enabled, dtype, cache_enabled)`: written anew.
fn old_form(context: &SourceContext<'_>, call: &ExprCall) -> Option<Vec<Edit>> {
    let mut words = vec!["\"tpu\"".to_owned(), "dtype=torch.bfloat16".to_owned()];
    match call.arguments.args.first() {
        Some(enabled) if context.text(enabled) == "False" => return None,
        Some(enabled) if context.text(enabled) != "True" => {
            words.push(format!("enabled={}", context.text(enabled)));
        }
        _ => {}
    }
    for keyword in &call.arguments.keywords {
        let name = keyword.arg.as_ref().map(|name| name.as_str());
        if name != Some("dtype") {
            words.push(context.text(keyword).to_owned());
        }
    }
    if !context
        .names
        .imported()
        .any(|(name, full)| name == "torch" && full == "torch")
    {
        return Some(Vec::new());
    }
    let text = format!("torch.autocast({})", words.join(", "));
    Some(vec![context.edit(call.range(), text)])
}

/// `torch.autocast(device_type="cuda", dtype=torch.float16)`: the device and the type are replaced.
fn new_form(context: &SourceContext<'_>, call: &ExprCall) -> Option<Vec<Edit>> {
    let device = call.arguments.find_argument_value("device_type", 0)?;
    let device_edit = match device {
        Expr::StringLiteral(literal) if literal.value.to_str() == "cuda" => {
            context.edit(device.range(), "\"tpu\"")
        }
        _ => return None,
    };
    let mut edits = vec![device_edit];
    match call.arguments.find_argument_value("dtype", 1) {
        Some(dtype) => {
            let half = context.qualified(dtype);
            if matches!(half.as_deref(), Some("torch.float16" | "torch.half")) {
                edits.push(context.edit(dtype.range(), "torch.bfloat16"));
            }
        }
        None if context
            .names
            .imported()
            .any(|(name, full)| name == "torch" && full == "torch") =>
        {
            let at =
                crate::python::TextRange::empty(match call.arguments.find_keyword("device_type") {
                    Some(keyword) => keyword.end(),
                    None => device.end(),
                });
            edits.push(context.edit(at, ", dtype=torch.bfloat16"));
        }
        None => {}
    }
    Some(edits)
}
