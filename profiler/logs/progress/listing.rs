//! Listings of a profile's folder: an `xplane.pb` of no bytes says that the capture was too large.

use crate::logs::{At, Line};

/// Files that are kept.
const MAX_KEPT: usize = 256;

/// A profile without a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyProfile {
    /// Where.
    pub at: At,
    /// The file's name.
    pub name: String,
    /// The line.
    pub text: String,
}

/// Reads listings as `ls -l` and `gsutil ls -l` print them.
#[derive(Debug, Default)]
pub(super) struct ListingReader {
    pub(super) empty: Vec<EmptyProfile>,
}

impl ListingReader {
    /// Reads a line; whether it was a profile of no bytes.
    pub(super) fn line(&mut self, line: Line<'_>) -> bool {
        let text = line.text.trim_end();
        if !text.ends_with("xplane.pb") {
            return false;
        }
        let words: Vec<&str> = text.split_whitespace().take(16).collect();
        let is_ls = words.first().is_some_and(|mode| {
            mode.len() >= 10 && mode.starts_with(['-', 'l']) && mode.contains('r')
        });
        // mode links owner group size …, with owner and group where they are not left out.
        let size = if is_ls {
            words.get(2..6.min(words.len())).and_then(|words| {
                words
                    .iter()
                    .copied()
                    .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
            })
        } else {
            words.first().copied()
        };
        let empty = matches!(size, Some("0" | "0B" | "0K"));
        if empty && self.empty.len() < MAX_KEPT {
            let name: String = words
                .last()
                .copied()
                .unwrap_or_default()
                .chars()
                .take(300)
                .collect();
            let text = text.chars().take(300).collect();
            self.empty.push(EmptyProfile {
                at: line.at,
                name,
                text,
            });
        }
        empty
    }
}
