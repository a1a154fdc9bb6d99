//! Memory as the compiler planned it: the peak of each program and what is live then.

use anyhow::{Result, bail};
use profiler::diff::without_layout;
use profiler::program::Program;
use profiler::program::buffers::{BufferClass, LiveBuffer, PeakMemory};
use profiler::program::shape::MemorySpace;
use profiler::session::Session;
use profiler::units::Bytes;
use serde_json::{Value, json};

use crate::render::page::Page;
use crate::render::table::{Align, Table};

/// A program with the peak of its device memory.
pub(crate) struct Planned<'s> {
    name: &'s str,
    program: &'s Program,
    peak: PeakMemory,
}

/// Programs with buffer assignments, the one that needs most first.
pub(crate) fn planned(session: &Session) -> Vec<Planned<'_>> {
    let mut list: Vec<Planned<'_>> = session
        .programs
        .iter()
        .filter_map(|entry| {
            let program = &entry.program;
            let peak = program.buffers.as_ref()?.peak(MemorySpace::Hbm, program)?;
            let module = entry.module.and_then(|id| session.modules.get(id as usize));
            Some(Planned {
                name: module.map_or(program.name.as_str(), |module| module.name.as_str()),
                program,
                peak,
            })
        })
        .collect();
    list.sort_by(|a, b| {
        let most = b.peak.total().cmp(&a.peak.total());
        most.then_with(|| a.name.cmp(b.name))
    });
    list
}

/// Adds the programs and the buffers of one of them.
///
/// # Errors
/// When there is no program of that name.
pub(crate) fn page(
    page: &mut Page,
    planned: &[Planned<'_>],
    wanted: Option<&str>,
    limit: usize,
) -> Result<()> {
    let chosen = match wanted {
        None => planned.first(),
        Some(name) => planned.iter().find(|program| program.name == name),
    };
    let Some(chosen) = chosen else {
        let known: Vec<&str> = planned.iter().map(|program| program.name).collect();
        bail!(
            "no program {:?} has its buffers; these do: {}",
            wanted.unwrap_or_default(),
            known.join(", ")
        );
    };
    page.heading("Device memory as the compiler planned it");
    let mut table = Table::new([
        ("program", Align::Left),
        ("peak", Align::Right),
        ("unpadded", Align::Right),
        ("temps", Align::Right),
        ("fixed", Align::Right),
        ("reached at", Align::Left),
    ]);
    for Planned {
        name,
        program,
        peak,
    } in planned
    {
        table.row([
            (*name).to_owned(),
            peak.total().to_string(),
            peak.total_unpadded().to_string(),
            peak.heap.to_string(),
            peak.indefinite.to_string(),
            instruction(program, peak.at),
        ]);
    }
    page.table(table);
    buffers(page, chosen, limit);
    page.sentence(
        "temps: values between operations, at the moment when they need most. fixed: parameters, results and constants, which live throughout. unpadded: temps without what tiles add.",
    );
    Ok(())
}

fn buffers(page: &mut Page, chosen: &Planned<'_>, limit: usize) {
    let live = by_size(&chosen.peak);
    let shown = if limit == 0 {
        live.len()
    } else {
        limit.min(live.len())
    };
    page.heading(format!(
        "Largest of {} buffers live at the peak of {}",
        live.len(),
        chosen.name
    ));
    let mut table = Table::new([
        ("buffer", Align::Left),
        ("holds", Align::Left),
        ("shape", Align::Left),
        ("size", Align::Right),
        ("unpadded", Align::Right),
    ]);
    for buffer in live.iter().take(shown) {
        table.row([
            buffer_name(chosen.program, buffer),
            class_name(buffer.class).to_owned(),
            shape(buffer),
            buffer.size.to_string(),
            buffer.unpadded.to_string(),
        ]);
    }
    if shown < live.len() {
        let sum = |of: fn(&LiveBuffer) -> u64| {
            let rest = live.iter().skip(shown).map(|buffer| of(buffer));
            Bytes(rest.fold(0, u64::saturating_add)).to_string()
        };
        table.row([
            format!("({} more)", live.len() - shown),
            String::new(),
            String::new(),
            sum(|buffer| buffer.size.0),
            sum(|buffer| buffer.unpadded.0),
        ]);
    }
    page.table(table);
}

/// The largest first; of equals in the compiler's order.
fn by_size(peak: &PeakMemory) -> Vec<&LiveBuffer> {
    let mut live: Vec<&LiveBuffer> = peak.live.iter().collect();
    live.sort_by_key(|buffer| std::cmp::Reverse(buffer.size));
    live
}

fn instruction(program: &Program, op: Option<profiler::program::OpId>) -> String {
    let instruction = op.and_then(|op| program.get(op));
    instruction.map_or_else(|| "-".to_owned(), |found| found.name.clone())
}

/// The instruction that makes it and where in its result, as `copy-start{0}`.
fn buffer_name(program: &Program, buffer: &LiveBuffer) -> String {
    let mut name = instruction(program, buffer.op);
    if !buffer.index.is_empty() {
        let index: Vec<String> = buffer.index.iter().map(i64::to_string).collect();
        name.push_str(&format!("{{{}}}", index.join(",")));
    }
    name
}

/// Its type without the layout: what padding it has shows in its sizes.
fn shape(buffer: &LiveBuffer) -> String {
    let shape = buffer.shape.as_ref();
    shape.map_or_else(
        || "-".to_owned(),
        |shape| without_layout(&shape.to_string()),
    )
}

fn class_name(class: BufferClass) -> &'static str {
    match class {
        BufferClass::Parameter => "parameter",
        BufferClass::Output => "result",
        BufferClass::Constant => "constant",
        BufferClass::ThreadLocal => "thread-local",
        BufferClass::Temporary => "temporary",
    }
}

/// A program with its buffers, for programs.
pub(crate) fn as_json(planned: &Planned<'_>) -> Value {
    let Planned {
        name,
        program,
        peak,
    } = planned;
    let live: Vec<Value> = by_size(peak)
        .into_iter()
        .map(|buffer| {
            json!({
                "id": buffer.id,
                "name": buffer_name(program, buffer),
                "class": class_name(buffer.class),
                "shape": buffer.shape.as_ref().map(ToString::to_string),
                "bytes": buffer.size,
                "unpadded_bytes": buffer.unpadded,
            })
        })
        .collect();
    json!({
        "name": name,
        "peak_bytes": peak.total(),
        "peak_unpadded_bytes": peak.total_unpadded(),
        "temporary_bytes": peak.heap,
        "temporary_unpadded_bytes": peak.heap_unpadded,
        "indefinite_bytes": peak.indefinite,
        "peak_at": peak.at.map(|op| instruction(program, Some(op))),
        "live_at_peak": live,
    })
}
