//! Stack frames: which source lines an instruction came from.

use crate::program::scan::Scan;

/// The tables that `stack_frame_id` points into. Ids start at 1; 0 means none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFrames {
    /// File names.
    pub files: Vec<String>,
    /// Function names.
    pub functions: Vec<String>,
    /// Places in files.
    pub locations: Vec<FileLocation>,
    /// Frames: a place and who called it.
    pub frames: Vec<StackFrame>,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileLocation {
    /// Entry in the file names.
    pub file: u32,
    /// Entry in the function names.
    pub function: u32,
    /// Line, from 1.
    pub line: u32,
}

/// One frame of a call stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackFrame {
    /// Entry in the locations.
    pub location: u32,
    /// The caller's frame; 0 for none.
    pub parent: u32,
}

/// A source line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLine<'a> {
    /// The file as the program names it.
    pub file: &'a str,
    /// Line, from 1; 0 where it is not known.
    pub line: u32,
    /// The function, empty where it is not known.
    pub function: &'a str,
}

/// Stacks are cut off here, which also ends a cycle in a broken table.
const MAX_DEPTH: usize = 64;

fn entry<T>(table: &[T], id: u32) -> Option<&T> {
    table.get((id as usize).checked_sub(1)?)
}

impl StackFrames {
    /// The stack of a frame, the innermost call first.
    #[must_use]
    pub fn resolve(&self, frame_id: u32) -> Vec<SourceLine<'_>> {
        let mut lines = Vec::new();
        let mut next = entry(&self.frames, frame_id);
        // Frames may name each other in a circle, and places that do not exist.
        for _ in 0..MAX_DEPTH {
            let Some(frame) = next else { break };
            if let Some(place) = entry(&self.locations, frame.location) {
                lines.push(SourceLine {
                    file: entry(&self.files, place.file).map_or("", String::as_str),
                    line: place.line,
                    function: entry(&self.functions, place.function).map_or("", String::as_str),
                });
            }
            next = entry(&self.frames, frame.parent);
        }
        lines
    }
}

/// Which of the four tables of HLO text a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Files,
    Functions,
    Locations,
    Frames,
}

impl Table {
    pub(super) fn from_heading(line: &str) -> Option<Self> {
        Some(match line {
            "FileNames" => Self::Files,
            "FunctionNames" => Self::Functions,
            "FileLocations" => Self::Locations,
            "StackFrames" => Self::Frames,
            _ => return None,
        })
    }
}

/// Collects the tables from text, line by line.
#[derive(Default)]
pub(super) struct TableReader {
    tables: StackFrames,
}

impl TableReader {
    /// Takes one line of a table; false if it is none.
    pub(super) fn line(&mut self, table: Table, line: &str) -> bool {
        let mut scan = Scan::new(line);
        let Some(id) = scan.uint() else { return false };
        scan.skip_space();
        // Ids count up from 1 in every table, so the position is the id.
        match table {
            Table::Files | Table::Functions => {
                let Some(name) = scan.quoted() else {
                    return false;
                };
                let names = match table {
                    Table::Files => &mut self.tables.files,
                    _ => &mut self.tables.functions,
                };
                names.push(name.to_owned());
                names.len() as u64 == id
            }
            Table::Locations => {
                let field = |key| number_after(scan.rest(), key);
                self.tables.locations.push(FileLocation {
                    file: field("file_name_id="),
                    function: field("function_name_id="),
                    line: field(" line="),
                });
                self.tables.locations.len() as u64 == id
            }
            Table::Frames => {
                let field = |key| number_after(scan.rest(), key);
                self.tables.frames.push(StackFrame {
                    location: field("file_location_id="),
                    parent: field("parent_frame_id="),
                });
                self.tables.frames.len() as u64 == id
            }
        }
    }

    pub(super) fn finish(mut self) -> StackFrames {
        // XLA's printer writes the parent's id plus one, so that a root points at itself or
        // later. Callers stand before callees, which tells the two forms apart.
        let shifted = self
            .tables
            .frames
            .iter()
            .zip(1u32..)
            .any(|(frame, id)| frame.parent >= id);
        if shifted {
            for frame in &mut self.tables.frames {
                frame.parent = frame.parent.saturating_sub(1);
            }
        }
        self.tables
    }
}

fn number_after(text: &str, key: &str) -> u32 {
    text.find(key)
        .and_then(|at| Scan::new(text.get(at + key.len()..)?).uint())
        .and_then(|value| u32::try_from(value).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(frames: [&str; 3]) -> StackFrames {
        let mut reader = TableReader::default();
        assert!(reader.line(Table::Files, "1 \"a.py\""));
        assert!(reader.line(Table::Functions, "1 \"f\""));
        for line in [
            "1 {file_name_id=1 function_name_id=1 line=7 end_line=70 column=0}",
            "2 {file_name_id=1 function_name_id=1 line=8 column=0}",
        ] {
            assert!(reader.line(Table::Locations, line));
        }
        for line in frames {
            assert!(reader.line(Table::Frames, line));
        }
        reader.finish()
    }

    #[test]
    fn a_circle_of_frames_without_places_ends() {
        let frames = StackFrames {
            frames: vec![StackFrame {
                location: 9,
                parent: 1,
            }],
            ..StackFrames::default()
        };
        assert!(frames.resolve(1).is_empty());
    }

    fn lines(frames: &StackFrames, id: u32) -> Vec<u32> {
        frames
            .resolve(id)
            .into_iter()
            .map(|line| line.line)
            .collect()
    }

    #[test]
    fn parents_are_read_whether_printed_plus_one_or_not() {
        let shifted = read([
            "1 {file_location_id=1 parent_frame_id=1}",
            "2 {file_location_id=2 parent_frame_id=2}",
            "3 {file_location_id=2 parent_frame_id=2}",
        ]);
        let plain = read([
            "1 {file_location_id=1}",
            "2 {file_location_id=2 parent_frame_id=1}",
            "3 {file_location_id=2 parent_frame_id=1}",
        ]);
        for frames in [&shifted, &plain] {
            assert_eq!(lines(frames, 3), [8, 7]);
            assert_eq!(lines(frames, 1), [7]);
            assert_eq!(lines(frames, 0), [0u32; 0]);
        }
        assert_eq!(shifted.resolve(1)[0].file, "a.py");
    }

    #[test]
    fn a_cycle_ends() {
        let mut frames = read(["1 {file_location_id=1}", "2 {}", "3 {}"]);
        frames.frames[0].parent = 1;
        assert_eq!(frames.resolve(1).len(), MAX_DEPTH);
        frames.frames[0] = StackFrame {
            location: 9,
            parent: 0,
        };
        assert_eq!(frames.resolve(1), []);
    }
}
