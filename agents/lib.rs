//! `tpu-tune`: decisions that touch the world.
//!
//! ```text
//! paths ──> profiler::source ──> Session ──> Evidence ──> advisors ──> Report ──> render
//! ```
//!
//! The binary is a thin shell around [`cli::run`]. Everything that reads files, writes to the
//! terminal or leaves the process is in this crate; the other crates are pure.

pub mod archive;
pub mod check;
pub mod cli;
pub mod compiler;
pub mod exit;
pub mod log;
pub mod parity;
pub mod predict;
pub mod progress;
pub mod render;
pub mod what_if;
