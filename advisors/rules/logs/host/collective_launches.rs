//! Graphs that end at collectives.

use knowledge::advice::AdviceKind;
use profiler::logs::torch_trace::evidence;

use crate::finding::{Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::{count, place};

/// See the card.
#[derive(Debug)]
pub struct CollectiveLaunches;

/// Such launches a step, from which on it is a clear cost.
const SEVERAL: f64 = 2.0;

impl Rule for CollectiveLaunches {
    fn code(&self) -> &'static str {
        "TL204"
    }

    fn name(&self) -> &'static str {
        "collective-launches"
    }

    fn card(&self) -> &'static str {
        include_str!("collective_launches.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let all = evidence::gather(&logs.torch_trace);
        let most = all.iter().max_by_key(|process| process.for_collectives);
        let Some(process) = most.filter(|process| process.for_collectives > 0) else {
            return Vec::new();
        };
        let steps = process.steps.as_ref().map_or(0, |steps| steps.steps.len());
        let each = process.for_collectives as f64 / steps.max(1) as f64;
        let severity = if steps > 0 && each >= SEVERAL {
            Severity::Medium
        } else {
            Severity::Low
        };
        let per_step = if steps > 0 {
            format!(", {each:.1} a step")
        } else {
            String::new()
        };
        let mut remark = Remark::new(
            AdviceKind::ExposedCollective,
            severity,
            format!(
                "{} launches were forced by a collective{per_step}",
                process.for_collectives
            ),
        );
        if let Some(at) = process.first_collective {
            remark
                .places
                .push(place(logs, at, "", "reason is distributed_op"));
        }
        remark.evidence.push(count(
            "launches with reason distributed_op",
            process.for_collectives,
            "TORCH_TRACE",
        ));
        remark.advice = vec![
            "where all ranks run the same program, set TORCH_TPU_INTERNAL_MATERIALIZE_COLLECTIVE_TENSORS=false: collectives then stay in the program, where XLA overlaps them with compute".to_owned(),
            "or compile the whole step with `torch.compile`".to_owned(),
        ];
        remark.caveats.push(
            "not for pipelines and other programs that differ by rank: the break keeps them in step".to_owned(),
        );
        vec![remark]
    }
}
