//! Warnings of the SPMD partitioner: full rematerialisation, from which sharding to which.
//!
//! Two wordings are known, both from XLA's `spmd_partitioner.cc`, under GSPMD and Shardy alike:
//! `was not able to go from sharding A to B without doing a full rematerialization of the tensor
//! [for HLO operation: …]`, and since 2025 `cannot go from sharding A to B efficiently for HLO
//! operation …`.

mod sharding;

pub use sharding::{Kind as ShardingKind, Sharding};

use crate::logs::out_of_memory::shapes_in;
use crate::logs::{At, Line, LineReader, Logs, More};
use crate::note::Notes;
use crate::program::shape::Array;

/// A change of sharding for which the partitioner replicated the whole tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct FullRematerialization {
    /// Where it stands first.
    pub at: At,
    /// Where it stands again; the first ones.
    pub again: Vec<At>,
    /// How often it stands in the texts.
    pub count: u64,
    /// The line.
    pub text: String,
    /// The sharding that the tensor has.
    pub from: Sharding,
    /// The sharding that its users ask for.
    pub to: Sharding,
    /// The HLO instruction, as `%reshape.1`; empty in the oldest wording.
    pub instruction: String,
    /// Its opcode.
    pub opcode: String,
    /// Its array as printed: the partitioner prints one device's part of it where it has
    /// partitioned the instruction already.
    pub shape: Option<Array>,
    /// The framework's op, as `jit(step)/reshape`.
    pub op_name: String,
    /// `file:line` of the user's code, where it is printed.
    pub source: String,
}

/// What the partitioner warned of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionerLog {
    /// Full rematerialisations, each once, in the order of the texts.
    pub rematerializations: Vec<FullRematerialization>,
    /// Those that were left out because there are too many different ones.
    pub left_out: u64,
}

/// Different warnings that are kept.
const MAX_WARNINGS: usize = 512;
/// Repetitions of a warning whose places are kept.
const MAX_AGAIN: usize = 8;
/// Lines over which a warning may be broken.
const MAX_LINES: u32 = 4;
/// Bytes of a warning that are looked at.
const MAX_BYTES: usize = 8 << 10;
/// Characters of a line that are kept to be shown.
const MAX_SHOWN: usize = 400;

/// Reads warnings.
#[derive(Debug, Default)]
pub(super) struct Reader {
    found: Vec<FullRematerialization>,
    left_out: u64,
    pending: Option<(At, String, u32)>,
}

impl LineReader for Reader {
    fn triggers(&self) -> &'static [&'static str] {
        &["Involuntary full rematerialization"]
    }

    fn line(&mut self, line: Line<'_>) -> More {
        let begins = line.text.contains("Involuntary full rematerialization");
        let (at, text, lines) = match self.pending.take() {
            Some((at, text, lines)) if !begins => {
                (at, format!("{text} {}", line.text.trim()), lines + 1)
            }
            _ if begins => (line.at, line.text.to_owned(), 1),
            _ => return More::Triggers,
        };
        match parse(at, &text) {
            Some(warning) => {
                self.add(warning);
                More::Triggers
            }
            None if lines < MAX_LINES && text.len() < MAX_BYTES => {
                self.pending = Some((at, text, lines));
                More::NextLine
            }
            None => More::Triggers,
        }
    }

    fn finish(self: Box<Self>, logs: &mut Logs, _notes: &mut Notes) -> bool {
        let found = !self.found.is_empty();
        let log = &mut logs.partitioner;
        log.left_out += self.left_out;
        for warning in self.found {
            add(&mut log.rematerializations, &mut log.left_out, warning);
        }
        found
    }
}

impl Reader {
    fn add(&mut self, warning: FullRematerialization) {
        add(&mut self.found, &mut self.left_out, warning);
    }
}

fn add(list: &mut Vec<FullRematerialization>, left_out: &mut u64, warning: FullRematerialization) {
    let same = |known: &&mut FullRematerialization| {
        known.from == warning.from
            && known.to == warning.to
            && known.op_name == warning.op_name
            && known.opcode == warning.opcode
            && known.shape == warning.shape
            // Hosts of one run print the same name, layers of one model different ones.
            && (!known.op_name.is_empty() || known.instruction == warning.instruction)
    };
    if let Some(known) = list.iter_mut().find(same) {
        known.count += warning.count;
        for at in [warning.at].into_iter().chain(warning.again) {
            if known.again.len() < MAX_AGAIN {
                known.again.push(at);
            }
        }
    } else if list.len() < MAX_WARNINGS {
        list.push(warning);
    } else {
        *left_out += warning.count;
    }
}

fn parse(at: At, text: &str) -> Option<FullRematerialization> {
    let (_, rest) = text.split_once("go from sharding ")?;
    let (from, rest) = braces(rest)?;
    let rest = rest.trim_start().strip_prefix("to ")?;
    let (to, rest) = braces(rest)?;
    let operation = rest
        .split_once("for HLO operation")
        .map(|(_, operation)| operation.trim_start_matches([':', ' ']))
        .unwrap_or_default();
    // The advice that ends the sentence names no instruction.
    let operation = operation
        .split(". As the last resort")
        .next()
        .unwrap_or_default();
    let (instruction, definition) = operation.split_once(" = ").unwrap_or((operation, ""));
    let instruction: String = instruction
        .chars()
        .take_while(|c| !c.is_whitespace() && *c != ',')
        .take(MAX_SHOWN)
        .collect();
    let shape = shapes_in(definition).into_iter().next();
    Some(FullRematerialization {
        at,
        again: Vec::new(),
        count: 1,
        text: text.trim().chars().take(MAX_SHOWN).collect(),
        from: Sharding::parse(from),
        to: Sharding::parse(to),
        opcode: opcode(definition),
        shape,
        op_name: quoted(definition, "op_name=\"").unwrap_or_default(),
        source: source(definition),
        instruction,
    })
}

/// The first `{…}` of a text, nested ones included, and what follows it.
fn braces(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    if !text.starts_with('{') {
        return None;
    }
    let mut depth = 0u32;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return Some((text.get(..=at)?, text.get(at + 1..)?));
        }
    }
    None
}

/// `bf16[4,8]{1,0} reshape(%copy.1), …`: the word before the operands.
fn opcode(definition: &str) -> String {
    let Some(at) = definition.match_indices('(').map(|(at, _)| at).find(|at| {
        // Tiles and tuple shapes open brackets too, but not after a name of small letters.
        definition
            .get(..*at)
            .is_some_and(|before| before.ends_with(|c: char| c.is_ascii_lowercase() || c == '-'))
    }) else {
        return String::new();
    };
    let before = definition.get(..at).unwrap_or_default();
    before.rsplit(' ').next().unwrap_or_default().to_owned()
}

fn quoted(text: &str, before: &str) -> Option<String> {
    let (_, rest) = text.split_once(before)?;
    let end = rest.find('"')?;
    Some(rest.get(..end)?.chars().take(MAX_SHOWN).collect())
}

fn source(definition: &str) -> String {
    let Some(file) = quoted(definition, "source_file=\"") else {
        return String::new();
    };
    let line: String = definition
        .split_once("source_line=")
        .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect())
        .unwrap_or_default();
    if line.is_empty() {
        file
    } else {
        format!("{file}:{line}")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::logs::{Logs, read};
    use crate::note::Notes;

    fn logs(text: &str) -> Logs {
        let mut logs = Logs::default();
        read(
            Path::new("run.log"),
            text.as_bytes(),
            &mut logs,
            &mut Notes::default(),
        );
        logs
    }

    #[test]
    fn real_warnings_of_both_partitioners() {
        for text in [
            include_str!("../../tests/fixtures/logs/memory/spmd_gspmd_jax_0_12.txt"),
            include_str!("../../tests/fixtures/logs/memory/spmd_shardy_jax_0_12.txt"),
        ] {
            let logs = logs(text);
            let [warning] = logs.partitioner.rematerializations.as_slice() else {
                panic!("{:?}", logs.partitioner);
            };
            assert_eq!(warning.from.to_string(), "axis 0 over 8 devices");
            assert_eq!(
                warning.to.to_string(),
                "axis 1 over 4 devices and axis 2 over 2 devices"
            );
            assert_eq!(warning.opcode, "reshape");
            assert_eq!(warning.op_name, "jit(g)/reshape");
            let shape = warning.shape.as_ref().expect("a shape");
            assert_eq!(shape.dims, [4, 4, 8, 64]);
        }
    }

    #[test]
    fn the_old_wording_names_no_instruction_and_repeats_are_counted() {
        let line = "E0101 spmd_partitioner.cc:1] [spmd] Involuntary full rematerialization. The compiler was not able to go from sharding {devices=[4,1]<=[4]} to {devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate} without doing a full rematerialization of the tensor. You probably want\n";
        let logs = logs(&line.repeat(3));
        let [warning] = logs.partitioner.rematerializations.as_slice() else {
            panic!("{:?}", logs.partitioner);
        };
        assert_eq!((warning.count, warning.again.len()), (3, 2));
        assert_eq!(warning.instruction, "");
        assert_eq!(warning.to.to_string(), "axis 1 over 2 devices, 2 copies");
    }

    #[test]
    fn a_sentence_that_breaks_off_is_left_out() {
        let found = logs(
            "Involuntary full rematerialization. The compiler cannot go from sharding {devices=[4",
        );
        assert_eq!(found.partitioner.rematerializations.len(), 0);
    }
}
