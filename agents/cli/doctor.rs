//! `tpu-tune doctor`: what this machine has for us, and the compiler where it has none.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use profiler::compiler::target::Target;
use serde::Serialize;

use crate::cli::{Format, output};
use crate::compiler::libtpu::{install_folder, python};
use crate::compiler::{Compiler, CompilerArgs};
use crate::exit;

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Fetch the TPU compiler with the active Python's pip into tpu-tune's own cache.
    #[arg(long)]
    install_libtpu: bool,

    /// How the result is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    #[command(flatten)]
    compiler: CompilerArgs,
}

/// One thing that was looked at.
#[derive(Serialize)]
struct Check {
    what: &'static str,
    well: bool,
    said: String,
}

/// Runs the command.
///
/// # Errors
/// When the compiler cannot be fetched, or the result cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    if args.install_libtpu {
        install()?;
    }
    let checks = checks(args);
    match args.format {
        Format::Json => output::json(&checks)?,
        Format::Text => output::write(|out| {
            for check in &checks {
                let mark = if check.well { "ok " } else { "no " };
                let said = crate::render::safe::wrap(&check.said, 61);
                for (index, line) in said.iter().enumerate() {
                    match index {
                        0 => writeln!(out, "{mark} {:<14} {line}", check.what)?,
                        _ => writeln!(out, "{:18} {line}", "")?,
                    }
                }
            }
            Ok(())
        })?,
    }
    let well = checks.iter().all(|check| check.well);
    Ok(if well { exit::OK } else { exit::BAD_INPUT })
}

fn checks(args: &Args) -> Vec<Check> {
    let mut checks = vec![match python() {
        Some(python) => Check {
            what: "Python",
            well: true,
            said: python.display().to_string(),
        },
        None => Check {
            what: "Python",
            well: false,
            said: "none on PATH: needed to find the libtpu package and to fetch it".to_owned(),
        },
    }];
    let compiler = match Compiler::open(&args.compiler) {
        Ok(compiler) => compiler,
        Err(error) => {
            checks.push(Check {
                what: "TPU compiler",
                well: false,
                said: error.to_string(),
            });
            return checks;
        }
    };
    let libtpu = compiler.libtpu();
    checks.push(Check {
        what: "TPU compiler",
        well: true,
        said: format!(
            "libtpu {} at {} ({})",
            compiler.version(),
            libtpu.path.display(),
            libtpu.found
        ),
    });
    let target = Target {
        generation: profiler::chip::Generation::V6e,
        grid: vec![2, 2],
    };
    checks.push(match compiler.describe(&target) {
        Ok(described) => Check {
            what: "it starts",
            well: described.devices == u64::from(target.devices()),
            said: format!(
                "{target}: {} devices of kind {}; {} side by side",
                described.devices,
                described.kind,
                compiler.pool().size()
            ),
        },
        Err(error) => Check {
            what: "it starts",
            well: false,
            said: error.to_string(),
        },
    });
    checks
}

/// Fetches the wheel with the user's own pip and settings.
fn install() -> Result<()> {
    let python = python().context("there is no Python on PATH to fetch libtpu with")?;
    let folder = install_folder().context("there is no home folder to keep libtpu in")?;
    let mut command = Command::new(&python);
    command
        .args(["-m", "pip", "install", "--upgrade", "--no-deps", "--target"])
        .arg(&folder)
        .arg("libtpu")
        // Standard output is for the result.
        .stdout(Stdio::null());
    let status = command
        .status()
        .with_context(|| format!("{} cannot be run", python.display()))?;
    if !status.success() {
        bail!(
            "pip could not fetch libtpu ({status}): its own message stands above; the wheel is for Linux on x86-64 and Python 3.10 and later"
        );
    }
    Ok(())
}
