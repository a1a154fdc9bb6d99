//! A kernel's buffers are larger than the memory on the core.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::out_of_memory::{Cause, OutOfMemory, Space};
use profiler::units::with_digits;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::memory::{describe, named, places, size};

/// See the card.
#[derive(Debug)]
pub struct KernelBufferTooLarge;

impl Rule for KernelBufferTooLarge {
    fn code(&self) -> &'static str {
        "TL307"
    }

    fn name(&self) -> &'static str {
        "kernel-buffer-too-large"
    }

    fn card(&self) -> &'static str {
        include_str!("kernel_buffer_too_large.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let reports = logs.out_of_memory.reports.iter();
        reports.filter_map(|report| remark(logs, report)).collect()
    }
}

fn remark(logs: &Logs, report: &OutOfMemory) -> Option<Remark> {
    let space = report.space.name();
    let (needed, capacity, title) = match &report.cause {
        Cause::Single {
            size,
            capacity,
            shape,
            ..
        } => {
            // Windows are printed as the bytes that they take, which says nothing of their shape.
            let shape = match shape.split('{').next() {
                Some(shape) if !shape.is_empty() && !shape.starts_with("u8[") => {
                    format!(" ({shape})")
                }
                _ => String::new(),
            };
            let title = format!(
                "a buffer of the kernel{}{shape} takes {size}, the core has {capacity} of {space}",
                named(report)
            );
            (size, capacity, title)
        }
        Cause::Capacity { used, capacity, .. }
            if report.space != Space::Hbm && report.register_spills().is_none() =>
        {
            let title = format!(
                "the program{} needs {used} of {capacity} {space} on the core",
                named(report)
            );
            (used, capacity, title)
        }
        _ => return None,
    };
    let mut remark = Remark::new(AdviceKind::KernelTuning, Severity::High, title);
    remark.places = places(logs, report, "the kernel does not compile");
    let source = "the compiler's message";
    remark.evidence = vec![
        size("needed", needed, source),
        size("there is", capacity, source),
    ];
    if let Cause::Single { tag, .. } = &report.cause
        && !tag.is_empty()
    {
        remark
            .evidence
            .push(Exhibit::text("what it is for", tag.clone(), source));
    }
    for allocation in report.allocations.iter().take(2) {
        remark.evidence.push(Exhibit::text(
            "among the largest",
            describe(allocation),
            "largest program allocations",
        ));
    }
    let ratio = needed.bytes.0 as f64 / (capacity.bytes.0 as f64).max(1.0);
    let ratio = with_digits(ratio, "times");
    match report.space {
        Space::Smem => remark.advice = vec![
            "SMEM is for a few scalars and indices: move the array to VMEM, or leave it in HBM and copy the rows that a step needs".to_owned(),
            format!("or give it a block of the grid: it must be smaller by {ratio} or more"),
        ],
        _ => remark.advice = vec![
            format!("no limit lets this in: make the block or the scratch smaller, by {ratio} or more"),
            "or leave the operand in HBM (memory_space=pl.ANY) and copy parts of it within the kernel".to_owned(),
        ],
    }
    Some(remark)
}
