//! Kernels that HLO cannot look into: what their name and operands tell of attention and grouped
//! products.
//!
//! The figures hold for a call without a mask, so they are upper bounds; a causal kernel may do
//! little more than half.

use crate::program::Program;
use crate::program::cost::operand_shape;
use crate::program::instruction::Instruction;
use crate::program::matmul::{Basis, Matmul};
use crate::program::shape::{Array, product};

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelKind {
    /// Attention, forward.
    AttentionForward,
    /// Attention, the gradient of the queries.
    AttentionQueryGradient,
    /// Attention, the gradients of keys and values.
    AttentionKeyValueGradient,
    /// Attention, all gradients at once.
    AttentionGradients,
    /// Attention over a paged cache: how long each sequence is stands in the data.
    PagedAttention,
    /// A product in which each group of rows has a matrix of its own.
    GroupedMatmul,
}

/// A kernel, recognized.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// What it computes.
    pub kind: KernelKind,
    /// The dimensions of attention, where its operands show them.
    pub attention: Option<AttentionDims>,
    /// Its FLOPs, where its shapes tell.
    pub flops: Option<f64>,
    /// How sure they are: attention is at most this.
    pub basis: Basis,
}

/// The dimensions of an attention kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionDims {
    /// Query heads, over all sequences of the batch.
    pub query_heads: u64,
    /// Key and value heads, over all sequences of the batch.
    pub kv_heads: u64,
    /// Queries of a head.
    pub queries: u64,
    /// Keys of a head.
    pub keys: u64,
    /// Elements of a query or key.
    pub head_dim: u64,
    /// Elements of a value.
    pub value_dim: u64,
}

impl Kernel {
    /// Recognizes a `tpu_custom_call` by its name, its framework name and its operands.
    pub(super) fn of(program: Option<&Program>, call: &Instruction) -> Option<Self> {
        if call.attributes.custom_call_target != "tpu_custom_call" {
            return None;
        }
        let name = format!("{} {}", call.name, call.metadata.op_name).to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let operands: Vec<&Array> = (0..call.operands.len())
            .filter_map(|i| operand_shape(program, call, i)?.as_array())
            .filter(|array| array.dims.len() >= 2 && array.dtype.is_float())
            .collect();
        if has(&["paged", "rpa-", "rpa_"]) {
            let kind = KernelKind::PagedAttention;
            return Some(Self {
                kind,
                attention: None,
                flops: None,
                basis: Basis::UpperBound,
            });
        }
        if has(&["attention", "splash", "flash", "mha", "mqa"]) {
            return Some(Self::attention(&name, call, &operands));
        }
        if has(&["ragged-dot", "ragged_dot", "gmm", "grouped"]) && !has(&["metadata"]) {
            return Self::grouped(call, &operands);
        }
        None
    }

    fn attention(name: &str, call: &Instruction, operands: &[&Array]) -> Self {
        // Row statistics are results too, but have no head dimension of their own.
        let results = call
            .shape
            .arrays()
            .into_iter()
            .filter(|a| a.dims.len() >= 3)
            .count();
        let backward = name.contains("bwd") || name.contains("backward");
        let kind = if name.contains("dkv") {
            KernelKind::AttentionKeyValueGradient
        } else if name.contains("_dq") {
            KernelKind::AttentionQueryGradient
        } else if backward {
            match results {
                1 => KernelKind::AttentionQueryGradient,
                2 => KernelKind::AttentionKeyValueGradient,
                _ => KernelKind::AttentionGradients,
            }
        } else {
            KernelKind::AttentionForward
        };
        let attention = AttentionDims::of(operands);
        Self {
            kind,
            attention,
            flops: attention.map(|dims| dims.flops(kind)),
            basis: Basis::UpperBound,
        }
    }

    fn grouped(call: &Instruction, operands: &[&Array]) -> Option<Self> {
        let rows = operands.iter().find(|array| array.dims.len() == 2)?;
        let groups = operands.iter().find(|array| array.dims.len() == 3)?;
        let mut results = call.shape.arrays().into_iter();
        let matmul = results.find_map(|out| Matmul::of_grouped(rows, groups, out))?;
        let flops = Some(matmul.flops);
        Some(Self {
            kind: KernelKind::GroupedMatmul,
            attention: None,
            flops,
            basis: Basis::Shapes,
        })
    }
}

impl AttentionDims {
    /// From queries, keys and values, which come first among the operands of every kernel known,
    /// as `[.., heads, length, dim]` or `[.., length, heads, dim]`.
    fn of(operands: &[&Array]) -> Option<Self> {
        let [q, k, v, ..] = operands else { return None };
        let [.., head_dim] = q.dims[..] else {
            return None;
        };
        if q.dims.len() < 3 || *k.dims.last()? != head_dim || k.dims.len() != v.dims.len() {
            return None;
        }
        let split = |dims: &[u64], swap: bool| -> Option<(u64, u64)> {
            let [outer @ .., a, b, _] = dims else {
                // One head for all: `[length, dim]`.
                return Some((1, *dims.first()?));
            };
            let (heads, length) = if swap { (b, a) } else { (a, b) };
            Some((product(outer).saturating_mul(*heads), *length))
        };
        // There are fewer heads than keys, so the keys tell which of the two comes first.
        let swap = matches!(k.dims[..], [.., a, b, _] if a > b);
        let (query_heads, queries) = split(&q.dims, swap)?;
        let (kv_heads, keys) = split(&k.dims, swap)?;
        let fits = split(&v.dims, swap)? == (kv_heads, keys)
            && kv_heads > 0
            && query_heads % kv_heads == 0;
        let value_dim = *v.dims.last()?;
        fits.then_some(Self {
            query_heads,
            kv_heads,
            queries,
            keys,
            head_dim,
            value_dim,
        })
    }

    /// FLOPs without a mask. Scores (`q k`) and their gradients' twins contract or make
    /// `head_dim`; those with values `value_dim`.
    #[must_use]
    pub fn flops(&self, kind: KernelKind) -> f64 {
        let (by_head, by_value) = match kind {
            KernelKind::AttentionForward => (1.0, 1.0),
            KernelKind::AttentionQueryGradient => (2.0, 1.0),
            KernelKind::AttentionKeyValueGradient => (2.0, 2.0),
            KernelKind::AttentionGradients => (3.0, 2.0),
            KernelKind::PagedAttention | KernelKind::GroupedMatmul => (0.0, 0.0),
        };
        let each = by_head * self.head_dim as f64 + by_value * self.value_dim as f64;
        2.0 * self.query_heads as f64 * self.queries as f64 * self.keys as f64 * each
    }
}

/// What the author of a kernel said that it costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthorEstimate {
    /// FLOPs.
    pub flops: u64,
    /// Transcendental functions.
    pub transcendentals: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

impl AuthorEstimate {
    /// The `cost_estimate` of a custom call's backend config.
    #[must_use]
    pub fn of(call: &Instruction) -> Option<Self> {
        let config = call.backend_config.as_deref()?;
        let (_, rest) = config.split_once("\"cost_estimate\":{")?;
        let (object, _) = rest.split_once('}')?;
        let field = |key: &str| {
            let (_, value) = object.split_once(key)?;
            let value = value.trim_start_matches(['"', ':', ' ']);
            let end = value
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(value.len());
            value.get(..end)?.parse().ok()
        };
        Some(Self {
            flops: field("\"flops\"").unwrap_or(0),
            transcendentals: field("\"transcendentals\"").unwrap_or(0),
            bytes: field("\"bytes_accessed\"").unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::hlo_text::parse_instruction;
    use crate::program::shape::Shape;

    fn kernel(name: &str, operands: &str, result: &str) -> Option<Kernel> {
        let text = format!(
            "%{name} = {result} custom-call({operands}), custom_call_target=\"tpu_custom_call\""
        );
        Kernel::of(None, &parse_instruction(&text).expect("an instruction"))
    }

    #[test]
    fn flash_attention_does_two_products() {
        let qkv = "bf16[2,8,2048,128] %q, bf16[2,2,1024,128] %k, bf16[2,2,1024,128] %v";
        let found = kernel("flash_attention.3", qkv, "bf16[2,8,2048,128]").expect("attention");
        assert_eq!(found.kind, KernelKind::AttentionForward);
        assert_eq!(found.flops, Some(4.0 * 16.0 * 2048.0 * 1024.0 * 128.0));
        assert_eq!(found.basis, Basis::UpperBound);
        let dims = found.attention.expect("dims");
        assert_eq!((dims.query_heads, dims.kv_heads), (16, 4));
    }

    #[test]
    fn heads_may_come_after_the_length_and_masks_before_the_queries() {
        let qkv = "s8[8,4,4] %mask, bf16[2048,8,128] %q, bf16[2048,8,128] %k, bf16[2048,8,64] %v";
        let found = kernel("splash_mha_fwd", qkv, "bf16[2048,8,64]").expect("attention");
        assert_eq!(
            found.flops,
            Some(2.0 * 8.0 * 2048.0 * 2048.0 * (128.0 + 64.0))
        );
    }

    #[test]
    fn gradients_do_three_to_five_products() {
        let each = 2.0 * 8.0 * 512.0 * 512.0 * 64.0;
        let qkv = "bf16[8,512,64] %q, bf16[8,512,64] %k, bf16[8,512,64] %v, bf16[8,512,64] %do";
        let array = "bf16[8,512,64]";
        let flops = |name: &str, result: &str| kernel(name, qkv, result).and_then(|k| k.flops);
        assert_eq!(flops("splash_mha_dq", array), Some(3.0 * each));
        assert_eq!(
            flops("splash_mha_dkv", &format!("({array}, {array})")),
            Some(4.0 * each)
        );
        assert_eq!(flops("attention_backward.5", array), Some(3.0 * each));
        assert_eq!(
            flops("attention_bwd", &format!("({array}, {array}, {array})")),
            Some(5.0 * each)
        );
    }

    #[test]
    fn what_the_shapes_do_not_tell_is_not_said() {
        let paged = kernel(
            "RPA-bq_32-p_64-.2",
            "bf16[4,1024,3,2,128] %q, bf16[7007,64,4,2,128] %kv",
            "bf16[4,1024,3,2,128]",
        );
        assert_eq!(
            paged.map(|k| (k.kind, k.flops)),
            Some((KernelKind::PagedAttention, None))
        );
        let strange = kernel(
            "flash",
            "bf16[8,512,64] %q, bf16[8,512,32] %k, bf16[8,512,64] %v",
            "bf16[8,512,64]",
        );
        assert_eq!(strange.and_then(|k| k.flops), None);
        assert_eq!(
            kernel("rms_norm", "bf16[8,512,64] %x", "bf16[8,512,64]"),
            None
        );
    }

    #[test]
    fn a_grouped_product_counts_each_row_once() {
        let operands = "s32[65] %offsets, bf16[2048,1024] %x, bf16[64,1024,1536] %w";
        let found = kernel("ragged-dot-none", operands, "bf16[2048,1536]").expect("a kernel");
        assert_eq!(found.flops, Some(2.0 * 2048.0 * 1024.0 * 1536.0));
    }

    #[test]
    fn the_authors_estimate_is_read_from_the_config() {
        let mut call = Instruction::new(
            "k",
            crate::program::opcode::Opcode::new("custom-call"),
            Shape::Token,
        );
        call.backend_config = Some(r#"{"custom_call_config":{"body":"QQ==","cost_estimate":{"flops":"100","transcendentals":"5","bytes_accessed":"64"}}}"#.to_owned());
        assert_eq!(
            AuthorEstimate::of(&call),
            Some(AuthorEstimate {
                flops: 100,
                transcendentals: 5,
                bytes: 64
            })
        );
    }
}
