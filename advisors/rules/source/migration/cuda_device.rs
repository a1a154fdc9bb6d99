//! Tensors and modules on `cuda` where there is a TPU.

use crate::python::ast::{AnyNodeRef, Expr, ExprCall};
use crate::python::{Ranged as _, TextRange};

use super::Places;
use super::guard::{is_guarded, serves_several_devices};
use super::rewrite::tpu_for;
use crate::finding::{Applicability, Numerics, Remark, Severity};
use crate::python::{NodeId, SourceContext};
use crate::rule::Rule;
use crate::rules::source::counted;

/// The rule.
#[derive(Debug)]
pub struct CudaDevice;

/// Keywords that take a device.
const DEVICE_KEYWORDS: &[&str] = &["device", "map_location", "device_map", "pin_memory_device"];

/// Where a device is named, by how certain it is that it is one.
#[derive(Debug, Default)]
struct Found {
    certain: Places,
    likely: Places,
}

impl Rule for CudaDevice {
    fn code(&self) -> &'static str {
        "TS501"
    }

    fn name(&self) -> &'static str {
        "cuda-device"
    }

    fn card(&self) -> &'static str {
        include_str!("cuda_device.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !context.file.text.contains("cuda") || !context.names.imports("torch") {
            return Vec::new();
        }
        let mut found = Found::default();
        for (id, node) in context.index.nodes() {
            match node.node {
                AnyNodeRef::ExprCall(call) => in_call(context, id, call, &mut found),
                AnyNodeRef::StmtAssign(assign) => {
                    let is_device = assign.targets.iter().any(|target| {
                        let name = context.text(target).to_ascii_lowercase();
                        name.ends_with("device") || name.ends_with("device_type")
                    });
                    if is_device {
                        device(context, id, &assign.value, &mut found.certain);
                    }
                }
                AnyNodeRef::ParameterWithDefault(parameter) => {
                    let is_device = parameter.parameter.name.ends_with("device");
                    if let (true, Some(default)) = (is_device, &parameter.default) {
                        device(context, id, default, &mut found.likely);
                    }
                }
                _ => {}
            }
        }
        if serves_several_devices(context) {
            // The file knows of other devices: what is left of cuda in it are defaults.
            let mut remarks = Vec::new();
            let all = [found.certain, found.likely];
            for places in all.into_iter().filter(|places| !places.is_empty()) {
                remarks.push(remark(places, Severity::Low, Applicability::Unsafe));
            }
            return remarks;
        }
        let mut remarks = Vec::new();
        if !found.certain.is_empty() {
            remarks.push(remark(found.certain, Severity::High, Applicability::Safe));
        }
        if !found.likely.is_empty() {
            remarks.push(remark(
                found.likely,
                Severity::Medium,
                Applicability::Unsafe,
            ));
        }
        remarks
    }
}

fn remark(places: Places, severity: Severity, applicability: Applicability) -> Remark {
    let title = format!(
        "{} on a device \"cuda\", which raises where there is no GPU",
        counted(places.len(), "place")
    );
    let fix = "the device is \"tpu\"";
    let mut remark = places.fixed(
        severity,
        title,
        fix,
        applicability,
        Numerics::WithinTolerance,
    );
    remark.advice = vec![
        "name the device \"tpu\": torch_tpu registers it when torch is imported, and each process \
         has one, without an index"
            .to_owned(),
    ];
    if applicability == Applicability::Unsafe {
        remark.caveats = vec![
            "callers may give another device, and the file may be meant for several".to_owned(),
        ];
    }
    remark
}

/// Devices among the arguments of a call.
fn in_call(context: &SourceContext<'_>, id: NodeId, call: &ExprCall, found: &mut Found) {
    let name = context.qualified(&call.func);
    let name = name.as_deref().unwrap_or_default();
    if name.contains("autocast") || name.contains("GradScaler") {
        return;
    }
    let method = call.func.as_attribute_expr();
    if let Some(method) = method.filter(|method| method.attr.as_str() == "cuda") {
        let is_module = name == "torch.cuda" || name.starts_with("torch.");
        if is_module
            || is_guarded(context, id)
            || is_super_call(&method.value)
            || !moves_to_gpu(call)
        {
            return;
        }
        let mut replacement = ".to(\"tpu\"".to_owned();
        for keyword in &call.arguments.keywords {
            if keyword
                .arg
                .as_ref()
                .is_some_and(|name| name.as_str() != "device")
            {
                replacement.push_str(", ");
                replacement.push_str(context.text(keyword));
            }
        }
        replacement.push(')');
        let range = TextRange::new(method.value.end(), call.end());
        let place = context.place(range, "a GPU is asked for");
        found.certain.add(place, [context.edit(range, replacement)]);
        return;
    }
    let is_to = method.is_some_and(|method| method.attr.as_str() == "to");
    let of_torch = name.starts_with("torch.");
    let is_default = context
        .index
        .ancestors(id)
        .any(|(_, above)| matches!(above.node, AnyNodeRef::ParameterWithDefault(_)));
    if is_default {
        // `def f(device=torch.device("cuda"))`: callers may give another.
        if let Some(first) = call
            .arguments
            .args
            .first()
            .filter(|_| name == "torch.device")
        {
            device(context, id, first, &mut found.likely);
        }
    } else if name == "torch.device" || name == "torch.Generator" {
        let first = call.arguments.args.first();
        let index = call.arguments.args.get(1);
        if let (Some(first), Some(index)) = (first, index)
            && tpu_for(context, first).is_some()
            && !is_guarded(context, id)
        {
            // torch.device("cuda", rank)
            let range = TextRange::new(first.start(), index.end());
            let tpu = tpu_for(context, first).unwrap_or_default();
            let place = context.place(range, "a GPU by index");
            found.certain.add(place, [context.edit(range, tpu)]);
        } else if let Some(first) = first {
            device(context, id, first, &mut found.certain);
        }
    } else if is_to {
        for argument in &call.arguments.args {
            device(context, id, argument, &mut found.certain);
        }
    }
    let is_option = method.is_some_and(|method| method.attr.as_str() == "add_argument");
    for keyword in &call.arguments.keywords {
        let Some(arg) = keyword.arg.as_ref().map(|arg| arg.as_str()) else {
            continue;
        };
        if DEVICE_KEYWORDS.contains(&arg) {
            let places = if of_torch || is_to || arg == "map_location" {
                &mut found.certain
            } else {
                &mut found.likely
            };
            device(context, id, &keyword.value, places);
        } else if is_option && arg == "default" && context.text(call).contains("device") {
            device(context, id, &keyword.value, &mut found.likely);
        }
    }
}

/// Adds a device that is a GPU.
fn device(context: &SourceContext<'_>, id: NodeId, device: &Expr, places: &mut Places) {
    let Some(tpu) = tpu_for(context, device) else {
        return;
    };
    if is_guarded(context, id) {
        return;
    }
    let place = context.place(device.range(), "there is no GPU");
    places.add(place, [context.edit(device.range(), tpu)]);
}

/// Whether a call has the arguments of `Tensor.cuda` and `Module.cuda`: a device and `non_blocking`.
fn moves_to_gpu(call: &ExprCall) -> bool {
    let known = |name: &str| matches!(name, "device" | "non_blocking" | "memory_format");
    let arguments = &call.arguments;
    arguments.args.len() <= 1
        && arguments
            .keywords
            .iter()
            .all(|keyword| keyword.arg.as_ref().is_some_and(|name| known(name)))
}

fn is_super_call(value: &Expr) -> bool {
    let call = value.as_call_expr();
    let name = call.and_then(|call| call.func.as_name_expr());
    name.is_some_and(|name| name.id.as_str() == "super")
}
