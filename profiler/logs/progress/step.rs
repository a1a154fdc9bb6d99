//! One step line: which trainer's, and its figures.

use crate::logs::Line;
use crate::logs::progress::number::{after, first_of, leading, named};
use crate::logs::progress::series::{Point, Trainer};

/// A step line and what stands before its figures.
pub(super) struct StepLine<'a> {
    pub(super) trainer: Trainer,
    pub(super) prefix: &'a str,
    pub(super) point: Point,
}

/// Reads a line, if it is one of a trainer.
pub(super) fn read<'a>(line: Line<'a>) -> Option<StepLine<'a>> {
    let text = line.text;
    if text.contains("'train_runtime'") || text.contains("\"train_runtime\"") {
        return Some(summary(line));
    }
    if let Some(found) = bar(line) {
        return Some(found);
    }
    if text.trim_start().starts_with("{'loss':") {
        return Some(StepLine {
            trainer: Trainer::HuggingFace,
            prefix: "{",
            point: Point {
                loss: named(text, "loss"),
                ..Point::at(line.at)
            },
        });
    }
    let step_at = [
        "completed step",
        "global_step",
        "global step",
        "step",
        "Step",
    ]
    .iter()
    .find_map(|name| Some((*name, after(text, name)?)));
    let (_, rest) = step_at?;
    let (step, rest) = leading(rest)?;
    if !(0.0..1e15).contains(&step) || step.fract() != 0.0 {
        return None;
    }
    let tflops = first_of(
        text,
        &[
            "TFLOP/s/device",
            "tflops",
            "TFLOPs",
            "tflops/device",
            "TFLOPS",
        ],
    );
    let mfu = percent(text, &["mfu", "MFU"]);
    let tokens_per_s = first_of(
        text,
        &[
            "Tokens/s/device",
            "tps",
            "tokens_per_sec",
            "tok/sec",
            "tokens/s",
            "tokens_per_second",
            "tok/s",
        ],
    )
    .or_else(|| before_unit(text, &["tok/s", "tokens/s", "tokens/sec"]));
    let samples_per_s = first_of(
        text,
        &[
            "Rate",
            "samples_per_sec",
            "samples_per_second",
            "Samples/s/device",
            "images/sec",
        ],
    );
    let seconds = seconds(text);
    if seconds.is_none() && tokens_per_s.is_none() && tflops.is_none() && samples_per_s.is_none() {
        return None;
    }
    let trainer = if text.contains("TFLOP/s/device") {
        Trainer::MaxText
    } else if after(text, "tps").is_some() {
        Trainer::TorchTitan
    } else {
        Trainer::Other
    };
    let at = text.len() - rest.len();
    let prefix = text.get(..at).unwrap_or_default();
    let prefix = prefix
        .rfind(['s', 'S'])
        .and_then(|at| prefix.get(..at))
        .unwrap_or(prefix);
    Some(StepLine {
        trainer,
        prefix,
        point: Point {
            at: line.at,
            step: Some(step as u64),
            seconds,
            tflops,
            tokens_per_s,
            samples_per_s,
            mfu,
            loss: named(text, "loss"),
            input_seconds: first_of(
                text,
                &[
                    "data_loading",
                    "data_time",
                    "data_wait",
                    "input_time",
                    "time_metrics/data_loading(s)",
                    "data_loading(s)",
                ],
            ),
        },
    })
}

/// Seconds of a step, from names that say so.
fn seconds(text: &str) -> Option<f64> {
    const NAMES: [&str; 13] = [
        "seconds",
        "step_time_seconds",
        "step_time_s",
        "step_time",
        "step time",
        "Step time",
        "Step Time",
        "time_per_step",
        "sec/step",
        "secs/step",
        "s/step",
        "time/step",
        "dt",
    ];
    let in_ms = first_of(
        text,
        &["step_time_ms", "elapsed time per iteration (ms)", "ms/step"],
    );
    if let Some(ms) = in_ms {
        return Some(ms / 1e3);
    }
    for name in NAMES {
        let Some((value, unit)) = after(text, name).and_then(leading) else {
            continue;
        };
        if !value.is_finite() || value < 0.0 {
            continue;
        }
        let unit = unit.trim_start();
        let factor = if unit.starts_with("ms") || unit.starts_with("milli") {
            1e-3
        } else if unit.starts_with("us") {
            1e-6
        } else {
            1.0
        };
        return Some(value * factor);
    }
    let before = before_unit(text, &["sec/step", "secs/step", "s/step", "seconds/step"]);
    if before.is_some() {
        return before;
    }
    let rate = first_of(
        text,
        &["steps_per_sec", "steps_per_second", "steps/sec", "steps/s"],
    );
    rate.filter(|rate| *rate > 0.0).map(|rate| 1.0 / rate)
}

/// A share beside a name, as a fraction: `mfu: 14.5%` or `mfu=0.145`.
fn percent(text: &str, names: &[&str]) -> Option<f64> {
    let (value, unit) = names.iter().find_map(|name| leading(after(text, name)?))?;
    let share = if unit.trim_start().starts_with('%') || value > 1.5 {
        value / 100.0
    } else {
        value
    };
    (share.is_finite() && share >= 0.0).then_some(share)
}

/// A number before its unit: `45000 tok/s`.
fn before_unit(text: &str, units: &[&str]) -> Option<f64> {
    units.iter().find_map(|unit| {
        let before = text.get(..text.find(unit)?)?.trim_end();
        let start = before
            .rfind(|c: char| !c.is_ascii_digit() && c != '.' && c != ',')
            .map_or(0, |at| {
                at + before
                    .get(at..)
                    .and_then(|s| s.chars().next())
                    .map_or(1, char::len_utf8)
            });
        let (value, rest) = leading(before.get(start..)?)?;
        (rest.is_empty() && value.is_finite()).then_some(value)
    })
}

/// A summary of Hugging Face's Trainer, `{'train_runtime': …}`.
fn summary(line: Line<'_>) -> StepLine<'_> {
    let text = line.text;
    let rate = first_of(text, &["train_steps_per_second"]);
    StepLine {
        trainer: Trainer::HuggingFace,
        prefix: "",
        point: Point {
            seconds: rate.filter(|rate| *rate > 0.0).map(|rate| 1.0 / rate),
            loss: named(text, "train_loss"),
            ..Point::at(line.at)
        },
    }
}

/// A progress bar: `45%|████ | 9/20 [00:10<00:12, 1.10s/it]`.
fn bar(line: Line<'_>) -> Option<StepLine<'_>> {
    let text = line.text;
    let at = text.find("it/s").or_else(|| text.find("s/it"))?;
    let (head, tail) = text.split_at_checked(at)?;
    let open = head.rfind('[')?;
    let inside = head.get(open + 1..)?;
    let (clock, rate) = inside.split_once(',')?;
    if !clock.contains('<') {
        return None;
    }
    let (value, _) = leading(rate.trim())?;
    if !value.is_finite() || value <= 0.0 {
        return None;
    }
    let seconds = if tail.starts_with("it/s") {
        1.0 / value
    } else {
        value
    };
    let done = head.get(..open)?.trim_end();
    let done = done.get(done.rfind([' ', '|']).map_or(0, |at| at + 1)..)?;
    let step = done.split('/').next().and_then(|done| done.parse().ok());
    let prefix = head.split('|').next().unwrap_or_default();
    Some(StepLine {
        trainer: Trainer::Bar,
        prefix,
        point: Point {
            step,
            seconds: Some(seconds),
            loss: named(text, "loss"),
            ..Point::at(line.at)
        },
    })
}
