//! A jitted function is compiled again and again.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::jax::compile::Function;
use profiler::logs::jax::miss::{CacheMiss, Difference, Reason};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{MAX_PLACES, counted, time};

/// See the card.
#[derive(Debug)]
pub struct JaxRecompilation;

/// Functions that are told of.
const MAX_FUNCTIONS: usize = 4;
/// Compilations after the first, and their time in seconds, from which they weigh more.
const MANY: u64 = 9;
const MANY_SECONDS: f64 = 30.0;
const SOME: u64 = 2;
const SOME_SECONDS: f64 = 5.0;
/// Repeated compilations of a function of which nobody says that it is the user's are told of from
/// here on, in seconds.
const OTHERS_SECONDS: f64 = 1.0;
/// The part of the steps after warm-up with a compilation from which a run loses most of its time.
const PART_OF_STEPS: f64 = 0.2;
/// Types that are listed.
const MAX_TYPES: usize = 8;

impl Rule for JaxRecompilation {
    fn code(&self) -> &'static str {
        "TL130"
    }

    fn name(&self) -> &'static str {
        "jax-recompilation"
    }

    fn card(&self) -> &'static str {
        include_str!("jax_recompilation.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let mut misses: BTreeMap<&str, Vec<&CacheMiss>> = BTreeMap::new();
        for miss in logs.jax.misses.iter().filter(|miss| miss.is_user_code()) {
            misses.entry(&miss.function).or_default().push(miss);
        }
        let none = Function::default();
        let mut names: Vec<&str> = logs.jax.functions.keys().map(String::as_str).collect();
        names.extend(
            misses
                .keys()
                .filter(|name| !logs.jax.functions.contains_key(**name)),
        );
        let mut remarks: Vec<Remark> = names
            .into_iter()
            .filter_map(|name| {
                let function = logs.jax.functions.get(name).unwrap_or(&none);
                let misses = misses.get(name).map_or(&[][..], Vec::as_slice);
                of(logs, name, function, misses)
            })
            .collect();
        remarks.sort_by(|a, b| {
            (a.severity.cmp(&b.severity))
                .then_with(|| b.lost_s.unwrap_or(0.0).total_cmp(&a.lost_s.unwrap_or(0.0)))
                .then_with(|| a.title.cmp(&b.title))
        });
        remarks.truncate(MAX_FUNCTIONS);
        remarks
    }
}

/// Step lines before an event of the same file: whether it comes after the warm-up, and how many
/// steps there are in the file.
fn steps(logs: &Logs, function: &Function) -> Option<(u64, u64)> {
    let mut lines: Vec<(u32, u64)> = (logs.progress.series.iter())
        .flat_map(|series| {
            series
                .points
                .iter()
                .map(|point| (point.at.file, point.at.line))
        })
        .collect();
    lines.extend(
        logs.progress
            .server
            .points
            .iter()
            .map(|point| (point.at.file, point.at.line)),
    );
    lines.sort_unstable();
    let first = lines.first()?;
    let late = (function.events.iter())
        .filter(|event| event.at.file == first.0 && event.at.line > first.1)
        .count() as u64;
    Some((late, lines.len() as u64))
}

fn of(logs: &Logs, name: &str, function: &Function, misses: &[&CacheMiss]) -> Option<Remark> {
    let explained: Vec<&CacheMiss> = (misses.iter().copied())
        .filter(|miss| miss.reason != Reason::NewFunction)
        .collect();
    let again = function
        .compiles
        .saturating_sub(1)
        .max(explained.len() as u64);
    let known = !explained.is_empty();
    // What JAX itself compiles outside any jit has many shapes and is small.
    let is_own = known || misses.iter().any(|miss| miss.is_user_code());
    let lost = function.repeated_seconds();
    let steps = steps(logs, function);
    let late = steps.map_or(0, |(late, _)| late);
    if again == 0 || (!is_own && lost < OTHERS_SECONDS && late < SOME) {
        return None;
    }
    let in_most =
        steps.is_some_and(|(late, all)| late >= SOME && late as f64 >= PART_OF_STEPS * all as f64);
    let severity = if in_most || lost >= MANY_SECONDS || (again >= MANY && is_own) {
        Severity::High
    } else if again >= SOME || lost >= SOME_SECONDS {
        Severity::Medium
    } else {
        Severity::Low
    };
    let cause = Cause::of(function, &explained);
    let after = match steps {
        Some((late, all)) if late > 0 => {
            format!(", {late} of them among {}", counted(all, "step line"))
        }
        _ => String::new(),
    };
    let title = format!(
        "{name} is compiled {} after the first{after}{}: {}",
        if again == 1 {
            "once".to_owned()
        } else {
            counted(again, "time")
        },
        if lost > 0.0 {
            format!(", {} together", time(lost))
        } else {
            String::new()
        },
        cause.words,
    );
    let mut remark = Remark::new(AdviceKind::Recompilation, severity, title);
    remark.lost_s = (lost > 0.0).then_some(lost);
    remark.places = places(logs, function, &explained);
    remark.evidence = cause.evidence;
    if let Some(defined) = misses
        .iter()
        .map(|miss| miss.defined.as_str())
        .find(|text| !text.is_empty())
    {
        remark.evidence.push(Exhibit::text(
            "defined at",
            defined,
            "JAX_EXPLAIN_CACHE_MISSES",
        ));
    }
    if let Some(call) = explained.first() {
        remark.evidence.push(Exhibit::text(
            "called at",
            call.call.clone(),
            "JAX_EXPLAIN_CACHE_MISSES",
        ));
    }
    remark.advice = cause.advice;
    remark.caveats = vec![
        "a server that compiles each of its buckets before it takes requests does so on purpose"
            .to_owned(),
    ];
    Some(remark)
}

fn places(
    logs: &Logs,
    function: &Function,
    explained: &[&CacheMiss],
) -> Vec<crate::finding::Place> {
    if explained.is_empty() {
        let again = function.events.iter().skip(1);
        return again
            .take(MAX_PLACES)
            .map(|event| {
                let took = event
                    .seconds
                    .map(|s| format!("XLA took {}", time(s)))
                    .unwrap_or_default();
                place(
                    logs,
                    event.at,
                    &event.types.chars().take(160).collect::<String>(),
                    took,
                )
            })
            .collect();
    }
    explained
        .iter()
        .take(MAX_PLACES)
        .map(|miss| {
            place(
                logs,
                miss.at,
                &format!("TRACING CACHE MISS at {}", miss.call),
                words(&miss.reason),
            )
        })
        .collect()
}

fn words(reason: &Reason) -> String {
    match reason {
        Reason::NewFunction => "never called before".to_owned(),
        Reason::Redefined => "the function was made anew".to_owned(),
        Reason::Arguments(changes) => {
            let first = changes.first();
            let rest = match changes.len() {
                0 | 1 => String::new(),
                all => format!(" and {} more", all - 1),
            };
            first.map_or_else(String::new, |change| {
                format!(
                    "{}: {}, before {}{rest}",
                    change.argument, change.now, change.before
                )
            })
        }
        Reason::Static(now, before) => format!("static argument: {now}, before {before}"),
        Reason::Other(text) if text.is_empty() => "JAX gives no reason".to_owned(),
        Reason::Other(text) => text.clone(),
    }
}

/// What changed, in words, with the cure.
struct Cause {
    words: String,
    evidence: Vec<Exhibit>,
    advice: Vec<String>,
}

impl Cause {
    fn of(function: &Function, explained: &[&CacheMiss]) -> Self {
        let mut said: Vec<String> = Vec::new();
        let mut evidence = Vec::new();
        let mut advice = Vec::new();
        let mut arguments: BTreeMap<(Difference, &str), Vec<&str>> = BTreeMap::new();
        let mut redefined = 0u64;
        for miss in explained {
            match &miss.reason {
                Reason::Redefined => redefined += 1,
                Reason::Arguments(changes) => {
                    for change in changes {
                        let kinds = arguments
                            .entry((change.difference(), &change.argument))
                            .or_default();
                        for kind in [change.before.as_str(), change.now.as_str()] {
                            if !kinds.contains(&kind) {
                                kinds.push(kind);
                            }
                        }
                    }
                }
                Reason::Static(now, before) => {
                    said.push(format!("a static argument is {now}, before {before}"));
                    advice.push(
                        "pass what changes often as an array, not as a static argument".to_owned(),
                    );
                }
                Reason::NewFunction | Reason::Other(_) => {}
            }
        }
        if redefined > 0 {
            said.push("a new function is made at the same line each time, so no call finds the last one's program".to_owned());
            advice.push("make the jitted function once, outside the loop; pass what it closes over as arguments".to_owned());
        }
        for ((difference, argument), kinds) in arguments.iter().take(MAX_TYPES) {
            let listed: Vec<&str> = kinds.iter().copied().take(MAX_TYPES).collect();
            let what = match difference {
                Difference::Shape => "the shape",
                Difference::Dtype => "the dtype",
                Difference::WeakType => "the weak type",
                Difference::Other => "the type",
            };
            said.push(format!(
                "{what} of {argument} changes ({})",
                listed.join(", ")
            ));
            evidence.push(Exhibit::text(
                format!("{what} of {argument}"),
                listed.join(", "),
                "JAX_EXPLAIN_CACHE_MISSES: now and before",
            ));
            advice.push(match difference {
                Difference::Shape => format!("pad {argument} to one length or a few buckets, and drop the ragged last batch"),
                Difference::Dtype => format!("cast {argument} to one dtype where it is made"),
                Difference::WeakType => format!("pass {argument} as an array with a dtype on every call (jnp.float32(x)), or as a Python scalar on every call"),
                Difference::Other => format!("give {argument} the same sharding and type on every call"),
            });
        }
        if said.is_empty() {
            for (place, kinds) in function.varying_arguments().into_iter().take(3) {
                let listed: Vec<String> = kinds.into_iter().take(MAX_TYPES).collect();
                said.push(format!("argument {place} changes ({})", listed.join(", ")));
                evidence.push(Exhibit::text(
                    format!("argument {place}, counted from 0"),
                    listed.join(", "),
                    "the types in the Compiling lines",
                ));
            }
            advice.push("pad or bucket what varies; JAX_EXPLAIN_CACHE_MISSES=1 names the argument and the line of the call".to_owned());
        }
        if said.is_empty() {
            said.push("with the same types each time: a function that is made anew, a changed static argument or another context".to_owned());
            advice.push("make the jitted function once, outside the loop".to_owned());
        }
        advice.dedup();
        said.dedup();
        said.truncate(3);
        if let Some(longest) = function
            .events
            .iter()
            .filter_map(|event| event.seconds)
            .max_by(f64::total_cmp)
        {
            evidence.push(Exhibit::number(
                "longest compilation",
                longest,
                "s",
                "Finished XLA compilation lines",
            ));
        }
        Self {
            words: said.join("; "),
            evidence,
            advice,
        }
    }
}
