//! `tpu-tune predict`: what a program will do on a TPU, before it ever ran on one.

use std::path::PathBuf;

use anyhow::Result;

use crate::cli::{ReportFormat, output};
use crate::compiler::Compiler;
use crate::exit;
use crate::predict::{CompileArgs, schedule};

/// Arguments of `predict`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program: StableHLO (text, bytecode, a jax.export artifact) or HLO.
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,

    #[command(flatten)]
    compile: CompileArgs,

    /// How the report is written.
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
}

/// Runs the command.
///
/// # Errors
/// When the program cannot be compiled, or the result cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    let open = || Ok(Compiler::open(&args.compile.compiler)?);
    let scheduled = schedule(&args.program, &args.compile, open)?;
    output::write(|out| {
        use std::io::Write as _;
        writeln!(
            out,
            "{} ops {:?} {:?}",
            scheduled.program.len(),
            scheduled.compiled.map(|c| (c.memory, c.flops, c.build)),
            args.format
        )
    })?;
    Ok(exit::OK)
}
