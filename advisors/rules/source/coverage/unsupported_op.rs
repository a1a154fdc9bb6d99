//! Operators that TorchTPU has no kernel for.

use std::collections::BTreeMap;

use crate::python::ast::Expr;
use knowledge::advice::AdviceKind;
use knowledge::torch_tpu::{Exactness, Support, Version, substitute, version_or_newest};

use super::host::OnHost;
use super::used::{Use, is_in_model, uses};
use crate::finding::{Applicability, Edit, Exhibit, Fix, Numerics, Place, Remark, Severity};
use crate::python::{Ranged as _, SourceContext};
use crate::rule::Rule;
use crate::rules::source::migration::guard::is_guarded;

/// The rule.
#[derive(Debug)]
pub struct UnsupportedOp;

/// What is found of one operator in a file.
#[derive(Debug)]
struct Found {
    places: Vec<Place>,
    edits: Vec<Edit>,
    severity: Severity,
    /// The operator whose kernel is missing, where it is not this one but its gradient.
    gradient: Option<String>,
}

impl Rule for UnsupportedOp {
    fn code(&self) -> &'static str {
        "TS601"
    }

    fn name(&self) -> &'static str {
        "unsupported-op"
    }

    fn card(&self) -> &'static str {
        include_str!("unsupported_op.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let known = version_or_newest(context.project.torch_tpu.as_deref());
        let mut found: BTreeMap<String, Found> = BTreeMap::new();
        let all = uses(context);
        if all.is_empty() {
            return Vec::new();
        }
        let host = OnHost::new(context);
        for used in all {
            for operator in &used.operators {
                let gradient = known.missing_gradient(operator);
                let missing = known.support(operator).is_missing();
                if (!missing && gradient.is_none())
                    || is_guarded(context, used.id)
                    || host.has(context, &used)
                {
                    continue;
                }
                let in_model = is_in_model(context, &used);
                // The gradient of what is no part of a model is never asked for.
                if !missing && !in_model {
                    continue;
                }
                let severity = match (missing, in_model) {
                    (true, true) => Severity::High,
                    _ => Severity::Medium,
                };
                let entry = found.entry(operator.clone()).or_insert_with(|| Found {
                    places: Vec::new(),
                    edits: Vec::new(),
                    severity,
                    gradient: gradient.filter(|_| !missing),
                });
                entry.severity = entry.severity.min(severity);
                entry.places.push(context.place(used.range, ""));
                entry.edits.extend(rewritten(context, &used, operator));
            }
        }
        found
            .into_iter()
            .map(|(operator, found)| remark(known, &operator, found))
            .collect()
    }
}

fn remark(known: &Version, operator: &str, found: Found) -> Remark {
    let compiled = known.support(operator) == Support::CompiledOnly;
    let title = match &found.gradient {
        // PyTorch writes the gradients of resizes in Python for compiled code.
        Some(backward) if operator.starts_with("upsample_") => format!(
            "aten::{operator} has no gradient in torch_tpu {}: training raises at aten::{backward} \
             unless it is compiled",
            known.torch_tpu
        ),
        Some(backward) => format!(
            "aten::{operator} has no gradient in torch_tpu {}: training raises at aten::{backward}",
            known.torch_tpu
        ),
        None if compiled => format!(
            "aten::{operator} has no kernel in torch_tpu {}: it raises unless it is compiled",
            known.torch_tpu
        ),
        None => format!(
            "aten::{operator} has no kernel in torch_tpu {}: it raises, eager and compiled",
            known.torch_tpu
        ),
    };
    let mut remark = Remark::new(AdviceKind::OpSubstitution, found.severity, title);
    let all = found.places.len();
    remark.places = found.places;
    remark.evidence.push(Exhibit::text(
        "support",
        match &found.gradient {
            Some(backward) => known.support(backward).name(),
            None => known.support(operator).name(),
        },
        format!(
            "the dispatcher of torch_tpu {} with torch {}",
            known.torch_tpu, known.torch
        ),
    ));
    let substitute = substitute(operator);
    remark.advice.push(match substitute {
        Some(substitute) => format!("write {}", substitute.write),
        None => {
            "no substitute is known: keep it outside the step, on tensors of the host".to_owned()
        }
    });
    remark
        .caveats
        .push("where its tensors are on the host it runs as it is".to_owned());
    if let Some(substitute) = substitute.filter(|_| found.edits.len() == all) {
        remark.fix = Some(Fix {
            title: format!("aten::{operator} written with operators that have kernels"),
            applicability: Applicability::Unsafe,
            numerics: match substitute.numerics {
                Exactness::BitExact => Numerics::BitExact,
                Exactness::WithinTolerance => Numerics::WithinTolerance,
                Exactness::Changes => Numerics::Changes,
            },
            edits: found.edits,
        });
    }
    remark
}

/// The call in new words, where its arguments are names that can be repeated.
fn rewritten(context: &SourceContext<'_>, used: &Use<'_>, operator: &str) -> Option<Edit> {
    let template = substitute(operator)?.template.as_ref()?;
    let torch = context
        .names
        .imported()
        .any(|(name, full)| name == "torch" && full == "torch");
    let is_module = used.name.strip_prefix("torch.nn.");
    if !torch
        || !used.call.arguments.keywords.is_empty()
        || is_module.is_some_and(|rest| rest.starts_with(char::is_uppercase))
    {
        return None;
    }
    let mut arguments: Vec<&Expr> = used.call.arguments.args.iter().collect();
    if used.name.starts_with('.') {
        let receiver = &used.call.func.as_attribute_expr()?.value;
        arguments.insert(0, receiver);
    }
    let wanted = (0..4)
        .filter(|i| template.contains(&format!("{{{i}}}")))
        .count();
    let plain = |value: &&Expr| value.is_name_expr() || is_plain_attribute(value);
    if arguments.len() != wanted || !arguments.iter().all(plain) {
        return None;
    }
    let mut text = template.clone();
    for (i, argument) in arguments.iter().enumerate() {
        text = text.replace(&format!("{{{i}}}"), context.text(*argument));
    }
    Some(context.edit(used.call.range(), format!("({text})")))
}

fn is_plain_attribute(value: &Expr) -> bool {
    let attribute = value.as_attribute_expr();
    attribute.is_some_and(|attribute| attribute.value.is_name_expr())
}
