//! Functions that Dynamo compiles again and again.

use std::collections::{BTreeMap, BTreeSet};

use knowledge::advice::AdviceKind;
use profiler::logs::torch_tpu::guard::SizeGuard;
use profiler::logs::torch_tpu::{Message, Saying};
use profiler::logs::torch_trace::SourceLine;
use profiler::logs::{At, Logs};

use super::buckets::Buckets;
use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::{place, user_place};

/// See the card.
#[derive(Debug)]
pub struct DynamoRecompiles;

/// Recompiles of one function, from which on shapes are not just met for the first time.
const MANY: u64 = 3;
const SHOWN: usize = 5;

impl Rule for DynamoRecompiles {
    fn code(&self) -> &'static str {
        "TL102"
    }

    fn name(&self) -> &'static str {
        "dynamo-recompiles"
    }

    fn card(&self) -> &'static str {
        include_str!("dynamo_recompiles.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let functions = functions(logs);
        let limits: Vec<&Message> = logs.torch_tpu.saying(&Saying::RecompileLimit).collect();
        if functions.is_empty() && limits.is_empty() {
            return Vec::new();
        }
        vec![remark(logs, &functions, &limits)]
    }
}

/// What is known of one function.
#[derive(Debug, Default)]
struct Recompiled {
    at: At,
    count: u64,
    seconds: f64,
    /// Whether Dynamo did not compile it again, because its limit was reached.
    gave_up: bool,
    guards: BTreeSet<String>,
}

/// Functions that were compiled again. A TORCH_TRACE log tells more than TORCH_LOGS, and the same.
fn functions(logs: &Logs) -> Vec<(SourceLine, Recompiled)> {
    let mut found: BTreeMap<SourceLine, Recompiled> = BTreeMap::new();
    for compile in logs.torch_trace.dynamo.iter().filter(|c| c.earlier() > 0) {
        let one = found
            .entry(compile.function.clone())
            .or_insert_with(|| Recompiled {
                at: compile.at,
                ..Recompiled::default()
            });
        one.count += u64::from(compile.failure.is_none());
        one.gave_up |= compile.reached_limit();
        one.seconds += compile.seconds;
        one.guards.extend(compile.guards.iter().cloned());
    }
    if found.is_empty() {
        for said in &logs.torch_tpu.recompiled {
            let one = found
                .entry(said.function.clone())
                .or_insert_with(|| Recompiled {
                    at: said.at,
                    ..Recompiled::default()
                });
            one.count += said.count;
            one.guards.extend(said.guards.iter().cloned());
        }
    }
    let mut found: Vec<(SourceLine, Recompiled)> = found.into_iter().collect();
    found.sort_by(|a, b| b.1.count.cmp(&a.1.count).then(a.1.at.cmp(&b.1.at)));
    found
}

/// Sizes that an axis of a tensor had, by tensor and axis, the one of most sizes first.
fn sizes(
    functions: &[(SourceLine, Recompiled)],
    limits: &[&Message],
) -> Vec<((String, usize), Vec<u64>)> {
    let mut sizes: BTreeMap<(String, usize), BTreeSet<u64>> = BTreeMap::new();
    let guards = functions.iter().flat_map(|(_, one)| one.guards.iter());
    for guard in guards.chain(limits.iter().map(|limit| &limit.detail)) {
        if let Some(guard) = SizeGuard::parse(guard) {
            let axis = sizes.entry((guard.tensor, guard.axis)).or_default();
            axis.extend([guard.expected, guard.actual]);
        }
    }
    let mut sizes: Vec<_> = sizes
        .into_iter()
        .map(|(axis, sizes)| (axis, sizes.into_iter().collect::<Vec<u64>>()))
        .collect();
    sizes.sort_by_key(|(axis, sizes)| (std::cmp::Reverse(sizes.len()), axis.clone()));
    sizes
}

fn remark(logs: &Logs, functions: &[(SourceLine, Recompiled)], limits: &[&Message]) -> Remark {
    let recompiles: u64 = functions.iter().map(|(_, one)| one.count).sum();
    let most = functions.first().map_or(0, |(_, one)| one.count);
    let sizes = sizes(functions, limits);
    let why = sizes
        .first()
        .map_or_else(String::new, |((tensor, axis), sizes)| match sizes[..] {
            // The warning of the limit names the last one only.
            [one, other] if functions.is_empty() => {
                format!(", at last because axis {axis} of `{tensor}` had {one} and {other}")
            }
            _ => {
                let count = sizes.len();
                format!(", because axis {axis} of `{tensor}` had {count} sizes")
            }
        });
    let gave_up = functions.iter().find(|(_, one)| one.gave_up);
    let title = match (limits.first(), gave_up.or(functions.first())) {
        (Some(limit), _) => format!(
            "dynamo gave up on {} after {} compiles and runs it eagerly{why}",
            named(&limit.subject),
            limit.detail.split(':').next().unwrap_or_default(),
        ),
        (None, Some((line, one))) if one.gave_up => format!(
            "dynamo gave up on `{}` at {}:{} after {} compiles and runs it eagerly{why}",
            line.function,
            line.file.rsplit('/').next().unwrap_or_default(),
            line.line,
            one.count + 1
        ),
        (None, Some((line, _))) => format!(
            "dynamo compiled {recompiles} times again, `{}` at {}:{} most often ({most} times){why}",
            line.function,
            line.file.rsplit('/').next().unwrap_or_default(),
            line.line
        ),
        (None, None) => String::new(),
    };
    let severity = match (limits.is_empty() && gave_up.is_none(), most >= MANY) {
        (false, _) => Severity::High,
        (true, true) => Severity::Medium,
        (true, false) => Severity::Low,
    };
    let mut remark = Remark::new(AdviceKind::Recompilation, severity, title);
    let seconds: f64 = functions.iter().map(|(_, one)| one.seconds).sum();
    remark.lost_s = Some(seconds).filter(|seconds| *seconds > 0.0);
    for limit in limits.iter().take(SHOWN) {
        remark
            .places
            .push(place(logs, limit.at, &limit.text, "the limit was reached"));
    }
    for (line, one) in functions.iter().take(SHOWN) {
        if line.line > 0 {
            remark.places.push(user_place(
                line,
                format!("compiled again {} times", one.count),
            ));
        }
        remark
            .places
            .push(place(logs, one.at, "", "the first recompile in the log"));
    }
    remark.evidence = exhibits(functions, &sizes, seconds);
    remark.advice = advice(&sizes, functions);
    remark
}

/// `'forward' (/tmp/a.py:5)` as `forward at a.py:5`.
fn named(subject: &str) -> String {
    let parts = subject.split_once(" (");
    let Some((name, place)) = parts else {
        return "a function".to_owned();
    };
    let place = place.trim_end_matches(')');
    let file = place.rsplit('/').next().unwrap_or(place);
    format!("`{}` at {file}", name.trim_matches('\''))
}

fn exhibits(
    functions: &[(SourceLine, Recompiled)],
    sizes: &[((String, usize), Vec<u64>)],
    seconds: f64,
) -> Vec<Exhibit> {
    let mut shown = Vec::new();
    for (line, one) in functions.iter().take(SHOWN) {
        let guard = one.guards.iter().next().cloned().unwrap_or_default();
        shown.push(Exhibit::text(
            format!("`{}`, compiled again {} times", line.function, one.count),
            guard,
            "the first guard that failed",
        ));
    }
    if seconds > 0.0 {
        shown.push(Exhibit::number(
            "time of these compiles",
            seconds,
            "s",
            "compilation_metrics: entire_frame_compile_time_s",
        ));
    }
    for ((tensor, axis), sizes) in sizes.iter().take(SHOWN) {
        let sizes: Vec<String> = sizes.iter().take(16).map(u64::to_string).collect();
        shown.push(Exhibit::text(
            format!("sizes of axis {axis} of `{tensor}`"),
            sizes.join(", "),
            "guards that failed",
        ));
    }
    shown
}

fn advice(
    sizes: &[((String, usize), Vec<u64>)],
    functions: &[(SourceLine, Recompiled)],
) -> Vec<String> {
    let mut advice = Vec::new();
    if let Some(((_, axis), sizes)) = sizes.first() {
        advice.extend(Buckets::of(sizes, *axis).advice(*axis));
        advice.push(
            "or let one program serve a range: leave `dynamic` unset and mark the axis with bounds (`torch._dynamo.mark_dynamic(x, axis, min=…, max=…)`); `dynamic=True` is refused, and attention loses its flash kernel"
                .to_owned(),
        );
    } else {
        let guards = || functions.iter().flat_map(|(_, one)| one.guards.iter());
        if guards().any(|guard| guard.contains(" == ")) {
            advice.push(
                "a Python value is part of the program: pass it as a 0-d tensor, or keep it constant".to_owned(),
            );
        }
        advice.push(
            "make what the guards name the same in each call; TORCH_LOGS=recompiles lists all of them".to_owned(),
        );
    }
    advice.push(
        "raising the limit only hides it: each further compile costs as much as the last"
            .to_owned(),
    );
    advice
}
