//! PyTorch/XLA reads values on the host in many steps.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::xla_metrics::report::Report;

use crate::finding::{Exhibit, Place, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{count, counted, gravest, per, size};

/// See the card.
#[derive(Debug)]
pub struct XlaHostReads;

/// Reads a step from which a step waits for the host, and from which it does little else.
const LOW: f64 = 0.3;
const MEDIUM: f64 = 0.9;
const HIGH: f64 = 2.0;
/// Reads of more bytes than this are few large ones: another finding.
const SMALL: f64 = 1_048_576.0;
/// Fewer reads than this say nothing.
const MIN_READS: u64 = 10;

/// What reads a tensor's value.
const LOCAL_SCALAR: &str = "aten::_local_scalar_dense";

impl Rule for XlaHostReads {
    fn code(&self) -> &'static str {
        "TL220"
    }

    fn name(&self) -> &'static str {
        "xla-host-reads"
    }

    fn card(&self) -> &'static str {
        include_str!("xla_host_reads.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let sequences = logs.xla_metrics.sequences();
        let mut remarks: Vec<Remark> = sequences
            .iter()
            .filter_map(|reports| of(logs, reports.last()?))
            .collect();
        remarks.extend(said(logs));
        gravest(remarks)
    }
}

/// How many reads, of what, and by what they are counted.
struct Reads {
    count: u64,
    what: &'static str,
    basis: u64,
    basis_name: &'static str,
    place: Place,
}

fn severity(per_step: f64) -> Option<Severity> {
    match per_step {
        p if p >= HIGH => Some(Severity::High),
        p if p >= MEDIUM => Some(Severity::Medium),
        p if p >= LOW => Some(Severity::Low),
        _ => None,
    }
}

fn of(logs: &Logs, report: &Report) -> Option<Remark> {
    let execute = report.execute();
    let basis = (report.steps().map(|steps| (steps, "step")))
        .or(execute.map(|execute| (execute.samples, "execution")))
        .or(Some((report.count("CachedSyncTensors"), "execution")).filter(|(count, _)| *count > 0));
    let (basis, basis_name) = basis?;
    let mut all: Vec<Reads> = Vec::new();
    if let Some(counter) = report.counters.get(LOCAL_SCALAR) {
        all.push(Reads {
            count: counter.value,
            what: "values read on the host (aten::_local_scalar_dense)",
            basis,
            basis_name,
            place: place(
                logs,
                counter.at,
                &format!("Counter: {LOCAL_SCALAR}"),
                format!("Value: {}", counter.value),
            ),
        });
    }
    let transfers = report.inbound().or(report.from_device());
    if let Some(inbound) = transfers {
        if inbound.bytes() / inbound.samples.max(1) as f64 > SMALL {
            return None;
        }
        all.push(Reads {
            count: inbound.samples,
            what: "transfers from the device",
            basis,
            basis_name,
            place: place(
                logs,
                inbound.at,
                "InboundData",
                format!("TotalSamples: {}", inbound.samples),
            ),
        });
    }
    all.sort_by_key(|reads| std::cmp::Reverse(reads.count));
    let reads = all.first()?;
    let each = reads.count as f64 / reads.basis.max(1) as f64;
    let severity = severity(each).filter(|_| reads.count >= MIN_READS)?;
    let cut = if reads.basis_name == "execution" && each >= 1.0 {
        ": host reads split the graph"
    } else {
        ""
    };
    let title = format!(
        "{} {} in {}: {} {}{cut}",
        count(reads.count),
        reads.what,
        counted(reads.basis, reads.basis_name),
        per(each),
        if reads.basis_name == "step" {
            "a step"
        } else {
            "an execution"
        },
    );
    let mut remark = Remark::new(AdviceKind::HostDispatch, severity, title);
    remark.places = all.iter().map(|reads| reads.place.clone()).collect();
    remark.evidence = evidence(report);
    remark.advice = advice();
    Some(remark)
}

fn evidence(report: &Report) -> Vec<Exhibit> {
    let mut evidence = Vec::new();
    for (name, metric) in [
        ("ExecuteTime", report.execute()),
        ("InboundData", report.inbound()),
        ("transfers from the device", report.from_device()),
        (
            "IrValueTensorToXlaData",
            report.metrics.get("IrValueTensorToXlaData"),
        ),
    ] {
        let Some(metric) = metric else { continue };
        let words = format!("{} samples, {}", metric.samples, metric.total_text);
        evidence.push(Exhibit::text(name, words, "the metrics report"));
    }
    let busy = report
        .execute()
        .and_then(|execute| execute.value_rate?.seconds());
    if let Some(busy) = busy.filter(|busy| *busy < 1.0) {
        evidence.push(Exhibit::number(
            "the device executes",
            100.0 * busy,
            "% of the time",
            "ExecuteTime's ValueRate: time executed in each second, over a window of the last values",
        ));
    }
    if let Some(bytes) = report.inbound().filter(|inbound| inbound.samples > 0) {
        let mean = bytes.bytes() / bytes.samples as f64;
        evidence.push(Exhibit::text(
            "bytes of a read",
            size(mean),
            "InboundData: sum by samples",
        ));
    }
    evidence
}

/// What `pt-xla-profiler` says.
fn said(logs: &Logs) -> Option<Remark> {
    let all = &logs.xla_metrics.profiler.too_frequent;
    let transfers = all
        .iter()
        .filter(|(name, _)| name.starts_with("TransferFrom"));
    let (name, found) = transfers.max_by_key(|(_, found)| found.counts)?;
    let each = found.counts as f64 / found.steps.max(1) as f64;
    let severity = severity(each).unwrap_or(Severity::Low);
    let title = format!(
        "{name} too frequent: {} in {}, {} a step",
        counted(found.counts, "transfer"),
        counted(found.steps, "step"),
        per(each),
    );
    let mut remark = Remark::new(AdviceKind::HostDispatch, severity, title);
    let text = format!(
        "{name} too frequent: {} counts during {} steps",
        found.counts, found.steps
    );
    remark.places = vec![place(logs, found.at, &text, "the largest count")];
    let lines = format!("said {} times", found.lines);
    remark.evidence = vec![Exhibit::text(
        "pt-xla-profiler",
        lines,
        "lines of pt-xla-profiler",
    )];
    if !logs.xla_metrics.profiler.not_lowered.is_empty() {
        remark.caveats.push("operations that are not lowered cause transfers as well: cure those first and count again".to_owned());
    }
    remark.advice = advice();
    Some(remark)
}

fn advice() -> Vec<String> {
    [
        "read metrics every N steps, not in each: .item(), float(t), print(t), if t: and progress bars wait for the device",
        "keep sums of losses and metrics as tensors on the device and read them after torch_xla.sync(); use xm.add_step_closure for what has to be printed",
        "find the lines with PT_XLA_DEBUG=1: it prints the Python frame of each execution that a read forced",
    ]
    .map(str::to_owned)
    .to_vec()
}
