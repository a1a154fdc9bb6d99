//! Notes: what a reader met that a person should know, counted instead of repeated.
//!
//! Readers return `(T, Notes)` rather than reject a whole profile for one bad plane. `--strict`
//! makes warnings fatal.

use std::collections::BTreeMap;

use serde::Serialize;

/// How much a note should worry the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteLevel {
    /// Part of the evidence could not be read or is missing: figures may be incomplete.
    Warning,
    /// Something worth knowing that changes no figure.
    Info,
}

/// One thing a reader noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// A stable key, as `missing-hlo`.
    pub code: &'static str,
    /// How much it matters.
    pub level: NoteLevel,
    /// What was found and what it means, one sentence.
    pub message: String,
    /// How often it was met.
    pub count: u64,
}

/// Notes by code and message, in a stable order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    notes: BTreeMap<(NoteLevel, &'static str, String), u64>,
}

impl Notes {
    /// Adds one occurrence of a warning.
    pub fn warn(&mut self, code: &'static str, message: impl Into<String>) {
        self.add(NoteLevel::Warning, code, message.into(), 1);
    }

    /// Adds one occurrence of an information.
    pub fn info(&mut self, code: &'static str, message: impl Into<String>) {
        self.add(NoteLevel::Info, code, message.into(), 1);
    }

    /// Adds `count` occurrences.
    pub fn add(&mut self, level: NoteLevel, code: &'static str, message: String, count: u64) {
        if count > 0 {
            *self.notes.entry((level, code, message)).or_default() += count;
        }
    }

    /// Takes over all of `other`.
    pub fn merge(&mut self, other: Self) {
        for ((level, code, message), count) in other.notes {
            self.add(level, code, message, count);
        }
    }

    /// All notes, warnings first, then by code and message.
    pub fn iter(&self) -> impl Iterator<Item = Note> + '_ {
        self.notes
            .iter()
            .map(|((level, code, message), count)| Note {
                code,
                level: *level,
                message: message.clone(),
                count: *count,
            })
    }

    /// Whether there is a warning.
    #[must_use]
    pub fn has_warnings(&self) -> bool {
        self.iter().any(|note| note.level == NoteLevel::Warning)
    }

    /// Whether there is nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }
}
