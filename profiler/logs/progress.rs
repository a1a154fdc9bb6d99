//! Step lines of trainers and servers: step time, TFLOP/s, MFU, tokens/s.

use crate::logs::{Line, LineReader, Logs, More};
use crate::note::Notes;

/// Step lines of trainers and servers: step time, TFLOP/s, MFU, tokens/s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgressLog {}

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
