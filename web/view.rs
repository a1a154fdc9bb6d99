//! What the templates show: the report, and what is prepared from it and the evidence.

use std::collections::BTreeMap;

use advisors::finding::Finding;
use advisors::{Report, registry};
use profiler::evidence::Evidence;
use serde::Serialize;

use crate::assets::{CONTENT_SECURITY_POLICY, STYLE};
use crate::ops::{OpRow, groups, rows};
use crate::palette::Hue;
use crate::pictures::{Picture, breakdown, roofline, timeline};
use crate::{card, text};

/// The whole page.
#[derive(Debug, Serialize)]
pub(crate) struct Page<'r> {
    pub(crate) report: &'r Report,
    pub(crate) policy: &'static str,
    pub(crate) style: &'static str,
    /// File name of the first input.
    pub(crate) name: String,
    pub(crate) tensor_cores: usize,
    /// Whether there is a run (measured or predicted) behind it, and not text alone.
    pub(crate) has_run: bool,
    pub(crate) findings: Vec<FindingView<'r>>,
    /// The combined saving over the step.
    pub(crate) combined_share: f64,
    pub(crate) breakdown: Option<Picture>,
    /// Tables of the breakdown: heading, first column, rows.
    pub(crate) breakdown_tables: Vec<BreakdownTable<'r>>,
    pub(crate) idle_share: f64,
    /// Whether pictures and tables that need evidence could be made.
    pub(crate) has_evidence: bool,
    pub(crate) roofline: Option<roofline::Roofline>,
    pub(crate) timeline: Option<timeline::Timeline>,
    pub(crate) ops: Vec<OpRow>,
    /// Operations that ran in steps, and rows that they would be.
    pub(crate) op_count: usize,
    pub(crate) row_count: usize,
    /// Whether XProf has figures for the input.
    pub(crate) xprof_reads_it: bool,
}

/// A finding with its place and its rule's card.
#[derive(Debug, Serialize)]
pub(crate) struct FindingView<'r> {
    pub(crate) finding: &'r Finding,
    /// From 1.
    pub(crate) number: usize,
    pub(crate) odds: String,
    pub(crate) basis: &'static str,
    /// The card as HTML, with the first finding of each rule.
    pub(crate) card: Option<String>,
    /// The number of the finding that shows the card.
    pub(crate) card_at: Option<usize>,
}

/// One way to divide the time of a step.
#[derive(Debug, Serialize)]
pub(crate) struct BreakdownTable<'r> {
    pub(crate) title: &'static str,
    pub(crate) column: &'static str,
    pub(crate) rows: Vec<BreakdownLine<'r>>,
    /// Rows left out, and their time.
    pub(crate) more: usize,
    pub(crate) more_ms: f64,
    pub(crate) more_share: f64,
    /// Whether it is shown at once.
    pub(crate) open: bool,
}

/// A row of such a table.
#[derive(Debug, Serialize)]
pub(crate) struct BreakdownLine<'r> {
    pub(crate) row: &'r advisors::report::BreakdownRow,
    /// The colour, where rows are classes.
    pub(crate) hue: Option<&'static str>,
}

/// An entry of a legend.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LegendEntry {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
}

/// The legend of the hues that a picture uses.
pub(crate) fn legend(used: impl Fn(Hue) -> bool) -> Vec<LegendEntry> {
    Hue::OPS
        .into_iter()
        .chain([Hue::Idle])
        .filter(|hue| used(*hue))
        .map(|hue| LegendEntry {
            name: hue.name(),
            label: hue.label(),
        })
        .collect()
}

/// Rows that a table of the breakdown lists.
const ROWS_LISTED: usize = 40;

impl<'r> Page<'r> {
    /// Prepares a report, with pictures where there is evidence.
    pub(crate) fn new(report: &'r Report, evidence: Option<&Evidence<'_>>) -> Self {
        let window = report.breakdown.window_ms_per_step;
        let idle =
            report.breakdown.idle_inside_ms_per_step + report.breakdown.idle_between_ms_per_step;
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let groups = evidence.map_or_else(Vec::new, groups);
        Self {
            report,
            policy: CONTENT_SECURITY_POLICY,
            style: STYLE,
            name: name(report),
            tensor_cores: report
                .devices
                .iter()
                .filter(|device| device.kind == "tensor-core")
                .count(),
            has_run: !report.devices.is_empty(),
            findings: findings(report),
            combined_share: share(report.combined_saving_ms, report.steps.wall_ms),
            breakdown: breakdown::draw(&report.breakdown),
            breakdown_tables: breakdown_tables(report),
            idle_share: share(idle, window),
            has_evidence: evidence.is_some(),
            roofline: evidence.map(|evidence| roofline::draw(report, evidence, &groups)),
            timeline: evidence.and_then(timeline::draw),
            ops: evidence.map_or_else(Vec::new, |evidence| rows(report, evidence, &groups)),
            op_count: groups.iter().map(|group| group.members.len()).sum(),
            row_count: groups.len(),
            xprof_reads_it: report.inputs.is_empty()
                || report.inputs.iter().any(|input| input.format == "XSpace"),
        }
    }
}

/// What the page is called: the first input's file name.
fn name(report: &Report) -> String {
    let path = report.inputs.first().map_or("", |input| &input.path);
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    if name.is_empty() {
        "report".to_owned()
    } else {
        name.to_owned()
    }
}

fn findings(report: &Report) -> Vec<FindingView<'_>> {
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    let mut views = Vec::with_capacity(report.findings.len());
    for (at, finding) in report.findings.iter().enumerate() {
        let number = at + 1;
        let first = *shown.entry(&finding.code).or_insert(number);
        let rule = registry::find(&finding.code);
        views.push(FindingView {
            finding,
            number,
            odds: text::odds(&finding.confidence),
            basis: finding
                .saving
                .as_ref()
                .map_or("", |saving| text::basis(saving.basis)),
            card: rule
                .filter(|_| first == number)
                .map(|rule| card::html(rule.card())),
            card_at: rule.filter(|_| first != number).map(|_| first),
        });
    }
    views
}

fn breakdown_tables(report: &Report) -> Vec<BreakdownTable<'_>> {
    let breakdown = &report.breakdown;
    let tables = [
        ("By class", "Class", &breakdown.classes, true),
        (
            "By XProf category",
            "Category",
            &breakdown.categories,
            false,
        ),
        ("By framework scope", "Scope", &breakdown.scopes, false),
        ("By source line", "Source line", &breakdown.sources, false),
    ];
    tables
        .into_iter()
        .filter(|(_, _, rows, _)| !rows.is_empty())
        .map(|(title, column, rows, open)| {
            let (listed, rest) = rows.split_at(rows.len().min(ROWS_LISTED));
            BreakdownTable {
                title,
                column,
                rows: listed
                    .iter()
                    .map(|row| BreakdownLine {
                        row,
                        hue: open.then(|| Hue::of_name(&row.name).name()),
                    })
                    .collect(),
                more: rest.len(),
                more_ms: rest.iter().map(|row| row.self_ms_per_step).sum(),
                more_share: rest.iter().map(|row| row.share).sum(),
                open,
            }
        })
        .collect()
}
