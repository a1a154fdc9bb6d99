//! Much data is fetched from the device.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::xla_metrics::report::Report;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{counted, of_last_reports, size, time};

/// See the card.
#[derive(Debug)]
pub struct LargeTransfers;

/// Bytes of one read, and of the reads of one execution, from which they matter.
const LARGE: f64 = 1_048_576.0;
const MUCH: f64 = 16.0 * 1_048_576.0;
/// Bytes a second that a host reads at best over PCIe, for a lower bound of the time.
const PCIE_BYTES_PER_S: f64 = 32e9;

impl Rule for LargeTransfers {
    fn code(&self) -> &'static str {
        "TL222"
    }

    fn name(&self) -> &'static str {
        "xla-large-transfers"
    }

    fn card(&self) -> &'static str {
        include_str!("large_transfers.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        of_last_reports(context, of)
    }
}

fn of(logs: &Logs, report: &Report) -> Option<Remark> {
    let inbound = report.inbound()?;
    let each = inbound.bytes() / inbound.samples.max(1) as f64;
    let Some(execute) = report.execute() else {
        return info(logs, report);
    };
    let per_execution = inbound.bytes() / execute.samples as f64;
    if each < LARGE || per_execution < MUCH {
        return None;
    }
    let rate = inbound.value_rate.and_then(|rate| rate.bytes());
    let wall = rate
        .filter(|rate| *rate > 0.0)
        .map(|rate| per_execution / rate);
    let executed = execute
        .percentile(50.0)
        .unwrap_or(execute.seconds() / execute.samples as f64);
    let waits = wall.is_some_and(|wall| wall > 2.0 * executed);
    let severity = if waits {
        Severity::High
    } else {
        Severity::Medium
    };
    let beside = match wall {
        Some(wall) if waits => format!(
            "; an execution takes {}, and one comes every {}",
            time(executed),
            time(wall)
        ),
        _ => String::new(),
    };
    let title = format!(
        "{} fetched from the device in {}: {} in each of {}{beside}",
        inbound.total_text,
        counted(inbound.samples, "transfer"),
        size(per_execution),
        counted(execute.samples, "execution"),
    );
    let mut remark = Remark::new(AdviceKind::HostDispatch, severity, title);
    remark.places = vec![place(
        logs,
        inbound.at,
        "Metric: InboundData",
        inbound.total_text.clone(),
    )];
    remark.evidence = vec![
        Exhibit::text(
            "InboundData",
            format!("{} samples, {}", inbound.samples, inbound.total_text),
            "the metrics report",
        ),
        Exhibit::text(
            "ExecuteTime",
            format!("{} samples, {}", execute.samples, execute.total_text),
            "the metrics report",
        ),
        Exhibit::number(
            "at 32 GB/s, at least",
            per_execution / PCIE_BYTES_PER_S * 1e3,
            "ms an execution",
            "bytes by the rate of PCIe 4.0 x16",
        ),
    ];
    if let Some(outbound) = report.outbound() {
        let words = format!("{} samples, {}", outbound.samples, outbound.total_text);
        remark.evidence.push(Exhibit::text(
            "OutboundData",
            words,
            "sent to the device, the metrics report",
        ));
        remark.places.push(place(
            logs,
            outbound.at,
            "Metric: OutboundData",
            outbound.total_text.clone(),
        ));
    }
    remark.advice = [
        "return only the loss (a few scalars) from the step; keep logits and outputs on the device",
        "reduce before the transfer: argmax, topk, sums and metrics are computed on the device",
        "where all of it is needed, fetch it every N steps, or in another thread while the next step runs",
    ]
    .map(str::to_owned)
    .to_vec();
    Some(remark)
}

/// Much was fetched, but nothing tells in how many steps.
fn info(logs: &Logs, report: &Report) -> Option<Remark> {
    const WORTH_A_WORD: f64 = 1_073_741_824.0;
    let inbound = report
        .inbound()
        .filter(|inbound| inbound.bytes() >= WORTH_A_WORD)?;
    let sent = report.to_device().map(|sent| {
        format!(
            ", and {} to the device took {}",
            counted(sent.samples, "transfer"),
            sent.total_text
        )
    });
    let title = format!(
        "{} fetched from the device in {}{}: the text has no executions or steps to hold against it",
        inbound.total_text,
        counted(inbound.samples, "transfer"),
        sent.unwrap_or_default(),
    );
    let mut remark = Remark::new(AdviceKind::HostDispatch, Severity::Info, title);
    remark.places = vec![place(
        logs,
        inbound.at,
        "Metric: InboundData",
        inbound.total_text.clone(),
    )];
    remark.advice = vec![
        "print the whole report, ExecuteTime and MarkStep with it, twice with some steps between"
            .to_owned(),
    ];
    Some(remark)
}
