//! Paged attention: what the shapes of a call tell although its work stands in the data.

use knowledge::advice::AdviceKind;
use profiler::chip::Generation;
use profiler::evidence::OpProfile;
use profiler::program::shape::Array;
use profiler::units::{self, Bytes, Picos, percent};

use crate::finding::{Basis, Claim, Draft, Exhibit};
use crate::rule::Context;
use crate::rules::kernels::blocks::{blocks, listed, size};
use crate::rules::kernels::custom::Calls;
use crate::rules::kernels::kernel_far_from_roof::{calls_exhibit, narrow_head, tuning_advice};

/// What tuned block sizes took off where they were published, as shares of the time: the lower of
/// two throughputs with a new table (+15 % of a whole server, so more of the kernel), and the
/// largest (+49 % decode throughput).
const TUNED_EXPECTED: f64 = 1.0 - 1.0 / 1.15;
const TUNED_HIGH: f64 = 1.0 - 1.0 / 1.49;
const TUNED_SOURCE: &str = "github.com/vllm-project/tpu-inference pull requests 1308 (+10 and +15 % throughput from a table entry) and 3102 (+49 % decode throughput from other blocks)";

/// A call of ragged paged attention with a combined cache of keys and values:
/// `q [kv heads, tokens, heads of a group.., dim]`, `cache [pages, page, .., dim]`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Paged {
    /// Query tokens of the batch, all sequences together.
    tokens: u64,
    /// Query heads, padding included.
    heads: u64,
    /// Elements of a head.
    dim: u64,
    /// Bytes that the keys and values of one token take in the cache.
    token_bytes: f64,
    /// Tokens that the cache holds.
    cache_tokens: u64,
    /// Bytes of queries, results and new keys and values: what any kernel must move.
    moved_bytes: f64,
}

impl Paged {
    /// From the operands, where they have that form.
    fn of(op: &OpProfile, blocks: &[(&str, u64)]) -> Option<Self> {
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
    fn intensity(&self, queries: u64) -> f64 {
        let flops = 4.0 * queries as f64 * self.heads as f64 * self.dim as f64;
        if self.token_bytes > 0.0 {
            flops / self.token_bytes
        } else {
            0.0
        }
    }
}

/// Paged attention: its work stands in the data, so the shapes only bound it.
pub(super) fn draft(
    context: &Context<'_>,
    calls: &Calls<'_>,
    generation: Generation,
) -> Option<Draft> {
    let evidence = context.evidence;
    let op = calls.first()?;
    let name_blocks = blocks(&calls.name);
    let paged = Paged::of(op, &name_blocks)?;
    let peak = evidence.peaks.matmul_tflops("bf16")?;
    let bandwidth = evidence.peaks.hbm_gb_per_s.as_ref()?.value;
    let ridge = peak * 1e3 / bandwidth;
    let (time, mean_ps) = (calls.time_ms(), calls.mean_ps());
    let floor_ms = calls.count() * paged.moved_bytes / bandwidth / 1e6;
    let cache_bytes = paged.cache_tokens as f64 * paged.token_bytes;
    let cache_ps = cache_bytes * 1e3 / bandwidth;
    let mut exhibits = vec![
        calls_exhibit(calls),
        Exhibit::text(
            "shape",
            format!(
                "{} query tokens, {} query heads of {} (padding included), {} of keys and values a token, cache of {} tokens",
                paged.tokens,
                paged.heads,
                paged.dim,
                Bytes(paged.token_bytes as u64),
                paged.cache_tokens
            ),
            "operands of the call",
        ),
    ];
    let queries = size(&name_blocks, &["bq", "bq_sz", "block_q"]);
    let fallback = fallback(&name_blocks, generation);
    if !name_blocks.is_empty() {
        let remark = if fallback {
            ": the very sizes that tpu-inference's kernel falls back to on this chip when its table of tuned sizes has no entry"
        } else {
            ""
        };
        exhibits.push(Exhibit::text(
            "blocks",
            format!("{}{remark}", listed(&name_blocks)),
            "the kernel's name; github.com/vllm-project/tpu-inference pull request 1328 shows the fallback",
        ));
    }
    if let Some(queries) = queries.filter(|queries| *queries < paged.tokens) {
        let share = (paged.intensity(queries) / ridge).min(1.0);
        exhibits.push(Exhibit::text(
            "blocks of queries",
            format!(
                "in prefill each block of {queries} queries reads its sequence's keys and values again: {:.0} FLOPs a byte, where the chip balances {ridge:.0}, so at most {} of the MXU's peak; from {:.0} queries on HBM is no limit",
                paged.intensity(queries),
                percent(share),
                (queries as f64 * ridge / paged.intensity(queries).max(1e-9)).ceil(),
            ),
            "4 x queries x heads x dim FLOPs for each token's keys and values; peak FLOP/s over HBM bandwidth",
        ));
    }
    exhibits.push(Exhibit::text(
        "bounds",
        format!(
            "reading the whole cache once takes {} at the peak bandwidth, moving queries, new keys and values and results {}; it takes {}",
            Picos(cache_ps as u64),
            Picos((paged.moved_bytes * 1e3 / bandwidth) as u64),
            Picos(mean_ps as u64)
        ),
        "bytes of the operands over the HBM bandwidth; which part of the cache a call reads stands in the data",
    ));
    if let Some(chip) = &evidence.chip {
        exhibits.extend(narrow_head(paged.dim, chip.facts.mxu_size.value));
    }
    let with_blocks = if name_blocks.is_empty() {
        String::new()
    } else {
        format!(
            " with {}blocks {}",
            if fallback { "default " } else { "" },
            listed(&name_blocks)
        )
    };
    let mut advice = tuning_advice();
    advice.push("profile a batch whose lengths are known, or give the kernel a cost_estimate: then its distance from the roof can be told".to_owned());
    Some(Draft {
        title: format!(
            "paged attention takes {} of each {} step ({}){with_blocks}",
            units::ms(time),
            evidence.step_time(),
            percent(context.share(time)),
        ),
        kind: AdviceKind::KernelTuning,
        ops: calls.ids(),
        evidence: exhibits,
        claim: Some(Claim {
            expected_ms: if fallback { time * TUNED_EXPECTED } else { 0.0 },
            low_ms: 0.0,
            high_ms: time * if fallback { TUNED_HIGH } else { TUNED_EXPECTED },
            upper_bound_ms: (time - floor_ms).max(0.0),
            basis: Basis::LookedUp,
            formula: format!(
                "{} x (1 - 1/1.15) = {}, high x (1 - 1/1.49) = {}: what other block sizes won in published cases; they are of whole servers, of which this kernel is a part; never more than down to moving its operands, {}",
                units::ms(time),
                units::ms(time * TUNED_EXPECTED),
                units::ms(time * TUNED_HIGH),
                units::ms(floor_ms)
            ),
            buckets: calls.buckets(),
        })
        .filter(|claim| claim.expected_ms > 0.0),
        advice,
        caveats: vec![
            "how long the sequences are stands in the data, not in the profile: the kernel may already be near what its work allows, and a table may name the same sizes as the fallback".to_owned(),
            format!("the saving is scaled from other models on the same chip or its like: {TUNED_SOURCE}"),
        ],
    })
}

/// Whether the blocks are those that the kernel takes when its table has no entry: 32 queries,
/// and a number of tokens by generation.
fn fallback(blocks: &[(&str, u64)], generation: Generation) -> bool {
    let tokens = match generation {
        Generation::V4 => 512,
        Generation::Tpu7x => 4096,
        _ => 2048,
    };
    let page = size(blocks, &["p", "page_size"]);
    let pages = size(blocks, &["bkvp"]);
    let block = pages
        .zip(page)
        .map(|(pages, page)| pages.saturating_mul(page));
    size(blocks, &["bq"]) == Some(32) && block == Some(tokens)
}
