//! Walking through MLIR text: balanced brackets, strings, lists. Never panics, never recurses.

use std::ops::Range;

/// The end of what begins with an opening bracket at `start`: just behind its closing one. Strings
/// are skipped, and the `>` of `->` closes nothing.
pub(super) fn balanced(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at)?,
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b'>' if at > 0 && bytes.get(at - 1) == Some(&b'-') => {}
            // `<=` in `devices=[4]<=[4]` stands in strings only.
            b')' | b']' | b'}' | b'>' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The closing quote of a string that opens at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at),
            _ => at += 1,
        }
    }
}

/// The items of a list with commas at the top level, as ranges of `text`, trimmed, none empty.
pub(super) fn items(text: &str, within: Range<usize>) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut from = within.start;
    let mut at = within.start;
    while at < within.end {
        match bytes.get(at) {
            Some(b'"') => match end_of_string(bytes, at) {
                Some(end) => at = end,
                None => break,
            },
            Some(b'(' | b'[' | b'{' | b'<') => depth += 1,
            Some(b'>') if at > 0 && bytes.get(at - 1) == Some(&b'-') => {}
            Some(b')' | b']' | b'}' | b'>') => depth = depth.saturating_sub(1),
            Some(b',') if depth == 0 => {
                found.push(trimmed(text, from..at));
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    found.push(trimmed(text, from..within.end));
    found.retain(|range| !range.is_empty());
    found
}

/// The range without white space at its ends.
pub(super) fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let inside = text.get(range.clone()).unwrap_or_default();
    let start = range.start + (inside.len() - inside.trim_start().len());
    start..(start + inside.trim().len())
}

/// The numbers of the list that follows `name`, as in `dims = [0, 2]`.
pub(super) fn numbers_after(text: &str, name: &str) -> Option<Vec<usize>> {
    let at = text.find(name)? + name.len();
    list(text.get(at..)?)
}

/// The numbers of a list in brackets that the text begins with, after spaces and an `=`.
pub(super) fn list(text: &str) -> Option<Vec<usize>> {
    let rest = text.trim_start_matches([' ', '=']).strip_prefix('[')?;
    let (inside, _) = rest.split_once(']')?;
    inside
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| item.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_balance_across_strings_and_arrows() {
        let text = r#"(tensor<4xf32>, {a = "}\""}) -> x"#;
        assert_eq!(balanced(text, 0), text.find(" -> "));
        let text = "((a) -> b) c";
        assert_eq!(balanced(text, 0), Some(10));
        assert_eq!(balanced("((a)", 0), None);
        assert_eq!(balanced("(\"", 0), None);
    }

    #[test]
    fn lists_split_at_the_top_level_only() {
        let text = "a: tensor<4xf32, #e<1, 2>>, b {c = [1, 2]} ,";
        let found: Vec<&str> = items(text, 0..text.len())
            .into_iter()
            .map(|range| &text[range])
            .collect();
        assert_eq!(found, ["a: tensor<4xf32, #e<1, 2>>", "b {c = [1, 2]}"]);
    }

    #[test]
    fn number_lists_are_read_after_their_name() {
        assert_eq!(
            numbers_after("x, dims = [0, 2] : t", "dims"),
            Some(vec![0, 2])
        );
        assert_eq!(numbers_after("dims = []", "dims"), Some(vec![]));
        assert_eq!(numbers_after("dims = [a]", "dims"), None);
    }
}
