//! `tpu-tune steps`: steps by core.

use anyhow::{Result, bail};
use profiler::evidence::{Evidence, Spread, StepBasis};
use serde_json::json;

use crate::cli::input::InputArgs;
use crate::cli::{TableFormat, output};
use crate::exit;
use crate::render::page::Page;
use crate::render::summary;
use crate::render::table::{Align, Table};

/// Arguments of `steps`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,

    /// How the steps are written.
    #[arg(long, value_enum, default_value_t)]
    format: TableFormat,
}

/// Runs the command.
///
/// # Errors
/// On bad input, or when there is nothing to take steps from.
pub fn run(args: &Args) -> Result<u8> {
    let mut session = args.input.load()?;
    args.input.price_if_hlo_alone(&mut session)?;
    args.input.refuse_foreign(&session)?;
    args.input.warn(&session);
    let evidence = args.input.evidence(&session);
    if evidence.steps.cores.is_empty() {
        bail!(
            "{} has no device events to take steps from",
            args.input.shown()
        );
    }
    output::page(args.format, &page(&evidence), || as_json(&evidence))?;
    Ok(exit::OK)
}

fn basis(evidence: &Evidence<'_>) -> String {
    match evidence.steps.basis {
        StepBasis::Markers => "step markers".to_owned(),
        StepBasis::ModuleRuns(module) => {
            let name = &evidence.session.modules[module as usize].name;
            format!("runs of {name}, no step markers")
        }
        StepBasis::WholeCapture => "the whole capture as one step".to_owned(),
    }
}

fn page(evidence: &Evidence<'_>) -> Page {
    let steps = &evidence.steps;
    let mut facts = Vec::new();
    facts.extend(summary::band(evidence.session).map(|words| ("Times", words)));
    facts.extend([
        ("Steps", basis(evidence)),
        ("Time", summary::spread(&steps.time, "step")),
        ("", "of each step the slowest core".to_owned()),
    ]);
    if steps.period.count > 0 {
        facts.push(("Period", summary::spread(&steps.period, "period")));
    }
    if steps.cut > 0 {
        let cut = format!("{} left out, cut by an end of the capture", steps.cut);
        facts.push(("Cut", cut));
    }
    let mut page = Page::new();
    page.facts(
        facts
            .into_iter()
            .map(|(label, words)| (label.to_owned(), words))
            .collect(),
    );
    let mut table = Table::new([
        ("core", Align::Left),
        ("steps", Align::Right),
        ("min ms", Align::Right),
        ("median ms", Align::Right),
        ("p90 ms", Align::Right),
        ("max ms", Align::Right),
        ("in ops %", Align::Right),
    ]);
    for core in &steps.cores {
        let device = &evidence.session.devices[core.device];
        let spread = Spread::of(core.whole().map(|step| step.duration()));
        let time = evidence
            .cores
            .iter()
            .find(|time| time.device == core.device);
        // Waiting included: a core that waits in an operation has it on.
        let in_ops = time.map_or(0.0, |t| {
            100.0 * t.busy_ps.0 as f64 / t.window_ps.0.max(1) as f64
        });
        table.row([
            summary::device_name(evidence.session, device),
            spread.count.to_string(),
            format!("{:.3}", spread.min_ps.as_ms()),
            format!("{:.3}", spread.median_ps.as_ms()),
            format!("{:.3}", spread.p90_ps.as_ms()),
            format!("{:.3}", spread.max_ps.as_ms()),
            format!("{in_ops:.1}"),
        ]);
    }
    page.table(table);
    page.heading("Programs");
    let mut table = Table::new([
        ("program", Align::Left),
        ("runs", Align::Right),
        ("median ms", Align::Right),
        ("p90 ms", Align::Right),
        ("total ms", Align::Right),
    ]);
    for run in &evidence.modules {
        table.row([
            evidence.session.modules[run.module as usize].name.clone(),
            run.time.count.to_string(),
            format!("{:.3}", run.time.median_ps.as_ms()),
            format!("{:.3}", run.time.p90_ps.as_ms()),
            format!("{:.3}", run.total_ps.as_ms()),
        ]);
    }
    page.table(table);
    page
}

fn as_json(evidence: &Evidence<'_>) -> serde_json::Value {
    let session = evidence.session;
    let cores: Vec<_> = evidence
        .steps
        .cores
        .iter()
        .map(|core| {
            let device = &session.devices[core.device];
            json!({
                "plane": device.plane,
                "host": session.hosts[device.host as usize].name,
                "steps": core.steps.iter().map(|step| json!({
                    "start_ps": step.start_ps,
                    "duration_ps": step.duration(),
                    "whole": step.whole,
                })).collect::<Vec<_>>(),
            })
        })
        .collect();
    let modules: Vec<_> = evidence
        .modules
        .iter()
        .map(|run| {
            let module = &session.modules[run.module as usize];
            json!({
                "name": module.name,
                "program_id": module.program_id.map(|id| id.to_string()),
                "time": run.time,
                "total_ps": run.total_ps,
            })
        })
        .collect();
    json!({
        "schema_version": 1,
        "origin": session.origin,
        "prediction": session.prediction.as_ref().map(|found| json!({
            "provenance": found.provenance,
            "step": found.step(),
        })),
        "basis": basis(evidence),
        "time": evidence.steps.time,
        "period": evidence.steps.period,
        "cut": evidence.steps.cut,
        "cores": cores,
        "modules": modules,
    })
}
