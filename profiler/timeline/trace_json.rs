//! Chrome trace JSON: XProf's dialect, what JAX writes for Perfetto, and PyTorch Kineto's.
//!
//! ```text
//! bytes ─> document (header, list) ─> scan (parts in parallel) ─> table (columns by line)
//!                                                                     │
//!                  Session <─ assemble (cores, threads, operations) <─┘
//! ```
//!
//! Above 2 GB of XSpace the profiler leaves an empty file beside a good trace JSON, so for the
//! largest profiles this is all the evidence there is. Reading is one pass over typed events; the
//! strings that describe an operation are read for its first execution only. What is not valid
//! JSON is left out and counted.

mod assemble;
mod cursor;
mod decimal;
mod document;
mod event;
mod places;
mod scan;
mod table;
#[cfg(test)]
mod tests;

use document::{Document, Ending};

use crate::emit::mark;
use crate::note::{NoteLevel, Notes};
use crate::session_builder::SessionBuilder;
use crate::timeline::kineto;

/// Where writers of trace JSON stop: XProf's and TorchTPU's converters drop all later events.
const EVENT_CAP: u64 = 1_000_000;
/// How much of a file is looked at to tell what it is.
const SNIFFED_BYTES: usize = 1 << 16;

/// Why bytes are not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonTraceError {
    /// Nothing but white space.
    #[error("empty: the profiler wrote nothing; capture again, or give the xplane.pb of the run")]
    Empty,
    /// No JSON at all.
    #[error("not JSON: found \"{start}\", expected an object with traceEvents")]
    NotJson {
        /// The first bytes.
        start: String,
    },
    /// JSON, but no trace.
    #[error(
        "not a trace: found {found}, expected an object with traceEvents as the JAX profiler \
         (*.trace.json.gz) and torch.profiler (export_chrome_trace) write it"
    )]
    NotATrace {
        /// What the JSON is.
        found: String,
    },
}

/// Whether a file that begins with these bytes is trace JSON of any dialect.
#[must_use]
pub fn looks_like_trace_json(bytes: &[u8]) -> bool {
    let start = sniffed(bytes);
    let text = start
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(start)
        .trim_ascii_start();
    match text.first() {
        Some(b'{') => {
            contains(text, b"\"traceEvents\"")
                || contains(text, b"\"displayTimeUnit\"")
                || looks_like_kineto(text)
        }
        Some(b'[') => text[1..].trim_ascii_start().starts_with(b"{") && contains(text, b"\"ph\""),
        _ => false,
    }
}

/// Whether trace JSON that begins with these bytes was written by Kineto.
#[must_use]
pub fn looks_like_kineto(bytes: &[u8]) -> bool {
    let start = sniffed(bytes);
    let header = match find(start, b"\"traceEvents\"") {
        Some(at) => &start[..at],
        None => start,
    };
    contains(header, b"\"schemaVersion\"")
        || contains(header, b"\"deviceProperties\"")
        || contains(header, b"\"baseTimeNanoseconds\"")
}

fn sniffed(bytes: &[u8]) -> &[u8] {
    bytes.get(..SNIFFED_BYTES).unwrap_or(bytes)
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    find(bytes, wanted).is_some()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// Reads a trace into the builder. `bytes` is the JSON itself, not its gzip.
///
/// `host_hint` names the host where the file does not.
///
/// # Errors
/// When there is no list of events. What is wrong with single events, or with the end of the
/// file, is a note.
pub fn read(
    bytes: &[u8],
    host_hint: &str,
    builder: &mut SessionBuilder,
) -> Result<(), JsonTraceError> {
    let Document {
        header,
        table,
        ending,
    } = document::read(bytes)?;
    let host = header.host.as_deref().unwrap_or(host_hint);
    let host = kineto::host_name(host, header.rank.as_deref());
    let is_kineto = header.is_kineto;
    if let Some(text) = &header.prediction {
        mark::take(text, builder);
    }
    let notes = builder.notes();
    note_ending(ending, bytes.len(), table.events, notes);
    note_cap(table.events, is_kineto, notes);
    let unreadable = "events are not valid JSON or have no time; they were left out";
    notes.add(
        NoteLevel::Warning,
        "unreadable-event",
        unreadable.to_owned(),
        table.unreadable,
    );
    let without_args =
        "events have arguments that are not valid JSON; only their names and times were read";
    notes.add(
        NoteLevel::Warning,
        "unreadable-args",
        without_args.to_owned(),
        table.without_args,
    );
    let cores = assemble::assemble(bytes, table, is_kineto, &host, builder);
    if !header.gpus.is_empty() && builder.session.foreign_planes.is_empty() && cores == 0 {
        let gpus = header
            .gpus
            .iter()
            .map(|name| format!("/device:GPU ({name})"));
        builder.session.foreign_planes.extend(gpus);
    }
    if is_kineto {
        kineto::note_what_is_missing(cores > 0, builder.notes());
    } else {
        note_what_is_missing(builder);
    }
    Ok(())
}

fn note_what_is_missing(builder: &mut SessionBuilder) {
    let has_async = builder
        .session
        .devices
        .iter()
        .any(|core| !core.async_ops.is_empty());
    let windows = if has_async {
        ""
    } else {
        ", windows of asynchronous operations"
    };
    builder.notes().info(
        "json-dialect",
        format!(
            "trace JSON has no FLOPs, program ids, HLO, peaks of the chip{windows} or memory \
             traffic by memory: figures that need them come from HLO text or are left out; the \
             xplane.pb of the same run has all of them"
        ),
    );
}

fn note_ending(ending: Ending, size: usize, events: u64, notes: &mut Notes) {
    match ending {
        Ending::Whole => {}
        Ending::BetweenEvents => notes.warn(
            "truncated-json",
            format!(
                "the file ends at byte {size} without closing its list of events: the {events} \
                 events before that were read, later ones are lost"
            ),
        ),
        Ending::InEvent(at) => notes.warn(
            "truncated-json",
            format!(
                "the file ends at byte {size} in the middle of an event that begins at byte {at}: \
                 the {events} events before that were read, later ones are lost"
            ),
        ),
    }
}

fn note_cap(events: u64, is_kineto: bool, notes: &mut Notes) {
    // Kineto's own events come on top of those that TorchTPU converts.
    let is_capped = if is_kineto {
        events >= EVENT_CAP
    } else {
        events == EVENT_CAP
    };
    if is_capped {
        let may = if is_kineto { "may be" } else { "are" };
        notes.warn(
            "event-cap",
            format!(
                "the trace has {events} events and its writer stops at {EVENT_CAP}: later events \
                 {may} missing; capture fewer steps"
            ),
        );
    }
}
