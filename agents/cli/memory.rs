//! `tpu-tune memory`: device memory at its fullest, as the allocators reported it and as the
//! compiler planned it.

mod chart;
pub(super) mod programs;

use anyhow::{Result, bail};
use profiler::memory::MemoryTimeline;
use profiler::session::Session;
use profiler::units::{Bytes, percent};
use serde_json::{Value, json};

use crate::cli::input::InputArgs;
use crate::cli::{TableFormat, output};
use crate::exit;
use crate::render::page::Page;
use crate::render::table::{Align, Table};

/// Arguments of `memory`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,

    /// How the figures are written.
    #[arg(long, value_enum, default_value_t)]
    format: TableFormat,

    /// Program whose buffers are listed, instead of the one that needs most.
    #[arg(long, value_name = "NAME")]
    module: Option<String>,

    /// Number of buffers, the largest first; 0 for all.
    #[arg(long, short = 'n', default_value_t = 10)]
    limit: usize,
}

/// Runs the command.
///
/// # Errors
/// On bad input, or when the profile says nothing of memory.
pub fn run(args: &Args) -> Result<u8> {
    let session = args.input.load()?;
    args.input.refuse_foreign(&session)?;
    args.input.warn(&session);
    let timelines: Vec<&MemoryTimeline> = session
        .memory
        .iter()
        .filter(|timeline| timeline.peak().is_some())
        .collect();
    let planned = programs::planned(&session);
    if timelines.is_empty() && planned.is_empty() {
        bail!(
            "{} has no memory events and no program with its buffers: the runtime writes allocations only into an xplane.pb, and only while something is allocated; capture from the program's start, or give the HLO protos of its dump",
            args.input.shown()
        );
    }
    let mut page = Page::new();
    if !timelines.is_empty() {
        measured(&mut page, &session, &timelines);
    }
    if !planned.is_empty() {
        programs::page(&mut page, &planned, args.module.as_deref(), args.limit)?;
    }
    output::page(args.format, &page, || {
        let allocators: Vec<Value> = timelines
            .iter()
            .map(|timeline| as_json(&session, timeline))
            .collect();
        let programs: Vec<Value> = planned.iter().map(programs::as_json).collect();
        json!({ "schema_version": 1, "allocators": allocators, "programs": programs })
    })?;
    Ok(exit::OK)
}

fn host_name<'s>(session: &'s Session, timeline: &MemoryTimeline) -> &'s str {
    let host = session.hosts.get(timeline.host as usize);
    host.map_or("", |host| host.name.as_str())
}

fn measured(page: &mut Page, session: &Session, timelines: &[&MemoryTimeline]) {
    page.heading("Device memory at its fullest");
    let mut table = Table::new([
        ("host", Align::Left),
        ("device", Align::Left),
        ("peak", Align::Right),
        ("of it stacks", Align::Right),
        ("free then", Align::Right),
        ("size", Align::Right),
        ("full", Align::Right),
    ]);
    for timeline in timelines {
        let Some(peak) = timeline.peak() else {
            continue;
        };
        let capacity = peak.capacity_bytes();
        table.row([
            host_name(session, timeline).to_owned(),
            timeline.allocator.clone(),
            Bytes(peak.used_bytes).to_string(),
            Bytes(peak.reserved_bytes).to_string(),
            Bytes(peak.free_bytes).to_string(),
            Bytes(capacity).to_string(),
            percent(share(peak.used_bytes, capacity)),
        ]);
    }
    page.table(table);
    let fullest = timelines
        .iter()
        .filter_map(|timeline| Some((timeline.peak()?.used_bytes, timeline)))
        // The first of equals.
        .reduce(|best, next| if next.0 > best.0 { next } else { best });
    if let Some((_, timeline)) = fullest {
        page.heading(format!(
            "Over the capture, device {} of {}",
            timeline.allocator,
            host_name(session, timeline)
        ));
        page.drawing(chart::chart(timeline));
    }
    let lifetime = timelines.iter().map(|t| t.lifetime_peak_bytes).max();
    page.sentence(format!(
        "Stacks are what the runtime reserves for programs: their temporaries. The highest that an allocator reported since the process began, stacks apart, is {}.",
        Bytes(lifetime.unwrap_or(0))
    ));
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

fn as_json(session: &Session, timeline: &MemoryTimeline) -> Value {
    let peak = timeline.peak();
    json!({
        "host": host_name(session, timeline),
        "allocator": timeline.allocator,
        "samples": timeline.time_ps.len(),
        "peak_time_ps": peak.map(|peak| peak.time_ps),
        "peak_bytes": peak.map(|peak| peak.used_bytes),
        "peak_heap_bytes": peak.map(|peak| peak.used_bytes.saturating_sub(peak.reserved_bytes)),
        "peak_reserved_bytes": peak.map(|peak| peak.reserved_bytes),
        "peak_free_bytes": peak.map(|peak| peak.free_bytes),
        "capacity_bytes": peak.map(|peak| peak.capacity_bytes()),
        "lifetime_peak_bytes": timeline.lifetime_peak_bytes,
    })
}
