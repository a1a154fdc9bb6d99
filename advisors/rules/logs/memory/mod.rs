//! Rules on memory that ran out.
//!
//! One report may be about padding (TL301), plain capacity at compile time (TL302), memory that is
//! free but in pieces (TL303), a program larger than what is left at run time (TL304), a kernel's
//! limit of scoped VMEM (TL305), registers that spill into VMEM (TL306), or a buffer of a kernel
//! that no limit would let in (TL307). The cures differ, so the kinds are told apart by figures.

pub mod fragmented_memory;
pub mod kernel_buffer_too_large;
pub mod padded_allocations;
pub mod program_exceeds_free_memory;
pub mod program_exceeds_memory;
pub mod register_spills;
pub mod scoped_vmem_exceeded;
#[cfg(test)]
mod tests;

use profiler::logs::Logs;
use profiler::logs::out_of_memory::{Allocation, OutOfMemory, Size};
use profiler::units::Bytes;

use crate::finding::{Exhibit, Place};
use crate::rules::logs::place;

/// The places of a report: where it stands, and where it stands again.
fn places(logs: &Logs, report: &OutOfMemory, label: &str) -> Vec<Place> {
    let mut places = vec![place(logs, report.at, &report.text, label)];
    places.extend(
        report
            .again
            .iter()
            .map(|at| place(logs, *at, &report.text, "again")),
    );
    places
}

/// A size of the text as evidence.
fn size(what: impl Into<String>, size: &Size, source: &str) -> Exhibit {
    Exhibit::text(what, size.to_string(), source)
}

/// What the tables of a report say of the whole program.
fn totals(report: &OutOfMemory) -> Vec<Exhibit> {
    let space = report.space.name();
    let mut evidence = Vec::new();
    if let Some(total) = &report.total {
        evidence.push(size(
            format!("{space} in all, at least"),
            total,
            "Total usage",
        ));
    }
    for row in &report.totals {
        if let Some(bytes) = &row.size {
            evidence.push(size(row.name.clone(), bytes, "Total usage"));
        }
    }
    if let Some(requirement) = &report.requirement {
        evidence.push(size(
            "the program's own memory",
            requirement,
            "Program requirement",
        ));
    }
    if let Some(temp) = report.parts.iter().find(|row| row.name == "HLO temp")
        && let Some(bytes) = &temp.size
    {
        evidence.push(size("temporaries", bytes, "Program requirement"));
    }
    if let Some(utilization) = &report.utilization {
        let mut words = format!("{} %", utilization.percent);
        if let (Some(unpadded), Some(padded)) = (&utilization.unpadded, &utilization.padded) {
            words.push_str(&format!(": {unpadded} of elements take {padded}"));
        }
        if let Some(lost) = &utilization.fragmentation {
            words.push_str(&format!(", {lost} lost between buffers"));
        }
        evidence.push(Exhibit::text(
            "utilization of the temporaries",
            words,
            "Program requirement",
        ));
    }
    evidence
}

/// `4.00 GiB: bf16[2048,1,2048,128], broadcast.6042 (HLO temp)`.
fn describe(allocation: &Allocation) -> String {
    let mut words = allocation
        .size
        .as_ref()
        .map_or_else(|| "size not given".to_owned(), Size::to_string);
    let mut parts = Vec::new();
    if allocation.shape.is_some() {
        parts.push(allocation.shape_text());
    }
    let operator = operator(allocation);
    if !operator.is_empty() {
        parts.push(operator);
    } else if !allocation.label.is_empty() {
        parts.push(label(allocation));
    }
    if !parts.is_empty() {
        words.push_str(": ");
        words.push_str(&parts.join(", "));
    }
    if !allocation.kind.is_empty() {
        words.push_str(&format!(" ({})", allocation.kind));
    }
    words
}

/// The HLO instruction's name.
fn label(allocation: &Allocation) -> String {
    let name = allocation
        .label
        .split([' ', '='])
        .next()
        .unwrap_or_default();
    name.chars().take(80).collect()
}

/// The framework's op name: `jit(f)/sort`.
fn operator(allocation: &Allocation) -> String {
    let (_, rest) = allocation
        .operator
        .split_once("op_name=\"")
        .unwrap_or_default();
    let end = rest.find(['"', '[']).unwrap_or(rest.len());
    rest.get(..end)
        .unwrap_or_default()
        .chars()
        .take(120)
        .collect()
}

/// The report's program in words, with a blank before it; empty where it has no name.
fn named(report: &OutOfMemory) -> String {
    if report.program.is_empty() {
        String::new()
    } else {
        format!(" {}", report.program)
    }
}

/// A difference of two sizes of the text; it is as rough as they are.
fn difference(a: &Size, b: &Size) -> Bytes {
    Bytes(a.bytes.0.saturating_sub(b.bytes.0))
}
