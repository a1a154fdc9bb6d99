//! Calls that read a tensor on the host without showing it.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::{Expr, ExprCall};
use crate::python::{Framework, HeatKind, NodeId, Ranged as _, SourceContext, Value};
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct HiddenSync;

impl Rule for HiddenSync {
    fn code(&self) -> &'static str {
        "TS205"
    }

    fn name(&self) -> &'static str {
        "hidden-host-read"
    }

    fn card(&self) -> &'static str {
        include_str!("hidden_sync.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        context
            .calls()
            .filter_map(|(id, call)| remark(context, id, call))
            .collect()
    }
}

fn remark(context: &SourceContext<'_>, id: NodeId, call: &ExprCall) -> Option<Remark> {
    let (what, advice) = hidden(context, call)?;
    let heat = context.heat(id)?;
    if heat.kind == HeatKind::Traced && heat.framework == Framework::Jax {
        return None;
    }
    let mut remark = Remark::new(
        AdviceKind::HostDispatch,
        Severity::Medium,
        format!("{what} in code that runs in every step: the host waits for the device each time"),
    );
    remark
        .places
        .push(context.place(call.range(), "reads a value on the host"));
    remark.evidence.push(Exhibit::text(
        "why it counts",
        heat.why.clone(),
        "loops, calls and classes of this file",
    ));
    remark.advice.push(advice.to_owned());
    Some(remark)
}

/// What a call reads, and what to do instead.
fn hidden<'a>(
    context: &SourceContext<'a>,
    call: &'a ExprCall,
) -> Option<(&'static str, &'static str)> {
    let is_true = |name: &str| {
        call.arguments
            .find_keyword(name)
            .is_some_and(|keyword| matches!(&keyword.value, Expr::BooleanLiteral(yes) if yes.value))
    };
    let on_device = |expression: &'a Expr| {
        context
            .tensor(expression)
            .is_some_and(|tensor| !tensor.on_host)
    };
    let name = context.qualified(&call.func);
    match name.as_deref() {
        Some("torch.equal" | "torch.allclose")
            if call.arguments.args.iter().take(2).any(on_device) =>
        {
            return Some((
                "`torch.equal` or `torch.allclose` returns a Python bool",
                "compare by identity (`a is b`) where that is meant, or keep the answer on the device: `(a == b).all()` with `torch.where`",
            ));
        }
        Some("torch.nn.utils.clip_grad_norm_") if is_true("error_if_nonfinite") => {
            return Some((
                "`clip_grad_norm_(error_if_nonfinite=True)` reads the norm",
                "leave `error_if_nonfinite` off, and check the norm every N steps",
            ));
        }
        _ => {}
    }
    let Expr::Attribute(attribute) = &*call.func else {
        return None;
    };
    let owner = match &*attribute.value {
        Expr::Name(name) => name.id.as_str(),
        Expr::Attribute(inner) => inner.attr.as_str(),
        _ => "",
    };
    match attribute.attr.as_str() {
        "step"
            if owner.ends_with("scaler")
                && !call.arguments.is_empty()
                && !is_disabled(context, &attribute.value) =>
        {
            Some((
                "`GradScaler.step` reads whether a gradient is infinite",
                "use bfloat16: it has the range of float32, and needs no loss scaling; TPUs have no float16 matmuls",
            ))
        }
        "compute"
            if (owner.contains("metric") || owner.contains("accuracy") || owner.contains("f1"))
                && call.arguments.is_empty()
                && context.value(&attribute.value) == Value::Unknown =>
        {
            Some((
                "`compute()` of a metric",
                "call `update()` in each step, and `compute()` once, after the loop",
            ))
        }
        "equal" if on_device(&attribute.value) && call.arguments.args.iter().any(on_device) => {
            Some((
                "`Tensor.equal` returns a Python bool",
                "compare by identity (`a is b`) where that is meant, or keep the answer on the device",
            ))
        }
        _ => None,
    }
}

/// Whether a scaler is made with `enabled=False`: its step is then the optimizer's.
fn is_disabled<'a>(context: &SourceContext<'a>, scaler: &'a Expr) -> bool {
    let Expr::Name(name) = scaler else {
        return false;
    };
    let Some(at) = context.index.id_of(name) else {
        return false;
    };
    let made = context.assigned(at, name.id.as_str());
    !made.is_empty()
        && made.iter().all(|value| {
            let keyword = value
                .as_call_expr()
                .and_then(|call| call.arguments.find_keyword("enabled"));
            keyword.is_some_and(
                |keyword| matches!(&keyword.value, Expr::BooleanLiteral(yes) if !yes.value),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::HiddenSync;
    use crate::rules::source::recompilation::found;

    #[test]
    fn hidden_reads_are_found() {
        let text = "import torch\nfrom torch import nn\nclass A(nn.Module):\n    def forward(self, query, key):\n        if torch.equal(query, key):\n            return query\n        return key\n";
        assert_eq!(found(&HiddenSync, text).len(), 1);
        let text = "import torch\nfor batch in loader:\n    loss = model(batch)\n    loss.backward()\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    scaler.step(optimizer)\n    scaler.update()\n";
        let lines: Vec<u64> = found(&HiddenSync, text)
            .iter()
            .map(|f| f.places[0].line)
            .collect();
        assert_eq!(lines, [5, 7]);
        let off = text.replace(
            "for batch",
            "scaler = torch.amp.GradScaler(enabled=False)\nfor batch",
        );
        assert_eq!(found(&HiddenSync, &off).len(), 1);
    }

    #[test]
    fn a_test_may_compare() {
        let text = "import torch\ndef check(a):\n    assert torch.equal(a, torch.zeros(2))\n";
        assert!(found(&HiddenSync, text).is_empty());
    }
}
