//! Series: the step lines of one program in their order.

use std::collections::BTreeMap;

use crate::logs::progress::step::{self, StepLine};
use crate::logs::{At, Line};
use crate::note::Notes;

/// Whose lines they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trainer {
    /// MaxText: `completed step: 15, seconds: …, TFLOP/s/device: …`.
    MaxText,
    /// TorchTitan: `step: 10 loss: … tps: … tflops: … mfu: …`.
    TorchTitan,
    /// The summary of Hugging Face's Trainer.
    HuggingFace,
    /// A progress bar of tqdm, whose rate is a running mean.
    Bar,
    /// Anything else with a step and its time.
    Other,
}

impl Trainer {
    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxText => "MaxText",
            Self::TorchTitan => "TorchTitan",
            Self::HuggingFace => "Hugging Face Trainer",
            Self::Bar => "progress bar",
            Self::Other => "step lines",
        }
    }
}

/// One step line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where.
    pub at: At,
    /// The step's number.
    pub step: Option<u64>,
    /// Its time in seconds.
    pub seconds: Option<f64>,
    /// TFLOP/s (10¹²) of a device, as the trainer counts FLOPs.
    pub tflops: Option<f64>,
    /// Tokens a second of a device.
    pub tokens_per_s: Option<f64>,
    /// Samples a second, of a device or of all as the trainer counts.
    pub samples_per_s: Option<f64>,
    /// Model FLOPs utilisation, a fraction, as the trainer states it.
    pub mfu: Option<f64>,
    /// The loss; may be no number.
    pub loss: Option<f64>,
    /// The part of the step that waited for input, in seconds.
    pub input_seconds: Option<f64>,
}

impl Point {
    /// A point without figures.
    #[must_use]
    pub fn at(at: At) -> Self {
        Self {
            at,
            step: None,
            seconds: None,
            tflops: None,
            tokens_per_s: None,
            samples_per_s: None,
            mfu: None,
            loss: None,
            input_seconds: None,
        }
    }
}

/// The step lines of one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Whose lines they are.
    pub trainer: Trainer,
    /// The lines in their order.
    pub points: Vec<Point>,
}

impl Series {
    /// The lines cut into runs: a step number that falls begins one.
    #[must_use]
    pub fn runs(&self) -> Vec<&[Point]> {
        self.points
            .chunk_by(|a, b| match (a.step, b.step) {
                (Some(a), Some(b)) => a <= b,
                _ => true,
            })
            .collect()
    }
}

/// Points that are kept of a file, and series.
const MAX_POINTS: usize = 300_000;
const MAX_SERIES: usize = 64;
/// Characters before the figures that tell series apart.
const MAX_PREFIX: usize = 120;

/// Reads step lines.
#[derive(Debug, Default)]
pub(super) struct SeriesReader {
    places: BTreeMap<(Trainer, String), usize>,
    series: Vec<Series>,
    points: usize,
    left_out: u64,
}

impl SeriesReader {
    /// Reads a line; whether it was a step line.
    pub(super) fn line(&mut self, line: Line<'_>) -> bool {
        let Some(StepLine {
            trainer,
            prefix,
            point,
        }) = step::read(line)
        else {
            return false;
        };
        if self.points >= MAX_POINTS {
            self.left_out += 1;
            return true;
        }
        let mut key: String = prefix
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .take(MAX_PREFIX)
            .collect();
        key.truncate(key.trim_end().len());
        let known = self.places.get(&(trainer, key.clone())).copied();
        let place = match known {
            Some(place) => place,
            None if self.series.len() < MAX_SERIES => {
                self.series.push(Series {
                    trainer,
                    points: Vec::new(),
                });
                self.places.insert((trainer, key), self.series.len() - 1);
                self.series.len() - 1
            }
            None => {
                self.left_out += 1;
                return true;
            }
        };
        if let Some(series) = self.series.get_mut(place) {
            self.points += 1;
            series.points.push(point);
        }
        true
    }

    /// All series.
    pub(super) fn finish(self, notes: &mut Notes) -> Vec<Series> {
        if self.left_out > 0 {
            notes.info(
                "step-lines-left-out",
                format!(
                    "{} step lines were left out: the first {MAX_POINTS} of {MAX_SERIES} programs are kept",
                    self.left_out
                ),
            );
        }
        self.series
    }
}
