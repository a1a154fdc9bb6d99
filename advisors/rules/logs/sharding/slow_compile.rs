//! Modules that take minutes to compile.

use knowledge::advice::AdviceKind;
use profiler::logs::compiler_messages::MessageKind;

use crate::finding::{Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::sharding::compiler_alarms::{messages, remark};

/// See the card.
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
        let mut remark = remark(
            logs,
            &found,
            AdviceKind::Recompilation,
            Severity::Low,
            title,
        );
        remark.lost_s = (lost > 0.0).then_some(lost);
        remark.advice = vec![
            "keep compiled programs between runs: JAX_COMPILATION_CACHE_DIR, or the cache of the framework".to_owned(),
            "layers that are alike belong in a scan (lax.scan, scan_layers): the compiler then sees one of them".to_owned(),
        ];
        remark.caveats.push("scan can cost throughput: -16 % to -21 % in one measured model; weigh it against compiles a day".to_owned());
        vec![remark]
    }
}
