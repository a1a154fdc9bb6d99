//! Figures of several configurations, one a line: `no sampling: 5.98 req/s`.

use crate::logs::progress::number::leading;
use crate::logs::{At, Line};

/// Units whose larger figure is the better one.
const UNITS: [&str; 7] = [
    "req/s",
    "requests/s",
    "tok/s",
    "tokens/s",
    "samples/s",
    "steps/s",
    "it/s",
];
/// Rows that are kept of one comparison, and comparisons.
const MAX_ROWS: usize = 64;
const MAX_KEPT: usize = 16;
/// Lines that may stand between two rows, and characters of a label.
const MAX_GAP: u64 = 2;
const MAX_LABEL: usize = 120;

/// A configuration and its figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Where.
    pub at: At,
    /// What it is called.
    pub label: String,
    /// Its figure.
    pub value: f64,
}

/// Figures of one unit that stand together.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The unit.
    pub unit: &'static str,
    /// At least two rows.
    pub rows: Vec<Row>,
}

/// Reads comparisons.
#[derive(Debug, Default)]
pub(super) struct ComparisonReader {
    all: Vec<Comparison>,
}

impl ComparisonReader {
    /// Reads a line.
    pub(super) fn line(&mut self, line: Line<'_>) {
        let Some((unit, row)) = row(line) else {
            return;
        };
        match self.all.last_mut() {
            Some(last)
                if last.unit == unit
                    && last.rows.last().is_some_and(|before| {
                        line.at.line.saturating_sub(before.at.line) <= MAX_GAP + 1
                    }) =>
            {
                if last.rows.len() < MAX_ROWS {
                    last.rows.push(row);
                }
            }
            _ => {
                if self.all.last().is_some_and(|last| last.rows.len() < 2) {
                    self.all.pop();
                }
                if self.all.len() < MAX_KEPT {
                    self.all.push(Comparison {
                        unit,
                        rows: vec![row],
                    });
                }
            }
        }
    }

    /// Comparisons of at least two differently named rows.
    pub(super) fn finish(self) -> Vec<Comparison> {
        let named = |all: &Comparison| {
            let first = all.rows.first().map(|row| row.label.as_str());
            all.rows.iter().any(|row| Some(row.label.as_str()) != first)
        };
        self.all.into_iter().filter(named).collect()
    }
}

/// A line that is a label, one figure and its unit, and nothing else.
fn row(line: Line<'_>) -> Option<(&'static str, Row)> {
    let text = line.text.trim();
    let unit = UNITS.iter().copied().find(|unit| text.ends_with(unit))?;
    let (label, figure) = text
        .get(..text.len() - unit.len())?
        .rsplit_once([':', '='])?;
    let label = label.trim();
    let (value, rest) = leading(figure.trim())?;
    let is_label = !label.is_empty()
        && label.len() <= MAX_LABEL
        && label.chars().any(char::is_alphabetic)
        && !label.contains([':', '=']);
    (is_label && rest.trim().is_empty() && value.is_finite() && value >= 0.0).then(|| {
        let label = label.to_owned();
        (
            unit,
            Row {
                at: line.at,
                label,
                value,
            },
        )
    })
}
