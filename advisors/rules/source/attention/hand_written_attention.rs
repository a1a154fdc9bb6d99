//! TS303: attention written out, where a fused kernel does the same.

use knowledge::advice::AdviceKind;

use crate::finding::{Remark, Severity};
use crate::python::{SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::attention::by_hand;
use crate::rules::source::operations::code::{Code, with_places};

/// The rule.
#[derive(Debug)]
pub struct HandWrittenAttention;

impl Rule for HandWrittenAttention {
    fn code(&self) -> &'static str {
        "TS303"
    }

    fn name(&self) -> &'static str {
        "hand-written-attention"
    }

    fn card(&self) -> &'static str {
        include_str!("hand_written_attention.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        // Where a table of kernels is asked first, the one written out is the fallback.
        let chosen = context.file.text.contains("ALL_ATTENTION_FUNCTIONS");
        if !context.file.text.contains("softmax") || chosen {
            return Vec::new();
        }
        let Some(code) = Code::new(context).filter(|code| !code.is_torch_xla()) else {
            return Vec::new();
        };
        let mut places = Vec::new();
        let mut first = None;
        for found in by_hand::find(&code) {
            let fallback = context.index.function_of(found.id).is_some_and(|function| {
                function.name.contains("eager") || function.name.contains("reference")
            });
            let Some(why) = code.heat(found.id).filter(|_| !fallback) else {
                continue;
            };
            places.push(context.place(found.range, "weights times values"));
            first = first.or(Some((found, why)));
        }
        let Some((found, why)) = first else {
            return Vec::new();
        };
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            Severity::Medium,
            format!(
                "attention is written out: the weights of all queries and keys go through HBM ({why})"
            ),
        );
        with_places(&mut remark, places);
        let text = |expression: Option<&ast::Expr>, instead: &str| {
            expression.map_or_else(|| instead.to_owned(), |it| context.text(it).to_owned())
        };
        let query = text(found.query_key.map(|pair| pair.0), "q");
        let value = text(found.value, "v");
        remark.advice = if found.jax {
            vec![
                "Call `jax.nn.dot_product_attention(q, k, v, is_causal=...)` on [batch, length, heads, width], or the splash kernel (`jax.experimental.pallas.ops.tpu.splash_attention`) for long sequences.".to_owned(),
            ]
        } else {
            let drop = if found.dropout {
                ", dropout_p=p if self.training else 0.0"
            } else {
                ""
            };
            vec![format!(
                "Call `F.scaled_dot_product_attention({query}, k, {value}{drop})` with k not transposed, `scale=` where it is not 1/sqrt(width), and `is_causal=True` or `attn_mask=` for the mask."
            )]
        };
        remark.caveats.push("Weights that are returned, normalized otherwise or changed after the softmax need attention written out.".to_owned());
        vec![remark]
    }
}
