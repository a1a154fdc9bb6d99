//! How deep a Python text nests, before it is parsed: parser, visitors and the tree's own release
//! recurse, so that a hostile text must be turned away first.

/// An upper bound of how deep a text nests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Nesting {
    /// Brackets that are open at once, braces of f-strings among them.
    pub(super) brackets: usize,
    /// Operators, calls, subscripts and words like `not` and `lambda` in one expression.
    pub(super) chain: usize,
    /// Levels of indentation.
    pub(super) blocks: usize,
}

/// What the scan is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    /// Code within a bracket, and the length of its chain so far.
    Bracket(usize),
    /// A string: its quote, whether it is tripled, whether braces in it hold code.
    Text(u8, bool, bool),
}

impl Nesting {
    /// Scans a text once.
    pub(super) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut deepest = Self::default();
        let mut open: Vec<In> = Vec::new();
        let (mut outer, mut lambdas, mut brackets) = (0usize, 0usize, 0usize);
        let mut indents: Vec<usize> = Vec::new();
        let mut at = 0;
        let mut line_start = true;
        while let Some(&byte) = bytes.get(at) {
            if let Some(In::Text(quote, triple, code)) = open.last().copied() {
                at += text_step(bytes, at, quote, triple, code, &mut open, &mut brackets);
                deepest.brackets = deepest.brackets.max(brackets);
                continue;
            }
            if line_start && open.is_empty() {
                let width = bytes
                    .get(at..)
                    .unwrap_or_default()
                    .iter()
                    .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\x0c'))
                    .count();
                at += width;
                line_start = false;
                if !matches!(bytes.get(at), None | Some(b'\n' | b'\r' | b'#')) {
                    while indents.last().is_some_and(|indent| *indent > width) {
                        indents.pop();
                    }
                    if width > indents.last().copied().unwrap_or(0) {
                        indents.push(width);
                    }
                    deepest.blocks = deepest.blocks.max(indents.len());
                }
                continue;
            }
            let outermost = open.is_empty();
            let chain = match open.last_mut() {
                Some(In::Bracket(chain)) => chain,
                _ => &mut outer,
            };
            let mut step = 1;
            match byte {
                b'#' => step = line_length(bytes, at),
                b'\\' => step = 2,
                b'\n' if outermost => {
                    (outer, lambdas, line_start) = (0, 0, true);
                }
                b'(' | b'[' | b'{' => {
                    open.push(In::Bracket(0));
                    brackets += 1;
                }
                b')' | b']' | b'}' => {
                    if open.pop().is_some() {
                        brackets = brackets.saturating_sub(1);
                    }
                    // What follows a call or a subscript has it inside.
                    match open.last_mut() {
                        Some(In::Bracket(chain)) => *chain += 1,
                        Some(In::Text(..)) => {}
                        None => outer += 1,
                    }
                }
                b',' | b';' => *chain = 0,
                b'-' | b'+' | b'~' | b'*' | b'/' | b'.' | b'|' | b'&' | b'@' | b'%' | b'^'
                | b'<' | b'>' => *chain += 1,
                b'"' | b'\'' => {
                    let (text, length) = text_start(bytes, at, byte);
                    open.push(text);
                    step = length;
                }
                _ if is_word(byte) => {
                    step = bytes
                        .get(at..)
                        .unwrap_or_default()
                        .iter()
                        .take_while(|byte| is_word(**byte))
                        .count()
                        .max(1);
                    match bytes.get(at..at + step) {
                        Some(b"not" | b"await" | b"if" | b"else" | b"for" | b"yield") => {
                            *chain += 1
                        }
                        // The commas of its parameters end no lambda.
                        Some(b"lambda") => lambdas += 1,
                        _ => {}
                    }
                }
                _ => {}
            }
            let longest = match open.last() {
                Some(In::Bracket(chain)) => *chain,
                _ => outer,
            };
            deepest.chain = deepest.chain.max(longest + lambdas);
            deepest.brackets = deepest.brackets.max(brackets);
            at += step;
        }
        deepest
    }
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || byte >= 0x80
}

fn line_length(bytes: &[u8], at: usize) -> usize {
    bytes
        .get(at..)
        .unwrap_or_default()
        .iter()
        .take_while(|byte| **byte != b'\n')
        .count()
        .max(1)
}

/// The string that a quote begins, and the length of its opening quotes.
fn text_start(bytes: &[u8], at: usize, quote: u8) -> (In, usize) {
    let triple = bytes.get(at..at + 3) == Some(&[quote; 3]);
    let prefix = bytes
        .get(at.saturating_sub(2)..at)
        .unwrap_or_default()
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphabetic())
        .any(|byte| matches!(byte, b'f' | b'F' | b't' | b'T'));
    (In::Text(quote, triple, prefix), if triple { 3 } else { 1 })
}

/// One step within a string; it ends, or a brace opens code in it.
fn text_step(
    bytes: &[u8],
    at: usize,
    quote: u8,
    triple: bool,
    code: bool,
    open: &mut Vec<In>,
    brackets: &mut usize,
) -> usize {
    match bytes.get(at) {
        Some(b'\\') => 2,
        Some(b'{') if code => {
            if bytes.get(at + 1) == Some(&b'{') {
                return 2;
            }
            open.push(In::Bracket(0));
            *brackets += 1;
            1
        }
        Some(b'\n') if !triple => {
            open.pop();
            0
        }
        Some(&byte) if byte == quote => {
            if !triple {
                open.pop();
                1
            } else if bytes.get(at..at + 3) == Some(&[quote; 3]) {
                open.pop();
                3
            } else {
                1
            }
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::Nesting;

    fn of(text: &str) -> (usize, usize, usize) {
        let found = Nesting::of(text);
        (found.brackets, found.chain, found.blocks)
    }

    #[test]
    fn brackets_chains_and_blocks_are_counted() {
        assert_eq!(of("x = ((1))\n"), (2, 1, 0));
        assert_eq!(of("if a:\n  if b:\n    c\n  d\n"), (0, 1, 2));
        assert_eq!(of("x = [-1, -2, -3]\n"), (1, 1, 0));
        assert_eq!(of("f(1)(2)(3)\n"), (1, 3, 0));
        assert_eq!(of("f = lambda a, b: lambda c, d: 0\n"), (0, 2, 0));
    }

    #[test]
    fn words_in_strings_and_comments_do_not_count() {
        assert_eq!(of("x = '((((----' # ((((\n"), (0, 0, 0));
        assert_eq!(of("x = \"\"\"((((\n  ----\n\"\"\"\n"), (0, 0, 0));
        assert_eq!(of("x = f'((({a - b}---'\n"), (1, 1, 0));
        assert_eq!(of("x = f'{{{{'\n"), (0, 0, 0));
    }
}
