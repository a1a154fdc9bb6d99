//! Random numbers of the host become constants of the graph.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::ExprCall;
use crate::python::{Framework, Heat, HeatKind, NodeId, Ranged as _, SourceContext};
use crate::rule::Rule;

/// See the card.
#[derive(Debug)]
pub struct HostRandom;

impl Rule for HostRandom {
    fn code(&self) -> &'static str {
        "TS113"
    }

    fn name(&self) -> &'static str {
        "host-random-in-graph"
    }

    fn card(&self) -> &'static str {
        include_str!("host_random.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        let mut groups: BTreeMap<NodeId, (&Heat, Vec<Drawn<'_>>)> = BTreeMap::new();
        for (id, call) in context.calls() {
            let Some(name) = context.qualified(&call.func) else {
                continue;
            };
            let draws = name
                .strip_prefix("random.")
                .or_else(|| name.strip_prefix("numpy.random."))
                .is_some_and(|function| {
                    matches!(
                        function,
                        "random"
                            | "randint"
                            | "uniform"
                            | "normal"
                            | "rand"
                            | "randn"
                            | "choice"
                            | "randrange"
                            | "gauss"
                            | "random_sample"
                            | "beta"
                            | "binomial"
                            | "shuffle"
                            | "permutation"
                    )
                });
            let Some(heat) = context.heat(id).filter(|heat| heat.kind != HeatKind::Step) else {
                continue;
            };
            if draws {
                groups
                    .entry(heat.region)
                    .or_insert((heat, Vec::new()))
                    .1
                    .push((call, name));
            }
        }
        groups
            .into_values()
            .map(|(heat, found)| remark(context, heat, &found))
            .collect()
    }
}

/// A call that draws, and its name.
type Drawn<'a> = (&'a ExprCall, String);

fn remark(context: &SourceContext<'_>, heat: &Heat, found: &[Drawn<'_>]) -> Remark {
    let name = found.first().map_or("", |(_, name)| name.as_str());
    let traced = heat.kind == HeatKind::Traced && heat.framework == Framework::Jax;
    let title = if traced {
        format!(
            "`{name}` in a traced function is drawn once, while tracing: every later call computes with the same number"
        )
    } else {
        format!(
            "`{name}` in code that runs in every step draws on the host: the number, or the branch it takes, is part of the graph, and each may be compiled anew"
        )
    };
    let mut remark = Remark::new(AdviceKind::Recompilation, Severity::Medium, title);
    remark.places = found
        .iter()
        .map(|(call, _)| context.place(call.range(), "a number of the host"))
        .collect();
    remark.evidence.push(Exhibit::text(
        "why it counts",
        heat.why.clone(),
        "loops, calls and classes of this file",
    ));
    remark.advice.push(match heat.framework {
        Framework::Torch => "draw on the device (`torch.rand((), device=x.device)`) and choose with `torch.where`; or draw in the loader and pass the number as a tensor; a random choice of layers is a graph for each choice",
        Framework::Jax => "`jax.random` with a key that is an argument",
    }.to_owned());
    remark
}

#[cfg(test)]
mod tests {
    use super::HostRandom;
    use crate::rules::source::recompilation::found;

    #[test]
    fn host_numbers_in_forward_are_found() {
        let text = "import random\nimport numpy as np\nfrom torch import nn\nclass A(nn.Module):\n    def __init__(self):\n        self.p = random.random()\n    def forward(self, x):\n        if random.uniform(0, 1) < 0.1:\n            return x\n        return x * np.random.rand()\n";
        let findings = found(&HostRandom, text);
        assert_eq!(findings.len(), 1);
        let lines: Vec<u64> = findings[0].places.iter().map(|place| place.line).collect();
        assert_eq!(lines, [8, 10]);
    }
}
