//! Device memory of a training step, and of serving, by how the job is split.
//!
//! ```text
//! weights, gradients, optimizer   P · bytes / (fsdp · expert · tensor · pipeline)
//! gathered weights                two layers in bf16, one in use and one on its way
//! activations                     what the backward pass reads of each layer, by remat policy
//! logits                          float32 with their gradient: 8 bytes a token and word
//! ```
//!
//! Activations are in bfloat16, split by tensor parallelism throughout (its norms by sequence), and
//! attention is a kernel that stores no scores. What a compiler adds (copies, padding, fragments)
//! and what it saves (fused elementwise work) is not in it: take the sum for a lower bound that is
//! close, and the compiler's own figure where there is one.

use serde::Serialize;

use super::config::{Attention, Decoder, Layer, Mlp};
use super::flops::Remat;
use super::parallelism::Parallelism;
use super::params::{LayerParams, Params};

/// Bytes of bfloat16.
const BF16: f64 = 2.0;
/// Logits and their gradient in float32.
const LOGIT: f64 = 8.0;

/// What an optimizer keeps for each parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// Two moments in float32.
    #[default]
    Adamw,
    /// Two moments in bfloat16.
    AdamwBf16,
    /// One momentum in float32: SGD with momentum, Lion, Muon.
    Momentum,
    /// Nothing that counts: plain SGD, Adafactor's rows and columns.
    Sgd,
}

impl Optimizer {
    /// Bytes a parameter.
    #[must_use]
    pub fn bytes(self) -> f64 {
        match self {
            Self::Adamw => 8.0,
            Self::AdamwBf16 | Self::Momentum => 4.0,
            Self::Sgd => 0.0,
        }
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Adamw => "AdamW, two moments in f32",
            Self::AdamwBf16 => "AdamW, two moments in bf16",
            Self::Momentum => "one momentum in f32",
            Self::Sgd => "no state",
        }
    }
}

/// How a training step stores what it keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stored {
    /// Bytes of a weight.
    pub weight_bytes: f64,
    /// Bytes of a gradient.
    pub gradient_bytes: f64,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// What is computed again.
    pub remat: Remat,
    /// Parts that each step's batch is worked through in.
    pub microbatches: u64,
    /// Parts that the logits of a micro-batch are computed in.
    pub loss_chunks: u64,
}

/// Bytes of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MemoryPlan {
    /// Weights.
    pub weights: f64,
    /// Gradients.
    pub gradients: f64,
    /// Optimizer state.
    pub optimizer: f64,
    /// Weights of the layers at work, gathered.
    pub gathered: f64,
    /// Activations that wait for the backward pass.
    pub activations: f64,
    /// Activations of the layer at work.
    pub working: f64,
    /// Logits of a chunk of the loss.
    pub logits: f64,
}

impl MemoryPlan {
    /// Of a training step with so many tokens in all.
    #[must_use]
    pub fn of(model: &Decoder, tokens: u64, split: &Parallelism, stored: &Stored) -> Self {
        let params = Params::of(model).total() as f64;
        let of_device = params / split.weight_shards().max(1) as f64;
        let tensor = split.tensor.max(1) as f64;
        let micro = stored.microbatches.max(1);
        let local = tokens as f64 / split.batch_shards().max(1) as f64 / micro as f64;
        // One step after the other, a pipeline has one micro-batch in each stage.
        let in_flight = split.pipeline.max(1).min(micro) as f64;
        let layers = |bytes: f64| bytes / split.pipeline.max(1) as f64;
        let kept: f64 = model
            .layers
            .iter()
            .map(|layer| elements(layer, model.hidden, stored.remat))
            .sum();
        let largest = |of: &dyn Fn(&Layer) -> f64| model.layers.iter().map(of).fold(0.0, f64::max);
        let gathered = largest(&|layer| {
            let of_layer = LayerParams::of(layer, model.hidden);
            let experts = of_layer.experts as f64 / split.expert.max(1) as f64;
            (of_layer.shared() as f64 + experts) * BF16 / tensor
        });
        let is_gathered = split.fsdp.saturating_mul(split.expert) > 1;
        Self {
            weights: of_device * stored.weight_bytes,
            gradients: of_device * stored.gradient_bytes,
            optimizer: of_device * stored.optimizer.bytes(),
            gathered: if is_gathered { 2.0 * gathered } else { 0.0 },
            activations: layers(kept) * local * in_flight * BF16 / tensor,
            working: match stored.remat {
                Remat::None => 0.0,
                _ => {
                    largest(&|layer| elements(layer, model.hidden, Remat::None)) * local * BF16
                        / tensor
                }
            },
            logits: model.vocab as f64 * local * LOGIT / tensor / stored.loss_chunks.max(1) as f64,
        }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.weights
            + self.gradients
            + self.optimizer
            + self.gathered
            + self.activations
            + self.working
            + self.logits
    }

    /// The fewest micro-batches with which a step fits, of those that divide the batch of a device;
    /// none where not even one sequence at a time does.
    #[must_use]
    pub fn microbatches_to_fit(
        model: &Decoder,
        batch: u64,
        seq: u64,
        split: &Parallelism,
        stored: &Stored,
        bytes: f64,
    ) -> Option<u64> {
        let local = (batch / split.batch_shards().max(1)).clamp(1, 1 << 16);
        (stored.microbatches.max(1)..=local)
            .filter(|micro| local.is_multiple_of(*micro))
            .find(|micro| {
                let stored = Stored {
                    microbatches: *micro,
                    ..*stored
                };
                Self::of(model, batch.saturating_mul(seq), split, &stored).total() <= bytes
            })
    }
}

/// Numbers that a token leaves in a layer for the backward pass.
fn elements(layer: &Layer, hidden: u64, remat: Remat) -> f64 {
    let hidden = hidden as f64;
    if remat == Remat::Full {
        return hidden;
    }
    let (projected, mixed) = match layer.attention {
        Attention::Grouped {
            heads,
            kv_heads,
            head_dim,
            ..
        } => {
            let queries = heads as f64 * head_dim as f64;
            (queries + 2.0 * kv_heads as f64 * head_dim as f64, queries)
        }
        Attention::Latent {
            heads,
            q_rank,
            kv_rank,
            nope_dim,
            rope_dim,
            value_dim,
            ..
        } => {
            let heads = heads as f64;
            let wide = heads * (2.0 * nope_dim as f64 + rope_dim as f64 + value_dim as f64);
            let narrow = q_rank.unwrap_or(0) as f64 + kv_rank as f64 + rope_dim as f64;
            (wide + narrow, heads * value_dim as f64)
        }
    };
    // Of a gated network gate and up, then their product; of a plain one its inner values twice.
    let (inner, product) = match layer.mlp {
        Mlp::Dense {
            intermediate,
            gated,
            ..
        } => {
            let width = intermediate as f64;
            (if gated { 2.0 * width } else { width }, width)
        }
        Mlp::Sparse {
            per_token,
            intermediate,
            shared,
            ..
        } => {
            let chosen = per_token as f64;
            let width = chosen * intermediate as f64 + shared as f64;
            // Each expert gets a copy of the token.
            (2.0 * width + chosen * hidden, width)
        }
    };
    match remat {
        // Inputs of the layer and of its MLP; norms, attention and products come again.
        Remat::Selective => 2.0 * hidden + projected + inner,
        _ => 4.0 * hidden + projected + mixed + inner + product,
    }
}

/// What serving a model takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cache {
    /// Bytes of keys and values that one more token adds, windows not yet full.
    pub bytes_per_token: f64,
    /// Bytes of a sequence of the length in question, layers with a window holding only that.
    pub bytes_per_sequence: f64,
}

impl Cache {
    /// In bfloat16, for sequences of that length, without padding.
    #[must_use]
    pub fn of(model: &Decoder, seq: u64) -> Self {
        let mut cache = Self {
            bytes_per_token: 0.0,
            bytes_per_sequence: 0.0,
        };
        for layer in &model.layers {
            let (width, held) = match layer.attention {
                Attention::Grouped {
                    kv_heads,
                    head_dim,
                    window,
                    ..
                } => (
                    2.0 * kv_heads as f64 * head_dim as f64,
                    window.map_or(seq, |window| window.min(seq)),
                ),
                Attention::Latent {
                    kv_rank, rope_dim, ..
                } => (kv_rank as f64 + rope_dim as f64, seq),
            };
            cache.bytes_per_token += width * BF16;
            cache.bytes_per_sequence += width * BF16 * held as f64;
        }
        cache
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, MemoryPlan, Optimizer, Stored};
    use crate::model::{Decoder, Parallelism, Remat};

    const STORED: Stored = Stored {
        weight_bytes: 4.0,
        gradient_bytes: 4.0,
        optimizer: Optimizer::Adamw,
        remat: Remat::None,
        microbatches: 1,
        loss_chunks: 1,
    };

    fn llama() -> Decoder {
        Decoder::parse(include_str!("../../tests/fixtures/models/llama_3_8b.json")).expect("read")
    }

    fn split(data: u64, fsdp: u64, tensor: u64) -> Parallelism {
        Parallelism {
            data,
            fsdp,
            tensor,
            expert: 1,
            pipeline: 1,
        }
    }

    #[test]
    fn sixteen_bytes_a_parameter_over_all_axes_but_data() {
        let plan = MemoryPlan::of(&llama(), 1 << 20, &split(2, 8, 4), &STORED);
        let held = plan.weights + plan.gradients + plan.optimizer;
        assert_eq!(held, 8_030_261_248.0 * 16.0 / 32.0);
        let alone = MemoryPlan::of(&llama(), 1 << 20, &split(64, 1, 1), &STORED);
        assert_eq!(alone.gathered, 0.0);
        assert_eq!(alone.weights, 8_030_261_248.0 * 4.0);
    }

    #[test]
    fn each_policy_keeps_less() {
        let of = |remat| {
            let stored = Stored { remat, ..STORED };
            MemoryPlan::of(&llama(), 8192, &split(1, 1, 1), &stored)
        };
        // 4 widths, queries, keys and values, attention's result, gate, up and their product.
        let width = 4.0 * 4096.0 + 4096.0 + 2.0 * 1024.0 + 4096.0 + 3.0 * 14336.0;
        assert_eq!(of(Remat::None).activations, width * 8192.0 * 32.0 * 2.0);
        assert_eq!(of(Remat::Full).activations, 4096.0 * 8192.0 * 32.0 * 2.0);
        assert_eq!(of(Remat::Full).working, width * 8192.0 * 2.0);
        let selective = of(Remat::Selective).activations;
        assert!(selective < of(Remat::None).activations && selective > of(Remat::Full).activations);
    }

    #[test]
    fn micro_batches_are_found_that_fit() {
        let model = llama();
        let split = split(1, 8, 1);
        let gib = 60.0 * (1u64 << 30) as f64;
        let found = MemoryPlan::microbatches_to_fit(&model, 64, 8192, &split, &STORED, gib);
        let micro = found.expect("one sequence at a time fits");
        let fits = |microbatches| {
            let stored = Stored {
                microbatches,
                ..STORED
            };
            MemoryPlan::of(&model, 64 * 8192, &split, &stored).total() <= gib
        };
        assert!(micro > 1 && fits(micro) && !fits(micro / 2), "{micro}");
        assert_eq!(
            MemoryPlan::microbatches_to_fit(&model, 64, 8192, &split, &STORED, 1e6),
            None
        );
    }

    #[test]
    fn a_cache_holds_windows_and_the_narrow_projection() {
        let cache = Cache::of(&llama(), 8192);
        assert_eq!(cache.bytes_per_token, 32.0 * 2.0 * 8.0 * 128.0 * 2.0);
        assert_eq!(cache.bytes_per_sequence, cache.bytes_per_token * 8192.0);
        let gemma = include_str!("../../tests/fixtures/models/gemma_3_1b.json");
        let cache = Cache::of(&Decoder::parse(gemma).expect("read"), 8192);
        // Of 26 layers 4 see everything, the others 512 positions.
        let layer = 2.0 * 256.0 * 2.0;
        assert_eq!(
            cache.bytes_per_sequence,
            layer * (4.0 * 8192.0 + 22.0 * 512.0)
        );
        let deepseek = include_str!("../../tests/fixtures/models/deepseek_v3.json");
        let cache = Cache::of(&Decoder::parse(deepseek).expect("read"), 1);
        assert_eq!(cache.bytes_per_token, 61.0 * (512.0 + 64.0) * 2.0);
    }
}
