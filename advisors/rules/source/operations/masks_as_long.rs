//! TS330: masks and type ids that go to the device as 64-bit integers.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Fix, Numerics, Remark, Severity};
use crate::python::{Ranged as _, SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::keyword;
use crate::rules::source::operations::code::{Code, mask_name, with_places};
use ast::Expr;

/// The rule.
#[derive(Debug)]
pub struct MasksAsLong;

impl Rule for MasksAsLong {
    fn code(&self) -> &'static str {
        "TS330"
    }

    fn name(&self) -> &'static str {
        "masks-as-long"
    }

    fn card(&self) -> &'static str {
        include_str!("masks_as_long.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !["torch.long", "torch.int64"]
            .iter()
            .any(|word| context.file.text.contains(word))
        {
            return Vec::new();
        }
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        let mut places = Vec::new();
        let mut edits = Vec::new();
        let mut first = None;
        for (id, call) in context.calls() {
            let Expr::Attribute(method) = &*call.func else {
                continue;
            };
            if method.attr.as_str() != "to" || code.name(&call.func).is_some() {
                continue;
            }
            let Some(dtype) = keyword(call, "dtype") else {
                continue;
            };
            if !code
                .name(dtype)
                .is_some_and(|name| matches!(name.as_str(), "torch.long" | "torch.int64"))
                || call.arguments.args.is_empty()
            {
                continue;
            }
            let Some(why) = code.heat(id) else { continue };
            let name = context.text(&*method.value);
            places.push(code.place(call, format!("`{name}` in 64 bits")));
            first = first.or(Some(why));
            // Targets of a loss and inputs of an embedding may have to be long; masks need not.
            if mask_name(name) || name.contains("type") {
                let narrow = context
                    .text(dtype)
                    .rsplit_once('.')
                    .map_or_else(String::new, |(module, _)| format!("{module}.int32"));
                if !narrow.is_empty() {
                    edits.push(context.edit(dtype.range(), narrow));
                }
            }
        }
        let Some(why) = first else { return Vec::new() };
        let mut remark = Remark::new(
            AdviceKind::Dtype,
            Severity::Low,
            format!(
                "{} to the device as 64-bit integers, which a TPU emulates: {why}",
                if places.len() == 1 {
                    "a tensor goes".to_owned()
                } else {
                    format!("{} tensors go", places.len())
                }
            ),
        );
        with_places(&mut remark, places);
        remark.advice = vec![
            "Send masks and ids as `torch.int32` (or masks as `torch.bool`): half of the bytes, and arithmetic that the chip has. Targets of `cross_entropy` stay long.".to_owned(),
            "Send a batch at once, ahead of its step (MpDeviceLoader, a loader that prefetches), instead of tensor by tensor in the step.".to_owned(),
        ];
        if !edits.is_empty() {
            remark.fix = Some(Fix {
                title: "send masks as int32".to_owned(),
                applicability: Applicability::Unsafe,
                numerics: Numerics::BitExact,
                edits,
            });
        }
        vec![remark]
    }
}
