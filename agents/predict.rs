//! A program file and a target become a predicted session.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use profiler::compiler::compiled::Compiled;
use profiler::compiler::options::CompileOptions;
use profiler::compiler::program_file::{ProgramFile, ProgramKind};
use profiler::compiler::target::Target;
use profiler::note::Notes;
use profiler::program::{Program, parse_module, read_hlo_proto};

use crate::compiler::{Compiler, CompilerArgs};

/// What a program is compiled for and how.
#[derive(Clone, Debug, Args)]
pub struct CompileArgs {
    /// What to compile for: v6e-4, v5p-8, tpu7x-16, or a topology such as v5p:2x2x1; `tpu-tune
    /// targets` lists them.
    #[arg(long, value_name = "TARGET", value_parser = parse_target)]
    pub target: Target,

    /// Devices that the program is partitioned over [default: what it says itself].
    #[arg(long, value_name = "N")]
    pub partitions: Option<u32>,

    /// An option of the compiler, as xla_tpu_scoped_vmem_limit_kib=65536; may be repeated.
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = parse_option)]
    pub options: Vec<(String, String)>,

    /// The compiler itself.
    #[command(flatten)]
    pub compiler: CompilerArgs,
}

fn parse_target(name: &str) -> Result<Target, String> {
    Target::parse(name).map_err(|error| error.to_string())
}

fn parse_option(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(name, value)| (name.trim_start_matches('-').to_owned(), value.to_owned()))
        .ok_or_else(|| "expected NAME=VALUE".to_owned())
}

/// A program as the TPU compiler scheduled it.
#[derive(Debug)]
pub struct Scheduled {
    /// The file.
    pub path: PathBuf,
    /// What it was written in.
    pub kind: ProgramKind,
    /// What the compiler made of it; none where the file was its output already.
    pub compiled: Option<Compiled>,
    /// The schedule.
    pub program: Program,
    /// What could not be read.
    pub notes: Notes,
}

/// Reads a program file.
///
/// # Errors
/// When it cannot be read or is no program.
pub fn read_program(path: &Path) -> Result<ProgramFile> {
    let bytes = profiler::source::read_inflated(path)?;
    ProgramFile::of_bytes(&bytes).with_context(|| format!("cannot use {}", path.display()))
}

/// Compiles a program file, unless it holds what the compiler already scheduled.
///
/// # Errors
/// When the file or the options do not fit, or the compiler refuses.
pub fn schedule(
    path: &Path,
    args: &CompileArgs,
    compiler: impl FnOnce() -> Result<Compiler>,
) -> Result<Scheduled> {
    let file = read_program(path)?;
    let hlo = match file.kind {
        ProgramKind::HloText => Some(parse_module(&String::from_utf8_lossy(&file.code))),
        ProgramKind::HloProto => Some(read_hlo_proto(&file.code)),
        _ => None,
    };
    if let Some((program, notes)) = hlo
        && program.is_scheduled
    {
        return Ok(Scheduled {
            path: path.to_owned(),
            kind: file.kind,
            compiled: None,
            program,
            notes,
        });
    }
    let options = options(&file, args).with_context(|| path.display().to_string())?;
    let compiled = compiler()?
        .compile(&file, &args.target, &options)
        .map_err(|error| anyhow!(error).context(path.display().to_string()))?;
    let (program, notes) = read_hlo_proto(&compiled.hlo);
    Ok(Scheduled {
        path: path.to_owned(),
        kind: file.kind,
        compiled: Some(compiled),
        program,
        notes,
    })
}

fn options(file: &ProgramFile, args: &CompileArgs) -> Result<CompileOptions> {
    let devices = args.target.devices();
    let mut options = file.options(devices);
    if let Some(partitions) = args.partitions {
        options.partitions = partitions;
    }
    options.overrides.clone_from(&args.options);
    let needed = options.partitions.saturating_mul(options.replicas);
    if needed == 0 {
        bail!("--partitions is 0: a program runs on one device at least");
    }
    if needed > devices {
        bail!(
            "it is partitioned over {needed} devices, and {} has {devices}; choose a larger --target",
            args.target
        );
    }
    Ok(options)
}
