//! Text from a profile made safe for a terminal, and fitted to its width.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Width that text is wrapped to and tables are fitted to.
pub const WIDTH: usize = 80;

/// A name from a profile made safe for a terminal: characters that control it, hide or turn text
/// around become `?`.
#[must_use]
pub fn clean(text: &str) -> String {
    let is_unsafe = |c: char| {
        c.is_control()
            || matches!(c,
                '\u{ad}' | '\u{61c}' | '\u{feff}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{e0000}'..='\u{e007f}')
    };
    text.chars()
        .map(|c| if is_unsafe(c) { '?' } else { c })
        .collect()
}

/// At most `max` columns, the middle left out.
#[must_use]
pub fn shorten(text: &str, max: usize) -> String {
    if text.width() <= max {
        return text.to_owned();
    }
    let tail = max.saturating_sub(1) / 3;
    let head = max.saturating_sub(1 + tail);
    let end: Vec<char> = fitting(text.chars().rev(), tail);
    let start: String = fitting(text.chars(), head).into_iter().collect();
    start + "…" + &end.into_iter().rev().collect::<String>()
}

/// The first characters that fit into `max` columns.
fn fitting(chars: impl Iterator<Item = char>, max: usize) -> Vec<char> {
    let mut left = max;
    chars
        .map_while(|c| {
            left = left.checked_sub(c.width().unwrap_or(0))?;
            Some(c)
        })
        .collect()
}

/// Breaks text at spaces into lines of at most `width` columns; a longer word is broken.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(10);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut rest = word;
        if !line.is_empty() && line.width() + 1 + rest.width() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        while line.width() + rest.width() > width {
            let piece: String = fitting(rest.chars(), width).into_iter().collect();
            rest = rest.get(piece.len()..).unwrap_or_default();
            lines.push(piece);
        }
        line.push_str(rest);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::{clean, shorten, wrap};
    use unicode_width::UnicodeWidthStr as _;

    #[test]
    fn nothing_that_controls_a_terminal_is_left() {
        let hostile = "a\u{1b}[31mred\u{7}\u{9b}2J\r\n\u{202e}back\u{2028}\u{feff}";
        let safe = clean(hostile);
        assert_eq!(safe, "a?[31mred??2J???back??");
        assert_eq!(clean("größe_λ.12 層"), "größe_λ.12 層");
    }

    #[test]
    fn shortened_names_keep_both_ends() {
        assert_eq!(shorten("fusion.12", 20), "fusion.12");
        assert_eq!(
            shorten("convolution_bitcast_fusion.63", 13),
            "convolut…n.63"
        );
        for max in 1..12 {
            assert!(shorten("層層層層層層層層", max).width() <= max, "{max}");
        }
    }

    #[test]
    fn lines_fit_whatever_the_words() {
        let text = "a long_word_without_any_space_in_it_at_all and 層層層層層層層層 end";
        let lines = wrap(text, 12);
        assert!(lines.iter().all(|line| line.width() <= 12), "{lines:?}");
        let joined: String = lines.concat().replace(' ', "");
        assert_eq!(joined, text.replace(' ', ""));
        assert_eq!(wrap("", 12), [""]);
    }
}
