//! Bytes in, one [`Session`](session) out.
//!
//! ```text
//! files ──> source (sniff, gzip) ──> timeline readers ─┐
//!                                    program readers  ─┴─> Session ──> Evidence
//! ```
//!
//! Pure: no async, no network, no clock. Reading never panics and never rejects a whole profile
//! for one bad part: what could not be read is in the [`note::Notes`].

pub mod chip;
pub mod compiler;
pub mod diff;
pub mod emit;
pub mod evidence;
pub mod intervals;
pub mod logs;
pub mod memory;
pub mod model;
pub mod note;
pub mod parity;
pub mod prediction;
pub mod program;
pub mod roofline_session;
pub mod session;
pub mod session_builder;
pub mod source;
pub mod timeline;
pub mod units;
pub mod wire;
pub mod xprof_compat;
