//! TS325: top-p and top-k samplers made of a sort and a scatter.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::{SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::operations::code::{Code, with_places};
use ast::AnyNodeRef;

/// The rule.
#[derive(Debug)]
pub struct SamplerBySort;

impl Rule for SamplerBySort {
    fn code(&self) -> &'static str {
        "TS325"
    }

    fn name(&self) -> &'static str {
        "sampler-by-sort"
    }

    fn card(&self) -> &'static str {
        include_str!("sampler_by_sort.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !["cumsum"]
            .iter()
            .any(|word| context.file.text.contains(word))
        {
            return Vec::new();
        }
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        let mut places = Vec::new();
        for (id, node) in context.index.nodes() {
            let AnyNodeRef::StmtFunctionDef(function) = node.node else {
                continue;
            };
            let mut sorted = None;
            let (mut summed, mut scattered) = (false, false);
            for (_, inner) in code.within(id) {
                let AnyNodeRef::ExprCall(call) = inner else {
                    continue;
                };
                let name = code.name(&call.func);
                let method = match (&name, &*call.func) {
                    (Some(name), _)
                        if name.starts_with("torch.") || name.starts_with("jax.numpy.") =>
                    {
                        name.rsplit('.').next().unwrap_or_default().to_owned()
                    }
                    (None, ast::Expr::Attribute(method)) => method.attr.to_string(),
                    _ => continue,
                };
                match method.as_str() {
                    "sort" | "argsort" => sorted = sorted.or(Some(call)),
                    "cumsum" => summed = true,
                    "scatter" | "scatter_" => scattered = true,
                    _ => {}
                }
            }
            if let Some(call) = sorted
                && summed
                && scattered
            {
                places.push(code.place(
                    call,
                    format!("`{}` sorts, sums and scatters back", function.name),
                ));
            }
        }
        if places.is_empty() {
            return Vec::new();
        }
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            Severity::Medium,
            "a sampler sorts all of the vocabulary and scatters the mask back: sort and scatter are the slowest operations of a TPU",
        );
        with_places(&mut remark, places);
        remark.evidence.push(Exhibit::text("measured", "Llama-3.1-8B on v6e-1: 0.24 requests/s with sort and scatter, 5.57 with thresholds, 5.98 without sampling", "https://github.com/vllm-project/vllm/pull/15891"));
        remark.advice = vec![
            "Find the threshold, and compare with it: sort the values only, take the probability at which the sum passes p, and keep `probs >= threshold`: nothing is scattered back.".to_owned(),
            "Sample among the first few hundred of `topk` where the vocabulary is large.".to_owned(),
        ];
        remark
            .caveats
            .push("Tokens of equal probability at the threshold are all kept.".to_owned());
        vec![remark]
    }
}
