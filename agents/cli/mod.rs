//! The command line: one file a command.

pub mod analyze;
pub mod calibrate;
pub mod check;
pub mod compare;
pub mod compile_worker;
pub mod coverage;
pub mod diff;
pub mod doctor;
pub mod explain;
pub mod input;
pub mod kernels;
pub mod memory;
pub mod mfu;
pub mod ops;
pub mod output;
pub mod parity;
pub mod predict;
pub mod rules;
pub mod shard;
pub mod steps;
pub mod targets;
pub mod what_if;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::exit;

/// Finds what makes a TPU program slow, and says what changing it would save.
#[derive(Debug, Parser)]
#[command(name = "tpu-tune", version, max_term_width = 80)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Rank what makes a profiled run slow, with savings and evidence.
    Analyze(analyze::Args),
    /// Read Python sources: what they will do on a TPU, and what to change.
    Check(check::Args),
    /// Count the ATen operators of a model that TorchTPU has, and name those it lacks.
    Coverage(coverage::Args),
    /// List operations with their time, rates and roofline.
    Ops(ops::Args),
    /// List steps: time, period, spread, by core.
    Steps(steps::Args),
    /// Compare two runs: which operations took more or less of a step.
    Diff(diff::Args),
    /// Show device memory at its fullest, and what filled it.
    Memory(memory::Args),
    /// Model FLOPs, utilization, memory and scaling from a model's configuration.
    Mfu(mfu::Args),
    /// Print a rule's card.
    Explain(explain::Args),
    /// List all rules.
    Rules(rules::Args),
    /// Predict how a program will run on a TPU: compile it, no TPU needed.
    Predict(predict::Args),
    /// Compare two programs that are compiled for the same target.
    Compare(compare::Args),
    /// Search the sharding of a program's arguments that takes least time on a slice.
    Shard(shard::Args),
    /// Compile the changes of a program that may pay, and say which do.
    WhatIf(what_if::Args),
    /// Check that a changed program computes the same numbers: no TPU needed.
    Parity(parity::Args),
    /// Score Pallas kernels from the compiler's final schedule, and rank them.
    Kernels(kernels::Args),
    /// Fit the cost model to a trace of your own, for predictions of programs like it.
    Calibrate(calibrate::Args),
    /// List what programs can be compiled for.
    Targets(targets::Args),
    /// Check what this machine has: Python, the TPU compiler; fetch the latter.
    Doctor(doctor::Args),
    /// The compiler's own process: not for people.
    #[command(hide = true)]
    CompileWorker(compile_worker::Args),
}

/// How the report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people, at a terminal.
    #[default]
    Text,
    /// For programs; agents/schema/report.v1.schema.json describes it.
    Json,
    /// For pull requests and job summaries.
    Markdown,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// For people, in a browser: one file that needs no network.
    Html,
}

/// How tables are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// For people, at a terminal.
    #[default]
    Text,
    /// For programs.
    Json,
    /// For pull requests and job summaries.
    Markdown,
}

/// How what is neither report nor table is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, at a terminal.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Runs a command line and returns the process's exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are not errors and go to standard output.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() {
                exit::BAD_INPUT
            } else {
                exit::OK
            });
        }
    };
    let outcome = match cli.command {
        Command::Analyze(args) => analyze::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Coverage(args) => coverage::run(&args),
        Command::Ops(args) => ops::run(&args),
        Command::Steps(args) => steps::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Memory(args) => memory::run(&args),
        Command::Mfu(args) => mfu::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Rules(args) => rules::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Shard(args) => shard::run(&args),
        Command::WhatIf(args) => what_if::run(&args),
        Command::Parity(args) => parity::run(&args),
        Command::Kernels(args) => kernels::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Targets(args) => targets::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::CompileWorker(args) => compile_worker::run(&args),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) => ExitCode::from(exit::OK),
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::from(exit::BAD_INPUT)
        }
    }
}

/// Prints an error for a person. It may quote a profile, so it is made safe.
fn complain(message: &str) {
    use std::io::Write as _;
    let style = anstyle::AnsiColor::Red.on_default().bold();
    let mut lines = message
        .lines()
        .map(crate::render::safe::clean)
        .filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    let mut stderr = anstream::stderr();
    let _ = writeln!(stderr, "{style}error{style:#}: {first}");
    for line in lines {
        let _ = writeln!(stderr, "       {line}");
    }
}

/// `tpu-tune ops … | head` is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
