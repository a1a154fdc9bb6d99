//! StableHLO of a trace: each distinct text once, and how much work it is.

/// A program as TorchTPU gave it to the compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StableHlo {
    /// The module's name, as `tt_jit_train_L20C0_forward_linear`.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Whether `torch.compile` made it, not eager mode.
    pub compiled_mode: bool,
    /// How often the log shows it: launches that ran it, or compiles.
    pub count: u64,
}

/// Bytes that a TPU moves in the time of this many floating-point operations, roughly: only the
/// order of programs rests on it.
const FLOPS_PER_BYTE: u64 = 256;

impl StableHlo {
    /// The module's name in a text.
    #[must_use]
    pub fn name_of(text: &str) -> Option<&str> {
        let (_, after) = text.split_once("module @")?;
        let end = after.find(|c: char| !(c.is_alphanumeric() || "_.$-".contains(c)));
        Some(after.get(..end.unwrap_or(after.len())).unwrap_or_default())
    }

    /// How much work one run is, to tell heavy programs from light ones: bytes of all results, and
    /// the operations of matmuls. No unit.
    #[must_use]
    pub fn weight(&self) -> u64 {
        let mut weight = 0_u64;
        for line in self.text.lines() {
            let Some((_, result)) = line.rsplit_once([':', '>']).map(|_| ((), line)) else {
                continue;
            };
            let types = tensor_elements(result);
            let Some(last) = types.last() else { continue };
            weight = weight.saturating_add(last.saturating_mul(4));
            if line.contains("dot_general") || line.contains("stablehlo.convolution") {
                let operands: u64 = types
                    .iter()
                    .rev()
                    .skip(1)
                    .take(2)
                    .fold(1, |product, count| product.saturating_mul(*count));
                // Of [m,k] by [k,n] into [m,n]: m·k·k·n / (m·n) = k².
                let inner = (operands / (*last).max(1)).isqrt();
                let flops = last.saturating_mul(inner).saturating_mul(2);
                weight = weight.saturating_add(flops / FLOPS_PER_BYTE);
            }
        }
        weight
    }
}

/// Elements of each `tensor<…>` in a line.
fn tensor_elements(line: &str) -> Vec<u64> {
    line.split("tensor<")
        .skip(1)
        .filter_map(|rest| rest.split('>').next())
        .map(|kind| {
            kind.split('x')
                .map_while(|size| size.parse::<u64>().ok())
                .fold(1_u64, |product, size| product.saturating_mul(size))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::StableHlo;

    fn program(text: &str) -> StableHlo {
        StableHlo {
            text: text.to_owned(),
            ..StableHlo::default()
        }
    }

    #[test]
    fn names_and_weights() {
        let text = "module @tt_jit_a {\n  func.func @main() {";
        assert_eq!(StableHlo::name_of(text), Some("tt_jit_a"));
        assert_eq!(StableHlo::name_of("func"), None);
        let dot = program(
            "%1 = stablehlo.dot_general %a, %b : (tensor<64x2048xf32>, tensor<2048x32xf32>) -> tensor<64x32xf32>",
        );
        // 64·32·4 bytes, and 2·64·2048·32 operations at 256 a byte.
        assert_eq!(dot.weight(), 8192 + 2 * 64 * 2048 * 32 / 256);
        assert_eq!(program("%0 = stablehlo.add : tensor<8xf32>").weight(), 32);
    }
}
