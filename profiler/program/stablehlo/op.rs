//! One operation, and the attributes in its text.

use std::ops::Range;

use super::lexer::{Kind, Token};
use super::types::TensorType;

/// A value of a [`Module`](super::Module): a result of an operation or an argument of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub(crate) usize);

impl ValueId {
    /// Its place in [`Module::values`](super::Module::values).
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// An operation of a [`Module`](super::Module).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub(crate) usize);

/// A value.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its name, with `%` and, for one of several results, `#n`.
    pub name: String,
    /// Its type, where it was first written; `None` for what is no tensor.
    pub tensor: Option<TensorType>,
    /// The operation that makes it; `None` for arguments.
    pub maker: Option<OpId>,
}

/// A place where a value is used.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The value.
    pub value: ValueId,
    /// Where its name stands.
    pub range: Range<usize>,
}

/// A place where a value's type is written.
#[derive(Clone, Debug)]
pub struct TypeUse {
    /// The value whose type it is.
    pub value: ValueId,
    /// The type as written there.
    pub tensor: TensorType,
}

/// A list of operations with arguments.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Its arguments.
    pub arguments: Vec<ValueId>,
    /// Its operations, in order; the last one leaves the block.
    pub ops: Vec<OpId>,
}

/// An operation.
#[derive(Clone, Debug)]
pub struct Op {
    /// Its full name, `stablehlo.add`, without quotes.
    pub name: String,
    /// Line in the text, from 1.
    pub line: usize,
    /// Its bytes.
    pub range: Range<usize>,
    /// What it reads, in the order of its types.
    pub operands: Vec<Operand>,
    /// What it makes.
    pub results: Vec<ValueId>,
    /// Its regions, one block each.
    pub regions: Vec<Block>,
    /// Function that it calls, with `@`.
    pub callee: Option<String>,
    /// Whether every operand's and result's type could be told from its text.
    pub typed: bool,
    /// Its own tokens, regions left out.
    pub(crate) header: Vec<Token>,
}

impl Op {
    /// The operation without its dialect: `add` of `stablehlo.add`.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.name
            .split_once('.')
            .map_or(&self.name, |(_, short)| short)
    }

    /// The value of operand `index`.
    #[must_use]
    pub fn operand(&self, index: usize) -> Option<ValueId> {
        self.operands.get(index).map(|o| o.value)
    }

    /// The integers of attribute `key`, with their places: `key = 3`, `key = [1, 2]`,
    /// `key = array<i64: 1, 2>`.
    #[must_use]
    pub fn integers(&self, text: &str, key: &str) -> Option<Vec<Integer>> {
        self.integers_from(text, self.attribute(text, key)?)
    }

    /// Both lists of `key = [1] x [0]`.
    #[must_use]
    pub fn integer_pair(&self, text: &str, key: &str) -> Option<(Vec<Integer>, Vec<Integer>)> {
        let from = self.attribute(text, key)?;
        let first = self.integers_from(text, from)?;
        let by = from
            + self
                .header
                .get(from..)?
                .iter()
                .position(|t| is_word(text, t, "x"))?;
        Some((first, self.integers_from(text, by + 1)?))
    }

    /// The lists of pretty `slice %x [0:4, 0:1023:2]`: start, limit and stride for each dimension.
    #[must_use]
    pub fn slice_bounds(&self, text: &str) -> Option<Vec<[Option<Integer>; 3]>> {
        let open = self
            .header
            .iter()
            .position(|t| t.kind == Kind::Mark(b'['))?;
        let mut out = Vec::new();
        let (mut bounds, mut next) = ([None, None, None], 0);
        for token in self.header.get(open + 1..)? {
            match token.kind {
                Kind::Number => *bounds.get_mut(next)? = integer(text, token),
                Kind::Mark(b':') => next += 1,
                Kind::Mark(b',') => {
                    out.push(std::mem::take(&mut bounds));
                    next = 0;
                }
                Kind::Mark(b']') => {
                    if bounds[0].is_some() {
                        out.push(bounds);
                    }
                    return Some(out);
                }
                _ => return None,
            }
        }
        None
    }

    /// The token after `=` of attribute `key`.
    fn attribute(&self, text: &str, key: &str) -> Option<usize> {
        let at = self
            .header
            .windows(2)
            .position(|pair| is_word(text, &pair[0], key) && pair[1].kind == Kind::Mark(b'='))?;
        Some(at + 2)
    }

    fn integers_from(&self, text: &str, from: usize) -> Option<Vec<Integer>> {
        let tokens = self.header.get(from..)?;
        let first = tokens.first()?;
        let close = match first.kind {
            Kind::Number => return Some(vec![integer(text, first)?]),
            Kind::Mark(b'[') => b']',
            Kind::Word => b'>',
            _ => return None,
        };
        let inside = tokens.iter().take_while(|t| t.kind != Kind::Mark(close));
        inside
            .filter(|t| t.kind == Kind::Number)
            .map(|t| integer(text, t))
            .collect()
    }
}

/// An integer in an operation's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integer {
    /// Its value.
    pub value: i64,
    /// Where it stands.
    pub range: Range<usize>,
}

impl Integer {
    /// It as an index, when it is one.
    #[must_use]
    pub fn index(&self) -> usize {
        usize::try_from(self.value).unwrap_or(usize::MAX)
    }
}

fn integer(text: &str, token: &Token) -> Option<Integer> {
    let value = text.get(token.range())?.parse().ok()?;
    Some(Integer {
        value,
        range: token.range(),
    })
}

pub(crate) fn is_word(text: &str, token: &Token, word: &str) -> bool {
    token.kind == Kind::Word && text.get(token.range()) == Some(word)
}
