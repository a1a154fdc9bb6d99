//! TorchTPU's own warnings and log lines, and Dynamo's beside them.
//!
//! TorchTPU marks its warnings (`<TorchTpu/Performance/> …`), prints a Python warning once, and
//! ends the process with absl's `Check failed` where it cannot go on. Dynamo tells of recompiles
//! and graph breaks when `TORCH_LOGS` asks for it, and of its limit always. Texts as torch_tpu
//! 0.2.0 with torch 2.15 prints them.

mod attention;
pub mod guard;
mod reader;

pub(super) use reader::Reader;

use crate::logs::At;
use crate::logs::torch_trace::SourceLine;

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Saying {
    /// An operation ran on the CPU, with copies there and back.
    CpuFallback,
    /// An operation has no kernel: the program ends here.
    NotImplemented,
    /// Attention went without the flash kernel.
    SlowAttention,
    /// tcmalloc is not loaded.
    NoTcmalloc,
    /// TorchTPU was built without optimisation.
    UnoptimizedBuild,
    /// An environment variable for debugging is set.
    DebugSetting,
    /// Dynamo gave up compiling a function and runs it eagerly.
    RecompileLimit,
    /// Dynamo ended a graph.
    GraphBreak,
    /// FlexAttention with a score_mod ended the process.
    FlexAbort,
    /// No compilation context: no device was found when something had to be compiled.
    NoCompilationContext,
    /// Transformers refuses FlexAttention on this device.
    FlexUnavailable,
    /// `torch.compile(dynamic=True)`.
    DynamicCompile,
    /// `torch.compile(backend="inductor")`.
    InductorBackend,
    /// Launches are missing from a TORCH_TRACE log.
    DroppedTrace,
}

/// A message, once for each subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it says.
    pub saying: Saying,
    /// Of what: an operation, a variable, a place, a condition; may be empty.
    pub subject: String,
    /// More of it, in the log's words; may be empty.
    pub detail: String,
    /// The line, shortened.
    pub text: String,
    /// Where it stands first.
    pub at: At,
    /// How often it stands there.
    pub count: u64,
}

/// A function that Dynamo compiled again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recompiled {
    /// The function and where it begins.
    pub function: SourceLine,
    /// Where the log says so first.
    pub at: At,
    /// How often.
    pub count: u64,
    /// Guards that failed, each once.
    pub guards: Vec<String>,
}

/// TorchTPU's own warnings and log lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TorchTpuLog {
    /// Messages, in the order of the log.
    pub messages: Vec<Message>,
    /// Functions that Dynamo compiled again, in the order of the log.
    pub recompiled: Vec<Recompiled>,
}

impl TorchTpuLog {
    /// Messages that say one thing.
    pub fn saying(&self, saying: &Saying) -> impl Iterator<Item = &Message> {
        let saying = saying.clone();
        self.messages
            .iter()
            .filter(move |message| message.saying == saying)
    }
}
