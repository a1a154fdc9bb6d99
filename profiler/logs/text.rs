//! Text as it is stored: encodings, lines, terminal escapes.

use std::borrow::Cow;

use crate::logs::At;

/// How characters are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, with or without a byte order mark.
    Utf8,
    /// UTF-16, as PowerShell's redirection writes it.
    Utf16,
    /// Neither: bytes that are no UTF-8 were replaced by U+FFFD.
    Unknown,
}

impl Encoding {
    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16 => "UTF-16",
            Self::Unknown => "an unknown encoding",
        }
    }
}

/// A line without its end, terminal escapes taken out.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Where it stands.
    pub at: At,
    /// Its text; a line that a progress bar rewrote is several lines with one number.
    pub text: &'a str,
}

/// Bytes that are looked at to tell text from binary.
const LOOK_AT_BYTES: usize = 64 << 10;

/// Whether bytes look like text: no control characters but those of terminals, or UTF-16 with its
/// byte order mark.
#[must_use]
pub fn looks_like_text(bytes: &[u8]) -> bool {
    if utf16_order(bytes).is_some() {
        return true;
    }
    let head = &bytes[..bytes.len().min(LOOK_AT_BYTES)];
    let control = |byte: &u8| *byte < 0x20 && !b"\t\n\r\x07\x08\x0c\x1b".contains(byte);
    !head.is_empty() && !head.iter().any(control)
}

#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

fn utf16_order(bytes: &[u8]) -> Option<Order> {
    match bytes {
        [0xff, 0xfe, ..] => Some(Order::Little),
        [0xfe, 0xff, ..] => Some(Order::Big),
        _ => None,
    }
}

/// Calls `each` with every line; returns the encoding and the number of lines.
pub(super) fn for_each_line(
    bytes: &[u8],
    file: u32,
    mut each: impl FnMut(Line<'_>),
) -> (Encoding, u64) {
    let decoded;
    let (bytes, mut encoding) = match utf16_order(bytes) {
        Some(order) => {
            decoded = decode_utf16(bytes.get(2..).unwrap_or_default(), order);
            (decoded.as_bytes(), Encoding::Utf16)
        }
        None => (
            bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes),
            Encoding::Utf8,
        ),
    };
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.is_empty() {
        return (encoding, 0);
    }
    let mut number = 0;
    let mut from = 0;
    let ends = memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]);
    for end in ends {
        let raw = &bytes[from..end];
        from = end + 1;
        number += 1;
        let text = match std::str::from_utf8(raw) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => {
                encoding = Encoding::Unknown;
                String::from_utf8_lossy(raw)
            }
        };
        let at = At { file, line: number };
        let text = text.trim_end_matches('\r');
        for part in text.split('\r') {
            let text = without_escapes(part);
            each(Line { at, text: &text });
        }
    }
    (encoding, number)
}

fn decode_utf16(bytes: &[u8], order: Order) -> String {
    let units = bytes.chunks_exact(2).map(|pair| {
        let pair = [pair[0], pair[1]];
        match order {
            Order::Little => u16::from_le_bytes(pair),
            Order::Big => u16::from_be_bytes(pair),
        }
    });
    let decoded = char::decode_utf16(units);
    decoded
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// Takes out terminal escapes (`ESC [ … letter`), as colours in captured logs.
fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(sequence) = rest.strip_prefix('[') {
            let end = sequence.find(|c: char| ('@'..='~').contains(&c));
            rest = end.map_or("", |end| &sequence[end + 1..]);
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::{Encoding, for_each_line, looks_like_text};

    fn lines(bytes: &[u8]) -> (Vec<(u64, String)>, Encoding, u64) {
        let mut lines = Vec::new();
        let (encoding, count) = for_each_line(bytes, 0, |line| {
            lines.push((line.at.line, line.text.to_owned()))
        });
        (lines, encoding, count)
    }

    #[test]
    fn ends_of_lines_escapes_and_progress_bars() {
        let (lines, encoding, count) = lines(b"\x1b[32mone\x1b[0m\r\n10%\r20%\nthree");
        let expected = [(1, "one"), (2, "10%"), (2, "20%"), (3, "three")];
        assert_eq!(lines, expected.map(|(at, text)| (at, text.to_owned())));
        assert_eq!((encoding, count), (Encoding::Utf8, 3));
    }

    #[test]
    fn encodings() {
        let utf16: Vec<u8> = [0xfeff_u16]
            .into_iter()
            .chain("a\u{e9}\nb".encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect();
        let (found, encoding, _) = lines(&utf16);
        assert_eq!(found[0].1, "a\u{e9}");
        assert_eq!(encoding, Encoding::Utf16);
        assert_eq!(lines(b"caf\xe9").1, Encoding::Unknown);
        assert!(looks_like_text(&utf16) && looks_like_text(b"\x1b[1mx\n"));
        assert!(!looks_like_text(b"\n\x05hello\x12") && !looks_like_text(b""));
    }
}
