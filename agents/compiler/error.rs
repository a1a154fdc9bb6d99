//! Why a program was not compiled.

use super::libtpu::FindError;

/// Why there is no result. The pool stays usable after each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// There is no compiler.
    #[error(transparent)]
    NoCompiler(#[from] FindError),
    /// Its process could not be started.
    #[error("the TPU compiler could not be started: {message}")]
    Start {
        /// What happened.
        message: String,
    },
    /// The compiler refuses the program.
    #[error("the TPU compiler refuses it: {message}")]
    Rejected {
        /// As in `absl::StatusCode`; 8 is that a memory does not suffice.
        code: i32,
        /// The compiler's own words.
        message: String,
    },
    /// The program does not fit into the device's HBM.
    #[error("it does not fit: {message}")]
    OutOfHbm {
        /// The compiler's own words.
        message: String,
        /// `HloProto` with the buffers that it could not place; empty where it left none.
        hlo: Vec<u8>,
    },
    /// The compiler's process died.
    #[error("the TPU compiler {how} on this program: {reason}")]
    Crashed {
        /// How it ended.
        how: String,
        /// The last that it said.
        reason: String,
    },
    /// The compiler's process needed more memory than it may have.
    #[error(
        "the TPU compiler {how}: it needs more memory than the limit for this program ({reason}); raise it with --compile-memory-gib"
    )]
    TooMuchMemory {
        /// How it ended.
        how: String,
        /// The last that it said.
        reason: String,
    },
    /// It took too long.
    #[error(
        "the TPU compiler took longer than {seconds} s and was stopped; raise the limit with --compile-timeout"
    )]
    TimedOut {
        /// The limit.
        seconds: u64,
    },
    /// The program is in a form that needs another step first.
    #[error("{message}")]
    Form {
        /// What to do.
        message: String,
    },
}

impl CompileError {
    /// `absl::StatusCode` of a memory that does not suffice.
    const RESOURCE_EXHAUSTED: i32 = 8;

    /// Whether the compiler says that the program does not fit into HBM.
    #[must_use]
    pub fn is_out_of_hbm(&self) -> bool {
        matches!(self, Self::Rejected { code: Self::RESOURCE_EXHAUSTED, message }
            if message.contains("HbmOom") || message.contains("memory on HBM"))
    }

    /// Whether the process that was asked is still there.
    #[must_use]
    pub fn leaves_the_worker(&self) -> bool {
        matches!(self, Self::Rejected { .. })
    }
}
