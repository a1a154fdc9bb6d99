//! A cursor over HLO text: white space, comments, numbers, balanced values.

/// Where it stands in a text. All methods stop at the end and never panic.
#[derive(Clone, Debug)]
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
    cut_off: bool,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            cut_off: false,
        }
    }

    /// Whether a value went to the end of the text with a bracket still open.
    pub(super) fn cut_off(&self) -> bool {
        self.cut_off
    }

    /// The byte offset of the next character.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Skips white space and `/*index=5*/` comments.
    pub(super) fn skip_space(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                Some(b'/') if self.rest().starts_with("/*") => match self.rest().find("*/") {
                    Some(end) => self.at += end + 2,
                    None => self.at = self.text.len(),
                },
                _ => return,
            }
        }
    }

    /// Takes `token` if the text goes on with it.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Skips space, then takes `token` if the text goes on with it.
    pub(super) fn eat_after_space(&mut self, token: &str) -> bool {
        self.skip_space();
        self.eat(token)
    }

    /// Takes bytes as long as `wanted` accepts them. Non-ASCII bytes are taken or left as whole
    /// characters because `wanted` must treat all bytes from 128 alike.
    pub(super) fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.bytes().position(|b| !wanted(b)).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }

    /// A decimal number, saturating.
    pub(super) fn uint(&mut self) -> Option<u64> {
        let digits = self.take_while(|b| b.is_ascii_digit());
        if digits.is_empty() {
            return None;
        }
        Some(digits.parse().unwrap_or(u64::MAX))
    }

    /// The name of an instruction or computation, without its `%`.
    pub(super) fn name(&mut self) -> &'a str {
        self.eat("%");
        self.take_while(is_name_byte)
    }

    /// A quoted string's content (still escaped), if the text goes on with `"`.
    pub(super) fn quoted(&mut self) -> Option<&'a str> {
        if self.peek() != Some(b'"') {
            return None;
        }
        let start = self.at + 1;
        let end = end_of_string(self.text.as_bytes(), start);
        self.at = (end + 1).min(self.text.len());
        self.text.get(start..end)
    }

    /// Everything up to `,` or an unmatched closing bracket at this level: strings and
    /// `()[]{}` nest, `<>` do not (`->`, `<=`).
    pub(super) fn value(&mut self) -> &'a str {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut depth = 0usize;
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b'"' => self.at = end_of_string(bytes, self.at + 1),
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' if depth == 0 => break,
                b')' | b']' | b'}' => depth -= 1,
                b',' if depth == 0 => break,
                _ => {}
            }
            self.at += 1;
        }
        self.cut_off |= depth > 0;
        self.at = self.at.min(self.text.len());
        self.text.get(start..self.at).unwrap_or_default().trim()
    }

    /// The content of a bracket that the text goes on with, without the brackets.
    /// None (and no move) where there is none or it is never closed.
    pub(super) fn bracketed(&mut self, open: u8) -> Option<&'a str> {
        if self.peek() != Some(open) {
            return None;
        }
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut depth = 0usize;
        let mut at = self.at;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => at = end_of_string(bytes, at + 1),
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at = at + 1;
                        return self.text.get(start..at);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

/// Bytes that a name is made of: `fusion.1`, `RPA-bq_32-bkvp_64-p_64-.2`, and anything not ASCII.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'_' | b'-' | b'.' | b'$' | b'@' | b':')
        || byte >= 128
}

/// The offset of the quote that ends a string whose content starts at `at`, or the end.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'"' => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// How many more brackets a line opens than it closes; strings end with the line.
pub(super) fn open_brackets(line: &str) -> i64 {
    let bytes = line.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at + 1),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    depth
}

/// The items of a comma-separated list, brackets and strings kept together.
pub(super) fn items(list: &str) -> impl Iterator<Item = &str> {
    let mut scan = Scan::new(list);
    std::iter::from_fn(move || {
        scan.skip_space();
        if scan.at_end() {
            return None;
        }
        let item = scan.value();
        // A stray closing bracket would stop `value` for ever: the list ends there.
        if !scan.eat(",") {
            scan.at = scan.text.len();
        }
        Some(item)
    })
}

/// The integers of `{1,2,3}` or `1,2,3`; stops at the first that is none.
pub(super) fn ints(list: &str) -> Vec<i64> {
    let list = list.trim().trim_start_matches('{').trim_end_matches('}');
    items(list)
        .map_while(|item| item.trim().parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_at_its_own_comma_only() {
        let mut scan = Scan::new(r#"{a={1,2}, s="x,)\"}"}, next"#);
        assert_eq!(scan.value(), r#"{a={1,2}, s="x,)\"}"}"#);
        assert!(scan.eat(", next"));
    }

    #[test]
    fn lists_split_at_their_own_level() {
        assert_eq!(
            items("{0,1},{2}, x").collect::<Vec<_>>(),
            ["{0,1}", "{2}", "x"]
        );
        assert_eq!(ints("{3, -4,/*c*/5}"), [3, -4, 5]);
        assert_eq!(items("a}b,c").collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn an_unclosed_bracket_is_none() {
        assert_eq!(Scan::new("(a, (b)").bracketed(b'('), None);
        assert_eq!(Scan::new("(a, (b))c").bracketed(b'('), Some("a, (b)"));
    }
}
