//! Numbers beside their names: `seconds: 17.182`, `'loss': 2.1`, `tps: 8,123`.

/// The text after a name that begins a word and is followed by `:`, `=` or white space.
#[must_use]
pub fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut from = 0;
    while let Some(found) = text.get(from..).and_then(|rest| rest.find(name)) {
        let at = from + found;
        from = at + name.len();
        let begins = text
            .get(..at)
            .and_then(|before| before.chars().next_back())
            .is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '/' && c != '.');
        let Some(rest) = text.get(from..) else {
            return None;
        };
        let rest = rest.trim_start_matches(['\'', '"', ')']);
        let value = rest.trim_start_matches([' ', ':', '=', '\'', '"']);
        if begins && value.len() < rest.len() {
            return Some(value);
        }
    }
    None
}

/// The number at the start of a text and what follows it; thousands may be parted by commas.
/// `nan` and `inf` are numbers here.
#[must_use]
pub fn leading(text: &str) -> Option<(f64, &str)> {
    let end = text
        .char_indices()
        .find(|(at, c)| !is_part(text, *at, *c))
        .map_or(text.len(), |(at, _)| at);
    let digits = text.get(..end)?;
    if digits.is_empty() {
        let word = text
            .split(|c: char| !c.is_ascii_alphabetic())
            .next()
            .unwrap_or_default();
        let value = match word.to_ascii_lowercase().as_str() {
            "nan" => f64::NAN,
            "inf" | "infinity" => f64::INFINITY,
            _ => return None,
        };
        return Some((value, text.get(word.len()..)?));
    }
    let rest = text.get(end..)?;
    let value = digits.trim_end_matches('.').replace(',', "").parse();
    value.ok().map(|value| (value, rest))
}

/// Whether a character goes on with a number: a comma only between digits, three of which follow.
fn is_part(text: &str, at: usize, c: char) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    match c {
        '0'..='9' | '.' => true,
        '-' | '+' => at == 0 || matches!(bytes.get(at - 1), Some(b'e' | b'E')),
        'e' | 'E' => {
            let signed = matches!(bytes.get(at + 1), Some(b'-' | b'+')) && digit(at + 2);
            at > 0 && (digit(at + 1) || signed)
        }
        ',' => at > 0 && digit(at - 1) && (1..=3).all(|next| digit(at + next)) && !digit(at + 4),
        _ => false,
    }
}

/// The number beside a name.
#[must_use]
pub fn named(text: &str, name: &str) -> Option<f64> {
    leading(after(text, name)?).map(|(value, _)| value)
}

/// The first of several names that has a number, if it is finite and not negative.
#[must_use]
pub fn first_of(text: &str, names: &[&str]) -> Option<f64> {
    let mut found = names.iter().filter_map(|name| named(text, name));
    found.find(|value| value.is_finite() && *value >= 0.0)
}
