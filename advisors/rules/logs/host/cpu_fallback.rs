//! Operations without a kernel for TPUs.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::torch_tpu::{Message, Saying};

use crate::finding::{Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::{count, place};

/// See the card.
#[derive(Debug)]
pub struct CpuFallback;

const SHOWN: usize = 8;

/// Operations without a kernel in torch_tpu 0.2.0, and what computes the same.
const SUBSTITUTES: &[(&str, &str)] = &[
    (
        "median",
        "`torch.sort` and the middle element, or `torch.quantile(x, 0.5)`",
    ),
    (
        "kthvalue",
        "`torch.topk(x, k, largest=False)` and its last element",
    ),
    (
        "mode",
        "`torch.bincount` and `argmax` over the values that occur",
    ),
    (
        "erfc",
        "`1 - torch.erf(x)`, for large x `torch.exp(torch.special.log_ndtr(…))`",
    ),
    ("huber_loss", "its formula with `torch.where`"),
    ("smooth_l1_loss", "its formula with `torch.where`"),
    ("_int_mm", "`torch.matmul` in bfloat16"),
    ("renorm", "`x * (maxnorm / norm).clamp(max=1)`"),
];

impl Rule for CpuFallback {
    fn code(&self) -> &'static str {
        "TL205"
    }

    fn name(&self) -> &'static str {
        "cpu-fallback"
    }

    fn card(&self) -> &'static str {
        include_str!("cpu_fallback.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let of = |saying| logs.torch_tpu.saying(&saying).collect::<Vec<&Message>>();
        let missing = of(Saying::NotImplemented);
        let falling = of(Saying::CpuFallback);
        let mut remarks = Vec::new();
        if !missing.is_empty() {
            let title = format!(
                "{} not implemented for TPUs: the program ends there",
                names(&missing)
            );
            remarks.push(remark(logs, &missing, Severity::High, title));
        }
        if !falling.is_empty() {
            let title = format!(
                "{} on the CPU, with copies from and to the device",
                names_run(&falling)
            );
            remarks.push(remark(logs, &falling, Severity::High, title));
        }
        remarks
    }
}

fn list(messages: &[&Message]) -> String {
    let shown: Vec<String> = messages
        .iter()
        .take(4)
        .map(|message| format!("`{}`", message.subject))
        .collect();
    let more = messages.len().saturating_sub(4);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    shown.join(", ") + &more
}

fn names(messages: &[&Message]) -> String {
    let verb = if messages.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", list(messages))
}

fn names_run(messages: &[&Message]) -> String {
    let verb = if messages.len() == 1 { "runs" } else { "run" };
    format!("{} {verb}", list(messages))
}

fn remark(logs: &Logs, messages: &[&Message], severity: Severity, title: String) -> Remark {
    let mut remark = Remark::new(AdviceKind::OpSubstitution, severity, title);
    for message in messages.iter().take(SHOWN) {
        remark.places.push(place(
            logs,
            message.at,
            &message.text,
            format!("`{}`", message.subject),
        ));
        remark.evidence.push(count(
            format!("lines that name `{}`", message.subject),
            message.count,
            "the log",
        ));
    }
    for message in messages.iter().take(SHOWN) {
        if let Some(substitute) = substitute(&message.subject) {
            remark
                .advice
                .push(format!("`{}`: {substitute}", message.subject));
        }
    }
    remark.advice.push(
        "`tpu-tune check` on the sources lists every use of operations without a kernel".to_owned(),
    );
    remark
}

/// What computes the same as an operation, named with or without `aten::` and overload.
fn substitute(operation: &str) -> Option<&'static str> {
    let name = operation.rsplit("::").next()?.split('.').next()?;
    let found = SUBSTITUTES.iter().find(|(known, _)| *known == name);
    found.map(|(_, substitute)| *substitute)
}
