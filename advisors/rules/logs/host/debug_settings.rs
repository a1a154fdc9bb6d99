//! Settings that slow a run down and were left on, or left out.

use knowledge::advice::AdviceKind;
use profiler::logs::torch_tpu::{Message, Saying};

use crate::finding::{Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::{count, place};

/// See the card.
#[derive(Debug)]
pub struct DebugSettings;

impl Rule for DebugSettings {
    fn code(&self) -> &'static str {
        "TL207"
    }

    fn name(&self) -> &'static str {
        "debug-settings"
    }

    fn card(&self) -> &'static str {
        include_str!("debug_settings.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let mut remarks = Vec::new();
        for message in &logs.torch_tpu.messages {
            let Some((severity, title, advice)) = of(message) else {
                continue;
            };
            let mut remark = Remark::new(AdviceKind::HostDispatch, severity, title);
            remark
                .places
                .push(place(logs, message.at, &message.text, "the log says so"));
            remark
                .evidence
                .push(count("lines that say so", message.count, "the log"));
            remark.advice.push(advice);
            remarks.push(remark);
        }
        remarks
    }
}

fn of(message: &Message) -> Option<(Severity, String, String)> {
    let subject = &message.subject;
    Some(match message.saying {
        Saying::DebugSetting if subject.contains("BLOCKING") => (
            Severity::Medium,
            format!("{subject} is set: the host waits for each launch to end"),
            format!("unset {subject}: it is for finding the operation that fails"),
        ),
        Saying::DebugSetting => (
            Severity::Medium,
            format!("{subject} is set: indices are copied to the CPU to be checked"),
            format!("unset {subject} once the program is right"),
        ),
        Saying::UnoptimizedBuild => (
            Severity::Medium,
            "TorchTPU was built without optimisation".to_owned(),
            "install the released wheel, or build with `-c opt`".to_owned(),
        ),
        // Every run without it says so, and what it costs nobody measured.
        Saying::NoTcmalloc => (
            Severity::Info,
            "tcmalloc is not loaded: host threads contend for glibc's allocator".to_owned(),
            "start Python with LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4 (package libtcmalloc-minimal4)".to_owned(),
        ),
        Saying::DroppedTrace => (
            Severity::Info,
            format!("TORCH_TRACE lost {} launches: counts of its log are too low", message.detail),
            "trace fewer steps: the buffer holds 10,000 launches and is written every five seconds".to_owned(),
        ),
        _ => return None,
    })
}
