//! What is known, each figure with its source.
//!
//! ```text
//! data/chips/*.toml ────────────> chips       peaks, memories and links of a generation
//! data/efficiency.toml ─────────> efficiency  what share of a peak good programs reach
//! data/ici.toml ──────────────> ici         how fast collectives run over the links
//! data/slices.toml ───────────> slices      how many chips one slice has
//! data/advice/base_rates.toml ──> advice      how often a kind of advice helped
//! data/calibration/*.toml ──────> calibration what the compiler's figures mean in time
//! data/torch_tpu/* ─────────────> torch_tpu   what TorchTPU has, and what to write instead
//! data/recipes/*.toml ──────────> recipes     what public recipes reach, what flags cost
//! ```
//!
//! The files are part of the program and parsed once, at the first question. They hold facts that
//! anybody can check by the source beside them: a document, what a profile or the compiler prints,
//! or a public measurement. A figure that nobody published is absent, not guessed; where sources
//! disagree a comment in the file gives both and says why one stands.
//!
//! What this crate does not do: it holds no figure of the program under study. Where a profile
//! carries its own peaks these are to be preferred, since they are what the run's own runtime
//! believed of its device.

pub mod advice;
mod beta;
pub mod calibration;
pub mod chips;
pub mod efficiency;
pub mod ici;
pub mod recipes;
pub mod slices;
pub mod torch_tpu;

use serde::de::DeserializeOwned;

/// A data file of this crate that does not say what it should.
#[derive(Debug, thiserror::Error)]
#[error("the built-in data file {file} is not as expected: {reason}; rebuild from clean sources")]
struct DataError {
    /// The file, below `knowledge/data`.
    file: String,
    /// What the parser found.
    reason: String,
}

/// Parses a data file.
fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, DataError> {
    toml::from_str(text).map_err(|error| DataError {
        file: file.to_owned(),
        reason: error.to_string(),
    })
}
