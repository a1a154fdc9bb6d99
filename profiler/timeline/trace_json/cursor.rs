//! A position in JSON text, moved value by value.
//!
//! Traces are long, cut off in the middle, and hold events that are not quite JSON. So this reads
//! without building values, tells text that ended from text that is wrong, and steps over what is
//! not wanted. After each value it looks for the comma or bracket that must follow, because that
//! is how a string that ended early shows.

use std::borrow::Cow;

/// Why a value could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// The text ended before the value did.
    Cut,
    /// What stands there is not JSON, or nested more than [`MAX_DEPTH`] deep.
    Malformed,
}

/// Nesting of values that are stepped over. Writers of traces stay below ten.
const MAX_DEPTH: u32 = 63;

/// Reads JSON values from a place in a text on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    /// Where the next byte is read; never beyond the end.
    pub(super) at: usize,
}

/// A value that is not an object or a list, as it stands in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scalar<'a> {
    /// What stands between the quotes, or the number or word itself.
    pub(super) raw: &'a [u8],
    /// Whether it is a string.
    pub(super) is_string: bool,
    has_escapes: bool,
}

impl<'a> Scalar<'a> {
    /// The text of a string or number, whatever may be wrong with its characters.
    pub(super) fn text(self) -> Cow<'a, str> {
        if self.has_escapes
            && let Some(text) = unescape(self.raw)
        {
            return Cow::Owned(text);
        }
        String::from_utf8_lossy(self.raw)
    }
}

fn unescape(raw: &[u8]) -> Option<String> {
    let quoted = [b"\"", raw, b"\""].concat();
    serde_json::from_slice(&quoted).ok()
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8], at: usize) -> Self {
        let at = at.min(text.len());
        Self { text, at }
    }

    /// The next byte that is not white space, which becomes the current place.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        let byte = self.text.get(self.at).copied()?;
        if byte > b' ' {
            return Some(byte);
        }
        self.at = skip_space(self.text, self.at);
        self.text.get(self.at).copied()
    }

    /// Steps over `byte` if it is the next one.
    #[inline]
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), Damage> {
        match self.peek() {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(Damage::Malformed),
            None => Err(Damage::Cut),
        }
    }

    /// Reads an object: calls `field` with each key, at its value, which `field` must step over.
    #[inline]
    pub(super) fn object<F>(&mut self, mut field: F) -> Result<(), Damage>
    where
        F: FnMut(&mut Self, &'a [u8]) -> Result<(), Damage>,
    {
        self.expect(b'{')?;
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            let key = self.key()?;
            field(self, key)?;
            if self.eat(b',') {
                continue;
            }
            return self.expect(b'}');
        }
    }

    /// Reads a key and its colon.
    #[inline]
    pub(super) fn key(&mut self) -> Result<&'a [u8], Damage> {
        self.expect(b'"')?;
        let (key, _) = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    /// Reads a string, number or word; an object or a list is stepped over and reads as nothing.
    #[inline]
    pub(super) fn scalar(&mut self) -> Result<Scalar<'a>, Damage> {
        match self.peek().ok_or(Damage::Cut)? {
            b'"' => {
                self.at += 1;
                let (raw, has_escapes) = self.string()?;
                Ok(Scalar {
                    raw,
                    is_string: true,
                    has_escapes,
                })
            }
            b'{' | b'[' => self.skip().map(|()| Scalar::default()),
            _ => {
                let raw = self.word()?;
                Ok(Scalar {
                    raw,
                    ..Scalar::default()
                })
            }
        }
    }

    /// Steps over a value of any kind.
    pub(super) fn skip(&mut self) -> Result<(), Damage> {
        // One bit for each open bracket, 1 for an object, above it a bit that marks the bottom.
        let mut open = 1_u64;
        loop {
            match self.peek().ok_or(Damage::Cut)? {
                bracket @ (b'{' | b'[') => {
                    self.at += 1;
                    let is_object = bracket == b'{';
                    if !self.eat(if is_object { b'}' } else { b']' }) {
                        if open >> MAX_DEPTH != 0 {
                            return Err(Damage::Malformed);
                        }
                        open = open << 1 | u64::from(is_object);
                        if is_object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                b'"' => {
                    self.at += 1;
                    self.string()?;
                }
                _ => {
                    self.word()?;
                }
            }
            // A value has ended, and so may have those around it.
            loop {
                if open == 1 {
                    return Ok(());
                }
                let is_object = open & 1 == 1;
                if self.eat(b',') {
                    if is_object {
                        self.key()?;
                    }
                    break;
                }
                self.expect(if is_object { b'}' } else { b']' })?;
                open >>= 1;
            }
        }
    }

    /// Reads to the closing quote and steps over it: what stood before, and whether it has
    /// escapes.
    #[inline]
    fn string(&mut self) -> Result<(&'a [u8], bool), Damage> {
        let start = self.at;
        let mut has_escapes = false;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let Some(length) = plain_length(rest) else {
                self.at = self.text.len();
                return Err(Damage::Cut);
            };
            self.at += length;
            match rest.get(length) {
                Some(b'"') => {
                    let raw = self.text.get(start..self.at).unwrap_or_default();
                    self.at += 1;
                    return Ok((raw, has_escapes));
                }
                Some(b'\\') => {
                    has_escapes = true;
                    self.at = (self.at + 2).min(self.text.len());
                }
                _ => return Err(Damage::Malformed),
            }
        }
    }

    /// Reads a number, `true`, `false`, `null`, or what C++ prints for infinities.
    #[inline]
    fn word(&mut self) -> Result<&'a [u8], Damage> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let is_part =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
        let length = rest.iter().position(|byte| !is_part(byte));
        match length.ok_or(Damage::Cut)? {
            0 => Err(Damage::Malformed),
            length => {
                self.at += length;
                Ok(&rest[..length])
            }
        }
    }
}

/// How many bytes stand before the first quote, backslash or control character.
///
/// Eight bytes at a time: the high bit of a byte of the mask is set where the byte of the word is
/// one of these. Borrows spoil only bytes above the first hit, so the lowest is right.
#[inline]
fn plain_length(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    const QUOTES: u64 = u64::from_ne_bytes([b'"'; 8]);
    const BACKSLASHES: u64 = u64::from_ne_bytes([b'\\'; 8]);
    const SPACES: u64 = u64::from_ne_bytes([b' '; 8]);
    let is_zero = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    let (words, rest) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let is_control = word.wrapping_sub(SPACES) & !word & HIGH;
        let mask = is_zero(word ^ QUOTES) | is_zero(word ^ BACKSLASHES) | is_control;
        if mask != 0 {
            return Some(i * 8 + mask.trailing_zeros() as usize / 8);
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
    let length = rest.iter().position(is_special)?;
    Some(words.len() * 8 + length)
}

/// Keys with which writers of traces begin an event.
const FIRST_KEYS: [&[u8]; 9] = [
    b"ph", b"name", b"pid", b"tid", b"ts", b"dur", b"cat", b"id", b"args",
];

/// Where the next event begins, at or after `from`: the `{` of `},{"ph":`, whatever the spacing.
///
/// Valid JSON cannot hold this inside a string (the quote would end it), but it can inside an
/// array within an event, so callers check that the event before ends where it should.
pub(super) fn next_event(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += text.get(at..)?.iter().position(|byte| *byte == b'}')? + 1;
        if let Some(event) = event_after(text, at) {
            return Some(event);
        }
    }
}

/// The `{` of an event that follows the comma at `at`.
fn event_after(text: &[u8], at: usize) -> Option<usize> {
    let mut cursor = Cursor::new(text, at);
    if !cursor.eat(b',') || cursor.peek() != Some(b'{') {
        return None;
    }
    let event = cursor.at;
    cursor.at += 1;
    if cursor.peek() != Some(b'"') {
        return None;
    }
    let key = text.get(cursor.at + 1..)?;
    FIRST_KEYS
        .iter()
        .any(|known| key.starts_with(known) && key.get(known.len()) == Some(&b'"'))
        .then_some(event)
}

fn skip_space(text: &[u8], at: usize) -> usize {
    let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\n' | b'\r' | b'\t');
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(is_space).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn skip(text: &str) -> Result<usize, Damage> {
        let mut cursor = Cursor::new(text.as_bytes(), 0);
        cursor.skip().map(|()| cursor.at)
    }

    fn text(json: &str) -> Result<String, Damage> {
        let scalar = Cursor::new(json.as_bytes(), 0).scalar()?;
        Ok(scalar.text().into_owned())
    }

    #[test]
    fn scalars_are_read_as_text() {
        assert_eq!(text(r#" "a b" "#), Ok("a b".to_owned()));
        assert_eq!(
            text(r#""say \"hi\"\n\u00e4""#),
            Ok("say \"hi\"\nä".to_owned())
        );
        assert_eq!(text("-1.5e+3,"), Ok("-1.5e+3".to_owned()));
        assert_eq!(text(r#"{"a":[1]} "#), Ok(String::new()));
        // Half a surrogate pair is no character: it stays as it was written.
        assert_eq!(text(r#""\ud800""#), Ok(r"\ud800".to_owned()));
    }

    #[test]
    fn objects_hand_out_their_keys() {
        let mut cursor = Cursor::new(br#" { "a" : 1 , "b" : [ 2, {} ] } ,"#, 0);
        let mut keys = Vec::new();
        let read = cursor.object(|cursor, key| {
            keys.push(key.to_owned());
            cursor.skip()
        });
        assert_eq!((read, keys), (Ok(()), vec![b"a".to_vec(), b"b".to_vec()]));
        assert!(cursor.eat(b','));
    }

    #[test]
    fn text_that_ends_is_told_from_text_that_is_wrong() {
        let cut = [
            "",
            "1",
            "tru",
            "\"a",
            "\"a\\",
            "[",
            "[1,",
            "{",
            "{\"a",
            "{\"a\":",
            "{\"a\":{}",
        ];
        for text in cut {
            assert_eq!(skip(text), Err(Damage::Cut), "{text}");
        }
        let wrong = [
            "]",
            "[1}",
            "{1}",
            "{\"a\" 1}",
            "{\"a\":\"b\"c\"}",
            "\"a\nb\"",
            "[1 2]",
            "{,}",
        ];
        for text in wrong {
            assert_eq!(skip(text), Err(Damage::Malformed), "{text}");
        }
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(skip(&nested(60)), Ok(120));
        assert_eq!(skip(&nested(100_000)), Err(Damage::Malformed));
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

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                proptest::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_serde_json_writes_is_stepped_over_exactly(
            value in any_json(),
            is_pretty in any::<bool>(),
        ) {
            let json = if is_pretty { format!("{value:#}") } else { value.to_string() };
            prop_assert_eq!(skip(&format!("{json} ,")), Ok(json.len()));
        }

        #[test]
        fn strings_read_as_serde_json_wrote_them(string in any::<String>()) {
            let json = serde_json::Value::from(string.as_str()).to_string();
            prop_assert_eq!(text(&json), Ok(string));
        }

        #[test]
        fn strings_end_where_serde_json_ends_them(raw in "[a\"\\\\nu0-9 ,:{}]{0,20}") {
            let json = format!("\"{raw}\" ");
            if let Ok(string) = serde_json::from_str::<String>(&json) {
                prop_assert_eq!(skip(&json), Ok(json.len() - 1));
                prop_assert_eq!(text(&json), Ok(string));
            }
        }
    }
}
