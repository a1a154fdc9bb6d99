//! A loader prepares its batches in the process that runs the step.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Fix, Numerics, Remark, Severity};
use crate::python::ast::{Expr, Number};
use crate::python::{Ranged as _, SourceContext};
use crate::rule::Rule;
use crate::rules::source::recompilation::trains;

/// See the card.
#[derive(Debug)]
pub struct LoaderWithoutWorkers;

impl Rule for LoaderWithoutWorkers {
    fn code(&self) -> &'static str {
        "TS207"
    }

    fn name(&self) -> &'static str {
        "loader-without-workers"
    }

    fn card(&self) -> &'static str {
        include_str!("loader_without_workers.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if context.runs_once() {
            return Vec::new();
        }
        context
            .calls_of(|name| name == "torch.utils.data.DataLoader")
            .filter_map(|(id, call, _)| {
                let workers = call.arguments.find_argument_value("num_workers", 5);
                let spread = call.arguments.keywords.iter().any(|keyword| keyword.arg.is_none());
                let none = match workers {
                    Some(Expr::NumberLiteral(number)) => {
                        matches!(&number.value, Number::Int(int) if int.as_u64() == Some(0))
                    }
                    Some(_) => false,
                    None => !spread,
                };
                if !none || !trains(context, id, call) {
                    return None;
                }
                let mut remark = Remark::new(
                    AdviceKind::InputPipeline,
                    if workers.is_some() { Severity::Low } else { Severity::Info },
                    "the training loader has no workers: each batch is prepared while the device waits",
                );
                remark
                    .places
                    .push(context.place(call.range(), "num_workers is 0"));
                remark.advice.push("`num_workers=4` (or the cores of the host divided by its devices), `persistent_workers=True`".to_owned());
                remark.caveats.push(
                    "a dataset that is in memory, and a collator that does next to nothing, need none; each process of each device starts its own workers".to_owned(),
                );
                remark.fix = workers.map(|workers| Fix {
                    title: "four workers".to_owned(),
                    applicability: Applicability::Unsafe,
                    numerics: Numerics::BitExact,
                    edits: vec![context.edit(workers.range(), "4")],
                });
                Some(remark)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::LoaderWithoutWorkers;
    use crate::finding::Severity;
    use crate::rules::source::recompilation::found;

    #[test]
    fn zero_workers_are_found() {
        let text = "from torch.utils.data import DataLoader\ntrain = DataLoader(d, batch_size=8, shuffle=True, num_workers=0)\ntest = DataLoader(d, batch_size=8, num_workers=0)\nother = DataLoader(d, batch_size=8, shuffle=True, num_workers=4)\nbare = DataLoader(d, batch_size=8, shuffle=True)\n";
        let findings = found(&LoaderWithoutWorkers, text);
        let seen: Vec<(u64, Severity)> = findings
            .iter()
            .map(|finding| (finding.places[0].line, finding.severity))
            .collect();
        assert_eq!(seen, [(2, Severity::Low), (5, Severity::Info)]);
    }
}
