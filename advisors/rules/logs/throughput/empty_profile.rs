//! A profile of no bytes in a listing of files.

use knowledge::advice::AdviceKind;

use crate::finding::{Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{MAX_PLACES, counted};

/// See the card.
#[derive(Debug)]
pub struct EmptyProfile;

impl Rule for EmptyProfile {
    fn code(&self) -> &'static str {
        "TL507"
    }

    fn name(&self) -> &'static str {
        "empty-profile"
    }

    fn card(&self) -> &'static str {
        include_str!("empty_profile.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let empty = &logs.progress.empty_profiles;
        let Some(first) = empty.first() else {
            return Vec::new();
        };
        let others = match empty.len() {
            1 => String::new(),
            all => format!(" and {} more", all - 1),
        };
        let title = format!(
            "{}{others} has 0 bytes: the capture outgrew the 2 GB that a protobuf may have",
            first.name
        );
        let mut remark = Remark::new(AdviceKind::CaptureQuality, Severity::High, title);
        remark.places = (empty.iter().take(MAX_PLACES))
            .map(|file| place(logs, file.at, &file.text, "0 bytes"))
            .collect();
        remark.advice = [
            "capture fewer steps: two or three steady ones are enough",
            "lower host_tracer_level and python_tracer_level, and capture on one host",
            "use the trace.json.gz of the same run meanwhile: tpu-tune reads it",
        ]
        .map(str::to_owned)
        .to_vec();
        remark.caveats = vec![format!(
            "{} listed; a capture that was cut off or a full disk looks the same",
            counted(empty.len() as u64, "such file")
        )];
        vec![remark]
    }
}
