//! Why a program was not run.

use crate::compiler::error::CompileError;

/// Why there are no results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// There is nothing to run programs with.
    #[error(
        "this needs JAX's CPU client to run programs, and {python} has none ({reason}): `pip install jax` there, or name a CPU PJRT plugin with --cpu-plugin"
    )]
    NoRunner {
        /// The Python that was asked.
        python: String,
        /// What it said.
        reason: String,
    },
    /// The plugin that was named is not there.
    #[error("there is no CPU PJRT plugin at {path} ({named})")]
    NoPlugin {
        /// The path.
        path: String,
        /// Who named it.
        named: &'static str,
    },
    /// The runner's process could not be started.
    #[error("{0}")]
    Start(String),
    /// The runner refuses the program or the arguments.
    #[error("{runner} refuses it: {message}")]
    Refused {
        /// What ran it.
        runner: &'static str,
        /// Its own words.
        message: String,
    },
    /// The runner's process died.
    #[error("{runner} died on this program: {reason}")]
    Died {
        /// What ran it.
        runner: &'static str,
        /// The last that it said.
        reason: String,
    },
    /// It took too long.
    #[error(
        "{runner} took longer than {seconds} s and was stopped; raise the limit with --run-timeout or give a smaller program"
    )]
    TimedOut {
        /// What ran it.
        runner: &'static str,
        /// The limit.
        seconds: u64,
    },
    /// The program is in a form that needs JAX to be read.
    #[error(
        "a program in {form} is read with JAX, which was not found ({reason}): give StableHLO text (jax.jit(f).lower(…).as_text()), or `pip install jax`"
    )]
    Form {
        /// What it is written in.
        form: &'static str,
        /// Why JAX is not there.
        reason: String,
    },
}

impl RunError {
    /// What the plugin's process says, in words of this command.
    pub(super) fn of_plugin(error: CompileError) -> Self {
        const RUNNER: &str = "the CPU plugin";
        match error {
            CompileError::Rejected { message, .. } => Self::Refused {
                runner: RUNNER,
                message,
            },
            CompileError::Crashed { how, reason } => Self::Died {
                runner: RUNNER,
                reason: format!("it {how}: {reason}"),
            },
            CompileError::TooMuchMemory { how, reason } => Self::Died {
                runner: RUNNER,
                reason: format!("it {how}, as the machine's memory does not suffice: {reason}"),
            },
            CompileError::TimedOut { seconds } => Self::TimedOut {
                runner: RUNNER,
                seconds,
            },
            CompileError::Start { message } => {
                Self::Start(format!("the CPU plugin could not be started: {message}"))
            }
            other => Self::Start(other.to_string()),
        }
    }
}
