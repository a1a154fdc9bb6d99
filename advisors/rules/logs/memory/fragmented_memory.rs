//! Memory is free, but not in one piece.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::out_of_memory::{Cause, OutOfMemory, Size};
use profiler::units::percent;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::memory::{named, places, size};

/// See the card.
#[derive(Debug)]
pub struct FragmentedMemory;

/// The smallest HBM of a device is 8 GiB (v2); less than a twentieth of it free is nearly full.
const NEARLY_FULL_BYTES: u64 = (8 << 30) / 20;

impl Rule for FragmentedMemory {
    fn code(&self) -> &'static str {
        "TL303"
    }

    fn name(&self) -> &'static str {
        "fragmented-memory"
    }

    fn card(&self) -> &'static str {
        include_str!("fragmented_memory.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let reports = logs.out_of_memory.reports.iter();
        reports.filter_map(|report| remark(logs, report)).collect()
    }
}

/// What is wanted, free, and the largest region, where only the region is too small.
pub(super) fn fragmented(report: &OutOfMemory) -> Option<(&Size, &Size, Option<&Size>)> {
    let (wanted, free, region) = match &report.cause {
        Cause::Reserve {
            wanted,
            free,
            reservable,
            ..
        } => (wanted, free, Some(reservable)),
        Cause::Allocate {
            wanted,
            free,
            contiguous,
        } => (wanted, free, contiguous.as_ref()),
        _ => return None,
    };
    (wanted.bytes <= free.bytes).then_some((wanted, free, region))
}

fn remark(logs: &Logs, report: &OutOfMemory) -> Option<Remark> {
    let (wanted, free, region) = fragmented(report)?;
    let reserve = matches!(report.cause, Cause::Reserve { .. });
    let what = if reserve { "program" } else { "buffer" };
    let largest = match region {
        Some(region) if reserve => {
            format!(", but only {region} of it can be reserved in one piece")
        }
        Some(region) => format!(", but the largest piece is {region}"),
        None => ", but not in one piece".to_owned(),
    };
    let mut remark = Remark::new(
        AdviceKind::MemoryLimit,
        Severity::High,
        format!(
            "memory is fragmented: a {what}{} wants {wanted}, {free} is free{largest}",
            named(report)
        ),
    );
    remark.places = places(logs, report, "memory ran out at run time");
    let source = "the runtime's message";
    remark.evidence = vec![
        size("wanted", wanted, source),
        size("free in all", free, source),
    ];
    if let Some(region) = region {
        let what = if reserve {
            "reservable in one piece"
        } else {
            "largest free piece"
        };
        remark.evidence.push(size(what, region, source));
        remark.evidence.push(Exhibit::text(
            "free memory outside of it",
            percent(1.0 - region.bytes.0 as f64 / (free.bytes.0 as f64).max(1.0)),
            format!("1 - {region} / {free}"),
        ));
    }
    if report.count > 1 {
        remark.evidence.push(Exhibit::number(
            "times in the text",
            report.count as f64,
            "",
            "",
        ));
    }
    if reserve {
        remark.advice.push("drop references to arrays that are not needed before the program is loaded (del, and results of earlier programs), and load the largest program first".to_owned());
    }
    remark.advice.push(
        "donate buffers that a step replaces (donate_argnums), so that new ones take their place"
            .to_owned(),
    );
    remark.advice.push("keep shapes fixed: buffers of changing sizes leave holes; initialise on the host and move parameters once".to_owned());
    if free.bytes.0 < NEARLY_FULL_BYTES {
        remark.evidence.push(Exhibit::text(
            "nearly full as well",
            format!("{free} free"),
            "less than a twentieth of the smallest HBM of a TPU (8 GiB)",
        ));
        remark.advice.insert(0, format!("memory is also plainly near its end ({free} free): a smaller batch, or recomputation, cures both"));
    }
    if region.is_none() {
        remark.caveats.push("the text does not give the largest free piece: that it is too small follows from what is free".to_owned());
    }
    Some(remark)
}
