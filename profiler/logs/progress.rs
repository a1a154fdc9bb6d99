//! Step lines of trainers and servers: step time, TFLOP/s, MFU, tokens/s.
//!
//! ```text
//! completed step: 15, seconds: 17.182, …  ──> Point of a Series (step.rs, series.rs)
//! Avg generation throughput: 12.3 tokens/s ──> ServerPoint (server.rs)
//! no sampling: 5.98 req/s                  ──> Comparison (comparison.rs)
//! -rw-r--r-- 1 me me 0 … host.xplane.pb    ──> EmptyProfile (listing.rs)
//! ```
//!
//! A series is what one program prints: lines of one file whose text before the figures is the same
//! but for its digits. Statistics of a series are in `statistics.rs`.

pub mod comparison;
pub mod listing;
pub mod number;
pub mod series;
pub mod server;
pub mod statistics;
mod step;

use crate::logs::{Line, LineReader, Logs, More};
use crate::note::Notes;

use comparison::{Comparison, ComparisonReader};
use listing::{EmptyProfile, ListingReader};
use series::{Series, SeriesReader};
use server::{ServerLog, ServerReader};

/// How a run went on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgressLog {
    /// Step lines of trainers, by program.
    pub series: Vec<Series>,
    /// What servers say.
    pub server: ServerLog,
    /// Figures of several configurations, one a line.
    pub comparisons: Vec<Comparison>,
    /// Profiles of no bytes in listings of files.
    pub empty_profiles: Vec<EmptyProfile>,
}

/// Reads all of it.
#[derive(Debug, Default)]
pub(super) struct Reader {
    series: SeriesReader,
    server: ServerReader,
    comparisons: ComparisonReader,
    listings: ListingReader,
}

impl LineReader for Reader {
    fn triggers(&self) -> &'static [&'static str] {
        &[
            "step:",
            "step=",
            "step ",
            "Step ",
            "Step:",
            "Step=",
            "step_time",
            "TFLOP/s/device",
            "train_runtime",
            "{'loss':",
            "it/s]",
            "s/it]",
            "it/s,",
            "s/it,",
            "throughput",
            "Decode batch",
            "Recompilation after warm up",
            "Compilation finished",
            "req/s",
            "requests/s",
            "tokens/s",
            "tok/s",
            "samples/s",
            "xplane.pb",
        ]
    }

    fn line(&mut self, line: Line<'_>) -> More {
        let known = self.server.line(line) || self.series.line(line) || self.listings.line(line);
        if !known {
            self.comparisons.line(line);
        }
        More::Triggers
    }

    fn finish(self: Box<Self>, logs: &mut Logs, notes: &mut Notes) -> bool {
        let series = self.series.finish(notes);
        let comparisons = self.comparisons.finish();
        let server = self.server.log;
        let empty_profiles = self.listings.empty;
        let found = !series.is_empty()
            || !comparisons.is_empty()
            || !server.is_empty()
            || !empty_profiles.is_empty();
        let all = &mut logs.progress;
        all.series.extend(series);
        all.comparisons.extend(comparisons);
        all.server.merge(server);
        all.empty_profiles.extend(empty_profiles);
        found
    }
}

#[cfg(test)]
mod tests;
