//! Values of tensors are read on the host in every step.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Edit, Exhibit, Fix, Numerics, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, ExprCall};
use crate::python::{
    Certainty, Framework, Heat, HeatKind, NodeId, Ranged as _, SourceContext, TextRange,
};
use crate::rule::Rule;
use crate::rules::source::host_sync::{Read, metric_call, read_of, shown};

/// See the card.
#[derive(Debug)]
pub struct HostReads;

impl Rule for HostReads {
    fn code(&self) -> &'static str {
        "TS201"
    }

    fn name(&self) -> &'static str {
        "host-read-each-step"
    }

    fn card(&self) -> &'static str {
        include_str!("host_reads.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let mut groups: BTreeMap<NodeId, (&Heat, Vec<Found<'_>>)> = BTreeMap::new();
        for (id, call) in context.calls() {
            let Some(heat) = context.heat(id) else {
                continue;
            };
            let Some(read) = read_of(context, call) else {
                continue;
            };
            // A progress bar has its own rule, and so have conditions.
            if metric_call(context, id).is_some() || printed(context, id) {
                continue;
            }
            // Code that is traced has no values: only what is certain is worth a word.
            if heat.kind == HeatKind::Traced
                && heat.framework == Framework::Jax
                && (read.tensor.certainty != Certainty::Certain
                    || read.tensor.framework != Framework::Jax)
            {
                continue;
            }
            groups
                .entry(heat.region)
                .or_insert((heat, Vec::new()))
                .1
                .push(Found { id, call, read });
        }
        groups
            .into_values()
            .map(|(heat, found)| remark(context, heat, &found))
            .collect()
    }
}

struct Found<'a> {
    id: NodeId,
    call: &'a ExprCall,
    read: Read<'a>,
}

/// Whether a node is printed: that has a rule of its own.
fn printed(context: &SourceContext<'_>, id: NodeId) -> bool {
    context
        .index
        .ancestors(id)
        .take_while(|(_, node)| !node.node.is_statement())
        .any(|(_, node)| match node.node {
            AnyNodeRef::ExprCall(call) => {
                matches!(&*call.func, Expr::Name(name) if name.id.as_str() == "print")
            }
            _ => false,
        })
}

/// What to do with values that are read to be shown or summed.
const LOSSES: &str = "keep the value on the device: add up `loss.detach()` (or the array itself in JAX), and read the sum once, after the loop or every N steps";

fn remark(context: &SourceContext<'_>, heat: &Heat, found: &[Found<'_>]) -> Remark {
    let fails = heat.kind == HeatKind::Traced && heat.framework == Framework::Jax;
    let certain = found
        .iter()
        .any(|found| found.read.tensor.certainty == Certainty::Certain);
    let first = found
        .first()
        .map(|found| shown(context.text(found.read.what)))
        .unwrap_or_default();
    let how = found.first().map_or("", |found| found.read.how.as_str());
    let others = match found.len() {
        0 | 1 => String::new(),
        2 => " and one more".to_owned(),
        more => format!(" and {} more", more - 1),
    };
    let (severity, title) = if fails {
        (
            Severity::High,
            format!(
                "{how} of the traced `{first}`{others}: a traced value cannot be read, and tracing stops with an error"
            ),
        )
    } else if heat.kind == HeatKind::Step {
        let severity = if certain {
            Severity::Medium
        } else {
            Severity::Low
        };
        (
            severity,
            format!(
                "{how} reads `{first}`{others} on the host in every step: the host waits for the device each time"
            ),
        )
    } else {
        let severity = if certain {
            Severity::Medium
        } else {
            Severity::Low
        };
        (
            severity,
            format!(
                "{how} reads `{first}`{others} on the host in code that runs in every step: it waits for the device, and breaks a compiled graph in two"
            ),
        )
    };
    let mut remark = Remark::new(AdviceKind::HostDispatch, severity, title);
    remark.places = found
        .iter()
        .map(|found| {
            context.place(
                found.call.range(),
                format!("{} waits for the device", found.read.how.trim_matches('`')),
            )
        })
        .collect();
    remark.evidence.push(Exhibit::text(
        "why it counts",
        heat.why.clone(),
        "loops, calls and classes of this file",
    ));
    remark.evidence.push(Exhibit::number(
        "reads",
        found.len() as f64,
        "a step",
        "calls in this function or loop; each once a turn at least",
    ));
    remark.advice = if fails {
        vec![
            "keep the value a tensor (`jnp` operations), or pass it as a static argument if it is a Python value that seldom changes".to_owned(),
        ]
    } else {
        vec![
            if how.contains("tolist") {
                "pass lengths and sizes in as Python integers that the data loader or the processor computes: it knows them before they are on the device".to_owned()
            } else {
                LOSSES.to_owned()
            },
            "decide on the device where the value steers the computation: `torch.where`, `jnp.where`, `lax.cond`".to_owned(),
        ]
    };
    if let Some(fix) = fix(context, found) {
        remark.fix = Some(fix);
    }
    remark
}

/// `total += loss.item()` becomes `total += loss.detach()`.
fn fix(context: &SourceContext<'_>, found: &[Found<'_>]) -> Option<Fix> {
    let edits: Vec<Edit> = found
        .iter()
        .filter_map(|found| {
            let Expr::Attribute(attribute) = &*found.call.func else {
                return None;
            };
            let parent = context.index.get(found.id)?.parent?;
            let AnyNodeRef::StmtAugAssign(sum) = context.index.get(parent)?.node else {
                return None;
            };
            let torch = found.read.tensor.framework == Framework::Torch;
            (attribute.attr.as_str() == "item" && torch && sum.op.as_str() == "+").then(|| {
                let tail = TextRange::new(attribute.attr.range().start(), found.call.range().end());
                context.edit(tail, "detach()")
            })
        })
        .collect();
    (!edits.is_empty()).then(|| Fix {
        title: "add up on the device: `.detach()` instead of `.item()`".to_owned(),
        applicability: Applicability::Unsafe,
        numerics: Numerics::WithinTolerance,
        edits,
    })
}

#[cfg(test)]
mod tests {
    use super::HostReads;
    use crate::finding::Severity;
    use crate::rules::source::recompilation::found;

    #[test]
    fn a_sum_of_losses_stays_on_the_device() {
        let findings = found(
            &HostReads,
            "import torch\ntotal = 0.0\nfor batch in loader:\n    loss = model(batch).loss\n    loss.backward()\n    total += loss.item()\n",
        );
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].places[0].line, 6);
        let fix = findings[0].fix.as_ref().expect("a fix");
        assert_eq!(fix.edits[0].replacement, "detach()");
    }

    #[test]
    fn reads_that_are_rare_or_on_the_host_are_left_alone() {
        for body in [
            "    if step % 100 == 0:\n        x = loss.item()\n",
            "    y = loss.detach()\n",
            "    n = batch['ids'].shape[0]\n    m = int(n)\n",
            "    if bad:\n        raise ValueError(loss.item())\n",
            "    p = float(0.5)\n    q = np.asarray([1, 2]).item()\n",
        ] {
            let text = format!(
                "import torch\nimport numpy as np\nfor step, batch in enumerate(loader):\n    loss = model(batch).loss\n    loss.backward()\n{body}"
            );
            assert!(found(&HostReads, &text).is_empty(), "{body}");
        }
    }

    #[test]
    fn reading_a_traced_value_fails() {
        let findings = found(
            &HostReads,
            "import jax\nimport jax.numpy as jnp\n@jax.jit\ndef f(x):\n    y = jnp.sum(x)\n    return float(y)\n",
        );
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].severity, Severity::High);
    }

    #[test]
    fn code_that_runs_once_is_left_alone() {
        let text = "import torch\nclass A(torch.nn.Module):\n    def __init__(self, n):\n        dpr = [x.item() for x in torch.linspace(0, 1, n)]\n";
        assert!(found(&HostReads, text).is_empty());
    }
}
