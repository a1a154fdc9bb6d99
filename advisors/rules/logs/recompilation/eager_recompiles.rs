//! Programs of TorchTPU's eager mode that are compiled again after warm-up.

use knowledge::advice::AdviceKind;
use profiler::logs::torch_trace::changes::Change;
use profiler::logs::torch_trace::evidence::{self, Cause, ProcessEvidence, Recompiles};

use super::buckets::Buckets;
use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::{count, place, user_place};

/// See the card.
#[derive(Debug)]
pub struct EagerRecompiles;

/// Of the time after warm-up, above which most of a run is lost.
const HIGH_SHARE: f64 = 0.5;
/// Of the steps after warm-up, above which compiling is the rule.
const HIGH_STEPS: f64 = 0.25;
/// Of the steps after warm-up, below which compiling is rare.
const LOW_STEPS: f64 = 0.02;
const SHOWN_CAUSES: usize = 4;

impl Rule for EagerRecompiles {
    fn code(&self) -> &'static str {
        "TL101"
    }

    fn name(&self) -> &'static str {
        "eager-recompiles"
    }

    fn card(&self) -> &'static str {
        include_str!("eager_recompiles.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let trace = &context.evidence.session.logs.torch_trace;
        let all = evidence::gather(trace);
        let worst = all.iter().max_by_key(|process| process.recompiles.compiles);
        match worst.filter(|process| process.recompiles.compiles > 0) {
            Some(worst) => vec![remark(context, worst, all.len())],
            None => Vec::new(),
        }
    }
}

fn remark(context: &Context<'_>, process: &ProcessEvidence<'_>, processes: usize) -> Remark {
    let logs = &context.evidence.session.logs;
    let found = &process.recompiles;
    let main = found.causes.first();
    let why = main
        .map(|cause| format!(", {}", in_words(cause)))
        .unwrap_or_default();
    let title = format!(
        "{} programs were compiled after warm-up, in {} of {} steps{why}",
        found.compiles, found.steps, found.of_steps
    );
    let mut remark = Remark::new(AdviceKind::Recompilation, severity(found), title);
    remark.lost_s = Some(found.lost_us() as f64 / 1e6);
    for cause in found.causes.iter().take(SHOWN_CAUSES) {
        if let Some(line) = &cause.place {
            remark.places.push(user_place(
                line,
                format!("`{}`: {}", cause.op, shown(&cause.change)),
            ));
        }
        remark
            .places
            .push(place(logs, cause.at, "", "the first such compile"));
    }
    remark.evidence = exhibits(process, processes);
    remark.advice = advice(main);
    remark.caveats.push(
        "steps are found in the launches, and the first two count as warm-up; where the log holds few steps, trace more"
            .to_owned(),
    );
    remark
}

fn severity(found: &Recompiles) -> Severity {
    let steps = found.steps as f64 / found.of_steps.max(1) as f64;
    let time = found.lost_us() as f64 / found.steady_us.max(1) as f64;
    if steps >= HIGH_STEPS || time >= HIGH_SHARE {
        Severity::High
    } else if steps >= LOW_STEPS {
        Severity::Medium
    } else {
        Severity::Low
    }
}

/// A cause, in the title's words.
fn in_words(cause: &Cause) -> String {
    let line = cause.place.as_ref().map_or_else(String::new, |line| {
        let file = line.file.rsplit('/').next().unwrap_or(&line.file);
        format!(" at {file}:{}", line.line)
    });
    match (&cause.change, cause.change.axis()) {
        (_, Some((axis, before, _))) => {
            let others: Vec<String> = cause
                .sizes
                .keys()
                .filter(|size| **size != before)
                .take(6)
                .map(u64::to_string)
                .collect();
            format!(
                "because axis {axis} of `{}`{line} had {} beside {before}",
                cause.op,
                others.join(", ")
            )
        }
        (Change::Dtype { before, after, .. }, _) => {
            format!("because {before} became {after}{line}")
        }
        (Change::Constant { .. }, _) => {
            format!("because a Python number in `{}`{line} changed", cause.op)
        }
        (Change::NewOperations, _) => format!("with operations that were not met before{line}"),
        _ => format!("first `{}`{line}", cause.op),
    }
}

/// A change, from and to.
fn shown(change: &Change) -> String {
    match change {
        Change::Sizes {
            tensor,
            before,
            after,
        }
        | Change::Dtype {
            tensor,
            before,
            after,
        } => {
            format!("{tensor} was {before}, is {after}")
        }
        Change::Constant { before, after } => format!("`{before}` became `{after}`"),
        Change::Unseen => "shapes and constants are as before".to_owned(),
        Change::NewOperations => "not launched like this before".to_owned(),
    }
}

fn exhibits(process: &ProcessEvidence<'_>, processes: usize) -> Vec<Exhibit> {
    let found = &process.recompiles;
    let source = "TORCH_TRACE, launches with cache_hit false";
    let mut shown_of = vec![
        count("launches", process.launches, "TORCH_TRACE"),
        count("compiles in all", process.compiles, source),
        count("compiles after warm-up", found.compiles, source),
        Exhibit::number(
            "host time in launches that compiled",
            process.compile_host_us as f64 / 1e3,
            "ms",
            "their durations; the compiler itself runs beside",
        ),
        Exhibit::number(
            "steps after warm-up that compiled",
            found.compiling_us as f64 / 1e6,
            "s",
            "from their first launch to the next step's",
        ),
    ];
    if let Some(clean) = found.clean_step_us {
        shown_of.push(Exhibit::number(
            "a step that compiled nothing",
            clean as f64 / 1e6,
            "s",
            "median of those after warm-up",
        ));
    }
    if let Some(steps) = &process.steps {
        shown_of.push(Exhibit::text(
            "steps told apart by",
            steps.found_by.clone(),
            "launches that come back",
        ));
    }
    if processes > 1 {
        let rank = process.process.rank.map_or_else(
            || format!("process {}", process.process.pid),
            |rank| format!("rank {rank}"),
        );
        shown_of.push(Exhibit::text(
            "process",
            format!("{rank}, the one of {processes} that compiled most"),
            "TORCH_TRACE",
        ));
    }
    for cause in found.causes.iter().take(SHOWN_CAUSES) {
        let line = cause
            .place
            .as_ref()
            .map_or_else(|| "no user line".to_owned(), |p| p.to_string());
        shown_of.push(Exhibit::text(
            format!("{} compiles in {} steps", cause.compiles, cause.steps),
            format!("{line}: {}", shown(&cause.change)),
            "the first launch of a step whose graph differs from the same one before",
        ));
    }
    shown_of
}

fn advice(cause: Option<&Cause>) -> Vec<String> {
    let mut advice = Vec::new();
    let axis = cause.and_then(|cause| Some((cause, cause.change.axis()?)));
    if let Some((cause, (axis, _, _))) = axis {
        let sizes: Vec<u64> = cause.sizes.keys().copied().collect();
        advice.extend(Buckets::of(&sizes, axis).advice(axis));
    } else {
        match cause.map(|cause| &cause.change) {
            Some(Change::Constant { .. }) => advice.push(
                "pass the number as a 0-d tensor on the device (`torch.tensor(x, device=\"tpu\")`, updated with `fill_`), so that it is an input and not a constant of the program"
                    .to_owned(),
            ),
            Some(Change::Dtype { .. }) => advice.push(
                "convert to one dtype where the tensor is made, so that each step sees the same one".to_owned(),
            ),
            Some(Change::NewOperations) => advice.push(
                "look at the line: a branch or a loop whose length varies runs other operations in some steps; compile the whole step with `torch.compile`, with its branches as `torch.where`"
                    .to_owned(),
            ),
            _ => advice.push(
                "keep XLA_FLAGS, precision and compiler options as they are while the run goes on: they are part of the cache's key"
                    .to_owned(),
            ),
        }
    }
    advice.push(
        "run two or three warm-up steps with every shape before timing, and check `torch.tpu._get_cache_stats()`: num_compilations must stand still"
            .to_owned(),
    );
    advice
}
