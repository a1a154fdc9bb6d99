//! Checkpoints that are loaded to where they were saved.

use crate::python::{Ranged as _, TextRange};

use super::Places;
use super::guard::{is_guarded, serves_several_devices};
use crate::finding::{Applicability, Numerics, Remark, Severity};
use crate::python::SourceContext;
use crate::rule::Rule;
use crate::rules::source::counted;

/// The rule.
#[derive(Debug)]
pub struct CheckpointLocation;

impl Rule for CheckpointLocation {
    fn code(&self) -> &'static str {
        "TS511"
    }

    fn name(&self) -> &'static str {
        "checkpoint-location"
    }

    fn card(&self) -> &'static str {
        include_str!("checkpoint_location.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        // Code that never names a GPU saved no checkpoint on one.
        if !context.file.text.contains("cuda") || serves_several_devices(context) {
            return Vec::new();
        }
        let mut places = Places::default();
        for (id, call, _) in context.calls_of(|name| name == "torch.load") {
            let arguments = &call.arguments;
            let placed = arguments.find_argument_value("map_location", 1).is_some()
                || arguments
                    .keywords
                    .iter()
                    .any(|keyword| keyword.arg.is_none());
            let Some(first) = arguments.args.first() else {
                continue;
            };
            if placed || is_guarded(context, id) {
                continue;
            }
            let at = TextRange::empty(first.end());
            let edit = context.edit(at, ", map_location=\"cpu\"");
            places.add(
                context.place(call.range(), "goes where it was saved"),
                [edit],
            );
        }
        if places.is_empty() {
            return Vec::new();
        }
        let title = format!(
            "{} of torch.load without map_location: a checkpoint saved on a GPU raises on a TPU",
            counted(places.len(), "call")
        );
        let fix = "the checkpoint is loaded to host memory";
        let (unsafe_, exact) = (Applicability::Unsafe, Numerics::BitExact);
        let mut remark = places.fixed(Severity::Low, title, fix, unsafe_, exact);
        remark.advice = vec![
            "torch.load(path, map_location=\"cpu\") and load_state_dict, which copies to where the \
             parameters are; map_location=\"tpu\" puts the tensors there themselves"
                .to_owned(),
        ];
        vec![remark]
    }
}
