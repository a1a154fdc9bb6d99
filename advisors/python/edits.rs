//! Edits of a text: all of a fix or none of it, and the result still parses.

use std::collections::BTreeMap;

use crate::finding::{Applicability, Edit, Finding, Fix};
use crate::python::file::{SourceFile, SourceNote};

/// The new text of a file, and what went into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The new text.
    pub text: String,
    /// Fixes that were applied.
    pub applied: usize,
    /// Fixes that overlap an applied one: run again for those.
    pub postponed: usize,
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The result is no Python.
    #[error(
        "the fixes of {0} would not parse, so the file is left as it is: this is a bug of tpu-tune"
    )]
    Broken(String, #[source] SourceNote),
}

/// The fixes of one file, of findings in the order of their places.
#[must_use]
pub fn fixes_by_file(findings: &[Finding], at_most: Applicability) -> BTreeMap<&str, Vec<&Fix>> {
    let mut by_file: BTreeMap<&str, Vec<&Fix>> = BTreeMap::new();
    for finding in findings {
        let Some(fix) = &finding.fix else { continue };
        if fix.applicability > at_most || fix.applicability == Applicability::DisplayOnly {
            continue;
        }
        let Some(first) = fix.edits.first() else {
            continue;
        };
        if fix.edits.iter().all(|edit| edit.file == first.file) {
            by_file.entry(&first.file).or_default().push(fix);
        }
    }
    for fixes in by_file.values_mut() {
        fixes.sort_by_key(|fix| fix.edits.iter().map(|edit| (edit.start, edit.end)).min());
    }
    by_file
}

/// Applies fixes to a text. Equal edits of several fixes (an import that two of them remove) are
/// one; a fix that overlaps an earlier one otherwise waits for the next run.
///
/// # Errors
/// When the result does not parse.
pub fn apply(path: &str, text: &str, fixes: &[&Fix]) -> Result<Edited, EditError> {
    let mut taken: Vec<&Edit> = Vec::new();
    let (mut applied, mut postponed) = (0, 0);
    for fix in fixes {
        let fits = fix.edits.iter().all(|edit| {
            text.get(edit.start..edit.end).is_some()
                && taken
                    .iter()
                    .all(|other| *other == edit || !overlap(other, edit))
        });
        if !fits {
            postponed += 1;
            continue;
        }
        applied += 1;
        for edit in &fix.edits {
            if !taken.contains(&edit) {
                taken.push(edit);
            }
        }
    }
    taken.sort_by_key(|edit| (edit.start, edit.end));
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for edit in taken {
        out.push_str(text.get(from..edit.start).unwrap_or_default());
        out.push_str(&edit.replacement);
        from = edit.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    match SourceFile::parse(path, out.clone().into_bytes()) {
        Ok(_) => Ok(Edited {
            text: out,
            applied,
            postponed,
        }),
        Err(note) => Err(EditError::Broken(path.to_owned(), note)),
    }
}

/// Whether two edits touch the same bytes, or insert at the same place.
fn overlap(a: &Edit, b: &Edit) -> bool {
    (a.start < b.end && b.start < a.end)
        || (a.start == b.start && (a.start == a.end || b.start == b.end))
}
