//! The persistent compilation cache of JAX: off, missed, or not written.

use knowledge::advice::AdviceKind;
use profiler::logs::At;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{counted, time};

/// See the card.
#[derive(Debug)]
pub struct JaxPersistentCache;

/// Compilations that take less in all are not worth a cache, in seconds.
const WORTH_IT: f64 = 10.0;
/// From here on a start without a cache is a cost.
const COSTLY: f64 = 120.0;

impl Rule for JaxPersistentCache {
    fn code(&self) -> &'static str {
        "TL131"
    }

    fn name(&self) -> &'static str {
        "jax-persistent-cache"
    }

    fn card(&self) -> &'static str {
        include_str!("jax_persistent_cache.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let jax = &logs.jax;
        let cache = &jax.persistent;
        let total = jax.compile_seconds();
        let first = jax
            .functions
            .values()
            .flat_map(|f| &f.events)
            .map(|event| event.at)
            .min();
        let (severity, title, at, advice) = if cache.is_empty() {
            if total < WORTH_IT {
                return Vec::new();
            }
            let severity = if total >= COSTLY {
                Severity::Low
            } else {
                Severity::Info
            };
            let title = format!(
                "{} took {} and the log names no persistent cache: the next start compiles all of it again",
                counted(jax.compiles(), "compilation"),
                time(total),
            );
            (
                severity,
                title,
                first,
                "set JAX_COMPILATION_CACHE_DIR (a bucket or a disk that all hosts see)",
            )
        } else if cache.too_fast > 0 && cache.too_fast_seconds >= WORTH_IT {
            let title = format!(
                "{} not written to the persistent cache, each faster than {}: {} together at every start",
                counted(cache.too_fast, "program"),
                time(cache.limit_seconds.unwrap_or(1.0)),
                time(cache.too_fast_seconds),
            );
            (
                Severity::Low,
                title,
                cache.first_too_fast,
                "set JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0, and JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1",
            )
        } else {
            let title = format!(
                "persistent cache: {}, {} missed, {} written, {} too fast to be written",
                counted(cache.hits, "hit"),
                cache.misses,
                cache.written,
                cache.too_fast,
            );
            let advice = "compare the options, libtpu and code of two starts where a program misses in both: all of them are part of the key";
            (Severity::Info, title, cache.first_miss.or(first), advice)
        };
        let mut remark = Remark::new(AdviceKind::Recompilation, severity, title);
        remark.places = at
            .map(|at: At| place(logs, at, "", "the first of them"))
            .into_iter()
            .collect();
        if total > 0.0 {
            remark.evidence.push(Exhibit::number(
                "compiling",
                total,
                "s",
                "sum of Finished XLA compilation lines",
            ));
        }
        if !cache.is_empty() {
            let words = format!(
                "{} hits, {} misses, {} written, {} too fast",
                cache.hits, cache.misses, cache.written, cache.too_fast
            );
            remark.evidence.push(Exhibit::text(
                "persistent cache",
                words,
                "its lines in the log",
            ));
        }
        remark.advice = vec![advice.to_owned()];
        remark.caveats = vec!["it shortens starts, not steps".to_owned()];
        vec![remark]
    }
}
