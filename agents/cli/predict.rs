//! `tpu-tune predict`: what a program will do on a TPU, before it ever ran on one.

use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use advisors::Report;
use advisors::registry::RULES;
use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use profiler::emit;
use profiler::evidence::Evidence;
use profiler::session::Session;

use crate::cli::analyze::ReportArgs;
use crate::cli::memory::programs;
use crate::cli::what_if::DEFAULT_LIMIT;
use crate::cli::{ReportFormat, output};
use crate::exit;
use crate::predict::{CompileArgs, Lazy, Predicted, predict, schedule};
use crate::render::page::Page;
use crate::what_if::what_if;

/// Arguments of `predict`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program: StableHLO (text, bytecode, a jax.export artifact), HLO, or a TORCH_TRACE log of
    /// TorchTPU that holds some.
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,

    #[command(flatten)]
    compile: CompileArgs,

    #[command(flatten)]
    shown: ReportArgs,

    /// Also compile the changes that may pay, and report those that do.
    #[arg(long)]
    what_if: bool,

    /// Write a file instead of the report: the predicted profile as xplane (for XProf) or trace
    /// (for Perfetto), or hlo, the program as the compiler made it.
    #[arg(long, value_enum, value_name = "FORMAT")]
    emit: Option<Emit>,

    /// File that --emit writes to [default: standard output].
    #[arg(long, short, value_name = "FILE", requires = "emit")]
    output: Option<PathBuf>,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Emit {
    /// XSpace: `*.xplane.pb`.
    Xplane,
    /// Chrome trace JSON.
    Trace,
    /// `HloProto`: the optimized program with its buffers.
    Hlo,
}

/// Runs the command.
///
/// # Errors
/// When the program cannot be compiled, or the result cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    let compiler = Lazy::new(&args.compile.compiler);
    let scheduled = schedule(&args.program, &args.compile, &compiler)?;
    let predicted = predict(scheduled, &args.compile)?;
    let session = &predicted.session;
    if let Some(form) = args.emit {
        args.emit(&predicted, form)?;
        return Ok(exit::OK);
    }
    let chip = Some(args.compile.target.generation);
    let mut evidence = Evidence::gather(session, chip, knowledge::chips::chips());
    if args.what_if {
        let found = what_if(&args.program, &args.compile, DEFAULT_LIMIT)?;
        evidence.compiled_changes = found.changes(&args.compile.target, session);
    }
    let report = Report::new(&evidence, RULES);
    args.shown.write(&report, &evidence)?;
    if args.shown.format == ReportFormat::Text {
        memory(session)?;
    }
    Ok(args.shown.exit_code(&report))
}

/// Adds what is live when memory is fullest.
fn memory(session: &Session) -> Result<()> {
    const BUFFERS: usize = 5;
    let planned = programs::planned(session);
    if planned.is_empty() {
        return Ok(());
    }
    let mut page = Page::new();
    programs::page(&mut page, &planned, None, BUFFERS)?;
    output::write(|out| {
        writeln!(out)?;
        page.write_text(out)
    })
}

impl Args {
    fn emit(&self, predicted: &Predicted, form: Emit) -> Result<()> {
        let session = &predicted.session;
        let program = session.programs.first().and_then(|program| program.module);
        let hlo = program.map(|module| emit::EmbeddedHlo {
            module,
            bytes: &predicted.hlo,
        });
        let bytes = match form {
            Emit::Xplane => emit::xplane(session, hlo.as_slice()),
            Emit::Trace => emit::trace_json(session),
            Emit::Hlo if predicted.hlo.is_empty() => {
                bail!("the program was HLO text, and there is no proto of it")
            }
            Emit::Hlo => predicted.hlo.clone(),
        };
        match &self.output {
            Some(path) => {
                fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
            }
            None if std::io::stdout().is_terminal() => {
                bail!("this is not for a terminal: name a file with --output")
            }
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(&bytes)?;
                Ok(out.flush()?)
            }
        }
    }
}
