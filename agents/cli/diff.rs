//! `tpu-tune diff`: two runs, operation by operation.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::ValueEnum;
use profiler::chip::Generation;
use profiler::diff::{Change, Comparison, Diff, Groups, Matched, OpChange, Row, Side};
use profiler::session::Session;

use crate::cli::input::{InputArgs, parse_chip};
use crate::cli::{TableFormat, output};
use crate::exit;
use crate::render::page::Page;
use crate::render::table::{Align, Table};

/// Arguments of `diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Profile of the first run: a file, a run's folder or a log directory.
    #[arg(value_name = "A")]
    before: PathBuf,

    /// Profile of the second run.
    #[arg(value_name = "B")]
    after: PathBuf,

    /// Run of A under plugins/profile/ instead of the newest.
    #[arg(long, value_name = "NAME")]
    run_a: Option<String>,

    /// Run of B under plugins/profile/ instead of the newest.
    #[arg(long, value_name = "NAME")]
    run_b: Option<String>,

    /// Chip, where the profiles do not say: v2, v3, v4, v5e, v5p, v6e, tpu7x.
    #[arg(long, value_parser = parse_chip, value_name = "CHIP")]
    chip: Option<Generation>,

    /// Fail when any part of the inputs could not be read.
    #[arg(long, alias = "deny-notes")]
    strict: bool,

    /// How the comparison is written.
    #[arg(long, value_enum, default_value_t)]
    format: TableFormat,

    #[command(flatten)]
    tables: Tables,
}

/// What the tables of a comparison show.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Tables {
    /// What operations are grouped by.
    #[arg(long, value_enum, default_value_t)]
    by: By,

    /// Number of rows in each table, the largest changes first; 0 for all.
    #[arg(long, short = 'n', default_value_t = 20)]
    limit: usize,
}

/// Groupings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum By {
    /// XProf's category.
    #[default]
    Category,
    /// Kind of operation, as tpu-tune sees it.
    Class,
    /// Framework scope, layers together.
    Scope,
    /// Source line.
    Source,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::Category => "category",
            Self::Class => "class",
            Self::Scope => "scope",
            Self::Source => "source",
        }
    }

    fn rows(self, groups: &Groups) -> &[Row] {
        match self {
            Self::Category => &groups.categories,
            Self::Class => &groups.classes,
            Self::Scope => &groups.scopes,
            Self::Source => &groups.sources,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// On bad input, or when one of the runs has no operations.
pub fn run(args: &Args) -> Result<u8> {
    let (before, before_input) = args.load(&args.before, args.run_a.as_ref())?;
    let (after, after_input) = args.load(&args.after, args.run_b.as_ref())?;
    let diff = Diff::between(
        &before_input.evidence(&before),
        &after_input.evidence(&after),
    );
    for (side, input) in [(&diff.before, &before_input), (&diff.after, &after_input)] {
        if side.ops == 0 {
            bail!(
                "{} has no device operations: there is nothing to compare; give a profile that was captured while the program ran",
                input.shown()
            );
        }
    }
    let value = serde_json::to_value(&diff)?;
    output::page(args.format, &args.page(&diff), || value)?;
    Ok(exit::OK)
}

impl Args {
    fn load(&self, path: &Path, run: Option<&String>) -> Result<(Session, InputArgs)> {
        let input = InputArgs {
            paths: vec![path.to_owned()],
            run: run.cloned(),
            chip: self.chip,
            strict: self.strict,
        };
        let mut session = input.load()?;
        input.price_if_hlo_alone(&mut session)?;
        input.refuse_foreign(&session)?;
        input.warn(&session);
        Ok((session, input))
    }

    fn page(&self, diff: &Diff) -> Page {
        let mut page = Page::new();
        let mut facts = Vec::new();
        for (label, of) in [("A", &diff.before), ("B", &diff.after)] {
            facts.push((label.to_owned(), of.inputs.join(", ")));
            facts.push((String::new(), side(of)));
        }
        comparison(&mut facts, "Step", &diff.step);
        if let Some(period) = &diff.period {
            comparison(&mut facts, "Period", period);
        }
        page.facts(facts);
        for caveat in &diff.caveats {
            page.item(format!("mind: {caveat}"));
        }
        self.tables.show(&mut page, diff);
        page.sentence(
            "Times are self time a step, mean over cores, and all rows add up. One capture of each run says nothing of how runs differ from each other: repeat both before you rely on a difference.",
        );
        page
    }
}

impl Tables {
    /// Adds the tables to a page, and how operations were matched.
    pub(crate) fn show(&self, page: &mut Page, diff: &Diff) {
        let unit = Unit::of(diff);
        page.heading(format!("Where the difference is, by {}", self.by.name()));
        page.table(self.groups(diff, unit));
        page.heading("Operations, the largest change first");
        let shown = self.shown(diff.ops.len());
        page.table(operations(diff, shown, unit));
        for op in diff.ops.iter().take(shown) {
            if let Some(words) = differences(op) {
                page.item(words);
            }
        }
        page.sentence(matching(diff));
    }

    fn shown(&self, of: usize) -> usize {
        if self.limit == 0 {
            of
        } else {
            self.limit.min(of)
        }
    }

    fn groups(&self, diff: &Diff, unit: Unit) -> Table<4> {
        let mut table = Table::new([
            (self.by.name(), Align::Left),
            (unit.a(), Align::Right),
            (unit.b(), Align::Right),
            ("delta", Align::Right),
        ]);
        let mut add = |name: &str, time: &Change| {
            let [before, after, delta] = unit.cells(time);
            table.row([name.to_owned(), before, after, delta]);
        };
        let rows = self.by.rows(&diff.groups);
        let shown = self.shown(rows.len());
        for row in rows.iter().take(shown) {
            add(&row.name, &row.time);
        }
        if shown < rows.len() {
            let rest = rows.iter().skip(shown).map(|row| row.time);
            add(&format!("({} more)", rows.len() - shown), &sum(rest));
        }
        for row in &diff.rest {
            add(&row.name, &row.time);
        }
        add("a step and the gap after it", &diff.window);
        table
    }
}

fn side(side: &Side) -> String {
    let plural = |count: usize, noun: &str| match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    };
    let mut words = vec![
        side.chip
            .clone()
            .unwrap_or_else(|| "unknown chip".to_owned()),
        plural(side.cores, "core"),
    ];
    if side.hosts > 1 {
        words.push(plural(side.hosts, "host"));
    }
    words.push(format!(
        "{} ({})",
        plural(side.steps, "step"),
        side.step_basis
    ));
    words.push(plural(side.ops, "operation"));
    words.join(", ")
}

fn comparison(facts: &mut Vec<(String, String)>, label: &str, times: &Comparison) {
    let direction = match times.delta_ms {
        delta if delta < 0.0 => "shorter",
        delta if delta > 0.0 => "longer",
        _ => "alike",
    };
    let words = format!(
        "median {:.3} ms in A, {:.3} ms in B: {:+.3} ms ({:+.1} %), {direction}",
        times.before.median_ms,
        times.after.median_ms,
        times.delta_ms,
        100.0 * times.delta_share,
    );
    facts.push((label.to_owned(), words));
    facts.push((String::new(), times.words.clone()));
}

/// What the times of a comparison are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Ms,
    Us,
}

impl Unit {
    /// Milliseconds, but for steps that take less than one.
    fn of(diff: &Diff) -> Self {
        if diff.window.before_ms.max(diff.window.after_ms) < 1.0 {
            Self::Us
        } else {
            Self::Ms
        }
    }

    fn a(self) -> &'static str {
        match self {
            Self::Ms => "A ms",
            Self::Us => "A us",
        }
    }

    fn b(self) -> &'static str {
        match self {
            Self::Ms => "B ms",
            Self::Us => "B us",
        }
    }

    /// Before, after and difference. What rounds to nothing has no sign.
    fn cells(self, time: &Change) -> [String; 3] {
        let scale = match self {
            Self::Ms => 1.0,
            Self::Us => 1e3,
        };
        let is_zero = |value: f64| value.abs() < 0.000_5;
        let plain = |value: f64| {
            let value = if is_zero(value) { 0.0 } else { value };
            format!("{value:.3}")
        };
        let delta = time.delta_ms * scale;
        let signed = if is_zero(delta) {
            plain(0.0)
        } else {
            format!("{delta:+.3}")
        };
        [
            plain(time.before_ms * scale),
            plain(time.after_ms * scale),
            signed,
        ]
    }
}

fn sum(times: impl Iterator<Item = Change>) -> Change {
    let (mut before, mut after) = (0.0, 0.0);
    for time in times {
        before += time.before_ms;
        after += time.after_ms;
    }
    Change::new(before, after)
}

fn operations(diff: &Diff, shown: usize, unit: Unit) -> Table<5> {
    let mut table = Table::new([
        ("operation", Align::Left),
        ("matched", Align::Left),
        (unit.a(), Align::Right),
        (unit.b(), Align::Right),
        ("delta", Align::Right),
    ]);
    for op in diff.ops.iter().take(shown) {
        let [before, after, delta] = unit.cells(&op.time);
        table.row([
            names(op),
            op.matched.name().to_owned(),
            before,
            after,
            delta,
        ]);
    }
    if shown < diff.ops.len() {
        let [before, after, delta] =
            unit.cells(&sum(diff.ops.iter().skip(shown).map(|op| op.time)));
        table.row([
            format!("({} more)", diff.ops.len() - shown),
            String::new(),
            before,
            after,
            delta,
        ]);
    }
    table
}

/// The name, or both where the compiler gave another.
fn names(op: &OpChange) -> String {
    match (&op.before, &op.after) {
        (Some(before), Some(after)) if before.name != after.name => {
            format!("{} -> {}", before.name, after.name)
        }
        _ => op
            .either()
            .map(|side| side.name.clone())
            .unwrap_or_default(),
    }
}

fn differences(op: &OpChange) -> Option<String> {
    let words: Vec<String> = op
        .differences
        .iter()
        .map(|d| format!("{} {} -> {}", d.what, d.before, d.after))
        .collect();
    (!words.is_empty()).then(|| format!("{}: {}", names(op), words.join("; ")))
}

fn matching(diff: &Diff) -> String {
    let is_pair =
        |matched: Matched| !matches!(matched, Matched::Removed | Matched::Added | Matched::Same);
    let count = |wanted: Matched| {
        let found = diff.matching.iter().find(|m| m.matched == wanted);
        found.map_or(0, |m| m.count)
    };
    let weaker: Vec<String> = diff
        .matching
        .iter()
        .filter(|m| is_pair(m.matched))
        .map(|m| format!("{} {} ({})", m.count, m.matched.name(), m.matched.meaning()))
        .collect();
    let mut words = format!(
        "{} operations are the same ({})",
        count(Matched::Same),
        Matched::Same.meaning()
    );
    for weak in weaker {
        words.push_str("; ");
        words.push_str(&weak);
    }
    format!(
        "{words}; {} removed, {} added.",
        count(Matched::Removed),
        count(Matched::Added)
    )
}
