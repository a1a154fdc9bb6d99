//! Evidence that is text: logs, metrics reports, memory reports, launch commands.
//!
//! ```text
//! bytes ──> text.rs (encoding, lines, escapes) ──> dispatch.rs (one search for all triggers)
//!       ──> readers: one file for each kind of text ──> Logs
//! ```
//!
//! One pass over the lines, memory bounded by what is found. A reader says which words begin
//! something that it knows ([`LineReader::triggers`]); only lines with one of them, and those that
//! follow where it asks for them, reach it. What it cannot make sense of it leaves out.

pub mod compiler_messages;
mod dispatch;
pub mod indivisible;
pub mod jax;
pub mod launch;
pub mod out_of_memory;
pub mod partitioner;
pub mod progress;
mod text;
pub mod torch_tpu;
pub mod torch_trace;
pub mod xla_metrics;

use std::path::PathBuf;

pub use dispatch::{LineReader, More, read};
pub use text::{Encoding, Line, looks_like_text};

/// A text file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// The path as given or found.
    pub path: PathBuf,
    /// How its characters were stored.
    pub encoding: Encoding,
    /// Lines in it.
    pub lines: u64,
}

/// Where something stands: a file of [`Logs::files`] and a line, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// Index into [`Logs::files`].
    pub file: u32,
    /// The line, from 1.
    pub line: u64,
}

/// All that text files tell of a run. Each field belongs to one reader.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logs {
    /// The files in which something was found.
    pub files: Vec<LogFile>,
    /// `TORCH_TRACE` logs of TorchTPU.
    pub torch_trace: torch_trace::TorchTrace,
    /// TorchTPU's own warnings and log lines.
    pub torch_tpu: torch_tpu::TorchTpuLog,
    /// PyTorch/XLA metrics reports, debug analyses and profiler lines.
    pub xla_metrics: xla_metrics::XlaMetrics,
    /// JAX: compiles, cache misses, persistent cache.
    pub jax: jax::JaxLog,
    /// Step lines of trainers and servers.
    pub progress: progress::ProgressLog,
    /// Out-of-memory reports of HBM, VMEM and scoped VMEM.
    pub out_of_memory: out_of_memory::MemoryReports,
    /// Axes that a sharding does not divide, each once.
    pub indivisible: Vec<indivisible::Indivisible>,
    /// What the SPMD partitioner warned of.
    pub partitioner: partitioner::PartitionerLog,
    /// What else the compiler said that costs time.
    pub compiler_messages: compiler_messages::CompilerMessages,
    /// Launch commands and configurations.
    pub launch: launch::Launches,
}

impl Logs {
    /// `path:line`, for people.
    #[must_use]
    pub fn place(&self, at: At) -> String {
        let path = self.files.get(at.file as usize);
        let path = path.map(|file| file.path.display().to_string());
        format!("{}:{}", path.unwrap_or_default(), at.line)
    }
}
