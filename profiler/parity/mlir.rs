//! As much of MLIR's text as parity needs: tensor types, and the functions of a module.
//!
//! The text is the printer's (JAX, StableHLO tools): an operation begins on a line of its own.
//! What is not understood is passed over; who reads must not rely on having seen everything.

use crate::parity::tensor::TensorType;
use crate::program::dtype::DType;

/// MLIR's name of an element type.
#[must_use]
pub fn dtype(name: &str) -> Option<DType> {
    Some(match name {
        "i1" => DType::Pred,
        "f8E8M0FNU" => DType::F8E8M0Fnu,
        "complex<f32>" => DType::C64,
        "complex<f64>" => DType::C128,
        _ if name.starts_with(['f', 'b']) => name.to_ascii_lowercase().parse().ok()?,
        _ => {
            let (sign, bits) = match name.strip_prefix("ui") {
                Some(bits) => ('u', bits),
                None => ('s', name.strip_prefix('i').or(name.strip_prefix("si"))?),
            };
            format!("{sign}{bits}").parse().ok()?
        }
    })
}

/// Splits the inside of `tensor<…>` into dimensions and element: `4x8x`, `bf16`.
#[must_use]
pub fn split_element(inside: &str) -> (&str, &str) {
    let mut rest = inside;
    while let Some((dim, after)) = rest.split_once('x')
        && (dim == "?" || (!dim.is_empty() && dim.bytes().all(|b| b.is_ascii_digit())))
    {
        rest = after;
    }
    let dims = inside.strip_suffix(rest).unwrap_or_default();
    (dims, rest)
}

/// Reads the inside of `tensor<…>`: `4x8xbf16`. None for dynamic dimensions, encodings and
/// elements that XLA has no type for.
#[must_use]
pub fn tensor(inside: &str) -> Option<TensorType> {
    let (dims, element) = split_element(inside);
    let dims = dims.split_terminator('x').map(|dim| dim.parse().ok());
    Some(TensorType {
        dtype: dtype(element)?,
        dims: dims.collect::<Option<_>>()?,
    })
}

/// Where the bracket that opens at the start of `text` is closed: the index of the closing one.
/// Strings are passed over. Any of the four kinds closes any other: the printer balances them.
#[must_use]
pub fn closing(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(text, at)?,
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            // The arrow of a function type closes nothing.
            b'>' if at > 0 && bytes.get(at - 1) == Some(&b'-') => {}
            b')' | b']' | b'}' | b'>' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The index of the quote that closes the string which opens at `start`.
#[must_use]
pub fn string_end(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at),
            _ => at += 1,
        }
    }
}

/// All tensor types in a piece of text, in order; an entry is none where one is not understood.
#[must_use]
pub fn tensors(text: &str) -> Vec<Option<TensorType>> {
    const OPEN: &str = "tensor<";
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(OPEN) {
        let inside = rest.get(at + OPEN.len() - 1..).unwrap_or_default();
        let Some(end) = closing(inside) else { break };
        found.push(inside.get(1..end).and_then(tensor));
        rest = inside.get(end..).unwrap_or_default();
    }
    found
}

/// Splits at the commas that stand outside of all brackets.
#[must_use]
pub fn split(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(text, at).unwrap_or(bytes.len()),
            b'(' | b'[' | b'{' | b'<' => {
                let inside = text.get(at..).and_then(closing);
                at = inside.map_or(bytes.len(), |inside| at + inside);
            }
            b',' => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.extend(text.get(start..));
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// A function of a module.
#[derive(Clone, Debug)]
pub struct Function<'a> {
    /// Its name, without `@`.
    pub name: &'a str,
    /// Names of its arguments with their types' text: `%arg0`, `tensor<4xf32> {…}`.
    pub arguments: Vec<(&'a str, &'a str)>,
    /// The types of its results, as text.
    pub results: Vec<&'a str>,
    /// Its lines, without those of the signature.
    pub lines: Vec<&'a str>,
}

/// The functions of a module, in order.
#[must_use]
pub fn functions(text: &str) -> Vec<Function<'_>> {
    let mut functions: Vec<Function<'_>> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("func.func ") {
            functions.extend(function(line));
        } else if let Some(function) = functions.last_mut() {
            function.lines.push(line);
        }
    }
    functions
}

/// Reads `func.func public @main(%arg0: …) -> (…) {`.
fn function(line: &str) -> Option<Function<'_>> {
    let (_, after) = line.split_once('@')?;
    let open = after.find('(')?;
    let (name, rest) = (after.get(..open)?, after.get(open..)?);
    let close = closing(rest)?;
    let arguments = split(rest.get(1..close)?)
        .into_iter()
        .filter_map(|argument| argument.split_once(':'))
        .map(|(name, ty)| (name.trim(), ty.trim()))
        .collect();
    let tail = rest.get(close + 1..)?.trim_start();
    let results = match tail.strip_prefix("->").map(str::trim_start) {
        Some(list) if list.starts_with('(') => split(list.get(1..closing(list)?)?),
        Some(one) => vec![one.trim_end_matches('{').trim()],
        None => Vec::new(),
    };
    Some(Function {
        name: name.trim_matches('"'),
        arguments,
        results: results.into_iter().map(str::trim).collect(),
        lines: Vec::new(),
    })
}

/// The integers of a list that follows a word: `sizes = [1, 64]`, `slice_sizes = array<i64: 1>`.
#[must_use]
pub fn integers_after(line: &str, word: &str) -> Option<Vec<u64>> {
    let mut rest = line;
    let list = loop {
        let (before, after) = rest.split_once(word)?;
        let after = after.trim_start();
        let whole = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        match after.strip_prefix('=') {
            Some(list) if whole => break list.trim_start(),
            _ => rest = after,
        }
    };
    let list = match list.strip_prefix("array<i64") {
        Some(list) => list.split_once('>')?.0.trim_start_matches(':'),
        None => list.strip_prefix('[')?.split_once(']')?.0,
    };
    list.split(',')
        .map(str::trim)
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read() {
        let of = |text| tensor(text).map(|ty| ty.to_string());
        assert_eq!(of("4x8xbf16").as_deref(), Some("bf16[4,8]"));
        assert_eq!(of("f8E4M3B11FNUZ").as_deref(), Some("f8e4m3b11fnuz[]"));
        assert_eq!(of("3xi1").as_deref(), Some("pred[3]"));
        assert_eq!(of("3xui32").as_deref(), Some("u32[3]"));
        assert_eq!(of("2xcomplex<f32>").as_deref(), Some("c64[2]"));
        assert_eq!(of("?x4xf32"), None);
        assert_eq!(of("4x!quant.uniform<i8:f32, 0.1>"), None);
        assert_eq!(of("4xindex"), None);
    }

    #[test]
    fn functions_are_told_apart() {
        let text = r#"module @m {
  func.func public @main(%arg0: tensor<2x3xf32> {jax.x = "a, (b"}, %arg1: tensor<i32>) -> (tensor<2xf32> {jax.result_info = "r"}, tensor<i1>) {
    %0 = call @g(%arg0) : (tensor<2x3xf32>) -> tensor<2xf32>
  }
  func.func private @g(%arg0: tensor<2x3xf32>) -> tensor<2xf32> {
    return %0 : tensor<2xf32>
  }
}"#;
        let functions = functions(text);
        let names: Vec<_> = functions
            .iter()
            .map(|f| (f.name, f.arguments.len(), f.results.len(), f.lines.len()))
            .collect();
        assert_eq!(names, [("main", 2, 2, 2), ("g", 1, 1, 3)]);
        assert_eq!(functions[1].results, ["tensor<2xf32>"]);
    }

    #[test]
    fn lists_are_read_in_both_notations() {
        let line = "x {my_sizes = [9], sizes = [1, 64], slice_sizes = array<i64: 1, 8>, none = []}";
        assert_eq!(integers_after(line, "sizes"), Some(vec![1, 64]));
        assert_eq!(integers_after(line, "slice_sizes"), Some(vec![1, 8]));
        assert_eq!(integers_after(line, "none"), Some(vec![]));
        assert_eq!(integers_after(line, "absent"), None);
    }

    #[test]
    fn text_that_is_cut_anywhere_is_no_harm() {
        let text = r#"func.func @main(%a: tensor<2xf32> {x = "}"}) -> (tensor<2xf32>) {"#;
        for end in 0..text.len() {
            let cut = &text[..end];
            let _ = functions(cut);
            let _ = tensors(cut);
            let _ = split(cut);
            let _ = closing(cut);
        }
    }
}
