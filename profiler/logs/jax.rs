//! JAX logs: compiles, cache misses, the persistent cache.

use crate::logs::{Line, LineReader, Logs, More};
use crate::note::Notes;

/// JAX logs: compiles, cache misses, the persistent cache.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JaxLog {}

/// Reads it.
#[derive(Debug, Default)]
pub(super) struct Reader {}

impl LineReader for Reader {
    fn triggers(&self) -> &'static [&'static str] {
        &[]
    }

    fn line(&mut self, _line: Line<'_>) -> More {
        More::Triggers
    }

    fn finish(self: Box<Self>, _logs: &mut Logs, _notes: &mut Notes) -> bool {
        false
    }
}
