//! HLO text: whole modules as compilers dump them, and single instructions as traces carry them.
//!
//! Tolerant: a line that cannot be read is a note with its number, never the end of the module.

use thiserror::Error;

use crate::note::Notes;
use crate::program::attributes::{aliases, apply};
use crate::program::frames::{Table, TableReader};
use crate::program::instruction::{Instruction, Operand};
use crate::program::opcode::Opcode;
use crate::program::scan::{Scan, is_name_byte, items, open_brackets};
use crate::program::shape_text::{ShapeError, shape};
use crate::program::{ComputationParts, Program, ProgramParts};

/// Why a line is no HLO instruction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HloTextError {
    /// Something else stands where a part of the instruction should.
    #[error(
        "expected {expected} at byte {offset} of an HLO instruction such as `%a = f32[8] negate(%b)`"
    )]
    Expected {
        /// The part.
        expected: &'static str,
        /// Where, in bytes from the start of the text.
        offset: usize,
    },
    /// The result's type cannot be read.
    #[error("the result's type cannot be read: {0}")]
    Shape(#[from] ShapeError),
    /// The operands' bracket is not closed.
    #[error("the operands of the instruction are not closed: the text is cut off")]
    Unclosed,
}

/// Bad lines that get a note of their own; the rest are counted in one.
const MAX_BAD_LINES: u64 = 20;
/// What [`looks_like_hlo_text`] looks at.
const SNIFFED: usize = 64 << 10;

/// Reads one instruction, as a trace's `long_name` or a line of a module holds it.
///
/// # Errors
/// When the text does not start with a name, a type, an opcode and closed operands. What follows
/// them is read as far as it can be.
pub fn parse_instruction(text: &str) -> Result<Instruction, HloTextError> {
    parse_line(text).map(|(instruction, _)| instruction)
}

/// An instruction and whether the text ends within one of its attributes.
fn parse_line(text: &str) -> Result<(Instruction, bool), HloTextError> {
    let mut scan = Scan::new(text);
    scan.skip_space();
    let is_root = scan.eat("ROOT ");
    scan.skip_space();
    let name = scan.name();
    let expected = |scan: &Scan<'_>, expected| HloTextError::Expected {
        expected,
        offset: scan.offset(),
    };
    if name.is_empty() {
        return Err(expected(&scan, "a name"));
    }
    if !scan.eat_after_space("=") {
        return Err(expected(&scan, "`=`"));
    }
    let start = scan.offset();
    let result = shape(&mut scan).map_err(|e| ShapeError {
        offset: e.offset.max(start),
        ..e
    })?;
    scan.skip_space();
    let opcode = scan.take_while(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if opcode.is_empty() || scan.peek() != Some(b'(') {
        return Err(expected(&scan, "an opcode and `(`"));
    }
    let content = scan.bracketed(b'(').ok_or(HloTextError::Unclosed)?;
    let mut instruction = Instruction::new(name, Opcode::new(opcode), result);
    instruction.is_root = is_root;
    match opcode {
        // Only scalars are ever looked at; `{...}` was left out by the printer.
        "constant" => {
            let is_scalar = instruction
                .shape
                .as_array()
                .is_some_and(|a| a.elements() == 1);
            let literal = content.trim_matches(['{', '}', ' ']);
            if is_scalar && literal != "..." {
                instruction.attributes.literal = literal.to_owned();
            }
        }
        "parameter" => {
            instruction.attributes.parameter_number = content.trim().parse().ok();
        }
        _ => instruction.operands = items(content).filter_map(operand).collect(),
    }
    while scan.eat_after_space(",") {
        scan.skip_space();
        let key = scan.take_while(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if key.is_empty() {
            break;
        }
        if scan.eat("=") {
            let value = scan.value();
            apply(&mut instruction, key, value);
        }
    }
    Ok((instruction, scan.cut_off()))
}

/// `%name`, `f32[8]{0} %name` or `name`; none for what is left out, as `...`.
fn operand(text: &str) -> Option<Operand> {
    let mut scan = Scan::new(text);
    let typed = (scan.peek() != Some(b'%')).then(|| {
        let mut ahead = scan.clone();
        shape(&mut ahead).ok().map(|shape| (shape, ahead))
    });
    let shape = typed.flatten().map(|(shape, ahead)| {
        scan = ahead;
        shape
    });
    scan.skip_space();
    let name = scan.name();
    let is_name = name.bytes().any(|b| b.is_ascii_alphanumeric() || b >= 128);
    (is_name || shape.is_some()).then(|| Operand {
        name: name.to_owned(),
        shape,
        op: None,
    })
}

/// Whether the bytes start as HLO text does: a module header, a computation, or an instruction.
#[must_use]
pub fn looks_like_hlo_text(bytes: &[u8]) -> bool {
    let head = bytes.get(..SNIFFED).unwrap_or(bytes);
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The cut may have split a character; anything earlier means that this is no text.
        Err(error) if error.valid_up_to() + 4 > head.len() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    let mut lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with('#'));
    let Some(first) = lines.next() else {
        return false;
    };
    if first.starts_with("HloModule ") {
        return true;
    }
    let is_body = |line: &str| parse_instruction(line).is_ok_and(|op| op.opcode.is_known());
    // Other languages have `name {` too, so a computation must hold an instruction. The first
    // lines of a fragment may be cut off.
    if computation_header(first).is_some() {
        return lines.next().is_some_and(is_body);
    }
    is_body(first) || lines.take(9).any(is_body)
}

/// Reads a module, or the part of one that the text holds.
///
/// Text in which nothing is HLO gives an empty program and the warning `not-hlo`.
#[must_use]
pub fn parse_module(text: &str) -> (Program, Notes) {
    let mut reader = ModuleReader::default();
    let mut lines = Lines {
        text,
        at: 0,
        number: 0,
    };
    while let Some(line) = lines.next() {
        reader.line(line, &mut lines);
    }
    reader.finish()
}

/// The lines of a text with their byte ranges, so that a constant may take several.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    number: u64,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let end = rest.find('\n').unwrap_or(rest.len());
        self.at += (end + 1).min(rest.len());
        self.number += 1;
        rest.get(..end)
    }

    /// The given line, which leaves brackets open, and those after it that close them: large
    /// constants and the metadata of kernels take several lines.
    fn joined(&mut self, line: &'a str) -> &'a str {
        let start = self.at.saturating_sub(line.len() + 1);
        let mut depth = open_brackets(line);
        while depth > 0 {
            let (at, number) = (self.at, self.number);
            let Some(next) = self.next() else { break };
            if starts_anew(next) {
                (self.at, self.number) = (at, number);
                break;
            }
            depth += open_brackets(next);
        }
        self.text.get(start..self.at).unwrap_or(line)
    }
}

/// Whether a line is an instruction or a computation, so that an unclosed one before it was cut
/// off.
fn starts_anew(line: &str) -> bool {
    let mut scan = Scan::new(line.trim_start());
    scan.eat("ROOT ");
    line.starts_with("ENTRY ") || (!scan.name().is_empty() && scan.eat_after_space("= "))
}

#[derive(Default)]
struct ModuleReader {
    parts: ProgramParts,
    open: Option<ComputationParts>,
    /// Instructions outside any computation: the text is a fragment.
    loose: Vec<Instruction>,
    table: Option<Table>,
    tables: TableReader,
    seen_header: bool,
    seen_hlo: bool,
    bad_lines: u64,
    notes: Notes,
}

impl ModuleReader {
    fn line<'a>(&mut self, line: &'a str, lines: &mut Lines<'a>) {
        let trimmed = line.trim_start_matches('\u{feff}').trim();
        if trimmed.is_empty() || trimmed.starts_with("//") || trimmed.starts_with('#') {
            self.table = None;
            return;
        }
        if let Some(heading) = Table::from_heading(trimmed) {
            self.table = Some(heading);
        } else if let Some(table) = self
            .table
            .filter(|_| trimmed.starts_with(|c: char| c.is_ascii_digit()))
        {
            if !self.tables.line(table, trimmed) {
                self.bad(lines.number, "it is no entry of a source table");
            }
        } else if trimmed.starts_with("HloModule ") {
            self.header(trimmed);
        } else if trimmed.starts_with('}') {
            self.close(trimmed);
        } else if let Some((name, is_entry)) = computation_header(trimmed) {
            if self.open.is_some() {
                self.close("}");
            }
            self.seen_hlo = true;
            let name = name.to_owned();
            self.open = Some(ComputationParts {
                name,
                is_entry,
                ..ComputationParts::default()
            });
        } else {
            self.instruction(line, trimmed, lines);
        }
    }

    fn instruction<'a>(&mut self, line: &'a str, trimmed: &'a str, lines: &mut Lines<'a>) {
        let number = lines.number;
        let mut parsed = parse_line(trimmed);
        if matches!(parsed, Err(HloTextError::Unclosed) | Ok((_, true))) {
            parsed = parse_line(lines.joined(line));
        }
        match parsed {
            Ok((instruction, _)) => {
                self.seen_hlo = true;
                match &mut self.open {
                    Some(computation) => computation.instructions.push(instruction),
                    None => self.loose.push(instruction),
                }
            }
            Err(error) => self.bad(number, &error.to_string()),
        }
    }

    fn bad(&mut self, number: u64, why: &str) {
        self.bad_lines += 1;
        if self.bad_lines <= MAX_BAD_LINES {
            self.notes.warn(
                "bad-hlo-line",
                format!("line {number} of the HLO text is left out: {why}"),
            );
        }
    }

    /// `HloModule jit_f, is_scheduled=true, num_partitions=8, input_output_alias={ … }`
    fn header(&mut self, line: &str) {
        if self.seen_header {
            self.notes.warn(
                "several-hlo-modules",
                "the text holds more than one HLO module: they are read as one, split the file to tell them apart",
            );
            return;
        }
        self.seen_header = true;
        self.seen_hlo = true;
        let mut scan = Scan::new(line);
        scan.eat("HloModule");
        scan.skip_space();
        scan.name().clone_into(&mut self.parts.name);
        while scan.eat_after_space(",") {
            scan.skip_space();
            let key = scan.take_while(is_name_byte);
            if !scan.eat("=") {
                break;
            }
            let value = scan.value();
            match key {
                "is_scheduled" => self.parts.is_scheduled = value == "true",
                "num_partitions" => self.parts.num_partitions = value.parse().ok(),
                "replica_count" => self.parts.replica_count = value.parse().ok(),
                "input_output_alias" => self.parts.parameter_aliases = aliases(value),
                _ => {}
            }
        }
    }

    /// `}` or `}, execution_thread="sparsecore"`
    fn close(&mut self, line: &str) {
        if let Some(mut computation) = self.open.take() {
            if let Some((_, thread)) = line.split_once("execution_thread=") {
                let thread = Scan::new(thread).quoted().unwrap_or_default();
                thread.clone_into(&mut computation.execution_thread);
            }
            self.parts.computations.push(computation);
        }
    }

    fn finish(mut self) -> (Program, Notes) {
        if self.open.is_some() {
            self.notes.warn(
                "hlo-cut-off",
                "the HLO text ends within a computation: what follows is missing",
            );
            self.close("}");
        }
        if !self.loose.is_empty() {
            self.notes.info(
                "hlo-fragment",
                "instructions stand outside any computation: the text is part of a module, so operands may be missing",
            );
            self.parts.computations.push(ComputationParts {
                name: "fragment".to_owned(),
                instructions: self.loose,
                ..ComputationParts::default()
            });
        }
        if !self.seen_hlo {
            let mut notes = Notes::default();
            notes.warn(
                "not-hlo",
                "this text is no HLO: no `HloModule` header, no computation and no instruction was found",
            );
            return (Program::default(), notes);
        }
        if self.bad_lines > MAX_BAD_LINES {
            self.notes.add(
                crate::note::NoteLevel::Warning,
                "bad-hlo-line",
                "further lines of the HLO text are left out".to_owned(),
                self.bad_lines - MAX_BAD_LINES,
            );
        }
        self.parts.frames = self.tables.finish();
        (Program::assemble(self.parts), self.notes)
    }
}

/// The name of `%name (params) -> type {`, `ENTRY name {` and whether it is the entry.
fn computation_header(line: &str) -> Option<(&str, bool)> {
    line.strip_suffix('{')?;
    let mut scan = Scan::new(line);
    let is_entry = scan.eat("ENTRY ");
    scan.skip_space();
    let name = scan.name();
    scan.skip_space();
    let rest = scan.rest();
    let named = !name.is_empty() && (rest == "{" || (rest.starts_with('(') && rest.contains("->")));
    named.then_some((name, is_entry))
}

#[cfg(test)]
#[path = "hlo_text_tests.rs"]
mod tests;
