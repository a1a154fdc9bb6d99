//! Constants that the compiler computes itself.

use knowledge::advice::AdviceKind;
use profiler::logs::compiler_messages::MessageKind;

use crate::finding::{Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::sharding::compiler_alarms::{messages, name, remark};

/// See the card.
#[derive(Debug)]
pub struct ConstantFolding;

impl Rule for ConstantFolding {
    fn code(&self) -> &'static str {
        "TL411"
    }

    fn name(&self) -> &'static str {
        "constant-folding"
    }

    fn card(&self) -> &'static str {
        include_str!("constant_folding.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let (logs, found) = messages(context, MessageKind::ConstantFolding);
        let Some(first) = found.first() else {
            return Vec::new();
        };
        let seconds = first
            .seconds
            .map_or(String::new(), |seconds| format!(" more than {seconds} s"));
        let title = format!(
            "the compiler spends{seconds} on computing {} itself{}",
            if first.about.is_empty() {
                "an instruction"
            } else {
                name(first)
            },
            match found.len() {
                1 => String::new(),
                n => format!(", and {} more", n - 1),
            }
        );
        let mut remark = remark(
            logs,
            &found,
            AdviceKind::Recompilation,
            Severity::Low,
            title,
        );
        remark.advice = vec![
            "pass large constants as arguments: an array that a jitted function closes over is part of the program, and is folded in each compile".to_owned(),
            "compute it once outside of jit, or with numpy at start".to_owned(),
        ];
        vec![remark]
    }
}
