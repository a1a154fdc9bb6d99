//! TS324: random numbers under vmap with the rbg generators, one example after another.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::{SourceContext, ast};
use crate::rule::Rule;
use crate::rules::source::operations::code::{Code, with_places};
use ast::{AnyNodeRef, Expr};

/// The rule.
#[derive(Debug)]
pub struct VmappedRandom;

impl Rule for VmappedRandom {
    fn code(&self) -> &'static str {
        "TS324"
    }

    fn name(&self) -> &'static str {
        "vmapped-random"
    }

    fn card(&self) -> &'static str {
        include_str!("vmapped_random.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if !["rbg"].iter().any(|word| context.file.text.contains(word)) {
            return Vec::new();
        }
        let Some(code) = Code::new(context) else {
            return Vec::new();
        };
        let Some(generator) = generator(&code) else {
            return Vec::new();
        };
        let mut places = Vec::new();
        for (_, call, name) in code.named_calls() {
            let Some(argument) = call.arguments.args.first().filter(|_| name == "jax.vmap") else {
                continue;
            };
            if draws(&code, argument) {
                places.push(code.place(call, "a key for each example"));
            }
        }
        if places.is_empty() {
            return Vec::new();
        }
        let mut remark = Remark::new(
            AdviceKind::OpSubstitution,
            Severity::High,
            format!(
                "random numbers (dropout) under vmap with the generator {generator}: each example draws its own, one after another"
            ),
        );
        with_places(&mut remark, places);
        remark.evidence.push(Exhibit::text(
            "measured",
            "68,500 tokens/s against 537,700 with one dropout for the batch",
            "https://github.com/marin-community/levanter/issues/226",
        ));
        remark.advice = vec![
            "Draw for the whole batch with one key: call the model on the batch, without vmap over examples and keys.".to_owned(),
            "Where vmap must stay, `vmap(..., spmd_axis_name=...)` does not help: use the generator threefry2x32 (`jax.config.update(\"jax_default_prng_impl\", \"threefry2x32\")`), which vectorizes.".to_owned(),
        ];
        remark.caveats.push("threefry2x32 costs more for each number, and with another generator the numbers are others.".to_owned());
        vec![remark]
    }
}

/// The rbg generator that the file sets.
fn generator(code: &Code<'_, '_>) -> Option<&'static str> {
    code.context
        .index
        .nodes()
        .find_map(|(_, node)| match node.node {
            AnyNodeRef::ExprStringLiteral(text) => match text.value.to_str() {
                "unsafe_rbg" => Some("unsafe_rbg"),
                "rbg" => Some("rbg"),
                _ => None,
            },
            _ => None,
        })
}

/// Whether a function takes or makes keys and draws with them.
fn draws<'a>(code: &Code<'_, 'a>, expression: &'a Expr) -> bool {
    let index = code.context.index;
    let id = match expression {
        Expr::Lambda(lambda) => index.id_of(lambda),
        _ => code
            .function(expression)
            .and_then(|function| index.id_of(function)),
    };
    let Some(id) = id else { return false };
    code.within(id).any(|(_, node)| match node {
        AnyNodeRef::Parameter(parameter) => {
            let name = parameter.name.as_str();
            name == "key" || name == "rng" || name.ends_with("_key") || name.ends_with("_rng")
        }
        AnyNodeRef::ExprCall(call) => code
            .name(&call.func)
            .is_some_and(|name| name.starts_with("jax.random.") && !name.ends_with("split")),
        _ => false,
    })
}
