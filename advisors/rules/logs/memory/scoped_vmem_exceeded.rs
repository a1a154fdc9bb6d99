//! A kernel needs more scoped VMEM than its limit.

use knowledge::advice::AdviceKind;
use knowledge::chips::chips;
use profiler::logs::Logs;
use profiler::logs::out_of_memory::{Cause, OutOfMemory};
use profiler::units::{Bytes, with_digits};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::memory::{named, places, size};

/// See the card.
#[derive(Debug)]
pub struct ScopedVmemExceeded;

/// A proposed limit is a multiple of this.
const STEP_BYTES: u64 = 8 << 20;

impl Rule for ScopedVmemExceeded {
    fn code(&self) -> &'static str {
        "TL305"
    }

    fn name(&self) -> &'static str {
        "scoped-vmem-exceeded"
    }

    fn card(&self) -> &'static str {
        include_str!("scoped_vmem_exceeded.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let reports = logs.out_of_memory.reports.iter();
        reports.filter_map(|report| remark(logs, report)).collect()
    }
}

fn remark(logs: &Logs, report: &OutOfMemory) -> Option<Remark> {
    let Cause::Scoped {
        size: needed,
        limit,
        over,
    } = &report.cause
    else {
        return None;
    };
    let space = report.space.name();
    let mut remark = Remark::new(
        AdviceKind::KernelTuning,
        Severity::High,
        format!(
            "the kernel{} needs {needed} of scoped {space}, its limit is {limit}: {over} too much",
            named(report)
        ),
    );
    remark.places = places(logs, report, "the kernel does not compile");
    let source = "the compiler's message";
    remark.evidence = vec![
        size("needed", needed, source),
        size("limit", limit, source),
        size("too much", over, source),
    ];
    let ratio = needed.bytes.0 as f64 / (limit.bytes.0 as f64).max(1.0);
    let proposed = needed
        .bytes
        .0
        .div_ceil(STEP_BYTES)
        .saturating_mul(STEP_BYTES);
    let room: Vec<String> = chips()
        .iter()
        .filter_map(|chip| {
            let mib = chip.vmem_mib_per_core.as_ref()?.value;
            (mib * f64::from(1u32 << 20) > proposed as f64)
                .then(|| format!("{} ({mib:.0} MiB)", chip.generation.name()))
        })
        .collect();
    if room.is_empty() {
        remark.advice.push(format!(
            "no TPU has so much VMEM in a core: make the blocks smaller, by {} or more",
            with_digits(ratio, "times")
        ));
    } else {
        remark.evidence.push(Exhibit::text(
            "VMEM of a core that has room for it",
            room.join(", "),
            "chip tables",
        ));
        remark.advice.push(format!(
            "raise the kernel's limit: pltpu.CompilerParams(vmem_limit_bytes={proposed}), which is {}; for XLA's own fusions --xla_tpu_scoped_vmem_limit_kib={}",
            Bytes(proposed),
            proposed >> 10
        ));
        remark.advice.push(format!(
            "or make the blocks smaller, by {} or more: blocks of pipelined operands count twice",
            with_digits(ratio, "times")
        ));
    }
    remark.caveats.push("the limit of one kernel is taken from what XLA keeps in VMEM around it: measure the whole step".to_owned());
    Some(remark)
}
