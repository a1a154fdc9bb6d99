//! Evidence in, a [`Report`] with ranked findings out.
//!
//! ```text
//! Evidence + facts ──> RULES (one file and one card each) ──> drafts ──> rank ──> Report
//! ```
//!
//! Pure and deterministic: a rule sees no disk, no clock, no network, no model and no database.
//! A rule drafts what it saw; severity, confidence and the limits of a saving are set in one
//! place, [`rank`], so that no rule can promise more than the time that its operations take.

pub mod finding;
pub mod model_config;
pub mod python;
pub mod rank;
pub mod registry;
pub mod report;
pub mod rule;
pub mod rules;

pub use finding::{Finding, Severity};
pub use report::Report;
pub use rule::{Context, Rule};
