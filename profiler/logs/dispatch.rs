//! Hands each line to the readers that may know it.

use std::path::Path;

use aho_corasick::AhoCorasick;

use crate::logs::text::{self, Line};
use crate::logs::{
    Encoding, LogFile, Logs, compiler_messages, indivisible, jax, launch, out_of_memory,
    partitioner, progress, torch_tpu, torch_trace, xla_metrics,
};
use crate::note::Notes;

/// What a reader wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// The next line, whatever stands in it: something goes on.
    NextLine,
    /// Only lines with a trigger.
    Triggers,
}

/// Reads one kind of text, line by line.
pub trait LineReader {
    /// Words, in their case, one of which stands in every line that begins something for this
    /// reader. No word may be empty.
    fn triggers(&self) -> &'static [&'static str];
    /// Reads a line: one with a trigger, or the one after a line that asked for it.
    fn line(&mut self, line: Line<'_>) -> More;
    /// Adds what was read to the reader's own field, and says whether that is anything. Called
    /// once for each file.
    fn finish(self: Box<Self>, logs: &mut Logs, notes: &mut Notes) -> bool;
}

/// A reader of each kind.
fn readers() -> Vec<Box<dyn LineReader>> {
    vec![
        Box::new(torch_trace::Reader::default()),
        Box::new(torch_tpu::Reader::default()),
        Box::new(xla_metrics::Reader::default()),
        Box::new(jax::Reader::default()),
        Box::new(progress::Reader::default()),
        Box::new(out_of_memory::Reader::default()),
        Box::new(indivisible::Reader::default()),
        Box::new(partitioner::Reader::default()),
        Box::new(compiler_messages::Reader::default()),
        Box::new(launch::Reader::default()),
    ]
}

/// Reads a text file into `logs`, and says whether any reader found anything.
pub fn read(path: &Path, bytes: &[u8], logs: &mut Logs, notes: &mut Notes) -> bool {
    let file = u32::try_from(logs.files.len()).unwrap_or(u32::MAX);
    let mut readers = readers();
    let mut owners = Vec::new();
    let mut patterns = Vec::new();
    for (reader, each) in readers.iter().enumerate() {
        for trigger in each.triggers() {
            patterns.push(*trigger);
            owners.push(reader);
        }
    }
    let Ok(automaton) = AhoCorasick::new(&patterns) else {
        // The triggers are constants, and a test builds their automaton.
        return false;
    };
    let mut wanted = vec![false; readers.len()];
    let mut goes_on = vec![More::Triggers; readers.len()];
    let (encoding, lines) = text::for_each_line(bytes, file, |line| {
        for (wanted, more) in wanted.iter_mut().zip(&goes_on) {
            *wanted = *more == More::NextLine;
        }
        for found in automaton.find_overlapping_iter(line.text) {
            if let Some(wanted) = owners
                .get(found.pattern().as_usize())
                .and_then(|owner| wanted.get_mut(*owner))
            {
                *wanted = true;
            }
        }
        for ((reader, wanted), more) in readers.iter_mut().zip(&wanted).zip(&mut goes_on) {
            if *wanted {
                *more = reader.line(line);
            }
        }
    });
    if encoding == Encoding::Unknown {
        notes.info(
            "unknown-encoding",
            format!(
                "{} is not UTF-8: characters that are not were replaced; figures are not affected",
                path.display()
            ),
        );
    }
    let mut found = false;
    for reader in readers {
        found |= reader.finish(logs, notes);
    }
    if found {
        logs.files.push(LogFile {
            path: path.to_owned(),
            encoding,
            lines,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{AhoCorasick, readers};

    #[test]
    fn triggers_make_an_automaton() {
        let readers = readers();
        let triggers: Vec<&str> = readers
            .iter()
            .flat_map(|reader| reader.triggers().iter().copied())
            .collect();
        assert!(triggers.iter().all(|trigger| trigger.len() >= 3));
        assert!(AhoCorasick::new(&triggers).is_ok());
    }
}
