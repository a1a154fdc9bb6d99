//! MLIR text cut into tokens that know where they stand: an edit is a replacement of bytes.

use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `%x`, `%1#0`: a value, with the number of its result.
    Value,
    /// `@main`: a symbol.
    Symbol,
    /// `^bb0`: the label of a block.
    Label,
    /// `#loc1`, `#stablehlo.gather`: an alias or the name of an attribute.
    Alias,
    /// `tensor<2x3xf32>`, whole.
    Tensor,
    /// A keyword, an operation's name, another type.
    Word,
    /// An integer or a float, with its sign.
    Number,
    /// A quoted string, with its quotes.
    Text,
    /// `->`
    Arrow,
    /// Any other byte: brackets, commas, colons.
    Mark(u8),
}

/// A token and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
    /// Whether a line began between the token before and this one.
    pub first_of_line: bool,
}

impl Token {
    /// Its bytes.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

/// Cuts `text` into tokens. Never fails: bytes that mean nothing become marks.
#[must_use]
pub fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len() / 4);
    let mut at = 0;
    let mut first_of_line = true;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\n' => {
                first_of_line = true;
                at += 1;
                continue;
            }
            b' ' | b'\t' | b'\r' => {
                at += 1;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = find(bytes, at, |b| b == b'\n');
                continue;
            }
            // Data of constants that are stored apart: not part of the program's text.
            b'{' if bytes[at..].starts_with(b"{-#") => {
                at = text[at..].find("#-}").map_or(bytes.len(), |i| at + i + 3);
                continue;
            }
            _ => {}
        }
        let (kind, end) = token(bytes, at);
        out.push(Token {
            kind,
            start: at,
            end,
            first_of_line,
        });
        first_of_line = false;
        at = end;
    }
    out
}

fn token(bytes: &[u8], at: usize) -> (Kind, usize) {
    let next = bytes.get(at + 1).copied();
    match bytes[at] {
        b'%' => (
            Kind::Value,
            find(bytes, at + 1, |b| !is_name(b) && b != b'#'),
        ),
        b'@' if next == Some(b'"') => (Kind::Symbol, quoted(bytes, at + 1)),
        b'@' => (Kind::Symbol, find(bytes, at + 1, |b| !is_name(b))),
        b'^' => (Kind::Label, find(bytes, at + 1, |b| !is_name(b))),
        b'#' => (Kind::Alias, find(bytes, at + 1, |b| !is_name(b))),
        b'!' => (Kind::Word, find(bytes, at + 1, |b| !is_name(b))),
        b'"' => (Kind::Text, quoted(bytes, at)),
        b'-' if next == Some(b'>') => (Kind::Arrow, at + 2),
        b'-' if next.is_some_and(|b| b.is_ascii_digit()) => (Kind::Number, number(bytes, at + 1)),
        b if b.is_ascii_digit() => (Kind::Number, number(bytes, at)),
        b if b.is_ascii_alphabetic() || b == b'_' => {
            let end = find(bytes, at, |b| !is_name(b));
            if &bytes[at..end] == b"tensor" && bytes.get(end) == Some(&b'<') {
                (Kind::Tensor, closed(bytes, end))
            } else {
                (Kind::Word, end)
            }
        }
        // A multi-byte character is one token, so that no range splits it.
        b if b >= 0x80 => (
            Kind::Mark(b),
            find(bytes, at + 1, |b| !(0x80..0xC0).contains(&b)),
        ),
        b => (Kind::Mark(b), at + 1),
    }
}

fn find(bytes: &[u8], from: usize, stop: impl Fn(u8) -> bool) -> usize {
    bytes[from.min(bytes.len())..]
        .iter()
        .position(|&b| stop(b))
        .map_or(bytes.len(), |i| from + i)
}

/// The byte after the quote that closes the one at `at`.
fn quoted(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(&byte) = bytes.get(end) {
        match byte {
            b'\\' => end += 2,
            b'"' => return end + 1,
            _ => end += 1,
        }
    }
    bytes.len()
}

/// The byte after the `>` that closes the `<` at `at`.
fn closed(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    for (i, &byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b'<' => depth += 1,
            b'>' if bytes.get(i.wrapping_sub(1)) != Some(&b'-') => {
                depth -= 1;
                if depth == 0 {
                    return i + 1;
                }
            }
            // A type stands on one line: an unclosed one ends with it.
            b'\n' => return i,
            _ => {}
        }
    }
    bytes.len()
}

fn number(bytes: &[u8], at: usize) -> usize {
    if bytes[at..].starts_with(b"0x") {
        return find(bytes, at + 2, |b| !b.is_ascii_hexdigit());
    }
    let mut end = find(bytes, at, |b| !b.is_ascii_digit());
    if bytes.get(end) == Some(&b'.') {
        end = find(bytes, end + 1, |b| !b.is_ascii_digit());
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            end = find(bytes, end + 1 + sign, |b| !b.is_ascii_digit());
        }
    }
    end
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(Kind, &str)> {
        tokens(text)
            .into_iter()
            .map(|t| (t.kind, &text[t.range()]))
            .collect()
    }

    #[test]
    fn an_operation_is_values_words_and_types() {
        let found = texts("%1:2 = chlo.top_k(%a#1, k = 2) : tensor<2xf32> -> (tensor<2xf32>)");
        assert_eq!(found[0], (Kind::Value, "%1"));
        assert_eq!(found[4], (Kind::Word, "chlo.top_k"));
        assert_eq!(found[6], (Kind::Value, "%a#1"));
        assert!(found.contains(&(Kind::Tensor, "tensor<2xf32>")));
        assert!(found.contains(&(Kind::Arrow, "->")));
    }

    #[test]
    fn numbers_keep_sign_exponent_and_hexadecimal_digits() {
        for text in ["-1.000000e+30", "0xFF80", "12", "9.99e-7"] {
            assert_eq!(texts(text), [(Kind::Number, text)]);
        }
    }

    #[test]
    fn a_type_with_an_encoding_is_one_token() {
        let text = "tensor<?x4xf32, #stablehlo.bounds<5, ?>>";
        assert_eq!(texts(text), [(Kind::Tensor, text)]);
    }

    #[test]
    fn unclosed_text_ends_with_the_file() {
        assert_eq!(texts("\"abc\\"), [(Kind::Text, "\"abc\\")]);
        assert_eq!(texts("tensor<4xf"), [(Kind::Tensor, "tensor<4xf")]);
    }
}
