//! Out-of-memory reports of HBM, VMEM and scoped VMEM.

use crate::logs::{Line, LineReader, Logs, More};
use crate::note::Notes;

/// Out-of-memory reports of HBM, VMEM and scoped VMEM.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryReports {}

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
