//! Rules on operations that TorchTPU does not have.

pub mod graph;
pub mod host;
pub mod unsupported_op;
pub mod used;

use std::collections::BTreeMap;

use self::graph::Calls;
use crate::python::{Project, SourceFile, SourceNote, with_context};

/// The operators that a Python file is certain to call, how often and where first.
///
/// # Errors
/// When it is no Python 3.
pub fn of_source(path: &str, bytes: Vec<u8>) -> Result<BTreeMap<String, Calls>, SourceNote> {
    let file = SourceFile::parse(path, bytes)?;
    Ok(with_context(&Project::default(), &file, used::counts))
}
