//! Rules of text: logs, metrics and memory reports, launch commands.

pub mod host;
pub mod launch;
pub mod memory;
pub mod recompilation;
pub mod sharding;
pub mod throughput;
mod words;

use profiler::logs::{At, Logs};

use crate::finding::{Exhibit, Place};

/// The place of a line of a log, with a few words on what stands there.
#[must_use]
pub(crate) fn place(logs: &Logs, at: At, snippet: &str, label: impl Into<String>) -> Place {
    let file = logs.files.get(at.file as usize);
    Place {
        file: file
            .map(|file| file.path.display().to_string())
            .unwrap_or_default(),
        line: at.line,
        end_line: at.line,
        snippet: snippet.to_owned(),
        label: label.into(),
        ..Place::default()
    }
}

/// The place of a line of the user's code that a log names.
#[must_use]
pub(crate) fn user_place(
    line: &profiler::logs::torch_trace::SourceLine,
    label: impl Into<String>,
) -> Place {
    Place {
        file: line.file.clone(),
        line: line.line,
        end_line: line.line,
        label: label.into(),
        ..Place::default()
    }
}

/// How often something is, as evidence.
#[must_use]
pub(crate) fn count(what: impl Into<String>, count: u64, source: &str) -> Exhibit {
    Exhibit::text(what, count.to_string(), source)
}
