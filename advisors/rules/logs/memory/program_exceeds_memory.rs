//! A program needs more memory than the chip has.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::out_of_memory::{Cause, OutOfMemory, Size, Space};
use profiler::units::{Bytes, percent};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::memory::padded_allocations::padding_bytes;
use crate::rules::logs::memory::{describe, difference, named, places, size, totals};
use crate::rules::logs::place;

/// See the card.
#[derive(Debug)]
pub struct ProgramExceedsMemory;

/// Allocations that are told of.
const MAX_ALLOCATIONS: usize = 3;

impl Rule for ProgramExceedsMemory {
    fn code(&self) -> &'static str {
        "TL302"
    }

    fn name(&self) -> &'static str {
        "program-exceeds-memory"
    }

    fn card(&self) -> &'static str {
        include_str!("program_exceeds_memory.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let reports = logs.out_of_memory.reports.iter();
        reports.filter_map(|report| remark(logs, report)).collect()
    }
}

fn remark(logs: &Logs, report: &OutOfMemory) -> Option<Remark> {
    let Cause::Capacity {
        used,
        capacity,
        over,
        early,
    } = &report.cause
    else {
        return None;
    };
    if report.space != Space::Hbm {
        return None;
    }
    let too_much = over
        .as_ref()
        .map_or_else(|| difference(used, capacity), |over| over.bytes);
    // Padding alone is TL301's business: without it the program fits.
    if padding_bytes(report) >= too_much.0 {
        return None;
    }
    let over_words = over
        .as_ref()
        .map_or_else(|| too_much.to_string(), Size::to_string);
    let mut remark = Remark::new(
        AdviceKind::MemoryLimit,
        Severity::High,
        format!(
            "the program{} needs {used} of {capacity} HBM: {over_words} too much",
            named(report)
        ),
    );
    remark.places = places(logs, report, "memory ran out at compile time");
    remark.evidence = vec![
        size("needed", used, "the compiler's message"),
        size("available", capacity, "the compiler's message"),
        Exhibit::number(
            "needed over available",
            used.bytes.0 as f64 / (capacity.bytes.0 as f64).max(1.0),
            "",
            format!("{used} / {capacity}"),
        ),
    ];
    remark.evidence.extend(totals(report));
    for allocation in largest(report) {
        remark.evidence.push(Exhibit::text(
            "among the largest",
            describe(allocation),
            "largest program allocations",
        ));
        remark.places.push(place(
            logs,
            allocation.at,
            &describe(allocation),
            "one of the largest",
        ));
    }
    remark.advice = advice(report, used, capacity, *early);
    if *early {
        remark.caveats.push("an early check of the compiler stopped here, before it placed buffers: it counts arguments and results among its temporaries and prints no table".to_owned());
    }
    Some(remark)
}

fn largest(
    report: &OutOfMemory,
) -> impl Iterator<Item = &profiler::logs::out_of_memory::Allocation> {
    report.allocations.iter().take(MAX_ALLOCATIONS)
}

fn advice(report: &OutOfMemory, used: &Size, capacity: &Size, early: bool) -> Vec<String> {
    let mut advice = Vec::new();
    let smaller = 1.0 - capacity.bytes.0 as f64 / (used.bytes.0 as f64).max(1.0);
    let arguments = report.row("arguments").map_or(Bytes(0), |size| size.bytes);
    let temporaries = report.row("HLO temp").map_or(Bytes(0), |size| size.bytes);
    let chunk = report.allocations.first().and_then(|allocation| {
        let array = allocation.shape.as_ref()?;
        let (axis, dim) = array
            .dims
            .iter()
            .enumerate()
            .max_by_key(|(axis, dim)| (**dim, std::cmp::Reverse(*axis)))?;
        (*dim > 1).then(|| {
            format!(
                "compute the largest buffer ({}) in pieces, over axis {axis} of {dim} (lax.map, lax.scan, or a loop of smaller calls)",
                describe(allocation)
            )
        })
    });
    if arguments.0 > temporaries.0 && arguments.0 > 0 {
        advice.push(format!(
            "arguments are the larger part ({arguments}): shard parameters and optimizer state over more devices, donate what is replaced (donate_argnums), keep optimizer state in a smaller dtype"
        ));
        advice.extend(chunk);
    } else {
        advice.extend(chunk);
        advice.push(format!(
            "recompute instead of keeping (jax.checkpoint, a remat policy), or take a smaller batch per device: what grows with it must shrink by at least {}",
            percent(smaller)
        ));
        advice.push("shard the batch or the sequence over more devices".to_owned());
    }
    if early {
        advice.push("for the list of the largest buffers compile a slightly smaller size and read compiled.memory_analysis(), or dump the buffer assignment (XLA_FLAGS=--xla_dump_to=DIR)".to_owned());
    }
    advice
}
