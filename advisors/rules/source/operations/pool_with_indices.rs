//! TS327: max_pool that also returns where the largest values were.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::{SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::keyword;
use crate::rules::source::operations::code::{Code, with_places};
use ast::Expr;

/// The rule.
#[derive(Debug)]
pub struct PoolWithIndices;

impl Rule for PoolWithIndices {
    fn code(&self) -> &'static str {
        "TS327"
    }

    fn name(&self) -> &'static str {
        "pool-with-indices"
    }

    fn card(&self) -> &'static str {
        include_str!("pool_with_indices.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !["return_indices", "with_indices"]
            .iter()
            .any(|word| context.file.text.contains(word))
        {
            return Vec::new();
        }
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        let mut places = Vec::new();
        for (_, call, name) in code.named_calls() {
            let pool = name.strip_prefix("torch.nn.").is_some_and(|name| {
                let name = name.strip_prefix("functional.").unwrap_or(name);
                name.starts_with("max_pool")
                    || name.starts_with("MaxPool")
                    || name.starts_with("adaptive_max_pool")
                    || name.starts_with("AdaptiveMaxPool")
            });
            let asked = matches!(keyword(call, "return_indices"), Some(Expr::BooleanLiteral(it)) if it.value);
            if pool && (asked || name.ends_with("_with_indices")) {
                places.push(code.place(call, "indices are computed and kept"));
            }
        }
        if places.is_empty() {
            return Vec::new();
        }
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            Severity::Medium,
            "max_pool returns indices: on TorchTPU its backward pass is then up to 50 times slower",
        );
        with_places(&mut remark, places);
        remark.evidence.push(Exhibit::text(
            "stated",
            "up to 66 % more memory, backward up to 50 times slower with indices",
            "the package torch_tpu 0.2.0, pooling/patch.py",
        ));
        remark.advice = vec![
            "Leave `return_indices` out where the indices only feed `max_unpool`: upsample (`F.interpolate`, a transposed convolution) instead.".to_owned(),
        ];
        vec![remark]
    }
}
