//! Runs whose right answers are known.
//!
//! Each scenario says in constants what it costs and what would be saved. The
//! operations are real, taken from compiled modules; the durations are ours.

mod sample;

pub use sample::sample;
