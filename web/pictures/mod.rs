//! Pictures as SVG: drawn from figures alone, without fonts of the system.

pub(crate) mod breakdown;
mod canvas;
pub(crate) mod roofline;
pub(crate) mod scale;
mod segments;
pub(crate) mod timeline;

use serde::Serialize;

/// A picture and what it says in words.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Picture {
    /// The SVG element.
    pub(crate) svg: String,
    /// For those who do not see it.
    pub(crate) alt: String,
}
