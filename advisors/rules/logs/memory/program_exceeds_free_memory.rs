//! What is wanted at run time is more than what is left.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::out_of_memory::{Cause, OutOfMemory};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::memory::{difference, named, places, size};

/// See the card.
#[derive(Debug)]
pub struct ProgramExceedsFreeMemory;

impl Rule for ProgramExceedsFreeMemory {
    fn code(&self) -> &'static str {
        "TL304"
    }

    fn name(&self) -> &'static str {
        "program-exceeds-free-memory"
    }

    fn card(&self) -> &'static str {
        include_str!("program_exceeds_free_memory.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let reports = logs.out_of_memory.reports.iter();
        reports.filter_map(|report| remark(logs, report)).collect()
    }
}

fn remark(logs: &Logs, report: &OutOfMemory) -> Option<Remark> {
    let (wanted, free, region, program) = match &report.cause {
        Cause::Reserve {
            wanted,
            free,
            reservable,
            ..
        } => (wanted, free, Some(reservable), true),
        Cause::Allocate {
            wanted,
            free,
            contiguous,
        } => (wanted, free, contiguous.as_ref(), false),
        _ => return None,
    };
    if wanted.bytes <= free.bytes {
        return None;
    }
    let what = if program { "program" } else { "buffer" };
    let short = difference(wanted, free);
    let mut remark = Remark::new(
        AdviceKind::MemoryLimit,
        Severity::High,
        format!(
            "the {what}{} wants {wanted}, only {free} is free: {short} too much",
            named(report)
        ),
    );
    remark.places = places(logs, report, "memory ran out at run time");
    let source = "the runtime's message";
    remark.evidence = vec![
        size("wanted", wanted, source),
        size("free in all", free, source),
        Exhibit::text("missing", short.to_string(), format!("{wanted} - {free}")),
    ];
    if let Some(region) = region {
        remark
            .evidence
            .push(size("the largest piece of it", region, source));
        remark.evidence.push(Exhibit::text(
            "fragmentation",
            if region.bytes.0.saturating_mul(100) >= free.bytes.0.saturating_mul(99) {
                "none: what is free is one piece".to_owned()
            } else {
                "not the cause: even one piece would be too small".to_owned()
            },
            format!("{region} of {free} in one piece"),
        ));
    }
    if let Cause::Reserve {
        reserved: Some(reserved),
        ..
    } = &report.cause
    {
        remark
            .evidence
            .push(size("reserved already", reserved, source));
    }
    if report.count > 1 {
        remark.evidence.push(Exhibit::number(
            "times in the text",
            report.count as f64,
            "",
            "",
        ));
    }
    if program {
        remark.advice = vec![
            "make the program smaller: compute in chunks over the longest axis (frames, sequence, batch) and carry what the next chunk needs".to_owned(),
            "free what other programs left on the device before this one loads: weights of other stages, cached arrays, results that Python still refers to".to_owned(),
            "shard over more devices, or recompute instead of keeping (jax.checkpoint)".to_owned(),
        ];
    } else {
        remark.advice = vec![
            "keep less on the device: a smaller batch, parameters and optimizer state sharded or in a smaller dtype, results moved to the host".to_owned(),
            "donate buffers that are replaced (donate_argnums), and drop references to arrays that are not needed".to_owned(),
        ];
    }
    Some(remark)
}
