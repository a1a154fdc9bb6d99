//! Paged attention: what the shapes of a call tell although its work stands in the data.

use profiler::evidence::OpProfile;
use profiler::program::shape::Array;

use crate::rules::kernels::blocks::size;

/// A call of ragged paged attention with a combined cache of keys and values:
/// `q [kv heads, tokens, heads of a group.., dim]`, `cache [pages, page, .., dim]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Paged {
    /// Query tokens of the batch, all sequences together.
    pub(crate) tokens: u64,
    /// Query heads, padding included.
    pub(crate) heads: u64,
    /// Elements of a head.
    pub(crate) dim: u64,
    /// Bytes that the keys and values of one token take in the cache.
    pub(crate) token_bytes: f64,
    /// Tokens that the cache holds.
    pub(crate) cache_tokens: u64,
    /// Bytes of queries, results and new keys and values: what any kernel must move.
    pub(crate) moved_bytes: f64,
}

impl Paged {
    /// From the operands, where they have that form.
    pub(crate) fn of(op: &OpProfile, blocks: &[(&str, u64)]) -> Option<Self> {
        let operands = op.instruction.iter().flat_map(|i| &i.operands);
        let arrays: Vec<&Array> = operands
            .filter_map(|operand| operand.shape.as_ref()?.as_array())
            .filter(|array| array.dtype.is_float() || array.dtype.bits() <= 8)
            .filter(|array| array.dims.len() >= 3)
            .collect();
        let (first, cache) = (arrays.first()?, arrays.last()?);
        let (&pages, &page) = (cache.dims.first()?, cache.dims.get(1)?);
        let (&dim, &tokens) = (first.dims.last()?, first.dims.get(1)?);
        let named = size(blocks, &["p", "page_size"]).is_none_or(|named| named == page);
        let cache_tokens = pages.saturating_mul(page);
        if arrays.len() < 2 || !named || first.dims.len() < 4 || cache_tokens == 0 || tokens == 0 {
            return None;
        }
        let heads = first.elements() / tokens.max(1) / dim.max(1);
        let middle: u64 = arrays
            .iter()
            .skip(1)
            .take(arrays.len().saturating_sub(2))
            .map(|array| array.bytes().0)
            .fold(0, u64::saturating_add);
        (heads > 0).then(|| Self {
            tokens,
            heads,
            dim,
            token_bytes: cache.bytes().0 as f64 / cache_tokens as f64,
            cache_tokens,
            moved_bytes: 2.0 * first.bytes().0 as f64 + 2.0 * middle as f64,
        })
    }

    /// FLOPs for each byte of the cache that a block of `queries` reads: two products of
    /// `heads x dim` for each query and token.
    pub(crate) fn intensity(&self, queries: u64) -> f64 {
        let flops = 4.0 * queries as f64 * self.heads as f64 * self.dim as f64;
        if self.token_bytes > 0.0 {
            flops / self.token_bytes
        } else {
            0.0
        }
    }
}
