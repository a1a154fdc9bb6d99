//! `tpu-tune ops`: the table of operations.

use anyhow::{Result, bail};
use clap::ValueEnum;
use profiler::evidence::{BoundBy, Evidence, OpClass, OpProfile};
use serde_json::json;

use crate::cli::input::InputArgs;
use crate::cli::{TableFormat, output};
use crate::exit;
use crate::render::page::Page;
use crate::render::summary;
use crate::render::table::{Align, Table};

/// Arguments of `ops`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,

    /// How the table is written.
    #[arg(long, value_enum, default_value_t)]
    format: TableFormat,

    /// Order of the rows.
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,

    /// Number of rows; 0 for all.
    #[arg(long, short = 'n', default_value_t = 30)]
    limit: usize,

    /// Only operations of this category or class.
    #[arg(long, value_name = "TEXT")]
    category: Option<String>,

    /// Only operations of this program.
    #[arg(long, value_name = "NAME")]
    module: Option<String>,

    /// Only operations whose name, framework op, source or HLO contains this.
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
}

/// Orders of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Self time a step.
    #[default]
    #[value(name = "self")]
    SelfTime,
    /// Time a step with children.
    Total,
    /// Executions.
    Count,
    /// Time above the roofline's floor: the most that could be saved.
    Headroom,
    /// Name.
    Name,
}

/// Runs the command.
///
/// # Errors
/// On bad input, or when no operation ran.
pub fn run(args: &Args) -> Result<u8> {
    let mut session = args.input.load()?;
    args.input.price_if_hlo_alone(&mut session)?;
    args.input.refuse_foreign(&session)?;
    args.input.warn(&session);
    let evidence = args.input.evidence(&session);
    if evidence.ops.is_empty() {
        bail!(
            "{} has no device operations: nothing was recorded on an XLA Ops line",
            args.input.shown()
        );
    }
    let mut rows: Vec<&OpProfile> = evidence
        .ops
        .iter()
        .filter(|op| args.wants(&evidence, op))
        .collect();
    sort(&mut rows, args.sort, &evidence);
    let found = rows.len();
    if args.limit > 0 {
        rows.truncate(args.limit);
    }
    let page = page(&evidence, &rows, found);
    output::page(args.format, &page, || {
        let ops: Vec<_> = rows.iter().map(|op| as_json(&evidence, op)).collect();
        json!({
            "schema_version": 1,
            "origin": session.origin,
            "found": found,
            "ops": ops,
        })
    })?;
    Ok(exit::OK)
}

impl Args {
    fn wants(&self, evidence: &Evidence<'_>, profile: &OpProfile) -> bool {
        let session = evidence.session;
        let op = session.op(profile.id);
        let module = op
            .module
            .map_or("", |module| session.modules[module as usize].name.as_str());
        let of_category = self
            .category
            .as_ref()
            .is_none_or(|want| op.category == *want || profile.class.name() == want);
        let of_module = self.module.as_ref().is_none_or(|want| module == want);
        let found = self.grep.as_ref().is_none_or(|want| {
            [&op.name, &op.framework_op, &op.source, &op.hlo_text]
                .iter()
                .any(|text| text.contains(want.as_str()))
        });
        of_category && of_module && found
    }
}

fn sort(rows: &mut [&OpProfile], order: Sort, evidence: &Evidence<'_>) {
    let name = |op: &OpProfile| evidence.session.op(op.id).name.clone();
    match order {
        Sort::SelfTime => {}
        Sort::Total => rows.sort_by_key(|op| std::cmp::Reverse(op.total_ps)),
        Sort::Count => rows.sort_by_key(|op| std::cmp::Reverse(op.occurrences)),
        Sort::Headroom => rows.sort_by(|a, b| headroom_ps(b).total_cmp(&headroom_ps(a))),
        Sort::Name => rows.sort_by_key(|op| name(op)),
    }
}

fn headroom_ps(op: &OpProfile) -> f64 {
    let known = op.roofline.bound_by != BoundBy::Unknown;
    if known {
        op.step_self_ps * (1.0 - op.roofline.efficiency).max(0.0)
    } else {
        0.0
    }
}

fn bound_name(op: &OpProfile) -> &'static str {
    match op.roofline.bound_by {
        BoundBy::Compute => "MXU",
        BoundBy::Hbm => "HBM",
        BoundBy::Pcie => "PCIe",
        BoundBy::Ici => "ICI",
        BoundBy::Unknown => "-",
    }
}

/// Columns of the table.
const COLUMNS: [(&str, Align); 8] = [
    ("operation", Align::Left),
    ("class", Align::Left),
    ("n", Align::Right),
    ("ms", Align::Right),
    ("%", Align::Right),
    ("TFLOP/s", Align::Right),
    ("GB/s", Align::Right),
    ("roofline", Align::Right),
];

fn cells(evidence: &Evidence<'_>, op: &OpProfile) -> [String; 8] {
    let rate = |value: Option<f64>| match value {
        // Adding zero takes the sign from a zero.
        Some(value) if !is_hidden(op) => format!("{:.0}", value + 0.0),
        _ => "-".to_owned(),
    };
    [
        evidence.session.op(op.id).name.clone(),
        op.class.name().to_owned(),
        summary::count(op.step_occurrences),
        format!("{:.3}", op.step_self_ms()),
        format!("{:.1}", 100.0 * evidence.share_of_step(op.step_self_ps)),
        rate(op.tflops()),
        rate(op.hbm_gb_per_s()),
        roofline(op),
    ]
}

fn page(evidence: &Evidence<'_>, rows: &[&OpProfile], found: usize) -> Page {
    let mut page = Page::new();
    let prediction = evidence.session.prediction.as_ref();
    let bands =
        prediction.filter(|found| !found.provenance.is_lower_bound && !found.ops.is_empty());
    match bands {
        None => {
            let mut table = Table::new(COLUMNS);
            for op in rows {
                table.row(cells(evidence, op));
            }
            page.table(table);
        }
        Some(prediction) => {
            let [a, b, c, d, e, f, g, h] = COLUMNS;
            let mut table = Table::new([a, b, c, d, ("band", Align::Right), e, f, g, h]);
            for op in rows {
                let band = prediction.op(op.id).map(|found| found.run.words());
                let [a, b, c, d, e, f, g, h] = cells(evidence, op);
                table.row([a, b, c, d, band.unwrap_or_default(), e, f, g, h]);
            }
            page.table(table);
        }
    }
    let shown = if rows.len() < found {
        format!("{} of {found} operations, all with -n 0", rows.len())
    } else {
        format!("{found} operations")
    };
    if let Some(band) = summary::band(evidence.session) {
        page.sentence(format!("Times are {band}."));
    }
    page.sentence(format!(
        "{shown}. A step, mean over cores: n executions, ms of self time, % of the step's {:.3} ms. GB/s of HBM. roofline: least time of the resource that limits it as % of the time that it took.",
        evidence.step_time().as_ms()
    ));
    page
}

/// Whether an asynchronous copy ran beside other operations: the wait for it is shorter than the
/// copy itself and says nothing of its rate.
fn is_hidden(op: &OpProfile) -> bool {
    matches!(op.class, OpClass::AsyncCopy(_)) && op.roofline.efficiency > 1.0
}

/// How close to the roofline, and what limits it.
fn roofline(op: &OpProfile) -> String {
    let share = op.roofline.efficiency;
    if op.roofline.bound_by == BoundBy::Unknown || share <= 0.0 || is_hidden(op) {
        return "-".to_owned();
    }
    format!("{:.0} {}", 100.0 * share, bound_name(op))
}

fn as_json(evidence: &Evidence<'_>, profile: &OpProfile) -> serde_json::Value {
    let session = evidence.session;
    let op = session.op(profile.id);
    let module = op.module.map(|module| &session.modules[module as usize]);
    json!({
        "id": profile.id,
        "name": op.name,
        "module": module.map(|m| m.name.as_str()),
        "program_id": module.and_then(|m| m.program_id).map(|id| id.to_string()),
        "category": op.category,
        "class": profile.class.name(),
        "framework_op": op.framework_op,
        "source": op.source,
        "hlo": op.hlo_text,
        "occurrences": profile.occurrences,
        "total_time_ps": profile.total_ps,
        "self_time_ps": profile.self_ps,
        "self_ms_per_step": profile.step_self_ms(),
        "slowest_core_self_ms_per_step": profile.step_self_slowest_ps / 1e9,
        "executions_per_step": profile.step_occurrences,
        "share_of_step": evidence.share_of_step(profile.step_self_ps),
        "cost": profile.cost,
        "tflop_per_s": profile.tflops(),
        "hbm_gb_per_s": profile.hbm_gb_per_s(),
        "roofline": profile.roofline,
        "prediction": session.prediction.as_ref().and_then(|found| found.op(profile.id)),
    })
}
