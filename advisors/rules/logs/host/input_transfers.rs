//! Sending data to the device takes a good part of the time, or the host waits for the device.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::xla_metrics::report::Report;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{counted, of_last_reports, time};

/// See the card.
#[derive(Debug)]
pub struct InputTransfers;

/// Transfers of this part of the time of execution matter.
const SOME: f64 = 0.3;
const MOST: f64 = 1.0;
/// Less than this is nothing, in seconds.
const MIN_SECONDS: f64 = 1.0;

impl Rule for InputTransfers {
    fn code(&self) -> &'static str {
        "TL224"
    }

    fn name(&self) -> &'static str {
        "xla-input-transfers"
    }

    fn card(&self) -> &'static str {
        include_str!("input_transfers.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        of_last_reports(context, of)
    }
}

fn of(logs: &Logs, report: &Report) -> Option<Remark> {
    let execute = report.execute()?;
    let (name, sent) = [
        "TransferToDeviceTime",
        "TransferToServerTime",
        "IrValueTensorToXlaData",
        "TensorToData",
    ]
    .iter()
    .filter_map(|name| Some((*name, report.metrics.get(*name)?)))
    .max_by(|a, b| a.1.seconds().total_cmp(&b.1.seconds()))?;
    let seconds = sent.seconds();
    let share = seconds / execute.seconds().max(1e-9);
    if seconds < MIN_SECONDS || share < SOME {
        return None;
    }
    let severity = if share >= MOST {
        Severity::Medium
    } else {
        Severity::Low
    };
    let title = format!(
        "{} to the device took {} ({name}), {} took {}",
        counted(sent.samples, "transfer"),
        time(seconds),
        counted(execute.samples, "execution"),
        time(execute.seconds()),
    );
    let mut remark = Remark::new(AdviceKind::InputPipeline, severity, title);
    remark.places = vec![place(
        logs,
        sent.at,
        &format!("Metric: {name}"),
        sent.total_text.clone(),
    )];
    if let Some(outbound) = report.outbound() {
        let words = format!("{} samples, {}", outbound.samples, outbound.total_text);
        remark
            .evidence
            .push(Exhibit::text("OutboundData", words, "the metrics report"));
    }
    let wait = report
        .metrics
        .get("DeviceLockWait")
        .filter(|wait| wait.seconds() > 0.0);
    if let Some(wait) = wait {
        remark.evidence.push(Exhibit::text(
            "DeviceLockWait",
            format!("{} samples, {}", wait.samples, wait.total_text),
            "waits for the step before",
        ));
    }
    remark.advice = [
        "feed the device with MpDeviceLoader (torch_xla.distributed.parallel_loader), which sends the next batch while a step runs",
        "send a batch once, in one piece and in its final dtype; make masks, positions and random numbers on the device",
        "Python numbers that are mixed with tensors are sent one by one: keep them on the device",
    ]
    .map(str::to_owned)
    .to_vec();
    remark.caveats =
        vec!["transfers that overlap steps cost nothing: the sum does not tell".to_owned()];
    Some(remark)
}
