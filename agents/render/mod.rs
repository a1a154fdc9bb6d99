//! Results for people and for other programs: at the terminal, as Markdown, as SARIF.
//!
//! ```text
//! Report ──> summary (words) ──┬─> text
//!                              ├─> markdown
//!                              └─> sarif
//! tables of other commands ─> page ─> text or Markdown
//! ```
//!
//! Names come from profiles and are not to be trusted: [`safe`] makes them harmless for a
//! terminal, [`markdown::escape`] and [`markdown::code`] for GitHub. Nobody else writes them.

pub mod markdown;
pub mod page;
pub mod safe;
pub mod sarif;
pub mod source;
pub mod summary;
pub mod table;
pub mod text;
