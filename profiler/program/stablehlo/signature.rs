//! The types behind an operation's last colon.

use super::lexer::{Kind, Token};

/// Index of the colon before an operation's types, else the number of its tokens.
pub(super) fn signature_colon(header: &[Token]) -> usize {
    let mut depth = 0_usize;
    let mut found = header.len();
    for (i, token) in header.iter().enumerate() {
        match token.kind {
            Kind::Mark(b'(' | b'[' | b'{' | b'<') => depth += 1,
            Kind::Mark(b')' | b']' | b'}' | b'>') => depth = depth.saturating_sub(1),
            Kind::Mark(b':') if depth == 0 => found = i,
            _ => {}
        }
    }
    found
}

/// Types in their order; what is no tensor is `None`.
pub(super) type Types = Vec<Option<Token>>;

/// The types after the colon at the front: those before and those after the arrow. A type that is
/// no tensor is `None`.
pub(super) fn signature_types(text: &str, tokens: &[Token]) -> (Types, Option<Types>) {
    let (mut left, mut right): (Types, Option<Types>) = (Vec::new(), None);
    let (mut parens, mut others) = (0_usize, 0_usize);
    for token in tokens.iter().skip(1) {
        let side = right.as_mut().unwrap_or(&mut left);
        match token.kind {
            Kind::Tensor if others == 0 => side.push(Some(*token)),
            Kind::Arrow => right = Some(Vec::new()),
            Kind::Mark(b'(') => parens += 1,
            Kind::Mark(b')') if parens == 0 => break,
            Kind::Mark(b')') => parens -= 1,
            Kind::Mark(b'<') => others += 1,
            Kind::Mark(b'>') => others = others.saturating_sub(1),
            Kind::Mark(b',') => {}
            _ if others > 0 => {}
            // `!stablehlo.token`, `tuple<…>`: a type; `reducer`, `loc`, `cond`: the end.
            Kind::Word if is_type(text, token) => side.push(None),
            _ => break,
        }
    }
    (left, right)
}

fn is_type(text: &str, token: &Token) -> bool {
    let word = text.get(token.range()).unwrap_or("");
    let number = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit());
    word.starts_with('!')
        || matches!(
            word,
            "tuple" | "memref" | "vector" | "index" | "none" | "bf16"
        )
        || ["i", "f", "ui", "si"]
            .iter()
            .any(|p| word.strip_prefix(p).is_some_and(number))
}
