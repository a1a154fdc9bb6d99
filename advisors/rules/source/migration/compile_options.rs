//! Options of `torch.compile` that are for Inductor.

use crate::python::Ranged as _;
use crate::python::ast::ExprCall;

use super::Places;
use super::guard::is_guarded;
use super::rewrite::without_arguments;
use crate::finding::{Applicability, Numerics, Remark, Severity};
use crate::python::SourceContext;
use crate::rule::Rule;
use crate::rules::source::counted;

/// The rule.
#[derive(Debug)]
pub struct CompileOptions;

impl Rule for CompileOptions {
    fn code(&self) -> &'static str {
        "TS508"
    }

    fn name(&self) -> &'static str {
        "inductor-options"
    }

    fn card(&self) -> &'static str {
        include_str!("compile_options.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let mut places = Places::default();
        for (id, call, _) in context.calls_of(|name| name == "torch.compile") {
            let refused = refused(call);
            if refused.is_empty() || is_guarded(context, id) {
                continue;
            }
            let label = "TorchTPU's backend refuses it";
            let name = refused.first().copied().unwrap_or_default();
            let first = call.arguments.find_keyword(name);
            let range = first.map_or(call.range(), crate::python::Ranged::range);
            let edits = without_arguments(context, call, &refused);
            places.add(context.place(range, label), edits);
        }
        if places.is_empty() {
            return Vec::new();
        }
        let title = format!(
            "{} of torch.compile with options of Inductor: compiling for the TPU raises",
            counted(places.len(), "call")
        );
        let fix = "the default backend and mode, which are TorchTPU's";
        let (safe, numerics) = (Applicability::Safe, Numerics::WithinTolerance);
        let mut remark = places.fixed(Severity::High, title, fix, safe, numerics);
        remark.advice = vec![
            "leave out mode and backend: torch_tpu makes its own backend the default, which compiles \
             the whole graph into one program (what CUDA graphs and autotuning are for)"
                .to_owned(),
        ];
        vec![remark]
    }
}

/// Keywords that the TPU's backend raises at.
fn refused(call: &ExprCall) -> Vec<&'static str> {
    let is = |name: &str, values: &[&str]| {
        let value = call
            .arguments
            .find_keyword(name)
            .and_then(|keyword| keyword.value.as_string_literal_expr());
        value.is_some_and(|value| values.contains(&value.value.to_str()))
    };
    let modes = [
        "reduce-overhead",
        "max-autotune",
        "max-autotune-no-cudagraphs",
    ];
    let mut refused = Vec::new();
    if is("mode", &modes) {
        refused.push("mode");
    }
    if is("backend", &["inductor"]) {
        refused.push("backend");
    }
    refused
}
