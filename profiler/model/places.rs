//! Where the fields of a JSON text stand.

/// A field of a JSON text: its name, the objects around it, and where its value begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonField {
    /// Names of the objects that it stands in and its own, joined with dots.
    pub path: String,
    /// The byte at which its name's quote stands.
    pub start: usize,
    /// The byte after its value, where that is a number, word or text; else after its name.
    pub end: usize,
}

/// Fields that are listed at most.
const MAX_FIELDS: usize = 10_000;
/// Objects and lists within each other that are followed.
const MAX_DEPTH: usize = 64;

/// Lists the fields of objects, in their order. What is no JSON gives what was read up to there.
#[must_use]
pub fn fields(text: &str) -> Vec<JsonField> {
    let bytes = text.as_bytes();
    let mut found: Vec<JsonField> = Vec::new();
    // Names of the objects and lists that are open; none for those without a name.
    let mut open: Vec<Option<String>> = Vec::new();
    let mut name: Option<(String, usize)> = None;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => {
                if open.len() >= MAX_DEPTH {
                    return found;
                }
                open.push(name.take().map(|(name, _)| name));
                at += 1;
            }
            b'}' | b']' => {
                open.pop();
                name = None;
                at += 1;
            }
            b',' => {
                name = None;
                at += 1;
            }
            b'"' => {
                let start = at;
                at = string_end(bytes, at);
                let content = text
                    .get(start + 1..at.saturating_sub(1))
                    .unwrap_or_default();
                let after = skip_blank(bytes, at);
                if name.is_none() && bytes.get(after) == Some(&b':') {
                    let path: Vec<&str> = open
                        .iter()
                        .flatten()
                        .map(String::as_str)
                        .chain([content])
                        .collect();
                    if found.len() >= MAX_FIELDS {
                        return found;
                    }
                    let value = skip_blank(bytes, after + 1);
                    let end = match bytes.get(value) {
                        Some(b'{' | b'[') | None => at,
                        Some(b'"') => string_end(bytes, value),
                        Some(_) => word_end(bytes, value),
                    };
                    found.push(JsonField {
                        path: path.join("."),
                        start,
                        end,
                    });
                    name = Some((content.to_owned(), start));
                    at = after + 1;
                }
            }
            _ => at += 1,
        }
    }
    found
}

/// The byte after a string that begins at `at`.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn skip_blank(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

fn word_end(bytes: &[u8], mut at: usize) -> usize {
    while bytes
        .get(at)
        .is_some_and(|byte| !byte.is_ascii_whitespace() && !matches!(byte, b',' | b'}' | b']'))
    {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::fields;

    #[test]
    fn fields_are_found_where_they_stand() {
        let text =
            "{\n  \"a\": {\"size\": 12, \"list\": [1, {\"x\": 2}]},\n  \"size\" : \"\\\"12\"}";
        let found = fields(text);
        let paths: Vec<&str> = found.iter().map(|field| field.path.as_str()).collect();
        assert_eq!(paths, ["a", "a.size", "a.list", "a.list.x", "size"]);
        assert_eq!(&text[found[1].start..found[1].end], "\"size\": 12");
        assert_eq!(&text[found[4].start..found[4].end], "\"size\" : \"\\\"12\"");
    }

    #[test]
    fn no_json_ends_without_harm() {
        for text in [
            "",
            "{",
            "\"",
            "{\"a\"",
            "{\"a\":",
            "}}]]",
            "{\"\\",
            "\u{e9}{\"\u{e9}\":1",
        ] {
            let _ = fields(text);
        }
        assert!(fields(&"[".repeat(100_000)).is_empty());
        assert_eq!(fields("{\"\u{e9}\":1}").len(), 1);
    }
}
