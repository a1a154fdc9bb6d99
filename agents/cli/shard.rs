//! `tpu-tune shard`: which way to lay a program's arguments over a slice takes least time.

mod page;

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use profiler::chip::ChipFacts;
use profiler::compiler::ici::{Ici, Topology};
use profiler::compiler::options::CompileOptions;
use profiler::compiler::program_file::{ProgramFile, ProgramKind};
use profiler::compiler::roofline::RooflinePrices;
use profiler::compiler::sharding::annotate::{Dialect, annotate};
use profiler::compiler::sharding::answer::Answer;
use profiler::compiler::sharding::bounds::Rates;
use profiler::compiler::sharding::candidate::{Candidate, Space};
use profiler::compiler::sharding::evaluate::{Evaluate, Verdict, price};
use profiler::compiler::sharding::link_prices::LinkPrices;
use profiler::compiler::sharding::mesh::shapes;
use profiler::compiler::sharding::problem::Problem;
use profiler::compiler::sharding::search::{History, Search, SearchSettings};
use profiler::compiler::sharding::spec::Sharding;
use profiler::compiler::target::Target;
use profiler::program::read_hlo_proto;
use profiler::units::Bytes;

use crate::cli::{TableFormat, output};
use crate::compiler::cache::Cache;
use crate::compiler::error::CompileError;
use crate::compiler::{Compiler, CompilerArgs};
use crate::exit;
use crate::predict::read_program;

/// Arguments of `shard`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program, not sharded: StableHLO text, as `jax.jit(f).lower(…).as_text()` gives it.
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,

    /// What to shard it over: v6e-4, v5p-8, or a topology such as v5p:2x2x1.
    #[arg(long, value_name = "TARGET", value_parser = parse_target)]
    target: Target,

    /// Candidates that are compiled at most [default: a quarter of all].
    #[arg(long, value_name = "N")]
    budget: Option<usize>,

    /// Compile every candidate that can fit.
    #[arg(long, conflicts_with = "budget")]
    exhaustive: bool,

    /// A file that keeps what was found: an interrupted search goes on from it.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,

    /// HBM of a device that the program may take, in GiB [default: all that programs can use].
    #[arg(long, value_name = "GIB")]
    hbm_gib: Option<f64>,

    /// Write the program with the chosen sharding to a file.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,

    /// Language of the annotations in that file.
    #[arg(long, value_enum, default_value_t, requires = "write")]
    annotations: Annotations,

    /// How the result is written.
    #[arg(long, value_enum, default_value_t)]
    format: TableFormat,

    #[command(flatten)]
    compiler: CompilerArgs,
}

/// Languages of annotations.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Annotations {
    /// `sdy.sharding`.
    #[default]
    Shardy,
    /// `mhlo.sharding`.
    Gspmd,
}

fn parse_target(name: &str) -> Result<Target, String> {
    Target::parse(name).map_err(|error| error.to_string())
}

/// Runs the command.
///
/// # Errors
/// When the program cannot be searched, or no candidate compiles and fits.
pub fn run(args: &Args) -> Result<u8> {
    let shown = args.program.display();
    let file = read_program(&args.program)?;
    if file.kind != ProgramKind::StablehloText {
        bail!(
            "{shown} is {}: a sharding search edits StableHLO text; write it with `lowered.as_text()`",
            file.kind.name()
        );
    }
    let text = String::from_utf8_lossy(&file.code).into_owned();
    let problem = Problem::read(&text).with_context(|| shown.to_string())?;
    let devices = u64::from(args.target.devices());
    if devices < 2 {
        bail!(
            "{} has one device: there is nothing to shard over",
            args.target
        );
    }
    let facts = knowledge::chips::chip(args.target.generation);
    let mut rates = Rates::of_chip(facts);
    if let Some(gib) = args.hbm_gib {
        rates.hbm_bytes = Bytes((gib.max(0.0) * f64::from(1 << 30)) as u64);
    }
    let space = Space::enumerate(&problem, &shapes(devices));
    if space.candidates.is_empty() {
        bail!(
            "{shown} has no sharding over {devices} devices that divides evenly: {} were looked at",
            space.uneven
        );
    }
    let budget = if args.exhaustive {
        space.candidates.len()
    } else {
        args.budget.unwrap_or(space.candidates.len().div_ceil(4))
    };
    let settings = SearchSettings { budget, rates };
    let mut search = Search::new(&problem, &space, settings);
    if args.exhaustive {
        search = search.exhaustive();
    }
    let compiler = Compiler::open(&args.compiler)?;
    let subject = subject(&text, &args.target, &compiler);
    let mut history = earlier(args, &subject)?;
    let mut driver = Driver::new(&text, args, compiler, facts)?;
    let mut outcome = Ok(());
    let stop = loop {
        let index = match search.next(&history) {
            Ok(index) => index,
            Err(stop) => break Some(stop),
        };
        match search.evaluate(index, &problem, &mut history, &mut driver) {
            Ok(()) => keep(args, &history)?,
            Err(error) => {
                outcome = Err(error);
                break None;
            }
        }
        tracing::info!(
            compiled = history.records.len(),
            budget,
            candidate = %history.records.last().map_or("", |r| r.candidate.as_str()),
            "compiled"
        );
    };
    outcome?;
    let stop = stop.ok_or_else(|| anyhow!("the search ended early"))?;
    let answer = Answer::new(&problem, &search, &history, stop);
    if answer.choice.is_none() {
        bail!(page::no_choice(&answer, &history, &args.target));
    }
    if let (Some(path), Some((best, _))) = (&args.write, search.ranking(&history).first()) {
        let dialect = match args.annotations {
            Annotations::Shardy => Dialect::Shardy,
            Annotations::Gspmd => Dialect::Gspmd,
        };
        let annotated = annotate(&text, &best.candidate.sharding(&problem), dialect)?;
        std::fs::write(path, annotated)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let page = page::answer(&answer, &args.target);
    output::page(args.format, &page, || {
        serde_json::to_value(&answer).unwrap_or_default()
    })?;
    Ok(exit::OK)
}

/// What a history is of: program, target, compiler, prices.
fn subject(text: &str, target: &Target, compiler: &Compiler) -> String {
    let key = Cache::key(&[text.as_bytes()]);
    let key = key.get(..16).unwrap_or_default();
    format!(
        "program {key}, {}, libtpu {}, roofline and ICI",
        target.topology(),
        compiler.version()
    )
}

/// What an earlier run found.
fn earlier(args: &Args, subject: &str) -> Result<History> {
    let fresh = History {
        subject: subject.to_owned(),
        ..History::default()
    };
    let Some(path) = args.resume.as_ref().filter(|path| path.exists()) else {
        return Ok(fresh);
    };
    let shown = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let history: History = serde_json::from_slice(&bytes)
        .with_context(|| format!("{shown} is no history of a sharding search"))?;
    if history.subject != subject {
        bail!(
            "{shown} is of another search ({}), and this one is of {subject}: give another file to --resume",
            history.subject
        );
    }
    Ok(history)
}

/// Keeps what was found so far, whole or not at all.
fn keep(args: &Args, history: &History) -> Result<()> {
    let Some(path) = &args.resume else {
        return Ok(());
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| std::path::Path::new("."));
    let cannot = || format!("cannot write {}", path.display());
    let file = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
    serde_json::to_writer_pretty(&file, history).with_context(cannot)?;
    file.persist(path).with_context(cannot)?;
    Ok(())
}

/// Compiles candidates as far as their schedule, and prices them.
struct Driver<'a> {
    text: &'a str,
    target: &'a Target,
    compiler: Compiler,
    facts: &'a ChipFacts,
    prices: RooflinePrices,
    ici: Ici,
}

impl<'a> Driver<'a> {
    fn new(
        text: &'a str,
        args: &'a Args,
        compiler: Compiler,
        facts: &'a ChipFacts,
    ) -> Result<Self> {
        let grid: Vec<u64> = args
            .target
            .grid
            .iter()
            .map(|side| u64::from(*side))
            .collect();
        let topology = Topology::new(facts, &grid);
        let calibration = knowledge::ici::calibration(args.target.generation);
        let ici = Ici::new(facts, calibration, topology).ok_or_else(|| {
            anyhow!(
                "nothing is published of the links between chips of {}: shardings cannot be compared on it",
                facts.product_name
            )
        })?;
        Ok(Self {
            text,
            target: &args.target,
            compiler,
            facts,
            prices: RooflinePrices::new(facts),
            ici,
        })
    }
}

impl Evaluate for Driver<'_> {
    type Error = anyhow::Error;

    fn evaluate(&mut self, _: &Candidate, sharding: &Sharding) -> Result<Verdict> {
        let annotated = annotate(self.text, sharding, Dialect::Shardy)?;
        let program = ProgramFile::of_bytes(annotated.as_bytes())?;
        let options = CompileOptions {
            partitions: u32::try_from(sharding.mesh.devices()).unwrap_or(u32::MAX),
            shardy: true,
            ..CompileOptions::default()
        };
        let hlo = match self.compiler.schedule(&program, self.target, &options) {
            Ok(hlo) => hlo,
            Err(CompileError::OutOfHbm { .. }) => {
                return Ok(Verdict::OutOfMemory { needed: None });
            }
            Err(
                error @ (CompileError::Rejected { .. }
                | CompileError::Crashed { .. }
                | CompileError::TooMuchMemory { .. }
                | CompileError::TimedOut { .. }),
            ) => {
                return Ok(Verdict::Refused {
                    message: error.to_string(),
                });
            }
            Err(error) => return Err(error.into()),
        };
        let (program, notes) = read_hlo_proto(&hlo);
        if !program.is_scheduled || notes.has_warnings() {
            return Ok(Verdict::Refused {
                message: "the compiler's schedule could not be read whole".to_owned(),
            });
        }
        let prices = LinkPrices {
            ops: &self.prices,
            ici: &self.ici,
        };
        let outcome = price(program, &sharding.mesh, self.facts, &prices, None);
        Ok(Verdict::Priced(outcome))
    }
}
