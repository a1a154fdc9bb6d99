//! Donated buffers that no result takes over.

use knowledge::advice::AdviceKind;
use profiler::logs::compiler_messages::MessageKind;

use crate::finding::{Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::sharding::compiler_alarms::{messages, remark};

/// See the card.
#[derive(Debug)]
pub struct DonationUnused;

impl Rule for DonationUnused {
    fn code(&self) -> &'static str {
        "TL412"
    }

    fn name(&self) -> &'static str {
        "donation-unused"
    }

    fn card(&self) -> &'static str {
        include_str!("donation_unused.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let (logs, found) = messages(context, MessageKind::DonationUnused);
        let Some(first) = found.first() else {
            return Vec::new();
        };
        let about: String = first.about.chars().take(120).collect();
        let title = format!("donated buffers are not used: {about} stay beside their results");
        let mut remark = remark(logs, &found, AdviceKind::MemoryLimit, Severity::Low, title);
        remark.advice = vec![
            "a donated buffer is used where a result has its shape, dtype, layout and sharding: make the updated value match (a cast of the optimizer state, a changed out_sharding), or return it".to_owned(),
            "drop donate_argnums where nothing is replaced: it only hides what is held".to_owned(),
        ];
        remark
            .caveats
            .push("small buffers cost nothing; look at the large ones in the list".to_owned());
        vec![remark]
    }
}
