//! A program file and a target become a predicted session.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use profiler::chip::ChipFacts;
use profiler::compiler::calibrated::Calibrated;
use profiler::compiler::calibration::Calibration;
use profiler::compiler::compiled::Compiled;
use profiler::compiler::cost_model::CostModel;
use profiler::compiler::cost_model::program_price::{ProgramPrice, RatioBand};
use profiler::compiler::dump;
use profiler::compiler::ici::{Ici, Topology};
use profiler::compiler::llo::score::{Pricing, Score, score};
use profiler::compiler::llo::{KernelSchedule, Memory, Setting};
use profiler::compiler::options::CompileOptions;
use profiler::compiler::predicted_session::Settings;
use profiler::compiler::program_file::{ProgramFile, ProgramKind};
use profiler::compiler::target::Target;
use profiler::diff::{Diff, without_layout};
use profiler::note::Notes;
use profiler::prediction::{Band, Provenance};
use profiler::program::cost;
use profiler::program::shape::MemorySpace;
use profiler::program::{Program, parse_module, read_hlo_proto};
use profiler::session::{Format, Input, Session, SessionProgram};
use profiler::units::Bytes;

mod trace_program;

use crate::compiler::error::CompileError;
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

    /// Program of a TORCH_TRACE log, by a part of its name [default: the one of most work].
    #[arg(id = "program_of_trace", long = "program", value_name = "NAME")]
    pub program: Option<String>,

    /// A calibration of your own instead of the built-in one: see `tpu-tune calibrate`.
    #[arg(long, value_name = "FILE", value_parser = read_calibration)]
    pub calibration: Option<Calibration>,

    /// The compiler itself.
    #[command(flatten)]
    pub compiler: CompilerArgs,
}

pub(crate) fn parse_target(name: &str) -> Result<Target, String> {
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
    /// Its size as stored.
    pub stored_bytes: u64,
    /// What the compiler made of it; none where the file was its output already.
    pub compiled: Option<Compiled>,
    /// The schedule.
    pub program: Program,
    /// What could not be read.
    pub notes: Notes,
    /// The schedule as bytes; empty where it was text.
    pub hlo: Vec<u8>,
    /// Final schedules of its kernels, where it has some and the compiler lists them.
    pub kernels: Vec<KernelSchedule>,
}

/// The compiler, looked for when it is needed first: what is compiled already needs none.
pub enum Lazy<'a> {
    /// Not needed yet.
    Unopened(&'a CompilerArgs, OnceCell<Box<Compiler>>),
    /// There already.
    Open(&'a Compiler),
}

impl<'a> Lazy<'a> {
    /// Nothing is looked for yet.
    #[must_use]
    pub fn new(args: &'a CompilerArgs) -> Self {
        Self::Unopened(args, OnceCell::new())
    }

    /// One that was found.
    #[must_use]
    pub fn of(compiler: &'a Compiler) -> Self {
        Self::Open(compiler)
    }

    /// The compiler.
    ///
    /// # Errors
    /// When there is none.
    pub fn get(&self) -> Result<&Compiler, CompileError> {
        match self {
            Self::Open(compiler) => Ok(compiler),
            Self::Unopened(args, cell) => {
                if let Some(compiler) = cell.get() {
                    return Ok(compiler);
                }
                let compiler = Compiler::open(args)?;
                Ok(cell.get_or_init(|| Box::new(compiler)))
            }
        }
    }
}

/// Reads a program file.
///
/// # Errors
/// When it cannot be read or is no program.
pub fn read_program(path: &Path) -> Result<ProgramFile> {
    read_named_program(path, None)
}

/// As [`read_program`]; of a TORCH_TRACE log the program whose name contains `name`.
///
/// # Errors
/// When it cannot be read or holds no such program.
pub fn read_named_program(path: &Path, name: Option<&str>) -> Result<ProgramFile> {
    if let Some(file) = trace_program::read(path, name)? {
        return Ok(file);
    }
    if path.is_dir() {
        return read_dump(path);
    }
    let bytes = profiler::source::read_inflated(path)?;
    ProgramFile::of_bytes(&bytes).with_context(|| format!("cannot use {}", path.display()))
}

/// Reads the largest program of a folder that a compiler dumped into (`--xla_dump_to`), with its
/// buffers where they lie beside it.
fn read_dump(folder: &Path) -> Result<ProgramFile> {
    let shown = folder.display();
    let mut found: Vec<(u64, u8, String)> = folder
        .read_dir()
        .with_context(|| format!("cannot read {shown}"))?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            Some((entry.metadata().ok()?.len(), dump::rank(&name)?, name))
        })
        .collect();
    found.sort();
    let Some((_, _, largest)) = found.last() else {
        bail!(
            "{shown} holds no scheduled program: expected *.after_optimizations.hlo.pb or .txt, as --xla_dump_to with --xla_dump_hlo_as_proto writes them"
        );
    };
    let module = dump::module_of(largest);
    let mut files: Vec<(u8, &String)> = found
        .iter()
        .filter(|(_, _, name)| dump::module_of(name) == module)
        .map(|(_, rank, name)| (*rank, name))
        .collect();
    files.sort();
    let Some((_, best)) = files.last() else {
        bail!("{shown} holds no scheduled program");
    };
    let mut bytes = profiler::source::read_inflated(&folder.join(best))?;
    let assigned = files.iter().find(|(_, name)| dump::is_assigned(name));
    if let Some((_, assigned)) = assigned.filter(|(_, name)| name != best) {
        let with_buffers = profiler::source::read_inflated(&folder.join(assigned))?;
        bytes = dump::join(&bytes, &with_buffers);
    }
    ProgramFile::of_bytes(&bytes).with_context(|| format!("cannot use {shown}/{best}"))
}

/// Compiles a program file, unless it holds what the compiler already scheduled.
///
/// # Errors
/// When the file or the options do not fit, or the compiler refuses.
pub fn schedule(path: &Path, args: &CompileArgs, compiler: &Lazy<'_>) -> Result<Scheduled> {
    schedule_file(
        path,
        read_named_program(path, args.program.as_deref())?,
        args,
        compiler,
    )
}

/// As [`schedule`], of a program that was read or made; `path` is for messages.
///
/// # Errors
/// When the options do not fit, or the compiler refuses.
pub fn schedule_file(
    path: &Path,
    file: ProgramFile,
    args: &CompileArgs,
    compiler: &Lazy<'_>,
) -> Result<Scheduled> {
    let stored_bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
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
            stored_bytes,
            compiled: None,
            program,
            notes,
            hlo: match file.kind {
                ProgramKind::HloProto => file.code,
                _ => Vec::new(),
            },
            kernels: Vec::new(),
        });
    }
    let options = options(&file, args).with_context(|| path.display().to_string())?;
    let shown = path.display();
    let mut compiled = match compiler.get()?.compile(&file, &args.target, &options) {
        Err(CompileError::OutOfHbm { message, hlo }) => {
            bail!("{shown} {}", too_large(&args.target, &message, &hlo))
        }
        outcome => outcome.with_context(|| shown.to_string())?,
    };
    let hlo = std::mem::take(&mut compiled.hlo);
    let (mut program, mut notes) = read_hlo_proto(&hlo);
    // Groups of all devices are written without saying how many these are.
    program
        .num_partitions
        .get_or_insert(u64::from(options.partitions));
    program
        .replica_count
        .get_or_insert(u64::from(options.replicas));
    let kernels = match kernels(&file, &program, args, &options, compiler.get()?) {
        Ok((kernels, more)) => {
            notes.merge(more);
            kernels
        }
        Err(error) => {
            notes.info(
                "no-kernel-schedules",
                format!("kernels are priced by their declared work alone: {error}"),
            );
            Vec::new()
        }
    };
    Ok(Scheduled {
        path: path.to_owned(),
        kind: file.kind,
        stored_bytes,
        kernels,
        compiled: Some(compiled),
        program,
        notes,
        hlo,
    })
}

/// Programs with more instructions take too long to list.
const MAX_LISTED: usize = 2000;

/// The final schedules of a small program's custom kernels.
fn kernels(
    file: &ProgramFile,
    program: &Program,
    args: &CompileArgs,
    options: &CompileOptions,
    compiler: &Compiler,
) -> Result<(Vec<KernelSchedule>, Notes), CompileError> {
    let has_kernel = program
        .ops()
        .any(|(_, op)| op.attributes.custom_call_target == "tpu_custom_call");
    let facts = knowledge::chips::chip(args.target.generation);
    match Memory::of(facts) {
        Some(memory) if has_kernel && program.len() <= MAX_LISTED => {
            let setting = Setting::new(memory);
            compiler.kernel_schedules(file, &args.target, options, &setting)
        }
        _ => Ok((Vec::new(), Notes::default())),
    }
}

/// Scores of kernels by instruction.
fn scores(
    kernels: &[KernelSchedule],
    program: &Program,
    facts: &ChipFacts,
) -> BTreeMap<String, Score> {
    let Some(pricing) = Pricing::of(facts) else {
        return BTreeMap::new();
    };
    let mut costs = cost::CostModel::new(program);
    kernels
        .iter()
        .filter_map(|schedule| {
            let op = program.find(&schedule.instruction)?;
            let bytes = costs.cost(op).traffic.hbm().total_padded().0;
            let score = score(schedule, &pricing, Some(bytes));
            Some((schedule.instruction.clone(), score))
        })
        .collect()
}

/// A compiled program with its predicted session.
#[derive(Debug)]
pub struct Predicted {
    /// The session: one run on one device.
    pub session: Session,
    /// What was compiled, if it was; its HLO is the session's program.
    pub compiled: Option<Compiled>,
    /// The schedule as bytes; empty where it was text.
    pub hlo: Vec<u8>,
    /// Final schedules of its kernels, where the compiler lists them.
    pub kernels: Vec<KernelSchedule>,
    /// Its time on the device by kinds of operation, collectives apart: what the error band of a
    /// comparison is made from.
    pub device: ProgramPrice,
}

/// Reads a calibration that `tpu-tune calibrate` wrote.
fn read_calibration(path: &str) -> Result<Calibration, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    toml::from_str(&text).map_err(|error| format!("not a calibration: {error}"))
}

/// The calibration for what was compiled: the user's own, else the one of the chip, with wider
/// bands where it does not cover the build of the compiler.
///
/// # Errors
/// When the user's own is of another chip.
pub fn calibration(args: &CompileArgs, compiled: Option<&Compiled>) -> Result<Calibration> {
    let generation = args.target.generation;
    let of_chip = match &args.calibration {
        Some(own) if own.generation == generation => own.clone(),
        Some(own) => bail!(
            "the calibration is of {}, and the target is {}",
            own.generation.name(),
            args.target
        ),
        None => knowledge::calibration::calibration(generation),
    };
    let build = compiled.map_or("", |compiled| compiled.build.libtpu.as_str());
    Ok(of_chip.for_build(build))
}

/// Predicts one run of a scheduled program.
///
/// # Errors
/// When the calibration does not fit the target.
pub fn predict(scheduled: Scheduled, args: &CompileArgs) -> Result<Predicted> {
    let target = &args.target;
    let Scheduled {
        path,
        kind,
        stored_bytes,
        compiled,
        program,
        notes,
        hlo,
        kernels,
    } = scheduled;
    let facts = knowledge::chips::chip(target.generation);
    let calibration = calibration(args, compiled.as_ref())?;
    let grid: Vec<u64> = target.grid.iter().map(|side| u64::from(*side)).collect();
    let prices = Calibrated {
        facts,
        calibration: &calibration,
        ici: Ici::new(
            facts,
            knowledge::ici::calibration(target.generation),
            Topology::new(facts, &grid),
        ),
        kernels: scores(&kernels, &program, facts),
    };
    let device = CostModel::new(&program, facts, &calibration).total();
    let settings = Settings {
        provenance: Provenance {
            compiler: compiled
                .as_ref()
                .map(|compiled| {
                    format!(
                        "libtpu {} (PJRT {})",
                        compiled.build.libtpu, compiled.build.pjrt
                    )
                })
                .unwrap_or_default(),
            target: format!("{target} ({})", target.topology()),
            prices: words(&calibration, compiled.as_ref()),
            is_lower_bound: false,
        },
        hbm_gb_per_s: Some(facts.hbm_gb_per_s_per_device() * calibration.constants.hbm),
        ..Settings::default()
    };
    let mut session = Session::default();
    session.inputs.push(Input {
        path,
        format: match kind {
            ProgramKind::HloProto => Format::HloProto,
            ProgramKind::HloText => Format::HloText,
            _ => Format::StableHlo,
        },
        stored_bytes,
    });
    session.programs.push(SessionProgram {
        module: None,
        program,
    });
    session.notes.merge(notes);
    profiler::compiler::predicted_session::predict(&mut session, facts, &prices, &settings);
    Ok(Predicted {
        session,
        compiled,
        hlo,
        device,
        kernels,
    })
}

impl Predicted {
    /// The predicted time of the program, with its band.
    #[must_use]
    pub fn step(&self) -> Option<Band> {
        self.session.prediction.as_ref()?.step()
    }
}

/// The second program's time over the first's, with its band.
#[must_use]
pub fn ratio(
    before: &Predicted,
    after: &Predicted,
    diff: &Diff,
    calibration: &Calibration,
) -> Option<RatioBand> {
    let times = (before.step()?.time_ps, after.step()?.time_ps);
    profiler::compiler::ratio::ratio(&before.device, &after.device, times, diff, calibration)
}

/// What stands behind the times, in words.
fn words(calibration: &Calibration, compiled: Option<&Compiled>) -> String {
    let accuracy = &calibration.accuracy;
    let mut words = if calibration.measured {
        format!(
            "a model calibrated on {} measured programs (median error {:.1} % on those left out)",
            accuracy.programs,
            100.0 * accuracy.median_error
        )
    } else {
        format!(
            "a model calibrated on v6e, for {} was not measured: bands are twice as wide",
            calibration.generation.name()
        )
    };
    let build = compiled.map(|compiled| compiled.build.libtpu.as_str());
    if build.is_none_or(|build| !calibration.libtpu_builds.iter().any(|known| known == build)) {
        words.push_str("; no calibration covers this build of the compiler: bands are wider");
    }
    words
}

/// How much a program needs too much, and what for.
fn too_large(target: &Target, message: &str, hlo: &[u8]) -> String {
    /// Buffers that are named.
    const SHOWN: usize = 5;
    let usable = knowledge::chips::chip(target.generation).hbm_usable_bytes_per_device();
    let (program, _) = read_hlo_proto(hlo);
    let peak = program
        .buffers
        .as_ref()
        .and_then(|buffers| buffers.peak(MemorySpace::Hbm, &program));
    let Some(peak) = peak else {
        return format!("does not fit in HBM of {target}: {message}");
    };
    let needed = peak.total();
    let mut words = format!(
        "does not fit in HBM of {target}: a device needs {needed} and a program may use {}, {} too much",
        Bytes(usable),
        Bytes(needed.0.saturating_sub(usable))
    );
    let mut live: Vec<_> = peak.live.iter().collect();
    live.sort_by_key(|buffer| std::cmp::Reverse(buffer.size));
    words.push_str("\nthe largest buffers that live when it needs most:");
    for buffer in live.iter().take(SHOWN) {
        let name = buffer.op.and_then(|op| program.get(op));
        let name = name.map_or("?", |instruction| instruction.name.as_str());
        let shape = buffer.shape.as_ref().map(ToString::to_string);
        let shape = without_layout(&shape.unwrap_or_default());
        words.push_str(&format!(
            "\n  {:>10}  {name} {shape}",
            buffer.size.to_string()
        ));
        if buffer.unpadded < buffer.size {
            words.push_str(&format!(", {} without what tiles add", buffer.unpadded));
        }
    }
    if let Some(rest) = live.len().checked_sub(SHOWN).filter(|rest| *rest > 0) {
        words.push_str(&format!("\n  and {rest} more"));
    }
    words.push_str(&format!("\nthe compiler says: {message}"));
    words
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
