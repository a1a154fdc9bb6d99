//! `tpu-tune calibrate`: the cost model fitted to a trace of the user's own.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use profiler::compiler::calibration::Calibration;
use profiler::compiler::recalibrate::{MeasuredOp, recalibrate};
use profiler::evidence::Evidence;
use profiler::session::{ModuleId, Origin};

use crate::cli::input::InputArgs;
use crate::cli::output;
use crate::exit;
use crate::render::page::Page;
use crate::render::table::{Align, Table};

/// Arguments of `calibrate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,

    /// File to write the calibration to, for --calibration of other commands.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// When the trace has no program or too few operations, or the file cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    let session = args.input.load()?;
    args.input.require_tpu(&session)?;
    let shown = args.input.shown();
    if session.origin == Origin::Predicted {
        bail!("{shown} is a prediction: a calibration needs measured times");
    }
    let evidence = args.input.evidence(&session);
    let Some(chip) = &evidence.chip else {
        bail!("{shown} does not say which chip it is of: name it with --chip");
    };
    let base = knowledge::calibration::calibration(chip.facts.generation);
    let Some((module, measured)) = measured(&evidence) else {
        bail!(
            "{shown} holds no program with the operations that ran: capture an xplane.pb, which has the HLO, or give the HLO proto beside the trace"
        );
    };
    let Some(entry) = session.programs.iter().find(|p| p.module == Some(module)) else {
        bail!("{shown} holds no program of the module that took the most time");
    };
    let found = recalibrate(&base, &entry.program, &chip.facts, &measured, &shown);
    let Some(found) = found else {
        bail!(
            "{shown} has fewer than ten operations of 2 us and more with known work in its program: too few to calibrate on"
        );
    };
    let text = toml::to_string(&found).context("the calibration cannot be written as TOML")?;
    std::fs::write(&args.output, text)
        .with_context(|| format!("cannot write {}", args.output.display()))?;
    let page = page(&base, &found, measured.len(), args);
    output::write(|out| page.write_text(out))?;
    Ok(exit::OK)
}

/// The program whose operations took the most time, with the mean time of an execution of each.
fn measured(evidence: &Evidence<'_>) -> Option<(ModuleId, Vec<MeasuredOp>)> {
    let module = evidence.modules.first()?.module;
    let program = evidence
        .session
        .programs
        .iter()
        .find(|program| program.module == Some(module))?;
    let ops = evidence.ops.iter().filter(|op| op.module == Some(module));
    let measured: Vec<MeasuredOp> = ops
        .filter_map(|op| {
            let executions = op.occurrences;
            Some(MeasuredOp {
                op: program.program.find(&evidence.session.op(op.id).name)?,
                time_ps: op.self_ps.0.checked_div(executions)?,
                executions,
            })
        })
        .collect();
    (!measured.is_empty()).then_some((module, measured))
}

fn page(base: &Calibration, found: &Calibration, ops: usize, args: &Args) -> Page {
    let mut page = Page::new();
    page.facts(vec![
        ("From".to_owned(), args.input.shown()),
        ("Chip".to_owned(), found.generation.name().to_owned()),
        ("Operations".to_owned(), ops.to_string()),
        (
            "Error".to_owned(),
            format!(
                "median {:.1} %, mean {:.1} % on operations that were left out",
                100.0 * found.accuracy.median_error,
                100.0 * found.accuracy.mean_error
            ),
        ),
        ("Written to".to_owned(), args.output.display().to_string()),
    ]);
    page.heading("Constants");
    let mut table = Table::new([
        ("constant", Align::Left),
        ("built in", Align::Right),
        ("yours", Align::Right),
    ]);
    let names = [
        "matrix products",
        "matmul beyond them",
        "convolution beyond them",
        "fused vector work",
        "vector operations",
        "share of HBM bandwidth",
        "kernels",
    ];
    let values = base.constants.to_array();
    for ((name, base), found) in names.iter().zip(values).zip(found.constants.to_array()) {
        table.row([
            (*name).to_owned(),
            format!("{base:.3}"),
            format!("{found:.3}"),
        ]);
    }
    page.table(table);
    page.sentence(
        "Use it with --calibration: for programs like this one, on this chip and build of the compiler.",
    );
    page
}
