//! What runs programs on this machine's CPU, for numeric parity without a TPU.
//!
//! JAX's own CPU client is the default: it is the XLA that the program's author has, it reads every
//! form of a program, and its users keep it current. A CPU PJRT plugin is used where the user names
//! one. None is fetched or looked for: the wheels on offer that carry one are builds for single
//! other programs, one of them without a licence, and lag behind in StableHLO versions.

mod error;
mod jax;
mod plugin;

use std::path::Path;
use std::time::Duration;

use profiler::compiler::program_file::{ProgramFile, ProgramKind};
use profiler::parity::check::Runner;

pub use error::RunError;
use jax::JaxRunner;
use plugin::PluginRunner;

use crate::compiler::libtpu::python;

/// Every rounding that a program asks for is done: XLA would leave out a `convert` to bf16 and
/// back otherwise.
const EXCESS_PRECISION: (&str, &str) = ("xla_allow_excess_precision", "false");

/// Memory that a runner's process may map: three quarters of the machine's.
fn memory_limit_bytes() -> u64 {
    const LEAST: u64 = 4 << 30;
    (rustix::system::sysinfo().totalram as u64 / 4 * 3).max(LEAST)
}

/// Finds and starts what runs programs.
pub struct Cpu {
    plugin: Option<PluginRunner>,
    jax: Result<JaxRunner, RunError>,
    /// What runs programs, for people.
    pub name: String,
}

impl Cpu {
    /// The plugin that is named, else JAX in the active Python.
    ///
    /// # Errors
    /// When there is neither, or the plugin that is named is not there.
    pub fn open(plugin: Option<&Path>, timeout: Duration) -> Result<Self, RunError> {
        let start = || {
            let python = python().ok_or_else(|| RunError::NoRunner {
                python: "this machine".to_owned(),
                reason: "there is no Python on PATH".to_owned(),
            })?;
            JaxRunner::start(&python, timeout)
        };
        match plugin::find(plugin)? {
            Some(library) => Ok(Self {
                name: format!("CPU plugin {}", library.display()),
                plugin: Some(PluginRunner::new(library, timeout)?),
                // Started when a program's form needs it.
                jax: Err(RunError::Start("it was not started".to_owned())),
            }),
            None => {
                let jax = start()?;
                Ok(Self {
                    name: format!("JAX's CPU client ({})", jax.version),
                    plugin: None,
                    jax: Ok(jax),
                })
            }
        }
    }

    /// A program as StableHLO text.
    ///
    /// # Errors
    /// When it is in another form and there is no JAX, or JAX cannot read it.
    pub fn text(&mut self, file: &ProgramFile, timeout: Duration) -> Result<String, RunError> {
        if file.kind == ProgramKind::StablehloText {
            return Ok(String::from_utf8_lossy(&file.code).into_owned());
        }
        if self.jax.is_err() {
            let python = python();
            self.jax = match python {
                Some(python) => JaxRunner::start(&python, timeout),
                None => Err(RunError::Start("there is no Python on PATH".to_owned())),
            };
        }
        match &mut self.jax {
            Ok(jax) => jax.translate(file.kind, &file.code),
            Err(error) => Err(RunError::Form {
                form: file.kind.name(),
                reason: error.to_string(),
            }),
        }
    }

    /// What runs programs.
    ///
    /// # Errors
    /// When JAX did not start.
    pub fn runner(&mut self) -> Result<&mut dyn Runner<Error = RunError>, RunError> {
        match (&mut self.plugin, &mut self.jax) {
            (Some(plugin), _) => Ok(plugin),
            (None, Ok(jax)) => Ok(jax),
            (None, Err(error)) => Err(error.clone()),
        }
    }
}
