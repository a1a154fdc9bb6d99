//! PyTorch/XLA metrics reports, debug analyses and profiler lines.
//!
//! ```text
//! Metric: CompileTime / TotalSamples / Accumulator / Percentiles ──> Report (report.rs)
//! Compilation Analysis: … / Execution Analysis: …                ──> Analysis (analysis.rs)
//! pt-xla-profiler: CompileTime too frequent: 21 counts …         ──> ProfilerLines (profiler_line.rs)
//! %9 = (s64[<=5,1]{1,0}, s64[]) aten::nonzero(%8) # b             ──> DynamicShape (dynamic.rs)
//! ```
//!
//! A report has no mark where it begins: one begins where a metric or counter comes that the
//! current one has already. Figures that cannot be read are left out.

pub mod analysis;
pub mod dynamic;
pub mod profiler_line;
pub mod quantity;
pub mod report;

use crate::logs::{Line, LineReader, Logs, More};
use crate::note::Notes;

use analysis::{Analysis, AnalysisReader};
use dynamic::DynamicShape;
use profiler_line::ProfilerLines;
use report::{Report, ReportReader};

/// What PyTorch/XLA says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct XlaMetrics {
    /// Metrics reports in the order of the texts.
    pub reports: Vec<Report>,
    /// Debug analyses of `PT_XLA_DEBUG` in their order, the first thousands of them.
    pub analyses: Vec<Analysis>,
    /// Analyses that were met, also those that were not kept.
    pub analysis_count: u64,
    /// Lines of `pt-xla-profiler`.
    pub profiler: ProfilerLines,
    /// Values of the IR whose shape has a bound instead of a size.
    pub dynamic_shapes: Vec<DynamicShape>,
    /// Such values that were met, also those that were not kept.
    pub dynamic_shape_count: u64,
}

impl XlaMetrics {
    /// Reports cut into runs of one process: within one no count ever falls.
    #[must_use]
    pub fn sequences(&self) -> Vec<&[Report]> {
        self.reports.chunk_by(|a, b| a.is_continued_by(b)).collect()
    }
}

/// Reads all of it.
#[derive(Debug, Default)]
pub(super) struct Reader {
    reports: ReportReader,
    analyses: AnalysisReader,
    profiler: ProfilerLines,
    dynamic_shapes: Vec<DynamicShape>,
    dynamic_shape_count: u64,
}

impl LineReader for Reader {
    fn triggers(&self) -> &'static [&'static str] {
        &[
            "Metric: ",
            "Counter: ",
            report::STEP,
            profiler_line::MARK,
            "Compilation Analysis:",
            "Execution Analysis:",
            dynamic::MARK,
        ]
    }

    fn line(&mut self, line: Line<'_>) -> More {
        if line.text.contains(profiler_line::MARK) {
            self.profiler.line(line);
        } else if line.text.contains(" Analysis:") {
            self.analyses.line(line);
        } else if line.text.contains(dynamic::MARK) {
            let found = dynamic::read(line);
            self.dynamic_shape_count += found.len() as u64;
            let room = dynamic::MAX_KEPT.saturating_sub(self.dynamic_shapes.len());
            self.dynamic_shapes.extend(found.into_iter().take(room));
        } else if self.reports.line(line) {
            return More::NextLine;
        }
        More::Triggers
    }

    fn finish(self: Box<Self>, logs: &mut Logs, _notes: &mut Notes) -> bool {
        let reports = self.reports.finish();
        let (analyses, analysis_count) = self.analyses.finish();
        let found = !reports.is_empty()
            || analysis_count > 0
            || !self.profiler.is_empty()
            || self.dynamic_shape_count > 0;
        let all = &mut logs.xla_metrics;
        all.reports.extend(reports);
        all.analyses.extend(analyses);
        all.analysis_count += analysis_count;
        all.profiler.merge(self.profiler);
        all.dynamic_shapes.extend(self.dynamic_shapes);
        all.dynamic_shape_count += self.dynamic_shape_count;
        found
    }
}

#[cfg(test)]
mod tests;
