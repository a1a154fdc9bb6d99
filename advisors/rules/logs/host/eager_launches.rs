//! Steps of many launches.

use knowledge::advice::AdviceKind;
use profiler::logs::torch_trace::evidence;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::{count, place};

/// See the card.
#[derive(Debug)]
pub struct EagerLaunches;

/// Launches of a step from which on the host is likely what limits it.
const MANY: f64 = 50.0;

impl Rule for EagerLaunches {
    fn code(&self) -> &'static str {
        "TL201"
    }

    fn name(&self) -> &'static str {
        "eager-launches"
    }

    fn card(&self) -> &'static str {
        include_str!("eager_launches.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let all = evidence::gather(&logs.torch_trace);
        let most = all
            .iter()
            .max_by(|a, b| a.launches_per_step.total_cmp(&b.launches_per_step));
        let Some(process) = most.filter(|process| process.launches_per_step > 0.0) else {
            return Vec::new();
        };
        let Some(steps) = &process.steps else {
            return Vec::new();
        };
        let mode = if process.strict {
            "strict eager mode"
        } else {
            "eager mode that defers"
        };
        let severity = if process.launches_per_step >= MANY {
            Severity::Medium
        } else {
            Severity::Info
        };
        let mut remark = Remark::new(
            AdviceKind::HostDispatch,
            severity,
            format!(
                "a step launches {:.0} programs, in {mode}",
                process.launches_per_step
            ),
        );
        if let Some(launch) = process.process.launches.first() {
            remark
                .places
                .push(place(logs, launch.at, "", "the first launch"));
        }
        remark.evidence = vec![
            count("launches", process.launches, "TORCH_TRACE"),
            count(
                "steps",
                steps.steps.len() as u64,
                &format!("told apart by {}", steps.found_by),
            ),
            Exhibit::number(
                "launches a step, after warm-up",
                process.launches_per_step,
                "",
                "launches over steps",
            ),
        ];
        remark.advice.push(
            "compile the whole step with `torch.compile`: forward, backward and optimiser (`capturable=True`) become a few programs".to_owned(),
        );
        if process.strict {
            remark.advice.push(
                "or let eager mode collect operations: `torch.tpu.eager_mode = torch.tpu.EagerMode.DEFER_AND_FUSE`, or TORCH_TPU_DEFER_AND_FUSE=1".to_owned(),
            );
        }
        vec![remark]
    }
}
