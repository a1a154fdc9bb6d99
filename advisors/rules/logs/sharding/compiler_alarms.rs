//! What the compiler and its frontends warn of, besides sharding.

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::compiler_messages::{Message, MessageKind};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;

/// Messages of a kind that are told of.
const MAX_SHOWN: usize = 6;

fn messages<'a>(context: &Context<'a>, kind: MessageKind) -> (&'a Logs, Vec<&'a Message>) {
    let logs = &context.evidence.session.logs;
    let messages = logs.compiler_messages.messages.iter();
    (
        logs,
        messages.filter(|message| message.kind == kind).collect(),
    )
}

/// A remark on all messages of a kind: places and evidence.
fn remark(
    logs: &Logs,
    messages: &[&Message],
    kind: AdviceKind,
    severity: Severity,
    title: String,
) -> Remark {
    let mut remark = Remark::new(kind, severity, title);
    for message in messages.iter().take(MAX_SHOWN) {
        remark.places.push(place(
            logs,
            message.at,
            &message.text,
            message.about.clone(),
        ));
        let times = if message.count > 1 {
            format!(" ({} times)", message.count)
        } else {
            String::new()
        };
        remark.evidence.push(Exhibit::text(
            "message",
            format!("{}{times}", message.about),
            message.text.clone(),
        ));
    }
    remark
}

fn name(message: &Message) -> &str {
    message.about.split([' ', '(']).next().unwrap_or_default()
}

/// TL410.
#[derive(Debug)]
pub struct SlowCompile;

impl Rule for SlowCompile {
    fn code(&self) -> &'static str {
        "TL410"
    }

    fn name(&self) -> &'static str {
        "slow-compile"
    }

    fn card(&self) -> &'static str {
        include_str!("slow_compile.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let (logs, mut found) = messages(context, MessageKind::SlowCompile);
        found.sort_by(|a, b| {
            b.seconds
                .unwrap_or(0.0)
                .total_cmp(&a.seconds.unwrap_or(0.0))
        });
        let Some(first) = found.first() else {
            return Vec::new();
        };
        let lost: f64 = found.iter().filter_map(|message| message.seconds).sum();
        let time = match first.seconds {
            Some(seconds) => format!("takes {seconds} s to compile"),
            None => "takes minutes to compile (the alarm rings after two)".to_owned(),
        };
        let others = match found.len() {
            1 => String::new(),
            n => format!(", and {} other modules are slow too", n - 1),
        };
        let title = format!(
            "{} {time}{others}",
            if first.about.is_empty() {
                "a module"
            } else {
                &first.about
            }
        );
        let mut remark = remark(logs, &found, AdviceKind::ScanUnroll, Severity::Low, title);
        remark.lost_s = (lost > 0.0).then_some(lost);
        remark.advice = vec![
            "keep compiled programs between runs: JAX_COMPILATION_CACHE_DIR, or the cache of the framework".to_owned(),
            "layers that are alike belong in a scan (lax.scan, scan_layers): the compiler then sees one of them".to_owned(),
        ];
        remark.caveats.push("scan can cost throughput: -16 % to -21 % in one measured model; weigh it against compiles a day".to_owned());
        vec![remark]
    }
}

/// TL411.
#[derive(Debug)]
pub struct ConstantFolding;

impl Rule for ConstantFolding {
    fn code(&self) -> &'static str {
        "TL411"
    }

    fn name(&self) -> &'static str {
        "constant-folding"
    }

    fn card(&self) -> &'static str {
        include_str!("constant_folding.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let (logs, found) = messages(context, MessageKind::ConstantFolding);
        let Some(first) = found.first() else {
            return Vec::new();
        };
        let seconds = first
            .seconds
            .map_or(String::new(), |seconds| format!(" more than {seconds} s"));
        let title = format!(
            "the compiler spends{seconds} on computing {} itself{}",
            if first.about.is_empty() {
                "an instruction"
            } else {
                name(first)
            },
            match found.len() {
                1 => String::new(),
                n => format!(", and {} more", n - 1),
            }
        );
        let mut remark = remark(
            logs,
            &found,
            AdviceKind::Recompilation,
            Severity::Low,
            title,
        );
        remark.advice = vec![
            "pass large constants as arguments: an array that a jitted function closes over is part of the program, and is folded in each compile".to_owned(),
            "compute it once outside of jit, or with numpy at start".to_owned(),
        ];
        vec![remark]
    }
}

/// TL412.
#[derive(Debug)]
pub struct DonationUnused;

impl Rule for DonationUnused {
    fn code(&self) -> &'static str {
        "TL412"
    }

    fn name(&self) -> &'static str {
        "donation-unused"
    }

    fn card(&self) -> &'static str {
        include_str!("donation_unused.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let (logs, found) = messages(context, MessageKind::DonationUnused);
        let Some(first) = found.first() else {
            return Vec::new();
        };
        let about: String = first.about.chars().take(120).collect();
        let title = format!("donated buffers are not used: {about} stay beside their results");
        let mut remark = remark(logs, &found, AdviceKind::MemoryLimit, Severity::Low, title);
        remark.advice = vec![
            "a donated buffer is used where a result has its shape, dtype, layout and sharding: make the updated value match (a cast of the optimizer state, a changed out_sharding), or return it".to_owned(),
            "drop donate_argnums where nothing is replaced: it only hides what is held".to_owned(),
        ];
        remark
            .caveats
            .push("small buffers cost nothing; look at the large ones in the list".to_owned());
        vec![remark]
    }
}

/// TL413.
#[derive(Debug)]
pub struct UntunedKernel;

impl Rule for UntunedKernel {
    fn code(&self) -> &'static str {
        "TL413"
    }

    fn name(&self) -> &'static str {
        "untuned-kernel"
    }

    fn card(&self) -> &'static str {
        include_str!("untuned_kernel.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let (logs, found) = messages(context, MessageKind::Untuned);
        let Some(first) = found.first() else {
            return Vec::new();
        };
        let count: u64 = found.iter().map(|message| message.count).sum();
        let about: String = first.about.chars().take(160).collect();
        let times = if count > 1 {
            format!(" ({count} lines)")
        } else {
            String::new()
        };
        let title = format!("a kernel runs with default block sizes{times}: {about}");
        let mut remark = remark(
            logs,
            &found,
            AdviceKind::KernelTuning,
            Severity::Medium,
            title,
        );
        remark.advice = vec![
            "tune it for this shape and chip (the library's autotuner), or add an entry to its table: default tiles were 12.4 times slower in one measured grouped matmul".to_owned(),
            "or choose sizes that have an entry".to_owned(),
        ];
        remark.caveats.push(
            "how far the default is off depends on the shape: measure the kernel alone first"
                .to_owned(),
        );
        vec![remark]
    }
}

/// TL414.
#[derive(Debug)]
pub struct HostCompute;

impl Rule for HostCompute {
    fn code(&self) -> &'static str {
        "TL414"
    }

    fn name(&self) -> &'static str {
        "compute-on-host"
    }

    fn card(&self) -> &'static str {
        include_str!("compute_on_host.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let (logs, found) = messages(context, MessageKind::HostCompute);
        let Some(first) = found.first() else {
            return Vec::new();
        };
        let title = format!(
            "the compiler moved {} to the host: its operands lie in host memory{}",
            if first.about.is_empty() {
                "an instruction"
            } else {
                &first.about
            },
            match found.len() {
                1 => String::new(),
                n => format!(" ({n} instructions)"),
            }
        );
        let mut remark = remark(
            logs,
            &found,
            AdviceKind::HostOffload,
            Severity::Medium,
            title,
        );
        remark.advice = vec!["bring the operands to the device first (jax.device_put with the device's memory kind), then compute".to_owned()];
        vec![remark]
    }
}
