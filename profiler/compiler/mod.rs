//! The TPU compiler without a TPU.
//!
//! ```text
//! program file ─> worker process ── PJRT ──> optimized HLO, memory ─> cost model ─> Session
//! ```
//!
//! libtpu compiles for any topology on a plain CPU machine. It may also abort, hang or eat all
//! memory, so it is loaded in worker processes only ([`worker`]); who starts them, limits them and
//! keeps their results is `agents`' business.

pub mod calibrated;
pub mod calibration;
pub mod compiled;
pub mod cost_model;
pub mod dump;
mod ffi;
pub mod fit;
pub mod ici;
pub mod llo;
pub mod options;
pub mod pjrt;
pub mod predicted_session;
pub mod pricer;
pub mod program_file;
pub mod protocol;
pub mod ratio;
pub mod recalibrate;
pub mod roofline;
pub mod run;
pub mod sharding;
pub mod target;
pub mod what_if;
pub mod worker;
