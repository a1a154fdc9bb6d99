//! Kernels that run with default block sizes.

use knowledge::advice::AdviceKind;
use profiler::logs::compiler_messages::MessageKind;

use crate::finding::{Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::sharding::compiler_alarms::{messages, remark};

/// See the card.
#[derive(Debug)]
pub struct UntunedKernel;

impl Rule for UntunedKernel {
    fn code(&self) -> &'static str {
        "TL413"
    }

    fn name(&self) -> &'static str {
        "untuned-kernel"
    }

    fn card(&self) -> &'static str {
        include_str!("untuned_kernel.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let (logs, found) = messages(context, MessageKind::Untuned);
        let Some(first) = found.first() else {
            return Vec::new();
        };
        let count: u64 = found.iter().map(|message| message.count).sum();
        let about: String = first.about.chars().take(160).collect();
        let times = if count > 1 {
            format!(" ({count} lines)")
        } else {
            String::new()
        };
        let title = format!("a kernel runs with default block sizes{times}: {about}");
        let mut remark = remark(
            logs,
            &found,
            AdviceKind::KernelTuning,
            Severity::Medium,
            title,
        );
        remark.advice = vec![
            "tune it for this shape and chip (the library's autotuner), or add an entry to its table: default tiles were 12.4 times slower in one measured grouped matmul".to_owned(),
            "or choose sizes that have an entry".to_owned(),
        ];
        remark.caveats.push(
            "how far the default is off depends on the shape: measure the kernel alone first"
                .to_owned(),
        );
        vec![remark]
    }
}
