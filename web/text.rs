//! Words and figures as people read them, and names made safe to show.

use std::borrow::Cow;
use std::fmt::Write as _;

use advisors::finding::{Basis, Confidence};
use profiler::units::percent;

/// Characters that hide, reorder or control text.
fn is_treacherous(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(
            c,
            '\u{00ad}'
                | '\u{061c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{fffe}'..='\u{ffff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Text with every treacherous character spelled out: a right-to-left override becomes
/// `⟨U+202E⟩`. Markup is left to the escaping that follows.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_treacherous) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\t' => cleaned.push(' '),
            c if is_treacherous(c) => {
                let _ = write!(cleaned, "⟨U+{:04X}⟩", u32::from(c));
            }
            c => cleaned.push(c),
        }
    }
    Cow::Owned(cleaned)
}

/// At most `max` characters, the middle left out: ends of names tell them apart.
pub(crate) fn short(text: &str, max: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    let max = max.max(3);
    if count <= max {
        return Cow::Borrowed(text);
    }
    let tail = (max - 1) / 3;
    let head: String = text.chars().take(max - 1 - tail).collect();
    let end: String = text.chars().skip(count - tail).collect();
    Cow::Owned(format!("{head}…{end}"))
}

/// At most `max` characters, the beginning left out: what is last in a path tells most.
pub(crate) fn tail(text: &str, max: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= max {
        return Cow::Borrowed(text);
    }
    let end: String = text.chars().skip(count + 1 - max.max(1)).collect();
    Cow::Owned(format!("…{end}"))
}

/// A count per step: whole where it is whole.
pub(crate) fn count(value: f64) -> String {
    if (value - value.round()).abs() < 0.005 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// How often advice of a kind helped, with its source.
pub(crate) fn odds(confidence: &Confidence) -> String {
    let decided = confidence.supported.saturating_add(confidence.refuted);
    let range = format!(
        "{} that such advice helps (90 % interval {} to {})",
        percent(confidence.probability),
        percent(confidence.low),
        percent(confidence.high)
    );
    if decided > 0 {
        format!(
            "{range}: {} of {decided} published tries of {} did",
            confidence.supported, confidence.kind
        )
    } else {
        format!(
            "{range}: the base rate of all advice, none counted for {}",
            confidence.kind
        )
    }
}

/// How a saving was found, in words.
pub(crate) fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Measured => "measured",
        Basis::Modelled => "modelled",
        Basis::Compiled => "compiled both ways, not measured",
        Basis::LookedUp => "looked up from a like case",
    }
}

#[cfg(test)]
mod tests {
    use super::{clean, short, tail};

    #[test]
    fn characters_that_reorder_or_control_are_spelled_out() {
        assert_eq!(clean("a\u{202e}b"), "a⟨U+202E⟩b");
        assert_eq!(clean("\u{1b}[31mred"), "⟨U+001B⟩[31mred");
        assert_eq!(clean("layers_3/mlp:ü"), "layers_3/mlp:ü");
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(short("fusion.123456789", 10), "fusion…789");
        assert_eq!(short("fusion.1", 10), "fusion.1");
        assert_eq!(tail("a/long/path.py:12", 11), "…path.py:12");
        assert_eq!(tail("path.py:12", 11), "path.py:12");
    }
}
