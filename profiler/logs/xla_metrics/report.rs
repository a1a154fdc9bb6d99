//! Metrics reports: what was counted and how long it took.

use std::collections::BTreeMap;

use crate::logs::xla_metrics::quantity::{self, Quantity};
use crate::logs::{At, Line};

/// A metric of a report: a distribution of durations, sizes or numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metric {
    /// The line with its name.
    pub at: At,
    /// How many values there were.
    pub samples: u64,
    /// Their sum.
    pub total: Option<Quantity>,
    /// The sum as the text has it.
    pub total_text: String,
    /// The sum gained in a second, over a window of the last values.
    pub value_rate: Option<Quantity>,
    /// Percentiles in percent with their values, ascending.
    pub percentiles: Vec<(f64, Quantity)>,
}

impl Metric {
    /// The sum in seconds; 0 where it is no duration or not known.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.total.and_then(Quantity::seconds).unwrap_or(0.0)
    }

    /// The sum in bytes; 0 where it is no size or not known.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.total.and_then(Quantity::bytes).unwrap_or(0.0)
    }

    /// The percentile that the report states for `percent`.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let found = self.percentiles.iter().find(|(at, _)| *at == percent);
        found.map(|(_, value)| value.value())
    }

    /// The largest percentile: nearly the largest value.
    #[must_use]
    pub fn largest(&self) -> Option<f64> {
        let values = self.percentiles.iter().map(|(_, value)| value.value());
        values.max_by(f64::total_cmp)
    }
}

/// A counter of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The line with its name.
    pub at: At,
    /// Its value.
    pub value: u64,
}

/// One report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Its first line.
    pub at: At,
    /// The step that stands before the report in a metrics file.
    pub step: Option<u64>,
    /// Metrics by name.
    pub metrics: BTreeMap<String, Metric>,
    /// Counters by name.
    pub counters: BTreeMap<String, Counter>,
}

impl Report {
    fn first(&self, names: &[&str]) -> Option<&Metric> {
        names
            .iter()
            .filter_map(|name| self.metrics.get(*name))
            .find(|metric| metric.samples > 0)
    }

    /// Compilations.
    #[must_use]
    pub fn compile(&self) -> Option<&Metric> {
        self.first(&["CompileTime", "XrtCompile"])
    }

    /// Executions of programs.
    #[must_use]
    pub fn execute(&self) -> Option<&Metric> {
        self.first(&[
            "ExecuteTime",
            "ExecuteReplicatedTime",
            "ExecuteChainedTime",
            "XrtExecute",
        ])
    }

    /// Data that came from the device to the host, by transfer.
    #[must_use]
    pub fn inbound(&self) -> Option<&Metric> {
        self.first(&["InboundData"])
    }

    /// Data that went from the host to the device, by transfer.
    #[must_use]
    pub fn outbound(&self) -> Option<&Metric> {
        self.first(&["OutboundData"])
    }

    /// Time of transfers to the device.
    #[must_use]
    pub fn to_device(&self) -> Option<&Metric> {
        self.first(&["TransferToDeviceTime", "TransferToServerTime"])
    }

    /// Time of transfers from the device.
    #[must_use]
    pub fn from_device(&self) -> Option<&Metric> {
        self.first(&["TransferFromDeviceTime", "TransferFromServerTime"])
    }

    /// A counter's value, 0 where there is none.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.counters.get(name).map_or(0, |counter| counter.value)
    }

    /// Ends of steps, from the counter or from what stands before the report.
    #[must_use]
    pub fn steps(&self) -> Option<u64> {
        let counted = Some(self.count("MarkStep")).filter(|steps| *steps > 0);
        counted.or(self.step.filter(|steps| *steps > 0))
    }

    /// Whether `next` may be a later report of the same process: same file, and nothing fell.
    #[must_use]
    pub fn is_continued_by(&self, next: &Self) -> bool {
        let fell = |a: Option<&Metric>, b: Option<&Metric>| {
            a.is_some_and(|a| b.is_none_or(|b| b.samples < a.samples))
        };
        self.at.file == next.at.file
            && !fell(self.compile(), next.compile())
            && !fell(self.execute(), next.execute())
            && (self.counters.iter()).all(|(name, counter)| {
                next.counters
                    .get(name)
                    .is_none_or(|next| next.value >= counter.value)
            })
    }

    fn is_empty(&self) -> bool {
        self.metrics.is_empty() && self.counters.is_empty()
    }

    fn entries(&self) -> usize {
        self.metrics.len() + self.counters.len()
    }
}

/// What stands before each report of `XLA_METRICS_FILE`.
pub(super) const STEP: &str = "[MetricsData; step=";
/// Reports that are kept; of more, the first ones and the last.
const MAX_REPORTS: usize = 1000;
/// Metrics and counters that are kept in all reports together.
const MAX_ENTRIES: usize = 60_000;
/// Percentiles that are kept of a metric.
const MAX_PERCENTILES: usize = 32;
/// Names are never longer.
const MAX_NAME: usize = 160;

/// The entry that lines belong to.
#[derive(Debug, Default)]
enum Entry {
    #[default]
    None,
    Metric(String),
    Counter(String, At),
}

/// Reads reports.
#[derive(Debug, Default)]
pub(super) struct ReportReader {
    reports: Vec<Report>,
    current: Report,
    entry: Entry,
    entries: usize,
}

impl ReportReader {
    /// Reads a line; whether more lines belong to what it began.
    pub(super) fn line(&mut self, line: Line<'_>) -> bool {
        let text = line.text;
        if let Some(step) = after(text, STEP) {
            self.close();
            let step = step
                .split(']')
                .next()
                .and_then(|step| step.trim().parse().ok());
            self.current.step = step;
            self.entry = Entry::None;
            return false;
        }
        if let Some(name) = name_after(text, "Metric: ") {
            self.begin(line.at, |report| report.metrics.contains_key(name));
            if self.entries < MAX_ENTRIES {
                self.entries += 1;
                let metric = Metric {
                    at: line.at,
                    ..Metric::default()
                };
                self.current.metrics.insert(name.to_owned(), metric);
            }
            self.entry = Entry::Metric(name.to_owned());
            return true;
        }
        if let Entry::Metric(name) = &self.entry
            && let Some(metric) = self.current.metrics.get_mut(name)
            && fill(metric, text)
        {
            return true;
        }
        if let Entry::Counter(name, at) = &self.entry
            && let Some(value) = after(text, "Value:").and_then(|v| quantity::parse(v))
        {
            let value = value.value();
            if self.entries < MAX_ENTRIES && (0.0..1e19).contains(&value) {
                self.entries += 1;
                let counter = Counter {
                    at: *at,
                    value: value as u64,
                };
                self.current.counters.insert(name.clone(), counter);
            }
            self.entry = Entry::None;
            return false;
        }
        if let Some(name) = name_after(text, "Counter: ") {
            self.begin(line.at, |report| report.counters.contains_key(name));
            self.entry = Entry::Counter(name.to_owned(), line.at);
            return true;
        }
        self.entry = Entry::None;
        false
    }

    fn begin(&mut self, at: At, has: impl Fn(&Report) -> bool) {
        if has(&self.current) {
            self.close();
        }
        if self.current.is_empty() {
            self.current.at = at;
        }
    }

    fn close(&mut self) {
        let report = std::mem::take(&mut self.current);
        let lone_names = report.counters.is_empty()
            && report
                .metrics
                .values()
                .all(|metric| metric.total.is_none() && metric.samples == 0);
        if report.is_empty() || lone_names {
            return;
        }
        if self.reports.len() >= MAX_REPORTS || self.entries >= MAX_ENTRIES {
            if let Some(last) = self.reports.pop() {
                self.entries = self.entries.saturating_sub(last.entries());
            }
        }
        self.reports.push(report);
    }

    /// All reports.
    pub(super) fn finish(mut self) -> Vec<Report> {
        self.close();
        self.reports
    }
}

/// Fills a metric from one of its lines; whether it was one.
fn fill(metric: &mut Metric, text: &str) -> bool {
    if let Some(samples) = after(text, "TotalSamples:") {
        let samples = quantity::parse(samples).map_or(0.0, Quantity::value);
        metric.samples = samples.clamp(0.0, 1e18) as u64;
        return true;
    }
    // The older form calls the sum "Counter".
    let total = after(text, "Accumulator:").or_else(|| after(text, "Counter:"));
    if let Some(total) = total.filter(|_| metric.total.is_none()) {
        let Some(quantity) = quantity::parse(total) else {
            return text.contains("Accumulator:");
        };
        metric.total = Some(quantity);
        quantity::figure(total).clone_into(&mut metric.total_text);
        return true;
    }
    if let Some(rate) = after(text, "ValueRate:") {
        metric.value_rate = quantity::parse(rate);
        return true;
    }
    if ["Rate:", "Mean:", "StdDev:"]
        .iter()
        .any(|key| after(text, key).is_some())
    {
        return true;
    }
    let listed = after(text, "Percentiles:");
    let goes_on = !metric.percentiles.is_empty()
        && text
            .trim_start()
            .split_once('%')
            .is_some_and(|(percent, _)| percent.parse::<f64>().is_ok());
    match listed.or(goes_on.then_some(text)) {
        Some(list) => {
            let room = MAX_PERCENTILES.saturating_sub(metric.percentiles.len());
            metric
                .percentiles
                .extend(list.split(';').take(room).filter_map(percentile));
            true
        }
        None => false,
    }
}

fn percentile(text: &str) -> Option<(f64, Quantity)> {
    let (percent, value) = text.split_once("%=")?;
    let percent: f64 = percent.trim().parse().ok()?;
    Some((percent, quantity::parse(value)?))
}

fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    // Keys begin a line, but for what a logger puts before them.
    text.find(key).and_then(|at| text.get(at + key.len()..))
}

/// The name after a key: one word that is no figure.
fn name_after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let name = after(text, key)?.split_whitespace().next()?;
    let name = name.trim_end_matches(['`', '"', '\'', ',']);
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (begins && name.len() <= MAX_NAME).then_some(name)
}
