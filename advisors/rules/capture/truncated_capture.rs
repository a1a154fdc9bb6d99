//! Part of the capture is missing.

use profiler::session::{Device, ModuleId};

use crate::finding::{Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::capture::{Remark, is_measured};

/// See the card.
#[derive(Debug)]
pub struct TruncatedCapture;

/// Notes of the readers that mean that events are missing.
const LOSSES: [&str; 8] = [
    "bad-events",
    "bad-plane",
    "empty-xplane",
    "event-cap",
    "truncated-gzip",
    "truncated-json",
    "truncated-xspace",
    "unreadable-event",
];

impl Rule for TruncatedCapture {
    fn code(&self) -> &'static str {
        "TT101"
    }

    fn name(&self) -> &'static str {
        "truncated-capture"
    }

    fn card(&self) -> &'static str {
        include_str!("truncated_capture.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        if !is_measured(context) {
            return Vec::new();
        }
        let session = context.evidence.session;
        let mut evidence: Vec<Exhibit> = session
            .notes
            .iter()
            .filter(|note| {
                let dropped = note.code.starts_with("profiler-") && note.message.contains("drop");
                dropped || LOSSES.contains(&note.code)
            })
            .map(|note| Exhibit::text(note.code, note.message, "note of the reader"))
            .collect();
        let cores = session.analysed_cores();
        evidence.extend(cores.filter_map(|(_, device)| dropped_operations(context, device)));
        if evidence.is_empty() {
            return Vec::new();
        }
        let mut remark = Remark::new("part of this capture is missing: figures hold for what was read, and counts may be too low")
            .advise("capture fewer steps (three to five are enough), and leave python_tracer_level at 0 unless Python is the question")
            .advise("for trace.json: TF_PROFILER_TRACE_VIEWER_MAX_EVENTS raises the limit of a million events; the xplane.pb of the same run has all of them");
        remark.evidence = evidence;
        vec![remark.draft()]
    }
}

/// Runs of a program that have no operation on record where other runs of it do.
fn dropped_operations(context: &Context<'_>, device: &Device) -> Option<Exhibit> {
    let mut runs = 0usize;
    let mut empty = 0usize;
    let main = main_module(device)?;
    for (start, duration, module) in device.modules.iter() {
        if module != main {
            continue;
        }
        let first = device.ops.start_ps.partition_point(|op| *op < start);
        let end = start.saturating_add(duration);
        let has = device.ops.start_ps.get(first).is_some_and(|op| *op < end);
        runs += 1;
        empty += usize::from(!has);
    }
    // Of the runs at the ends of a capture little may be left.
    if runs < 4 || empty <= 2 || empty == runs {
        return None;
    }
    let name = context.evidence.session.modules.get(main as usize);
    Some(Exhibit::text(
        device.plane.clone(),
        format!(
            "{empty} of {runs} runs of {} have no operation on record: the profiler dropped them",
            name.map_or("the main program", |module| module.name.as_str())
        ),
        "XLA Modules against XLA Ops",
    ))
}

/// The program with the longest run: one that surely has operations.
fn main_module(device: &Device) -> Option<ModuleId> {
    let longest = device
        .modules
        .iter()
        .max_by_key(|(start, duration, _)| (*duration, *start));
    longest.map(|(_, _, module)| module)
}
