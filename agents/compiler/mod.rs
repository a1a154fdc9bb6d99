//! The TPU compiler as a component: found on the user's machine, run in processes of its own,
//! limited, and asked only once for the same thing.

pub mod bundles;
pub mod cache;
pub mod error;
pub mod libtpu;
pub mod pool;
pub mod process;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use profiler::chip::Generation;
use profiler::compiler::compiled::{Compiled, CompilerBuild};
use profiler::compiler::dump;
use profiler::compiler::llo::{self, KernelSchedule, Setting};
use profiler::compiler::options::CompileOptions;
use profiler::compiler::program_file::{ProgramFile, ProgramKind};
use profiler::compiler::protocol::{Request, Response};
use profiler::compiler::target::Target;
use profiler::note::Notes;

use bundles::Bundles;
use cache::{Cache, cache_folder};
use error::CompileError;
use libtpu::Libtpu;
use pool::Pool;
use process::Spawn;

/// Which compiler, and what it may use.
#[derive(Clone, Debug, Args)]
pub struct CompilerArgs {
    /// The TPU compiler, libtpu.so or its folder [default: TPU_LIBRARY_PATH, the active Python's
    /// libtpu package, what `tpu-tune doctor --install-libtpu` fetched].
    #[arg(long, value_name = "PATH", help_heading = "Compiler")]
    pub libtpu: Option<PathBuf>,

    /// Seconds that the compiler may take for one program.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 600,
        help_heading = "Compiler"
    )]
    pub compile_timeout: u64,

    /// Memory in GiB that one compiler process may map [default: an equal share of three quarters
    /// of the machine's memory].
    #[arg(long, value_name = "GIB", help_heading = "Compiler")]
    pub compile_memory_gib: Option<u64>,

    /// Compile again what was compiled before.
    #[arg(long, help_heading = "Compiler")]
    pub no_cache: bool,
}

impl Default for CompilerArgs {
    fn default() -> Self {
        Self {
            libtpu: None,
            compile_timeout: 600,
            compile_memory_gib: None,
            no_cache: false,
        }
    }
}

/// Memory that a compiler process needs in any case, in bytes: the library alone maps more than
/// one GiB.
const LEAST_MEMORY_BYTES: u64 = 4 << 30;

/// The compiler of this machine.
pub struct Compiler {
    libtpu: Libtpu,
    pool: Pool,
    bundles: Bundles,
    cache: Option<Cache>,
}

/// What the compiler says of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetDescription {
    /// Devices as the compiler counts them.
    pub devices: u64,
    /// What it calls one, as `TPU v6 lite`.
    pub kind: String,
    /// HBM of a device that a program may use, in bytes, where the compiler says.
    pub hbm_bytes: Option<u64>,
}

impl Compiler {
    /// Finds the compiler; nothing is started before it is asked.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(args: &CompilerArgs) -> Result<Self, CompileError> {
        let program = std::env::current_exe().map_err(|error| CompileError::Start {
            message: format!("our own binary cannot be found: {error}"),
        })?;
        Self::with_program(args, program)
    }

    /// As [`Self::open`], where the running program is not `tpu-tune`.
    ///
    /// # Errors
    /// When there is no compiler.
    pub fn with_program(args: &CompilerArgs, program: PathBuf) -> Result<Self, CompileError> {
        let libtpu = libtpu::find(args.libtpu.as_deref())?;
        tracing::debug!(path = %libtpu.path.display(), version = ?libtpu.version, "libtpu");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let usable = rustix::system::sysinfo().totalram as u64 / 4 * 3;
        let size = cores.min((usable / LEAST_MEMORY_BYTES) as usize).max(1);
        let memory_limit_bytes = args
            .compile_memory_gib
            .map(|gib| gib.saturating_mul(1 << 30))
            .unwrap_or((usable / size as u64).max(LEAST_MEMORY_BYTES));
        let spawn = Spawn {
            program,
            library: libtpu.path.clone(),
            memory_limit_bytes,
            init_args: Vec::new(),
        };
        let cache = cache_folder().filter(|_| !args.no_cache);
        let timeout = Duration::from_secs(args.compile_timeout);
        Ok(Self {
            libtpu,
            bundles: Bundles::new(spawn.clone(), timeout),
            pool: Pool::new(spawn, size, timeout),
            cache: cache.map(|folder| Cache::in_folder(folder.join("compiles"))),
        })
    }

    /// Where it was found.
    #[must_use]
    pub fn libtpu(&self) -> &Libtpu {
        &self.libtpu
    }

    /// The processes that do the work.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Compiles a program for a target, or finds what was made of it before.
    ///
    /// # Errors
    /// See [`CompileError`]; the compiler stays usable after each.
    pub fn compile(
        &self,
        program: &ProgramFile,
        target: &Target,
        options: &CompileOptions,
    ) -> Result<Compiled, CompileError> {
        if program.kind == ProgramKind::HloText {
            return Err(CompileError::Form {
                message: "the compiler takes no HLO text: give the HLO as proto (--xla_dump_hlo_as_proto) or the StableHLO that it was made of".to_owned(),
            });
        }
        let mut request = Request::Compile {
            topology: target.topology(),
            megacore: is_megacore(target),
            format: program.pjrt_format().to_owned(),
            options: options.clone(),
        };
        let asked = serde_json::to_vec(&request).unwrap_or_default();
        let key = Cache::key(&[&program.code, &asked, self.identity().as_bytes()]);
        if let Some(compiled) = self.cache.as_ref().and_then(|cache| cache.get(&key)) {
            return Ok(compiled);
        }
        let dump = Dump::new();
        if let (Some(dump), Request::Compile { options, .. }) = (&dump, &mut request) {
            options.overrides.extend(dump.options());
        }
        let mut outcome = self.pool.ask(&request, &program.code);
        if matches!(&outcome, Err(CompileError::Rejected { message, .. }) if dump::is_unknown(message))
            && let Request::Compile { options: asked, .. } = &mut request
        {
            // A build without these options: buffers are not shown then.
            asked.overrides.clone_from(&options.overrides);
            outcome = self.pool.ask(&request, &program.code);
        }
        let dumped = dump.and_then(|dump| dump.assigned()).unwrap_or_default();
        let (response, optimized, pjrt) = match outcome {
            Err(error) if error.is_out_of_hbm() => {
                let CompileError::Rejected { message, .. } = error else {
                    return Err(error);
                };
                return Err(CompileError::OutOfHbm {
                    message,
                    hlo: dumped,
                });
            }
            outcome => outcome?,
        };
        let Response::Compiled {
            memory,
            flops,
            bytes_accessed,
            ..
        } = response
        else {
            return Err(out_of_turn());
        };
        let hlo = dump::join(&optimized, &dumped);
        let compiled = Compiled {
            build: CompilerBuild {
                libtpu: self.version(),
                pjrt,
            },
            hlo,
            memory,
            flops,
            bytes_accessed,
        };
        if let Some(cache) = &self.cache {
            cache.put(&key, &compiled);
        }
        Ok(compiled)
    }

    /// Compiles a program only as far as its schedule and its buffers, as an `HloProto`. That is a
    /// small part of the work: making the code of large fusions takes most of it. What only code
    /// tells, the compiler's own estimates of cycles, is not in it.
    ///
    /// # Errors
    /// See [`CompileError`]; the compiler stays usable after each.
    pub fn schedule(
        &self,
        program: &ProgramFile,
        target: &Target,
        options: &CompileOptions,
    ) -> Result<Vec<u8>, CompileError> {
        let no_folder = || CompileError::Start {
            message: "there is no folder for temporary files that it could write to".to_owned(),
        };
        let mut request = Request::Compile {
            topology: target.topology(),
            megacore: is_megacore(target),
            format: program.pjrt_format().to_owned(),
            options: options.clone(),
        };
        let dump = Dump::new().ok_or_else(no_folder)?;
        if let Request::Compile { options, .. } = &mut request {
            options.overrides.extend(dump.options());
        }
        let mut last = (0, 0);
        let whole = || {
            if dump.has_more_than_assigned() {
                return true;
            }
            // Of a build that writes nothing behind it: it grew no further for half a second.
            const STILL_LOOKS: u32 = 25;
            let bytes = dump.assigned_bytes();
            let still = if bytes == last.0 { last.1 + 1 } else { 0 };
            last = (bytes, still);
            bytes > 0 && still >= STILL_LOOKS
        };
        let outcome = self.pool.ask_until(&request, &program.code, whole);
        let hlo = dump.assigned().unwrap_or_default();
        match outcome {
            Err(error) if error.is_out_of_hbm() => Err(CompileError::OutOfHbm {
                message: error.to_string(),
                hlo,
            }),
            // A build that dumps nothing has to do all of it.
            Err(CompileError::Rejected { message, .. }) if dump::is_unknown(&message) => {
                Ok(self.compile(program, target, options)?.hlo)
            }
            Err(error) => Err(error),
            Ok(_) if hlo.is_empty() => Err(no_folder()),
            Ok(_) => Ok(hlo),
        }
    }

    /// The final schedules of a program's kernels and fusions, by instruction.
    ///
    /// # Errors
    /// See [`CompileError`]; also where this build of the compiler writes no listings.
    pub fn kernel_schedules(
        &self,
        program: &ProgramFile,
        target: &Target,
        options: &CompileOptions,
        setting: &Setting,
    ) -> Result<(Vec<KernelSchedule>, Notes), CompileError> {
        let request = Request::Compile {
            topology: target.topology(),
            megacore: is_megacore(target),
            format: program.pjrt_format().to_owned(),
            options: options.clone(),
        };
        let listings = self.bundles.ask(&request, &program.code)?;
        Ok(llo::read(listings, setting))
    }

    /// What the compiler says of a target.
    ///
    /// # Errors
    /// When it knows no such topology.
    pub fn describe(&self, target: &Target) -> Result<TargetDescription, CompileError> {
        let request = Request::Topology {
            topology: target.topology(),
            megacore: is_megacore(target),
        };
        match self.pool.ask(&request, &[])?.0 {
            Response::Topology {
                devices,
                kind,
                hbm_bytes,
                ..
            } => Ok(TargetDescription {
                devices,
                kind,
                hbm_bytes,
            }),
            _ => Err(out_of_turn()),
        }
    }

    /// The wheel's version, for people and for calibrations.
    #[must_use]
    pub fn version(&self) -> String {
        self.libtpu
            .version
            .clone()
            .unwrap_or_else(|| "of unknown version".to_owned())
    }

    /// What tells this build from others: its version, and of its file what changes with it.
    fn identity(&self) -> String {
        let meta = std::fs::metadata(&self.libtpu.path).ok();
        let bytes = meta.as_ref().map_or(0, std::fs::Metadata::len);
        match &self.libtpu.version {
            Some(version) => format!("{version} {bytes}"),
            None => {
                let modified = meta.and_then(|meta| meta.modified().ok());
                format!("{} {bytes} {modified:?}", self.libtpu.path.display())
            }
        }
    }
}

/// A folder that the compiler writes one program's buffers to, removed when it was read.
struct Dump {
    folder: tempfile::TempDir,
}

impl Dump {
    /// None where no folder can be made: then there are no buffers to show.
    fn new() -> Option<Self> {
        let folder = tempfile::Builder::new()
            .prefix("tpu-tune-")
            .tempdir()
            .inspect_err(|error| tracing::warn!(%error, "no folder for the compiler's dump"))
            .ok()?;
        Some(Self { folder })
    }

    fn options(&self) -> Vec<(String, String)> {
        let path = self.folder.path().to_str();
        path.map(dump::options).unwrap_or_default()
    }

    /// The scheduled program with its buffer assignment.
    fn assigned(&self) -> Option<Vec<u8>> {
        std::fs::read(self.assigned_path()?).ok()
    }

    /// Whether the compiler went on to the next file: then that one is whole.
    fn has_more_than_assigned(&self) -> bool {
        let names = self.folder.path().read_dir().into_iter().flatten();
        let mut names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.any(|name| dump::is_behind_assigned(&name))
    }

    /// How much of it was written; 0 before it is there.
    fn assigned_bytes(&self) -> u64 {
        let meta = self.assigned_path().map(std::fs::metadata);
        meta.and_then(Result::ok).map_or(0, |meta| meta.len())
    }

    fn assigned_path(&self) -> Option<PathBuf> {
        self.folder.path().read_dir().ok()?.find_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            dump::is_assigned(&name).then(|| entry.path())
        })
    }
}

/// On v4 the compiler would count two devices a chip, JAX counts one.
fn is_megacore(target: &Target) -> bool {
    target.generation == Generation::V4
}

fn out_of_turn() -> CompileError {
    CompileError::Start {
        message: "its process answers out of turn".to_owned(),
    }
}
