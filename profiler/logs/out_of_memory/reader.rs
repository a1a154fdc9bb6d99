//! Reports line by line.

use crate::logs::out_of_memory::table::{self, Head, Section};
use crate::logs::out_of_memory::{Cause, OutOfMemory, message};
use crate::logs::{Line, LineReader, Logs, More};
use crate::note::Notes;

/// Lines over which a sentence may be broken.
const MAX_MESSAGE_LINES: u32 = 6;
/// Bytes of a sentence that are looked at: a line may hold a whole program.
const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// Characters of a line that are kept to be shown.
const MAX_SHOWN: usize = 240;
/// Lines between a report and a table that still belongs to it.
const MAX_GAP: u64 = 40;

/// Reads reports.
#[derive(Debug, Default)]
pub(in crate::logs) struct Reader {
    done: Vec<OutOfMemory>,
    open: Option<OutOfMemory>,
    /// A sentence whose figures have not all been met.
    message: Option<Pending>,
    section: Section,
    /// The last line that belonged to a report.
    last: u64,
    /// A program whose loading failed, and the line that says so.
    loading: Option<(u64, String)>,
}

#[derive(Debug)]
struct Pending {
    text: String,
    lines: u32,
}

impl LineReader for Reader {
    fn triggers(&self) -> &'static [&'static str] {
        const TRIGGERS: [&str; 17] = [
            message::HEADLINES[0],
            message::HEADLINES[1],
            message::HEADLINES[2],
            message::HEADLINES[3],
            message::HEADLINES[4],
            message::HEADLINES[5],
            "Error loading program",
            table::TRIGGERS[0],
            table::TRIGGERS[1],
            table::TRIGGERS[2],
            table::TRIGGERS[3],
            table::TRIGGERS[4],
            table::TRIGGERS[5],
            table::TRIGGERS[6],
            table::TRIGGERS[7],
            table::TRIGGERS[8],
            table::TRIGGERS[9],
        ];
        &TRIGGERS
    }

    fn line(&mut self, line: Line<'_>) -> More {
        if let Some(start) = message::headline(line.text)
            && self.begins_message(line.text)
        {
            self.begin(line, start);
        } else if let Some(pending) = self.message.take() {
            self.go_on(pending, line);
        } else if let Some((_, rest)) = line.text.split_once("Error loading program '") {
            // The sentence follows on the next line.
            let name = rest.split('\'').next().unwrap_or_default();
            let name = name.chars().take(MAX_SHOWN).collect();
            self.loading = Some((line.at.line, name));
        } else {
            self.table(line);
        }
        if self.message.is_some() || self.section != Section::None {
            More::NextLine
        } else {
            More::Triggers
        }
    }

    fn finish(mut self: Box<Self>, logs: &mut Logs, _notes: &mut Notes) -> bool {
        self.close();
        let found = !self.done.is_empty();
        for report in self.done {
            logs.out_of_memory.add(report);
        }
        found
    }
}

impl Reader {
    /// Whether a line with the words of a headline begins another sentence, and does not go on
    /// with the one that is being read (`Ran out of memory …` then `Scoped allocation …`).
    fn begins_message(&self, text: &str) -> bool {
        self.message.is_none() || !text.contains("Scoped allocation with size")
    }

    fn begin(&mut self, line: Line<'_>, start: usize) {
        self.close();
        self.open = Some(OutOfMemory {
            at: line.at,
            count: 1,
            text: line.text.trim().chars().take(MAX_SHOWN).collect(),
            ..OutOfMemory::default()
        });
        self.last = line.at.line;
        // `Error loading program 'x': Attempting to …` names the program before the sentence.
        let loading = line.text.find("Error loading program '");
        let start = loading.map_or(start, |at| at.min(start));
        let text = clip(line.text.get(start..).unwrap_or_default());
        self.advance(text.to_owned(), 1);
    }

    fn go_on(&mut self, pending: Pending, line: Line<'_>) {
        self.last = line.at.line;
        let mut text = pending.text;
        if text.len() < MAX_MESSAGE_BYTES {
            text.push(' ');
            text.push_str(clip(line.text.trim()));
        }
        self.advance(text, pending.lines + 1);
    }

    fn advance(&mut self, text: String, lines: u32) {
        let Some(open) = &mut self.open else {
            return;
        };
        let Some(message) = message::parse(&text) else {
            // Broken off: nothing to go by.
            if lines < MAX_MESSAGE_LINES {
                self.message = Some(Pending { text, lines });
            }
            return;
        };
        open.space = message.space;
        open.cause = message.cause;
        open.program = message.program;
        if open.program.is_empty()
            && matches!(open.cause, Cause::Reserve { .. } | Cause::Allocate { .. })
            && let Some((line, name)) = self.loading.take()
            && open.at.line.saturating_sub(line) <= 2
        {
            open.program = name;
        }
    }

    fn table(&mut self, line: Line<'_>) {
        if self.section != Section::None {
            if line.text.trim().is_empty() {
                return;
            }
            if let Some(open) = &mut self.open
                && table::row(line.text, self.section, open)
            {
                self.last = line.at.line;
                return;
            }
            self.section = Section::None;
        }
        if let Some(head) = table::head(line.text) {
            match head {
                Head::Total(space, size) => {
                    let open = self.report(line, |open| {
                        open.total.is_none() && open.requirement.is_none()
                    });
                    open.space = space;
                    open.total = Some(size);
                    self.section = Section::Totals;
                }
                Head::Requirement(space, size) => {
                    let open = self.report(line, |open| open.requirement.is_none());
                    open.space = space;
                    open.requirement = Some(size);
                    self.section = Section::Requirement;
                }
                Head::Largest(space) => {
                    let open = self.report(line, |open| open.allocations.is_empty());
                    open.space = space;
                }
            }
            return;
        }
        // Allocations without anything above them are an excerpt of a table.
        let mut list = match &mut self.open {
            Some(open) if line.at.line.saturating_sub(self.last) <= MAX_GAP => {
                std::mem::take(&mut open.allocations)
            }
            _ => Vec::new(),
        };
        let fresh = list.is_empty();
        if table::allocation(line.text, line.at, &mut list) {
            self.report(line, |_| true).allocations = list;
        } else if !fresh && let Some(open) = &mut self.open {
            open.allocations = list;
        }
    }

    /// The report that a part of a table belongs to: the open one where it is near and `fits`.
    fn report(&mut self, line: Line<'_>, fits: impl Fn(&OutOfMemory) -> bool) -> &mut OutOfMemory {
        let near = line.at.line.saturating_sub(self.last) <= MAX_GAP;
        if !self.open.as_ref().is_some_and(|open| near && fits(open)) {
            self.close();
        }
        self.last = line.at.line;
        self.open.get_or_insert_with(|| OutOfMemory {
            at: line.at,
            count: 1,
            text: line.text.trim().chars().take(MAX_SHOWN).collect(),
            ..OutOfMemory::default()
        })
    }

    /// Puts the open report away.
    fn close(&mut self) {
        /// Reports of one file that are kept until its end.
        const MAX_DONE: usize = 4096;
        self.section = Section::None;
        self.message = None;
        if let Some(report) = self.open.take()
            && (report.cause != Cause::TableOnly || report.has_table())
            && self.done.len() < MAX_DONE
        {
            self.done.push(report);
        }
    }
}

fn clip(text: &str) -> &str {
    let end = text.len().min(MAX_MESSAGE_BYTES);
    let end = (0..=end).rev().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}
