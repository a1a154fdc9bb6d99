//! A StableHLO program in double precision: the oracle that roundings are measured against.
//!
//! Every real element type becomes `f64`: in types, constants (with the value that the narrow type
//! holds, not the digits that were written), regions and calls. Rounding steps (`convert` to a
//! narrower type, `reduce_precision`) lose their effect, so what is left is what the program
//! means. Programs that look at a float's bits, or call code that is not in the program, have no
//! such meaning and are refused.

use crate::parity::float::FloatFormat;
use crate::parity::mlir::{self, closing, string_end};
use crate::parity::tensor::element_bytes;
use crate::program::dtype::DType;

/// Why a program has no oracle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WidenError {
    /// An operation depends on the float type.
    #[error("{op} on floats depends on their type")]
    Op {
        /// The operation, with its target where it calls something.
        op: String,
    },
    /// A constant or a type that is not understood.
    #[error("{what} cannot be written in double precision")]
    Text {
        /// What it is.
        what: String,
    },
    /// There is nothing to widen.
    #[error("it has no floats narrower than f64")]
    Nothing,
}

/// Operations whose result on floats is no function of the numbers alone.
const UNFIT: &[&str] = &[
    "bitcast_convert",
    "custom_call",
    "rng",
    "uniform_quantize",
    "uniform_dequantize",
    "infeed",
    "recv",
];

/// Calls that only place or partition data.
const HARMLESS_CALLS: &[&str] = &[
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "annotate_device_placement",
    "LayoutConstraint",
];

/// Rewrites a program to double precision.
///
/// # Errors
/// When it has no meaning that is free of its float types, or does not read.
pub fn widen(text: &str) -> Result<String, WidenError> {
    let mut writer = Writer {
        out: String::with_capacity(text.len() + text.len() / 8),
        widened: false,
    };
    for line in text.split_inclusive('\n') {
        check(line)?;
    }
    writer.module(text)?;
    match writer.widened {
        true => Ok(writer.out),
        false => Err(WidenError::Nothing),
    }
}

/// Whether a type is narrower than a double.
fn is_narrow(dtype: DType) -> bool {
    (dtype.is_float() && dtype != DType::F64 && dtype != DType::C128) || dtype == DType::F8E8M0Fnu
}

/// Refuses operations that have no meaning in another type.
fn check(line: &str) -> Result<(), WidenError> {
    let Some((_, op)) = line.split_once("stablehlo.") else {
        return Ok(());
    };
    let end = op.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = op.get(..end.unwrap_or(op.len())).unwrap_or_default();
    if !UNFIT.contains(&name) {
        return Ok(());
    }
    let touches = mlir::tensors(op)
        .iter()
        .any(|ty| ty.as_ref().is_none_or(|ty| ty.dtype.is_float()));
    if !touches {
        return Ok(());
    }
    let mut shown = name.to_owned();
    if name == "custom_call" {
        let target = call_target(op);
        if HARMLESS_CALLS.contains(&target) {
            return Ok(());
        }
        shown = format!("custom_call @{target}");
    }
    Err(WidenError::Op { op: shown })
}

/// The target of a custom call in either notation.
fn call_target(op: &str) -> &str {
    let name = |text: &str| {
        text.find(|c: char| !c.is_alphanumeric() && !"_.$".contains(c))
            .unwrap_or(text.len())
    };
    let target = match op.split_once("call_target_name = \"") {
        Some((_, target)) => target,
        None => op.split_once('@').map_or("", |(_, target)| target),
    };
    target.get(..name(target)).unwrap_or_default()
}

struct Writer {
    out: String,
    widened: bool,
}

impl Writer {
    fn module(&mut self, text: &str) -> Result<(), WidenError> {
        let mut at = 0;
        let mut copied = 0;
        let bytes = text.as_bytes();
        while let Some(&byte) = bytes.get(at) {
            let rest = text.get(at..).unwrap_or_default();
            let begins_word = at == 0
                || bytes
                    .get(at - 1)
                    .is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'_' && *b != b'.');
            match byte {
                b'"' => {
                    at = string_end(text, at).ok_or_else(|| cut("a string"))? + 1;
                    continue;
                }
                b'/' if rest.starts_with("//") => {
                    at += rest.find('\n').unwrap_or(rest.len());
                    continue;
                }
                b't' if begins_word && rest.starts_with("tensor<") => {
                    self.copy(text, copied, at);
                    at += self.tensor(rest)?;
                    copied = at;
                    continue;
                }
                b'd' if begins_word && rest.starts_with("dense<") => {
                    self.copy(text, copied, at);
                    at += self.dense(rest)?;
                    copied = at;
                    continue;
                }
                b'd' if begins_word && rest.starts_with("dense_resource<") => {
                    return Err(WidenError::Text {
                        what: "a constant that is kept apart (dense_resource)".to_owned(),
                    });
                }
                // The types in it say how the narrow product is computed.
                b',' if rest.starts_with(", algorithm = <") => {
                    self.copy(text, copied, at);
                    let open = rest.find('<').unwrap_or(0);
                    let list = rest.get(open..).and_then(closing);
                    at += open + list.ok_or_else(|| cut("an algorithm"))? + 1;
                    copied = at;
                    continue;
                }
                b'f' if begins_word && rest.starts_with("format = e") => {
                    self.copy(text, copied, at);
                    self.out.push_str("format = e11m52");
                    let format = rest.get("format = ".len()..).unwrap_or_default();
                    let end = format.find(|c: char| !c.is_ascii_alphanumeric());
                    at += "format = ".len() + end.unwrap_or(format.len());
                    copied = at;
                    continue;
                }
                _ => at += 1,
            }
        }
        self.copy(text, copied, text.len());
        Ok(())
    }

    fn copy(&mut self, text: &str, from: usize, to: usize) {
        self.out.push_str(text.get(from..to).unwrap_or_default());
    }

    /// Rewrites the type at the start of `text` and returns its length.
    fn tensor(&mut self, text: &str) -> Result<usize, WidenError> {
        let open = "tensor".len();
        let (inside, end) = bracket(text, open).ok_or_else(|| cut("a type"))?;
        let (dims, element) = mlir::split_element(inside);
        let unknown = || WidenError::Text {
            what: format!(
                "the type tensor<{}>",
                inside.chars().take(60).collect::<String>()
            ),
        };
        match mlir::dtype(element) {
            Some(DType::C64) => self.push_type(dims, "complex<f64>"),
            Some(dtype) if is_narrow(dtype) => self.push_type(dims, "f64"),
            Some(_) => self.copy(text, 0, end),
            // Indices and the like hold no floats; quantised types and encodings may.
            None if element == "index" => self.copy(text, 0, end),
            None => return Err(unknown()),
        }
        Ok(end)
    }

    fn push_type(&mut self, dims: &str, element: &str) {
        self.widened = true;
        self.out.push_str("tensor<");
        self.out.push_str(dims);
        self.out.push_str(element);
        self.out.push('>');
    }

    /// Rewrites the constant at the start of `text`, up to its type, and returns its length.
    fn dense(&mut self, text: &str) -> Result<usize, WidenError> {
        let (inside, end) = bracket(text, "dense".len()).ok_or_else(|| cut("a constant"))?;
        let after = text.get(end..).unwrap_or_default();
        let ty = after
            .strip_prefix(" : tensor")
            .and_then(|ty| bracket(ty, 0))
            .and_then(|(ty, _)| mlir::tensor(ty));
        let dtype = ty.map(|ty| ty.dtype);
        let Some(dtype) = dtype.filter(|dtype| is_narrow(*dtype)) else {
            self.copy(text, 0, end);
            return Ok(end);
        };
        let real = if dtype == DType::C64 {
            DType::F32
        } else {
            dtype
        };
        let format = FloatFormat::of(real).ok_or_else(|| WidenError::Text {
            what: format!("a constant of {dtype}"),
        })?;
        self.out.push_str("dense<");
        match inside
            .strip_prefix("\"0x")
            .and_then(|s| s.strip_suffix('"'))
        {
            Some(hex) => self.blob(hex, real, format)?,
            None => self.numbers(inside, real, format)?,
        }
        self.out.push('>');
        Ok(end)
    }

    /// The bytes of all elements, in hexadecimal.
    fn blob(&mut self, hex: &str, dtype: DType, format: FloatFormat) -> Result<(), WidenError> {
        let digits = 2 * element_bytes(dtype);
        if !hex.len().is_multiple_of(digits) || !dtype.bits().is_multiple_of(8) {
            return Err(cut("a constant"));
        }
        self.out.push_str("\"0x");
        for element in hex.as_bytes().chunks_exact(digits) {
            let mut bits = 0u64;
            for byte in element.rchunks_exact(2) {
                let byte = std::str::from_utf8(byte).unwrap_or_default();
                let byte = u8::from_str_radix(byte, 16).map_err(|_| cut("a constant"))?;
                bits = bits << 8 | u64::from(byte);
            }
            let wide = format.decode(bits).to_bits().swap_bytes();
            self.out.push_str(&format!("{wide:016X}"));
        }
        self.out.push('"');
        Ok(())
    }

    /// Numbers in nested lists.
    fn numbers(&mut self, list: &str, dtype: DType, format: FloatFormat) -> Result<(), WidenError> {
        let is_separator = |c: char| "[](),".contains(c) || c.is_whitespace();
        let mut rest = list;
        while !rest.is_empty() {
            let start = rest.find(|c| !is_separator(c)).unwrap_or(rest.len());
            self.copy(rest, 0, start);
            rest = rest.get(start..).unwrap_or_default();
            let end = rest.find(is_separator).unwrap_or(rest.len());
            let number = rest.get(..end).unwrap_or_default();
            rest = rest.get(end..).unwrap_or_default();
            if number.is_empty() {
                continue;
            }
            let value = match number.strip_prefix("0x") {
                Some(bits) => u64::from_str_radix(bits, 16)
                    .ok()
                    .map(|bits| format.decode(bits)),
                // Digits are rounded once, not to a double first.
                None if dtype == DType::F32 => number.parse::<f32>().ok().map(f64::from),
                None => number.parse().ok().map(|value| format.round(value)),
            };
            let value = value.ok_or_else(|| cut("a constant"))?;
            self.out.push_str(&format!("0x{:016X}", value.to_bits()));
        }
        Ok(())
    }
}

/// The inside of the bracket at `open`, and where the text after it begins.
fn bracket(text: &str, open: usize) -> Option<(&str, usize)> {
    let rest = text.get(open..)?;
    let end = closing(rest)?;
    Some((rest.get(1..end)?, open + end + 1))
}

fn cut(what: &str) -> WidenError {
    WidenError::Text {
        what: format!("{what} that does not read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_float_becomes_a_double_and_nothing_else_changes() {
        let text = r#"module @m attributes {x = "tensor<4xf32>"} {
  func.func public @main(%arg0: tensor<4x8xbf16> {jax.x = "f32"}, %arg1: tensor<i32>, %c: tensor<2xcomplex<f32>>) -> tensor<4xf32> { // tensor<f32>
    %0 = stablehlo.convert %arg0 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %cst_0 = stablehlo.constant dense<[1.1, -2.5]> : tensor<2xf32>
    %cst_1 = stablehlo.constant dense<"0x803F00C0"> : tensor<2xbf16>
    %c_2 = stablehlo.constant dense<[1, 2]> : tensor<2xi32> {layout = dense<[1, 0]> : tensor<2xindex>}
    %1 = stablehlo.reduce_precision %0, format = e8m7 : tensor<4x8xf32>
    %2 = stablehlo.dot_general %1, %1, contracting_dims = [1] x [1], algorithm = <lhs_precision_type = bf16, accumulation_type = f32> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
"#;
        let wide = widen(text).expect("widens");
        for line in [
            r#"x = "tensor<4xf32>"}"#,
            r#"%arg0: tensor<4x8xf64> {jax.x = "f32"}, %arg1: tensor<i32>, %c: tensor<2xcomplex<f64>>) -> tensor<4xf64> { // tensor<f32>"#,
            "dense<0xFFF0000000000000> : tensor<f64>",
            "dense<[0x3FF19999A0000000, 0xC004000000000000]> : tensor<2xf64>",
            r#"dense<"0x000000000000F03F00000000000000C0"> : tensor<2xf64>"#,
            "dense<[1, 2]> : tensor<2xi32> {layout = dense<[1, 0]> : tensor<2xindex>}",
            "format = e11m52 : tensor<4x8xf64>",
            "contracting_dims = [1] x [1] : (tensor<4x8xf64>",
        ] {
            assert!(wide.contains(line), "{line}\nin\n{wide}");
        }
    }

    #[test]
    fn programs_that_depend_on_their_types_are_refused() {
        for (line, shown) in [
            (
                "%0 = stablehlo.bitcast_convert %a : (tensor<4xf32>) -> tensor<4xi32>",
                "bitcast",
            ),
            (
                "%0 = stablehlo.custom_call @lapack_sgetrf(%a) : (tensor<4xf32>) -> tensor<4xf32>",
                "@lapack_sgetrf",
            ),
            (
                "%0 = stablehlo.constant dense_resource<x> : tensor<4xf32>",
                "dense_resource",
            ),
            (
                "%0 = stablehlo.add %a, %a : tensor<4x!quant.uniform<i8:f32, 0.1>>",
                "quant",
            ),
            (
                "%0 = stablehlo.constant dense<1.x> : tensor<f32>",
                "constant",
            ),
        ] {
            let error = widen(line).expect_err(line).to_string();
            assert!(error.contains(shown), "{error}");
        }
        let harmless = "%0 = stablehlo.custom_call @Sharding(%a) {backend_config = \"\"} : (tensor<4xf32>) -> tensor<4xf32>";
        assert!(widen(harmless).is_ok());
        let integers = "%0 = stablehlo.bitcast_convert %a : (tensor<4xi32>) -> tensor<4xui32>\n %1 = stablehlo.negate %b : tensor<f32>";
        assert!(widen(integers).is_ok());
        assert_eq!(
            widen("%0 = stablehlo.negate %a : tensor<f64>"),
            Err(WidenError::Nothing)
        );
    }

    proptest! {
        #[test]
        fn no_text_is_any_harm(text in r#"(tensor<|dense<|[0-9x]{1,3}|f32|>|"|"0x|, algorithm = <|format = e|stablehlo\.custom_call|//|\n| : |[^a-z]){0,20}"#) {
            let _ = widen(&text);
        }
    }
}
