//! `tpu-tune analyze`: findings, ranked.

use std::io::Write as _;
use std::path::PathBuf;

use advisors::python::Project;
use advisors::registry::RULES;
use advisors::{Report, Severity};
use anyhow::{Result, bail};
use profiler::compiler::target::Target;
use profiler::evidence::Evidence;

use crate::check;
use crate::cli::input::InputArgs;
use crate::cli::what_if::DEFAULT_LIMIT;
use crate::cli::{ReportFormat, output};
use crate::compiler::CompilerArgs;
use crate::exit;
use crate::predict::{CompileArgs, parse_target};
use crate::render;
use crate::what_if::what_if;

/// Arguments of `analyze`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,

    /// StableHLO text of the profiled program: compile the changes that may pay (needs the TPU
    /// compiler), and report those that do.
    #[arg(long, value_name = "PROGRAM", requires = "target")]
    what_if: Option<PathBuf>,

    /// Python sources of the program, files or folders: check them too, and show the lines that
    /// findings of the profile point at.
    #[arg(long, value_name = "PATH")]
    src: Vec<PathBuf>,

    #[command(flatten)]
    compile: WhatIfArgs,

    #[command(flatten)]
    shown: ReportArgs,
}

/// What changes are compiled for.
#[derive(Debug, clap::Args)]
struct WhatIfArgs {
    /// What --what-if compiles for: v6e-4, v5p-8, or a topology such as v5p:2x2x1.
    #[arg(long, value_name = "TARGET", value_parser = parse_target, requires = "what_if")]
    target: Option<Target>,

    #[command(flatten)]
    compiler: CompilerArgs,
}

/// How a report is shown.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// How the report is written.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ReportFormat,

    /// Exit with 1 when a finding is at least this severe (high, medium, low, info) or is
    /// expected to save at least this much of a step (2ms, 5%).
    #[arg(long, value_name = "LEVEL|SAVING", value_parser = parse_threshold)]
    fail_on: Option<Threshold>,

    /// Show all evidence of each finding.
    #[arg(long, short)]
    verbose: bool,

    /// Folder that source paths of the profile begin with and those of the repository do not, for
    /// SARIF.
    #[arg(long, value_name = "DIR")]
    source_root: Option<String>,
}

/// When findings make the command fail.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Threshold {
    Severity(Severity),
    SavingMs(f64),
    SavingShare(f64),
}

fn parse_threshold(text: &str) -> Result<Threshold, String> {
    let number = |text: &str| {
        text.trim()
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite() && *value >= 0.0)
    };
    for severity in [
        Severity::High,
        Severity::Medium,
        Severity::Low,
        Severity::Info,
    ] {
        if text.eq_ignore_ascii_case(severity.name()) {
            return Ok(Threshold::Severity(severity));
        }
    }
    let saving = if let Some(ms) = text.strip_suffix("ms") {
        number(ms).map(Threshold::SavingMs)
    } else if let Some(percent) = text.strip_suffix('%') {
        number(percent).map(|percent| Threshold::SavingShare(percent / 100.0))
    } else {
        None
    };
    saving.ok_or_else(|| {
        "expected high, medium, low, info, a time such as 2ms, or a share such as 5%".to_owned()
    })
}

impl Threshold {
    fn is_reached(self, report: &Report) -> bool {
        report
            .findings
            .iter()
            .any(|finding| match (self, &finding.saving) {
                (Self::Severity(severity), _) => finding.severity <= severity,
                (Self::SavingMs(ms), Some(saving)) => saving.expected_ms >= ms,
                (Self::SavingShare(share), Some(saving)) => saving.share_of_step >= share,
                (_, None) => false,
            })
    }
}

/// Runs the command.
///
/// # Errors
/// On bad input, or when the result cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    let mut session = args.input.load()?;
    args.input.price_if_hlo_alone(&mut session)?;
    let only_text = session.devices.is_empty() && !session.logs.files.is_empty();
    if !only_text {
        args.input.require_tpu(&session)?;
    }
    let mut evidence = args.input.evidence(&session);
    if !only_text && evidence.ops.is_empty() && evidence.modules.is_empty() {
        bail!(
            "{} has TPU planes without a single event: nothing ran while it was captured; capture during steady steps",
            args.input.shown()
        );
    }
    if let (Some(program), Some(target)) = (&args.what_if, &args.compile.target) {
        let compile = CompileArgs {
            program: None,
            target: target.clone(),
            partitions: None,
            options: Vec::new(),
            calibration: None,
            compiler: args.compile.compiler.clone(),
        };
        let found = what_if(program, &compile, DEFAULT_LIMIT)?;
        evidence.compiled_changes = found.changes(target, &session);
    }
    let mut report = Report::new(&evidence, RULES);
    if !args.src.is_empty() {
        check::join(&mut report, &Project::default(), &args.src, RULES)?;
    }
    args.shown.write(&report, &evidence)?;
    Ok(args.shown.exit_code(&report))
}

impl ReportArgs {
    /// Writes a report in the form that was asked for.
    ///
    /// # Errors
    /// When standard output fails.
    pub(crate) fn write(&self, report: &Report, evidence: &Evidence<'_>) -> Result<()> {
        match self.format {
            ReportFormat::Text => {
                output::write(|out| render::text::report(out, report, self.verbose))
            }
            ReportFormat::Json => output::json(report),
            ReportFormat::Markdown => {
                output::write(|out| render::markdown::report(out, report, self.verbose))
            }
            ReportFormat::Sarif => {
                let root = self.source_root.as_deref();
                output::json(&render::sarif::log(report, RULES, root))
            }
            ReportFormat::Html => {
                let page = web::report_html(report, Some(evidence));
                output::write(|out| out.write_all(page.as_bytes()))
            }
        }
    }

    /// Writes a report that no profile is behind.
    ///
    /// # Errors
    /// When standard output fails.
    pub(crate) fn write_without_evidence(&self, report: &Report) -> Result<()> {
        if self.format == ReportFormat::Html {
            let page = web::report_html(report, None);
            return output::write(|out| out.write_all(page.as_bytes()));
        }
        let session = profiler::session::Session::default();
        let evidence = Evidence::gather(&session, None, &[]);
        self.write(report, &evidence)
    }

    /// Whether a finding reached `--fail-on`.
    pub(crate) fn exit_code(&self, report: &Report) -> u8 {
        let reached = self
            .fail_on
            .is_some_and(|threshold| threshold.is_reached(report));
        if reached { exit::FINDINGS } else { exit::OK }
    }
}
