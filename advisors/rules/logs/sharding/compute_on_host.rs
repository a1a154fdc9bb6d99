//! Instructions that the compiler moved to the host.

use knowledge::advice::AdviceKind;
use profiler::logs::compiler_messages::MessageKind;

use crate::finding::{Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::sharding::compiler_alarms::{messages, remark};

/// See the card.
#[derive(Debug)]
pub struct HostCompute;

impl Rule for HostCompute {
    fn code(&self) -> &'static str {
        "TL414"
    }

    fn name(&self) -> &'static str {
        "compute-on-host"
    }

    fn card(&self) -> &'static str {
        include_str!("compute_on_host.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let (logs, found) = messages(context, MessageKind::HostCompute);
        let Some(first) = found.first() else {
            return Vec::new();
        };
        let title = format!(
            "the compiler moved {} to the host: its operands lie in host memory{}",
            if first.about.is_empty() {
                "an instruction"
            } else {
                &first.about
            },
            match found.len() {
                1 => String::new(),
                n => format!(" ({n} instructions)"),
            }
        );
        let mut remark = remark(
            logs,
            &found,
            AdviceKind::HostOffload,
            Severity::Medium,
            title,
        );
        remark.advice = vec!["bring the operands to the device first (jax.device_put with the device's memory kind), then compute".to_owned()];
        vec![remark]
    }
}
