//! What step lines say: step time, throughput, utilisation.

use knowledge::advice::AdviceKind;
use profiler::logs::progress::series::{Point, Series, Trainer};
use profiler::logs::progress::statistics::{Times, median};

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::{MAX_PLACES, counted, time};

/// See the card.
#[derive(Debug)]
pub struct StepThroughput;

impl Rule for StepThroughput {
    fn code(&self) -> &'static str {
        "TL501"
    }

    fn name(&self) -> &'static str {
        "step-throughput"
    }

    fn card(&self) -> &'static str {
        include_str!("step_throughput.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let mut remarks = Vec::new();
        let timed = |series: &&Series| {
            series.points.iter().any(|p| {
                p.seconds.is_some() || p.tokens_per_s.is_some() || p.samples_per_s.is_some()
            })
        };
        let all: Vec<&Series> = logs.progress.series.iter().filter(timed).collect();
        let lines: usize = all.iter().map(|series| series.points.len()).sum();
        if let Some(first) = all.first() {
            remarks.push(trained(context, &all, lines, first));
        }
        let points = &logs.progress.server.points;
        if let Some(first) = points.first() {
            let busy: Vec<f64> = points
                .iter()
                .map(|p| p.generated_per_s)
                .filter(|rate| *rate > 0.0)
                .collect();
            let usage: Vec<f64> = points.iter().filter_map(|p| p.cache_usage).collect();
            let title = format!(
                "{}: {:.1} generated tokens/s (median of {} with requests), KV cache at most {:.1} % full",
                first.server.name(),
                median(&busy),
                counted(busy.len() as u64, "line"),
                100.0 * usage.iter().copied().fold(0.0, f64::max),
            );
            let mut remark = Remark::new(AdviceKind::DecodeBatch, Severity::Info, title);
            remark.places = vec![place(logs, first.at, "", "the first line")];
            remarks.push(remark);
        }
        remarks
    }
}

fn trained(context: &Context<'_>, all: &[&Series], lines: usize, first: &Series) -> Remark {
    let logs = &context.evidence.session.logs;
    let runs: Vec<&[Point]> = all.iter().flat_map(|series| series.runs()).collect();
    let longest = runs
        .iter()
        .max_by_key(|run| run.len())
        .copied()
        .unwrap_or_default();
    let several = runs.len() > 1 && longest.len() * 2 < lines;
    let points: Vec<Point> = if several {
        all.iter()
            .flat_map(|series| series.points.iter().copied())
            .collect()
    } else {
        longest.to_vec()
    };
    let times = Times::of(&points);
    let figure = |get: fn(&Point) -> Option<f64>| -> Option<f64> {
        let values: Vec<f64> = points.iter().filter_map(get).filter(|v| *v > 0.0).collect();
        (!values.is_empty()).then(|| median(&values))
    };
    let mut said = Vec::new();
    let mut evidence = Vec::new();
    if let Some(times) = times.as_ref().filter(|times| times.in_seconds) {
        said.push(format!("{} a step", time(times.median)));
        evidence.push(Exhibit::text(
            "10th to 90th percentile",
            format!("{} to {}", time(times.p10), time(times.p90)),
            "steps after warm-up",
        ));
        if !times.warm_up.is_empty() {
            let total: f64 = times.warm_up.iter().sum();
            evidence.push(Exhibit::text(
                "warm-up",
                format!(
                    "{} of {}",
                    time(total),
                    counted(times.warm_up.len() as u64, "step")
                ),
                "first steps above 1.3 times the median, left out",
            ));
        }
    }
    if let Some(tokens) = figure(|p| p.tokens_per_s) {
        said.push(format!("{tokens:.1} tokens/s a device"));
    }
    if let Some(samples) = figure(|p| p.samples_per_s) {
        said.push(format!("{samples:.2} samples/s"));
    }
    if let Some(tflops) = figure(|p| p.tflops) {
        said.push(format!("{tflops:.1} TFLOP/s a device"));
        if let Some((percent, words)) = utilisation(context, tflops) {
            said.push(format!("{percent:.1} % MFU"));
            evidence.push(Exhibit::number("MFU", percent, "%", words));
        }
    }
    if let Some(mfu) = figure(|p| p.mfu) {
        evidence.push(Exhibit::number(
            "MFU as the trainer states it",
            100.0 * mfu,
            "%",
            "its own peak: it may be another chip's",
        ));
    }
    let who = if first.trainer == Trainer::Other {
        "step lines"
    } else {
        first.trainer.name()
    };
    let of = if several {
        format!(
            "{} of {}, medians over all of them",
            counted(lines as u64, "line"),
            counted(runs.len() as u64, "run")
        )
    } else {
        counted(points.len() as u64, "line")
    };
    let title = format!("{who}, {of}: {}", said.join(", "));
    let mut remark = Remark::new(AdviceKind::CaptureQuality, Severity::Info, title);
    remark.places = (points.iter().take(if several { MAX_PLACES } else { 1 }))
        .map(|point| {
            let label = point.tflops.and_then(|tflops| {
                Some(format!(
                    "{tflops:.1} TFLOP/s, {:.1} % of the peak",
                    utilisation(context, tflops)?.0
                ))
            });
            place(
                logs,
                point.at,
                "",
                label.unwrap_or_else(|| "the first line".to_owned()),
            )
        })
        .collect();
    if figure(|p| p.tflops).is_some() {
        remark.caveats.push("FLOPs are those that the trainer counts: whether causal attention counts half, and what is recomputed not at all, depends on it; FP8 runs are held against the bf16 peak".to_owned());
        if context.evidence.chip.is_none() {
            remark
                .advice
                .push("name the chip with --chip to see the MFU".to_owned());
        }
    }
    remark.evidence = evidence;
    remark
}

/// TFLOP/s of a device against the chip's bf16 peak, in percent, with the convention.
fn utilisation(context: &Context<'_>, tflops: f64) -> Option<(f64, String)> {
    let chip = context.evidence.chip.as_ref()?;
    let peak = chip.facts.peak_tflops_per_device("bf16")?;
    let name = chip.generation.name();
    Some((
        100.0 * tflops / peak,
        format!("{tflops:.1} TFLOP/s of a device by its bf16 peak of {peak} TFLOP/s ({name})"),
    ))
}
