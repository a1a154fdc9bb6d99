//! `TORCH_TRACE` logs of TorchTPU: every eager launch with what forced it.
//!
//! ```text
//! lines ──> reader.rs (headers, payloads) ──> launches, ATen graphs, StableHLO, Dynamo's compiles
//!       ──> evidence.rs: steps.rs, changes.rs, reads.rs, by process
//! ```
//!
//! A header line (`V1130 … {json}`) is followed by its payload, each line behind a tab. TorchTPU
//! writes three for a launch: a trace event with time and cause, the ATen graph and the StableHLO.
//! The last two are empty where the compilation cache held the program, so what such a launch ran
//! is taken from the same place of an earlier step. Each distinct graph and program is kept once.

pub mod changes;
pub mod evidence;
pub mod graph;
pub mod programs;
mod reader;
pub mod reads;
pub mod steps;
mod store;

#[cfg(test)]
mod tests;

pub use graph::{AtenGraph, GraphOp, SourceLine, TensorType};
pub use programs::StableHlo;
pub(super) use reader::Reader;

use crate::logs::At;

/// Why eager mode launched what it had collected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// `item()`: a value was read.
    Item,
    /// `.cpu()`: a tensor was copied to the host, also for `item()` and `print`.
    Cpu,
    /// `synchronize()`, or something that waits as it does.
    Synchronize,
    /// The backward pass ended.
    AutogradPostBackward,
    /// The same operations came again and again.
    RepeatedOp,
    /// Each operation is launched at once: strict eager mode.
    DebugMode,
    /// A collective needs its input.
    DistributedOp,
    /// A compiled graph runs.
    CompileMode,
    /// Another, as the log names it.
    Other(String),
}

impl Reason {
    /// Reads the log's name.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        match name {
            "item()" => Self::Item,
            ".cpu()" => Self::Cpu,
            "synchronize()" => Self::Synchronize,
            "autograd_post_backward" => Self::AutogradPostBackward,
            "repeated_op_heuristic" => Self::RepeatedOp,
            "debug_mode" => Self::DebugMode,
            "distributed_op" => Self::DistributedOp,
            "compile_mode_execution" => Self::CompileMode,
            other => Self::Other(other.chars().take(64).collect()),
        }
    }

    /// The log's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Item => "item()",
            Self::Cpu => ".cpu()",
            Self::Synchronize => "synchronize()",
            Self::AutogradPostBackward => "autograd_post_backward",
            Self::RepeatedOp => "repeated_op_heuristic",
            Self::DebugMode => "debug_mode",
            Self::DistributedOp => "distributed_op",
            Self::CompileMode => "compile_mode_execution",
            Self::Other(name) => name,
        }
    }

    /// Whether the host waits for a value.
    #[must_use]
    pub fn reads_on_host(&self) -> bool {
        matches!(self, Self::Item | Self::Cpu | Self::Synchronize)
    }
}

/// A launch of an eager program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Where its event stands.
    pub at: At,
    /// When it began, in microseconds since 1970.
    pub start_us: u64,
    /// Time that the host spent on it, in microseconds. The compiler runs beside, so this is not
    /// all that a compile takes.
    pub duration_us: u64,
    /// Its first operation: an index into [`TorchTrace::names`].
    pub op: u32,
    /// Why it was launched: an index into [`TorchTrace::reasons`].
    pub reason: u32,
    /// Whether the program had to be compiled.
    pub compiled: bool,
    /// Whether that failed.
    pub failed: bool,
    /// Its ATen graph, where the log has it: an index into [`TorchTrace::graphs`].
    pub graph: Option<u32>,
    /// Its StableHLO, where the log has it: an index into [`TorchTrace::programs`].
    pub program: Option<u32>,
}

impl Launch {
    /// When the host was done with it, in microseconds since 1970.
    #[must_use]
    pub fn end_us(&self) -> u64 {
        self.start_us.saturating_add(self.duration_us)
    }
}

/// A process whose launches were traced; its rotated files are read as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its rank, where the log names one.
    pub rank: Option<u32>,
    /// Its process id, where a launch names it.
    pub pid: u64,
    /// Its launches, earliest first.
    pub launches: Vec<Launch>,
}

/// A compile of Dynamo (`torch.compile`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DynamoCompile {
    /// Where it stands.
    pub at: At,
    /// Which compile of which function, as `0/1`: above zero behind the slash, it is a recompile.
    pub id: String,
    /// The function and where it begins.
    pub function: SourceLine,
    /// Time of the whole compile, in seconds.
    pub seconds: f64,
    /// Why it came to nothing, if so: Dynamo's reason, or that the log is cut in it.
    pub failure: Option<String>,
    /// The guards that failed and forced a recompile.
    pub guards: Vec<String>,
}

impl DynamoCompile {
    /// Whether Dynamo did not compile, because the function was compiled too often already.
    #[must_use]
    pub fn reached_limit(&self) -> bool {
        let failure = self.failure.as_deref().unwrap_or_default();
        failure.starts_with("Dynamo recompile limit exceeded")
    }

    /// How often the function had been compiled before.
    #[must_use]
    pub fn earlier(&self) -> u64 {
        let (_, earlier) = self.id.split_once('/').unwrap_or_default();
        let digits = earlier.find(|c: char| !c.is_ascii_digit());
        let earlier = earlier.get(..digits.unwrap_or(earlier.len()));
        earlier.and_then(|e| e.parse().ok()).unwrap_or_default()
    }
}

/// A place where Dynamo had to end a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphBreak {
    /// Where the log says so first.
    pub at: At,
    /// The user's line.
    pub place: SourceLine,
    /// Why, in Dynamo's words.
    pub reason: String,
    /// How often it is logged.
    pub count: u64,
}

/// `TORCH_TRACE` logs of TorchTPU: every eager launch with what forced it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TorchTrace {
    /// Processes, by rank and process id.
    pub processes: Vec<Process>,
    /// First operations of launches, without the log's prefix `torchtpu_eager/`.
    pub names: Vec<String>,
    /// Reasons of launches.
    pub reasons: Vec<Reason>,
    /// Distinct ATen graphs.
    pub graphs: Vec<AtenGraph>,
    /// Distinct programs.
    pub programs: Vec<StableHlo>,
    /// Bytes of StableHLO that were not kept, because there was too much of it.
    pub dropped_program_bytes: u64,
    /// Compiles of Dynamo, in the order of the log.
    pub dynamo: Vec<DynamoCompile>,
    /// Graph breaks of Dynamo, by place.
    pub graph_breaks: Vec<GraphBreak>,
    store: store::Store,
}

impl TorchTrace {
    /// Whether anything was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
            && self.programs.is_empty()
            && self.dynamo.is_empty()
            && self.graph_breaks.is_empty()
    }

    /// The name of a launch's first operation.
    #[must_use]
    pub fn name(&self, launch: &Launch) -> &str {
        self.names
            .get(launch.op as usize)
            .map_or("", String::as_str)
    }

    /// Why something was launched.
    #[must_use]
    pub fn reason(&self, launch: &Launch) -> Option<&Reason> {
        self.reasons.get(launch.reason as usize)
    }

    /// A launch's ATen graph, where the log has it.
    #[must_use]
    pub fn graph(&self, index: Option<u32>) -> Option<&AtenGraph> {
        self.graphs.get(index? as usize)
    }
}
