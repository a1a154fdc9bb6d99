//! `tpu-tune check`: what Python source will do on a TPU, before it ever ran there.

use std::io::Write as _;
use std::path::PathBuf;

use advisors::finding::Applicability;
use advisors::python::Project;
use advisors::registry::RULES;
use anyhow::Result;
use knowledge::torch_tpu;

use crate::check::{self, Fixing};
use crate::cli::analyze::ReportArgs;
use crate::cli::{ReportFormat, output};
use crate::render;

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Python files, models' config.json files, or folders that are searched for both.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Version of torch_tpu that the code is meant for; without it the newest that is known.
    #[arg(long, value_name = "VERSION", value_parser = parse_torch_tpu)]
    torch_tpu: Option<String>,

    /// Apply the fixes after which the program means the same.
    #[arg(long)]
    fix: bool,

    /// Apply also those that may change what the program means in cases that the text does not
    /// show.
    #[arg(long)]
    unsafe_fixes: bool,

    /// Print the fixes as a patch, and change nothing; with --unsafe-fixes, those too.
    #[arg(long)]
    diff: bool,

    #[command(flatten)]
    shown: ReportArgs,
}

/// A version whose facts are known: nothing is said of another one as if it were.
pub(crate) fn parse_torch_tpu(name: &str) -> Result<String, String> {
    if torch_tpu::version(name).is_some() {
        return Ok(name.to_owned());
    }
    let known: Vec<&str> = torch_tpu::versions()
        .iter()
        .map(|version| version.torch_tpu)
        .collect();
    Err(format!(
        "nothing is known of this version; known are {}",
        known.join(", ")
    ))
}

/// Runs the command.
///
/// # Errors
/// When a path cannot be read, or the result cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    let project = Project {
        torch_tpu: args.torch_tpu.clone(),
    };
    let sources = check::sources(&args.paths)?;
    let at_most = if args.unsafe_fixes {
        Applicability::Unsafe
    } else {
        Applicability::Safe
    };
    let fixing = match (args.diff, args.fix || args.unsafe_fixes) {
        (true, _) => Fixing::Diff,
        (false, true) => Fixing::Write,
        (false, false) => Fixing::No,
    };
    let outcome = check::check(&project, sources, RULES, fixing, at_most)?;
    if fixing == Fixing::Diff {
        output::write(|out| out.write_all(outcome.patch.as_bytes()))?;
        return Ok(args.shown.exit_code(&outcome.report));
    }
    match args.shown.format {
        ReportFormat::Text => output::write(|out| render::source::report(out, &outcome))?,
        _ => args.shown.write_without_evidence(&outcome.report)?,
    }
    Ok(args.shown.exit_code(&outcome.report))
}
