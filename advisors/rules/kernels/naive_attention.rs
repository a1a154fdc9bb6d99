//! Attention whose scores go to HBM and come back.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;
use knowledge::efficiency::{Work, reachable};
use profiler::evidence::{OpClass, OpProfile};
use profiler::program::shape::{Array, MemorySpace};
use profiler::session::ModuleId;
use profiler::units::{self, Bytes, percent, with_digits};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};

/// See the card.
#[derive(Debug)]
pub struct NaiveAttention;

/// A saving below this share of the step is not worth a line.
const MIN_SHARE: f64 = 0.005;
/// Fewer positions make scores that are no trouble.
const MIN_POSITIONS: u64 = 256;
/// Below this many positions a kernel was measured to win memory and hardly any time.
const SHORT: u64 = 2048;
/// A time below the floor by more than this means that the cost cannot be right.
const BELIEVABLE: f64 = 1.05;
/// Findings of this rule.
const MAX_FINDINGS: usize = 3;

impl Rule for NaiveAttention {
    fn code(&self) -> &'static str {
        "TT506"
    }

    fn name(&self) -> &'static str {
        "naive-attention"
    }

    fn card(&self) -> &'static str {
        include_str!("naive_attention.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        if context.evidence.chip.is_none() {
            return Vec::new();
        }
        let mut found: Vec<(f64, Draft)> = scores(context)
            .into_values()
            .filter_map(|scores| scores.draft(context))
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.title.cmp(&b.1.title)));
        found.truncate(MAX_FINDINGS);
        found.into_iter().map(|(_, draft)| draft).collect()
    }
}

/// The operations that touch score arrays of one shape in HBM, over all layers.
#[derive(Default)]
struct Scores<'a> {
    /// As written by the product of queries and keys.
    dims: Vec<u64>,
    queries: u64,
    keys: u64,
    ops: Vec<Touch<'a>>,
    /// Whether a product reads the scores and makes something smaller of them.
    consumed: bool,
}

/// One operation and the bytes of scores that it moves.
struct Touch<'a> {
    op: &'a OpProfile,
    read: u64,
    written: u64,
}

type Key = (Option<ModuleId>, Vec<u64>);

/// The dimensions in order of size, ones left out: transposed or reshaped, it is the same array.
fn sorted_dims(array: &Array) -> Vec<u64> {
    let mut dims: Vec<u64> = array.dims.iter().copied().filter(|&dim| dim > 1).collect();
    dims.sort_unstable();
    dims
}

/// What a product of queries and keys writes, with their numbers: an array of many heads whose
/// contracted size (the head's) is smaller than either.
fn written_scores(op: &OpProfile) -> Option<(&Array, u64, u64)> {
    if op.class != OpClass::Matmul || op.roofline.efficiency > BELIEVABLE {
        return None;
    }
    let instruction = op.instruction.as_ref()?;
    let arrays = instruction.shape.arrays();
    arrays
        .into_iter()
        .filter(|array| array.memory_space() == MemorySpace::Hbm)
        .find_map(|array| {
            let (queries, keys) = by_product(op, array).or_else(|| by_work(op, array))?;
            Some((array, queries, keys))
        })
}

/// By the dimensions of the product, where the model knows them.
fn by_product(op: &OpProfile, array: &Array) -> Option<(u64, u64)> {
    let product = op.model.matmuls.iter().find(|product| {
        let positions = product.m.min(product.n);
        let made = [product.batch, product.m, product.n];
        let elements = made
            .iter()
            .try_fold(1u64, |size, dim| size.checked_mul(*dim));
        product.batch > 1
            && positions >= MIN_POSITIONS
            && product.k < positions
            && elements == Some(array.elements())
    })?;
    Some((product.m, product.n))
}

/// By the work done for each element, of an array with at least two dimensions (sequences and
/// heads) beside its two largest: a product of two activations that come as one operand.
fn by_work(op: &OpProfile, array: &Array) -> Option<(u64, u64)> {
    let dims = sorted_dims(array);
    let [_, _, .., queries, keys] = dims[..] else {
        return None;
    };
    let contracted = op.cost.flops? / 2.0 / array.elements().max(1) as f64;
    let fits = queries >= MIN_POSITIONS && contracted >= 2.0 && contracted < queries as f64;
    fits.then_some((queries, keys))
}

fn scores<'a>(context: &Context<'a>) -> BTreeMap<Key, Scores<'a>> {
    let mut found: BTreeMap<Key, Scores<'a>> = BTreeMap::new();
    let ops = &context.evidence.ops;
    for op in ops {
        if let Some((array, queries, keys)) = written_scores(op) {
            found
                .entry((op.module, sorted_dims(array)))
                .or_insert_with(|| Scores {
                    dims: array.dims.clone(),
                    queries,
                    keys,
                    ..Scores::default()
                });
        }
    }
    if found.is_empty() {
        return found;
    }
    for op in ops {
        let Some(instruction) = &op.instruction else {
            continue;
        };
        // Containers and the compiler's asynchronous moves carry other arrays along.
        let passive = matches!(
            op.class,
            OpClass::ControlFlow | OpClass::CustomCall | OpClass::Collective(_)
        );
        if passive || op.step_self_ps <= 0.0 || op.roofline.efficiency > BELIEVABLE {
            continue;
        }
        let operands = instruction.operands.iter();
        let read: Vec<&Array> = operands
            .filter_map(|operand| operand.shape.as_ref()?.as_array())
            .collect();
        let written = instruction.shape.arrays();
        for ((module, dims), scores) in &mut found {
            let bytes = |arrays: &[&Array]| -> u64 {
                arrays
                    .iter()
                    .filter(|array| array.memory_space() == MemorySpace::Hbm)
                    .filter(|array| array.dims.len() >= dims.len() && sorted_dims(array) == *dims)
                    .map(|array| array.padded_bytes().0)
                    .fold(0, u64::saturating_add)
            };
            if *module != op.module {
                continue;
            }
            let (read, written) = (bytes(&read), bytes(&written));
            if read == 0 && written == 0 {
                continue;
            }
            scores.consumed |= op.class == OpClass::Matmul && read > 0 && written == 0;
            scores.ops.push(Touch { op, read, written });
        }
    }
    found
}

impl Scores<'_> {
    fn draft(&self, context: &Context<'_>) -> Option<(f64, Draft)> {
        if !self.consumed {
            return None;
        }
        let evidence = context.evidence;
        let generation = evidence.chip.as_ref()?.generation;
        let peak = evidence.peaks.matmul_tflops("bf16")?;
        let bandwidth = evidence.peaks.hbm_gb_per_s.as_ref()?.value;
        let attention = reachable(Work::Attention, generation).reachable;
        let per_step = |of: &dyn Fn(&Touch<'_>) -> f64| -> f64 {
            let each = |touch: &Touch<'_>| of(touch) * touch.op.step_occurrences;
            self.ops.iter().map(each).sum()
        };
        let time: f64 = self.ops.iter().map(|touch| touch.op.step_self_ms()).sum();
        let bytes = per_step(&|touch| touch.read as f64 + touch.written as f64);
        let flops = per_step(&|touch| match touch.op.class {
            OpClass::Matmul => touch.op.cost.flops.unwrap_or(0.0),
            _ => 0.0,
        });
        let traffic = bytes / bandwidth / 1e6;
        let kernel = |share: f64| flops / (peak * share) / 1e9;
        let saved = |share: f64| (time - kernel(share)).max(0.0);
        let short = self.queries.min(self.keys) < SHORT;
        // The ceilings are of 4096 positions and more; at 1024 the same kernels reach their low end.
        let typical = if short {
            attention.low
        } else {
            attention.typical
        };
        let expected = saved(typical).min(traffic);
        if context.share(expected) < MIN_SHARE {
            return None;
        }
        let shape = self
            .dims
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(",");
        let one = self.ops.iter().map(|t| t.written).max().unwrap_or(0);
        let mut ops: Vec<&Touch<'_>> = self.ops.iter().collect();
        ops.sort_by(|a, b| b.op.step_self_ps.total_cmp(&a.op.step_self_ps));
        let mut evidence_list = vec![
            Exhibit::text(
                "scores",
                format!(
                    "[{shape}], up to {} each, {} through HBM a step: {} at its peak",
                    Bytes(one),
                    Bytes(bytes as u64),
                    units::ms(traffic)
                ),
                "arrays of that shape among the operands and results in HBM, tile padding included",
            ),
            Exhibit::text(
                "an attention kernel instead",
                format!(
                    "{} for the same {} at {} of the MXU's peak, half where a causal mask lets it skip blocks",
                    units::ms(kernel(typical)),
                    with_digits(flops / 1e9, "GFLOP"),
                    percent(typical)
                ),
                attention.source.clone(),
            ),
        ];
        evidence_list.extend(ops.iter().take(4).map(|touch| {
            Exhibit::text(
                context.op(touch.op).name.clone(),
                format!(
                    "reads {} and writes {} of scores, {} a step",
                    Bytes(touch.read),
                    Bytes(touch.written),
                    units::ms(touch.op.step_self_ms())
                ),
                context
                    .op(touch.op)
                    .framework_op
                    .trim_end_matches(':')
                    .to_owned(),
            )
        }));
        let mut advice = vec![
            "use a kernel that keeps the scores on the chip (splash or flash attention on TPU; paged attention in serving) with blocks tuned for this shape".to_owned(),
        ];
        if short {
            advice.push(format!(
                "at {} positions expect memory rather than time: spend what it frees ({} for each layer's scores) on a larger batch, and measure both together (a public case won 0.3 % with the kernel alone and 14.3 % with the batch)",
                self.queries.min(self.keys),
                Bytes(one)
            ));
        }
        let draft = Draft {
            title: format!(
                "attention keeps its scores [{shape}] in HBM: {} of each {} step",
                units::ms(time),
                evidence.step_time()
            ),
            kind: AdviceKind::AttentionKernel,
            ops: ops.iter().map(|touch| touch.op.id).collect(),
            evidence: evidence_list,
            claim: Some(Claim {
                expected_ms: expected,
                low_ms: if short { 0.0 } else { saved(attention.low).min(expected) },
                high_ms: saved(attention.high).max(expected),
                upper_bound_ms: (time - 0.5 * kernel(1.0)).max(expected),
                basis: Basis::Modelled,
                formula: format!(
                    "the lesser of the scores' HBM traffic ({}) and {} measured - {} for a kernel at {:.0} % of the peak; high at {:.0} %",
                    units::ms(traffic),
                    units::ms(time),
                    units::ms(kernel(typical)),
                    100.0 * typical,
                    100.0 * attention.high
                ),
                buckets: ops.iter().map(|touch| Bucket::Op(touch.op.id)).collect(),
            }),
            advice,
            caveats: vec![
                "masks and biases that the kernel does not know would have to be rewritten; results differ in the last bits".to_owned(),
                "a transposition of queries and keys in front of the kernel is part of its price and cannot be removed".to_owned(),
            ],
        };
        Some((expected, draft))
    }
}
