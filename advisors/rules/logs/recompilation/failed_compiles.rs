//! Programs that TorchTPU's eager mode could not compile.

use knowledge::advice::AdviceKind;
use profiler::logs::torch_trace::evidence;

use crate::finding::{Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::{count, place};

/// See the card.
#[derive(Debug)]
pub struct FailedCompiles;

impl Rule for FailedCompiles {
    fn code(&self) -> &'static str {
        "TL103"
    }

    fn name(&self) -> &'static str {
        "failed-compiles"
    }

    fn card(&self) -> &'static str {
        include_str!("failed_compiles.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let trace = &logs.torch_trace;
        let all = evidence::gather(trace);
        let failed: Vec<_> = all
            .iter()
            .flat_map(|process| process.failed.iter())
            .collect();
        let Some(first) = failed.first() else {
            return Vec::new();
        };
        let launch = trace
            .processes
            .iter()
            .flat_map(|p| &p.launches)
            .find(|l| l.at == **first);
        let name = launch.map_or("", |launch| trace.name(launch));
        let line = launch.and_then(|launch| trace.graph(launch.graph)?.last_place());
        let mut remark = Remark::new(
            AdviceKind::Migration,
            Severity::High,
            format!(
                "{} launches failed to compile, the first is `{name}`",
                failed.len()
            ),
        );
        if let Some(line) = line {
            remark
                .places
                .push(crate::rules::logs::user_place(line, format!("`{name}`")));
        }
        remark
            .places
            .push(place(logs, **first, "", "compile_failed is true"));
        remark.evidence.push(count(
            "launches that failed to compile",
            failed.len() as u64,
            "TORCH_TRACE, compile_failed",
        ));
        remark.advice.push(
            "compile the StableHLO of this launch alone: `tpu-tune predict LOG --target v6e-1 --program NAME` shows the compiler's own message".to_owned(),
        );
        vec![remark]
    }
}
