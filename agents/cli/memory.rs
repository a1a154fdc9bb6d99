//! `tpu-tune memory`: device memory at its fullest.

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
}

/// Runs the command.
///
/// # Errors
/// On bad input, or when the profile says nothing of memory.
pub fn run(args: &Args) -> Result<u8> {
    let session = args.input.load()?;
    args.input.warn(&session);
    let timelines: Vec<&MemoryTimeline> = session
        .memory
        .iter()
        .filter(|timeline| timeline.peak().is_some())
        .collect();
    if timelines.is_empty() {
        bail!(
            "{} has no memory events: the runtime writes allocations and frees only into an xplane.pb, and only while something is allocated; capture from the program's start, or give the HLO protos of its dump for what the compiler planned",
            args.input.shown()
        );
    }
    output::page(args.format, &page(&session, &timelines), || {
        let allocators: Vec<Value> = timelines
            .iter()
            .map(|timeline| as_json(&session, timeline))
            .collect();
        json!({ "schema_version": 1, "allocators": allocators })
    })?;
    Ok(exit::OK)
}

fn host_name<'s>(session: &'s Session, timeline: &MemoryTimeline) -> &'s str {
    let host = session.hosts.get(timeline.host as usize);
    host.map_or("", |host| host.name.as_str())
}

fn page(session: &Session, timelines: &[&MemoryTimeline]) -> Page {
    let mut page = Page::new();
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
        page.drawing(chart(timeline));
    }
    let lifetime = timelines.iter().map(|t| t.lifetime_peak_bytes).max();
    page.sentence(format!(
        "Stacks are what the runtime reserves for programs: their temporaries. The highest that an allocator reported since the process began, stacks apart, is {}.",
        Bytes(lifetime.unwrap_or(0))
    ));
    page
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Columns and rows of the chart.
const COLUMNS: usize = 64;
const ROWS: usize = 8;

/// Use over time: of each column the most that was in use, stacks included.
fn chart(timeline: &MemoryTimeline) -> Vec<String> {
    let mut samples: Vec<(u64, u64)> = timeline
        .time_ps
        .iter()
        .zip(timeline.in_use_bytes.iter().zip(&timeline.reserved_bytes))
        .map(|(time, (in_use, reserved))| (*time, in_use.saturating_add(*reserved)))
        .collect();
    samples.sort_by_key(|(time, _)| *time);
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Vec::new();
    };
    let (begin, end) = (first.0, last.0);
    let span = u128::from((end - begin).max(1));
    let mut columns = [0u64; COLUMNS];
    let mut held = first.1;
    let mut next = samples.iter().peekable();
    for (at, column) in columns.iter_mut().enumerate() {
        *column = held;
        let until = u128::from(begin) + span * (at as u128 + 1) / COLUMNS as u128;
        let is_last = at + 1 == COLUMNS;
        while let Some((_, used)) = next.next_if(|(time, _)| u128::from(*time) < until || is_last) {
            *column = (*column).max(*used);
            held = *used;
        }
    }
    let capacity = timeline.peak().map_or(0, |peak| peak.capacity_bytes());
    let mut lines = Vec::with_capacity(ROWS + 2);
    for row in (0..ROWS).rev() {
        // A column reaches a row when it fills at least half of it.
        let threshold = (2 * row as u128 + 1) * u128::from(capacity) / (2 * ROWS as u128);
        let cells = columns.iter().map(|used| {
            let filled = u128::from(*used) >= threshold && *used > 0;
            if filled { '#' } else { ' ' }
        });
        let label = if row + 1 == ROWS {
            Bytes(capacity).to_string()
        } else {
            String::new()
        };
        let line = format!("{label:>10} |{}", cells.collect::<String>());
        lines.push(line.trim_end().to_owned());
    }
    lines.push(format!("{:>10} +{}", "0", "-".repeat(COLUMNS)));
    let seconds = (end - begin) as f64 / 1e12;
    lines.push(format!(
        "{:>width$}",
        format!("{seconds:.3} s"),
        width = COLUMNS + 12
    ));
    lines
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
