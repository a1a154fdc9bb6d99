//! A position in JSON text, moved value by value.
//!
//! Trace files are cut off, hold events that are not valid JSON, and are too long to be one
//! value in memory. So the outer structure is walked here and `serde_json` reads what is small:
//! one event, one header field.

use serde::Deserialize;

/// Reads JSON values from a place in a file on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Where the next byte is read; never beyond the end.
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self {
            bytes,
            at: at.min(bytes.len()),
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is not white space, which becomes the current place.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.at = skip_space(self.bytes, self.at);
        self.bytes.get(self.at).copied()
    }

    /// Steps over `byte` if it is the next one.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Reads one value and steps over it; stays where it was when that fails.
    pub(super) fn value<T: Deserialize<'a>>(&mut self) -> Result<T, serde_json::Error> {
        let mut values = serde_json::Deserializer::from_slice(self.rest()).into_iter::<T>();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(error)) => Err(error),
            // The end of the text where a value was expected: let serde_json word it.
            None => serde_json::from_slice(b""),
        }
    }
}

/// Whether an error arose because the text that was read ended, and not from what it holds.
///
/// `serde_json` says so itself but for values that end at any byte, as `1.` of `1.5`.
pub(super) fn is_at_end(error: &serde_json::Error, text: &[u8]) -> bool {
    if error.is_eof() {
        return true;
    }
    let newlines = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let line_start = match error.line() {
        0 | 1 => 0,
        line => newlines
            .map(|(at, _)| at + 1)
            .nth(line - 2)
            .unwrap_or(text.len()),
    };
    line_start.saturating_add(error.column()) >= text.len()
}

/// Keys with which writers of traces begin an event.
const FIRST_KEYS: [&[u8]; 9] = [
    b"ph", b"name", b"pid", b"tid", b"ts", b"dur", b"cat", b"id", b"args",
];

/// Where the next event begins, at or after `from`: the `{` of `},{"ph":`, whatever the spacing.
///
/// Valid JSON cannot hold this inside a string (the quote would end it), but it can inside an
/// array within an event, so callers check that the event before ends where it should.
pub(super) fn next_event(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == b'}')? + 1;
        if let Some(event) = event_after(bytes, at) {
            return Some(event);
        }
    }
}

/// The `{` of an event that follows the comma at `at`.
fn event_after(bytes: &[u8], at: usize) -> Option<usize> {
    let comma = skip_space(bytes, at);
    let brace = skip_space(bytes, comma + 1);
    let quote = skip_space(bytes, brace + 1);
    let byte = |i: usize| bytes.get(i).copied();
    if byte(comma) != Some(b',') || byte(brace) != Some(b'{') || byte(quote) != Some(b'"') {
        return None;
    }
    let key = bytes.get(quote + 1..)?;
    FIRST_KEYS
        .iter()
        .any(|known| key.starts_with(known) && key.get(known.len()) == Some(&b'"'))
        .then_some(brace)
}

fn skip_space(bytes: &[u8], at: usize) -> usize {
    let space = |byte: &&u8| matches!(**byte, b' ' | b'\n' | b'\r' | b'\t');
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(space).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_one_after_the_other() {
        let mut cursor = Cursor::new(br#" 12 , "a" ]"#, 0);
        assert_eq!(cursor.value::<u32>().ok(), Some(12));
        assert!(cursor.eat(b','));
        assert_eq!(cursor.value::<String>().ok().as_deref(), Some("a"));
        assert!(cursor.value::<String>().is_err(), "a bracket is no value");
        assert!(cursor.eat(b']'));
        assert!(cursor.value::<u32>().is_err_and(|error| error.is_eof()));
    }

    #[test]
    fn errors_at_the_end_are_told_from_others() {
        let error = |text: &str| {
            let error = Cursor::new(text.as_bytes(), 0)
                .value::<Vec<f64>>()
                .expect_err("an error");
            is_at_end(&error, text.as_bytes())
        };
        assert!(error("[1.") && error("[1,\n2.5,\n3e") && error("[1,"));
        assert!(!error("[1.x]") && !error("[1,\n2,\n3.]\n") && !error("[1}\n,2]"));
    }

    #[test]
    fn the_next_event_is_found_with_any_spacing() {
        for text in [r#"x},{"ph":"X"}"#, "x}\n ,\n {\n \"name\" : 1}"] {
            let at = next_event(text.as_bytes(), 0).expect("there is one");
            assert!(text[at..].starts_with('{'), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_an_event_is_passed_over() {
        let inside_a_string = r#"},{ \"ph\": }"#;
        let other_key = r#"},{"phase":1}"#;
        for text in [inside_a_string, other_key, "},{}", "}", ""] {
            assert_eq!(next_event(text.as_bytes(), 0), None, "{text}");
        }
    }
}
