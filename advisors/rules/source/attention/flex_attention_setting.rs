//! TS302: `attn_implementation="flex_attention"`, which stops a model on a TPU.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Fix, Numerics, Remark, Severity};
use crate::python::{SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::operations::code::{Code, with_places};
use ast::{AnyNodeRef, Expr};

/// The rule.
#[derive(Debug)]
pub struct FlexAttentionSetting;

impl Rule for FlexAttentionSetting {
    fn code(&self) -> &'static str {
        "TS302"
    }

    fn name(&self) -> &'static str {
        "flex-attention-setting"
    }

    fn card(&self) -> &'static str {
        include_str!("flex_attention_setting.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !context.file.text.contains("attn_implementation") {
            return Vec::new();
        }
        let Some(code) = Code::new(context).filter(|_| context.names.imports("transformers"))
        else {
            return Vec::new();
        };
        let mut places = Vec::new();
        let mut edits = Vec::new();
        for (_, node) in context.index.nodes() {
            let (name, value) = match node.node {
                AnyNodeRef::Keyword(keyword) => (
                    keyword.arg.as_ref().map(|name| name.as_str()),
                    &keyword.value,
                ),
                AnyNodeRef::StmtAssign(assign) => match assign.targets.as_slice() {
                    [Expr::Attribute(target)] => (Some(target.attr.as_str()), &*assign.value),
                    _ => continue,
                },
                _ => continue,
            };
            let Expr::StringLiteral(text) = value else {
                continue;
            };
            if !matches!(name, Some("attn_implementation" | "_attn_implementation"))
                || text.value.to_str() != "flex_attention"
            {
                continue;
            }
            places.push(code.place(value, "an ImportError on a TPU"));
            let new = context.text(value).replace("flex_attention", "sdpa");
            edits.push(context.edit(text.range, new));
        }
        if places.is_empty() {
            return Vec::new();
        }
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            Severity::High,
            "a model of transformers is asked for flex_attention, which raises an ImportError where only a TPU is there",
        );
        with_places(&mut remark, places);
        remark.advice = vec![
            "Ask for `attn_implementation=\"sdpa\"`: TorchTPU runs it as a flash kernel."
                .to_owned(),
        ];
        remark.fix = Some(Fix {
            title: "ask for sdpa".to_owned(),
            applicability: Applicability::Safe,
            numerics: Numerics::WithinTolerance,
            edits,
        });
        vec![remark]
    }
}
