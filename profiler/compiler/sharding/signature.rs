//! The signature of a StableHLO program's `@main`: what its arguments and results are, and where
//! in the text they stand, so that an annotation is an edit of the text and of nothing else.

use std::ops::Range;

use crate::compiler::sharding::tensor::TensorType;
use crate::compiler::sharding::text::{balanced, items, trimmed};
use crate::units::Bytes;

/// What `@main` takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Arguments in their order.
    pub arguments: Vec<Port>,
    /// Results in their order.
    pub results: Vec<Port>,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The user's name where the text has one (a JAX path such as `params['layer_0']['down']`),
    /// else `arg3` or `result3`.
    pub name: String,
    /// Its type; none where it is no tensor of fixed size.
    pub tensor: Option<TensorType>,
    /// Of a donated argument, the result that takes its place, where the text says which.
    pub aliases: Option<usize>,
    /// Whether its buffer is given away.
    pub is_donated: bool,
    /// Attributes in order: name, and where the whole `name = value` stands.
    pub(super) attributes: Vec<(String, Range<usize>)>,
    /// Where the type stands.
    pub(super) ty: Range<usize>,
    /// Where the attributes stand, with their braces.
    pub(super) braces: Option<Range<usize>>,
}

/// Why a program's signature cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// It has no main function.
    #[error(
        "the program has no `func.func public @main(…)`: expected StableHLO text as `lowered.as_text()` writes it"
    )]
    NoMain,
    /// The text ends within the signature.
    #[error("the signature of @main ends before its brackets are closed: the program is cut off")]
    CutOff,
}

impl Port {
    /// Bytes of the whole tensor, without padding.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.tensor.as_ref().map_or(Bytes(0), TensorType::bytes)
    }

    /// Sizes of its dimensions; none for what is no tensor of fixed size.
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        self.tensor.as_ref().map_or(&[], |tensor| &tensor.dims)
    }
}

impl Signature {
    /// Reads the signature of `@main`.
    ///
    /// # Errors
    /// When there is no main function or the text is cut off in its signature.
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        let start = main_of(text).ok_or(SignatureError::NoMain)?;
        let open = start + text.get(start..).and_then(|t| t.find('(')).unwrap_or(0);
        let header = Header::at(text, open).ok_or(SignatureError::CutOff)?;
        let mut arguments: Vec<Port> = header
            .arguments
            .into_iter()
            .enumerate()
            .map(|(index, range)| Port::read(text, range, format!("arg{index}")))
            .collect();
        let results: Vec<Port> = header
            .results
            .into_iter()
            .enumerate()
            .map(|(index, range)| Port::read(text, range, format!("result{index}")))
            .collect();
        // An argument without a name is called after the result that takes its place.
        for (index, argument) in arguments.iter_mut().enumerate() {
            let named = argument.aliases.and_then(|result| results.get(result));
            if let Some(result) = named
                && argument.name == format!("arg{index}")
            {
                argument.name.clone_from(&result.name);
            }
        }
        Ok(Self { arguments, results })
    }

    /// Whether any argument has a sharding already.
    #[must_use]
    pub fn is_sharded(&self) -> bool {
        let is_sharding =
            |(name, _): &(String, Range<usize>)| name == "sdy.sharding" || name == "mhlo.sharding";
        let mut arguments = self.arguments.iter();
        arguments.any(|argument| argument.attributes.iter().any(is_sharding))
    }
}

/// Where `@main` stands behind its `func.func`.
fn main_of(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find("@main").map(|at| from + at) {
        let before = text.get(..at)?.trim_end();
        let after = text.as_bytes().get(at + 5);
        let is_function = before.ends_with("func.func")
            || before.ends_with("func.func public")
            || before.ends_with("func.func private");
        if is_function && matches!(after, Some(b'(' | b' ')) {
            return Some(at);
        }
        from = at + 5;
    }
    None
}

/// The brackets of a function's header.
pub(super) struct Header {
    /// Where each argument stands.
    pub(super) arguments: Vec<Range<usize>>,
    /// Where each result stands.
    pub(super) results: Vec<Range<usize>>,
}

impl Header {
    /// Reads the header whose arguments open at `open`.
    pub(super) fn at(text: &str, open: usize) -> Option<Self> {
        let close = balanced(text, open)?;
        let arguments = items(text, open + 1..close - 1);
        let rest = text.get(close..)?;
        let Some(after) = rest.trim_start().strip_prefix("->") else {
            return Some(Self {
                arguments,
                results: Vec::new(),
            });
        };
        let from = trimmed(text, text.len() - after.len()..text.len()).start;
        let results = if text.as_bytes().get(from) == Some(&b'(') {
            let end = balanced(text, from)?;
            items(text, from + 1..end - 1)
        } else {
            let end = text.get(from..)?.find(" {").map(|at| from + at)?;
            vec![trimmed(text, from..end)]
        };
        Some(Self { arguments, results })
    }
}

impl Port {
    /// Reads `%arg0: tensor<…> {…} loc(…)`, or the same without the name.
    pub(super) fn read(text: &str, range: Range<usize>, fallback: String) -> Self {
        let whole = text.get(range.clone()).unwrap_or_default();
        let colon = whole
            .starts_with('%')
            .then(|| whole.find(':').map(|at| at + 1))
            .flatten()
            .unwrap_or(0);
        let start = trimmed(text, range.start + colon..range.end).start;
        let end = type_end(text, start).unwrap_or(range.end).min(range.end);
        let ty = start..end;
        let mut port = Self {
            name: fallback,
            tensor: TensorType::parse(text.get(ty.clone()).unwrap_or_default()),
            aliases: None,
            is_donated: false,
            attributes: Vec::new(),
            ty,
            braces: None,
        };
        let mut at = trimmed(text, end..range.end).start;
        if text.as_bytes().get(at) == Some(&b'{')
            && let Some(close) = balanced(text, at).filter(|close| *close <= range.end)
        {
            port.braces = Some(at..close);
            for item in items(text, at + 1..close - 1) {
                port.attribute(text, item);
            }
            at = close;
        }
        let rest = text.get(at..range.end).unwrap_or_default().trim();
        if let Some(name) = rest
            .strip_prefix("loc(\"")
            .and_then(|r| r.split('"').next())
            && !name.is_empty()
        {
            port.name = name.to_owned();
        }
        port
    }

    fn attribute(&mut self, text: &str, item: Range<usize>) {
        let whole = text.get(item.clone()).unwrap_or_default();
        let (name, value) = whole.split_once('=').unwrap_or((whole, ""));
        let (name, value) = (name.trim(), value.trim());
        match name {
            "tf.aliasing_output" => {
                self.is_donated = true;
                self.aliases = value.split(':').next().and_then(|n| n.trim().parse().ok());
            }
            "jax.buffer_donor" => self.is_donated = value != "false",
            "jax.arg_info" | "jax.result_info" => {
                let path = value.trim_matches('"');
                if !path.is_empty() {
                    path.clone_into(&mut self.name);
                }
            }
            _ => {}
        }
        self.attributes.push((name.to_owned(), item));
    }
}

/// The end of a type that begins at `start`.
fn type_end(text: &str, start: usize) -> Option<usize> {
    let rest = text.get(start..)?;
    let open = rest.find(['<', ' ', ',', ')'])?;
    if rest.as_bytes().get(open) == Some(&b'<') {
        balanced(text, start + open)
    } else {
        Some(start + open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = r#"module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<8x4xf32> {tf.aliasing_output = 1 : i32}, %arg1: tensor<4xbf16> loc("x"), %arg2: tensor<i32> {jax.buffer_donor = true, mhlo.sharding = "{devices=[2]<=[2]}"}) -> (tensor<8xf32> {jax.result_info = "result[0]"}, tensor<8x4xf32> {jax.result_info = "result[1]['w']"}) {
    return %0, %arg0 : tensor<8xf32>, tensor<8x4xf32>
  }
}
"#;

    #[test]
    fn names_types_and_donation_are_read() {
        let signature = Signature::parse(PROGRAM).expect("a signature");
        let told: Vec<_> = signature
            .arguments
            .iter()
            .map(|a| (a.name.as_str(), a.dims().to_vec(), a.aliases, a.is_donated))
            .collect();
        assert_eq!(
            told,
            [
                ("result[1]['w']", vec![8, 4], Some(1), true),
                ("x", vec![4], None, false),
                ("arg2", vec![], None, true),
            ]
        );
        assert_eq!(signature.results.len(), 2);
        assert_eq!(signature.arguments[0].bytes(), Bytes(128));
        assert!(signature.is_sharded());
    }

    #[test]
    fn a_single_result_needs_no_brackets() {
        let text = "func.func @main(%arg0: tensor<4xf32>) -> tensor<2xf32> {\n}";
        let signature = Signature::parse(text).expect("a signature");
        assert_eq!(signature.results[0].dims(), [2]);
    }

    #[test]
    fn programs_without_a_whole_main_say_so() {
        assert_eq!(Signature::parse("module {}"), Err(SignatureError::NoMain));
        assert_eq!(
            Signature::parse("call @main(%0)"),
            Err(SignatureError::NoMain)
        );
        for end in [40, 90, 120, 250] {
            let cut = &PROGRAM[..end];
            assert!(Signature::parse(cut).is_err(), "{cut}");
        }
    }
}
