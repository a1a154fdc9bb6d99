//! A [`Report`] as one HTML file that needs nothing else: no script, no request, no font.
//!
//! ```text
//! Report ──────────────────────────> view ──> templates/*.html ──> String
//! Evidence ──> pictures (SVG) ────────┘          assets/report.css
//! ```
//!
//! Names in a report come from a profile and are hostile: every string that reaches the page goes
//! through one formatter (`page.rs`), which makes characters visible that would hide or reorder
//! text, and escapes the rest. A content security policy forbids all that the page does not use.
//!
//! Pure and deterministic: this crate does not know where a report came from, and reads no clock,
//! disk or environment.

mod assets;
mod card;
mod ops;
mod page;
mod palette;
mod pictures;
mod text;
mod view;

use advisors::Report;
use profiler::evidence::Evidence;

pub use assets::CONTENT_SECURITY_POLICY;

/// The report as a self-contained HTML document.
///
/// Pictures of the roofline and of a step, and the table of operations, need the evidence that the
/// report was made from. A report that was stored has none: the page says what is missing.
#[must_use]
pub fn report_html(report: &Report, evidence: Option<&Evidence<'_>>) -> String {
    page::render(&view::Page::new(report, evidence))
}
