//! FLOPs of a token, by a convention that is stated: papers count differently, by up to a fifth.
//!
//! ```text
//! training, a token:  6·N + 3·F        forward 2·N + F, backward twice that
//!   N  parameters that a token multiplies with: active experts only, no table that is looked up
//!   F  attention: Σ over layers 2·(d_qk + d_v)·heads·keys
//!   keys  S/2 causal, S full; w - w²/2S causal within a window of w
//! ```
//!
//! With heads of one width and causal attention this is `6·N + 6·L·S·H·d`, TorchTitan's formula
//! halved for the mask (<https://github.com/pytorch/torchtitan/blob/main/torchtitan/models/utils.py>).
//! Norms, activations and the optimizer are not counted.

use super::config::{Attention, Decoder};
use super::params::Params;

/// Which keys of a sequence a query is counted with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionCount {
    /// Those before it: half of the sequence on average.
    #[default]
    Causal,
    /// All of them, as if there were no mask.
    Full,
    /// None: parameters alone.
    None,
}

/// Which embeddings count as multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmbeddingCount {
    /// The output matrix; what is looked up is not.
    #[default]
    Output,
    /// The output matrix and what is looked up: all active parameters.
    Both,
}

/// What is counted as a model's FLOPs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Convention {
    /// Of attention.
    pub attention: AttentionCount,
    /// Of embeddings.
    pub embeddings: EmbeddingCount,
}

/// What the backward pass computes again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remat {
    /// Nothing.
    #[default]
    None,
    /// Attention's products and what is cheap (Korthikanti et al.,
    /// <https://arxiv.org/abs/2205.05198>).
    Selective,
    /// All layers, from their inputs.
    Full,
}

/// FLOPs of one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flops {
    /// Parameters that count as multiplied: `N`.
    pub params: u64,
    /// Those of them in layers, which full rematerialisation multiplies with again.
    pub layer_params: u64,
    /// Attention's products in a forward pass: `F`.
    pub attention_forward: f64,
}

impl Flops {
    /// Of a token of a sequence of that length.
    #[must_use]
    pub fn of(model: &Decoder, seq: u64, convention: Convention) -> Self {
        let params = Params::of(model);
        let table = model.vocab.saturating_mul(model.hidden);
        Self {
            params: match convention.embeddings {
                EmbeddingCount::Output => params.multiplied(),
                EmbeddingCount::Both if model.tied => params.active().saturating_add(table),
                EmbeddingCount::Both => params.active(),
            },
            layer_params: params.multiplied().saturating_sub(table),
            attention_forward: model
                .layers
                .iter()
                .map(|layer| forward(&layer.attention, seq, convention.attention))
                .sum(),
        }
    }

    /// Forward alone: inference.
    #[must_use]
    pub fn forward(&self) -> f64 {
        2.0 * self.params as f64 + self.attention_forward
    }

    /// Of parameters in a training step: `6·N`.
    #[must_use]
    pub fn of_params(&self) -> f64 {
        6.0 * self.params as f64
    }

    /// Of attention in a training step: `3·F`.
    #[must_use]
    pub fn of_attention(&self) -> f64 {
        3.0 * self.attention_forward
    }

    /// Forward and backward: a training step.
    #[must_use]
    pub fn training(&self) -> f64 {
        self.of_params() + self.of_attention()
    }

    /// The same with what is computed again.
    #[must_use]
    pub fn executed(&self, remat: Remat) -> f64 {
        let again = match remat {
            Remat::None => 0.0,
            Remat::Selective => self.attention_forward,
            Remat::Full => 2.0 * self.layer_params as f64 + self.attention_forward,
        };
        self.training() + again
    }
}

/// FLOPs of a layer's attention in a forward pass, its projections left out: they are parameters.
fn forward(attention: &Attention, seq: u64, count: AttentionCount) -> f64 {
    let (heads, widths, window) = match *attention {
        Attention::Grouped {
            heads,
            head_dim,
            window,
            ..
        } => (heads, head_dim.saturating_mul(2), window),
        Attention::Latent {
            heads,
            nope_dim,
            rope_dim,
            value_dim,
            ..
        } => (
            heads,
            nope_dim.saturating_add(rope_dim).saturating_add(value_dim),
            None,
        ),
    };
    2.0 * heads as f64 * widths as f64 * keys(seq, window, count)
}

/// Keys of a query, on average over a sequence.
fn keys(seq: u64, window: Option<u64>, count: AttentionCount) -> f64 {
    let seq = seq.max(1) as f64;
    let window = window.map_or(seq, |window| (window as f64).min(seq));
    match count {
        AttentionCount::Causal => window - window * window / (2.0 * seq),
        AttentionCount::Full => window,
        AttentionCount::None => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::{AttentionCount, Convention, EmbeddingCount, Flops, Remat, keys};
    use crate::model::Decoder;

    const QWEN3: &str = include_str!("../../tests/fixtures/models/qwen3_235b_a22b.json");

    #[test]
    fn a_window_as_long_as_the_sequence_is_none() {
        assert_eq!(keys(4096, Some(4096), AttentionCount::Causal), 2048.0);
        assert_eq!(keys(4096, None, AttentionCount::Causal), 2048.0);
        // 1,024 of 4,096: a triangle of 1,024 less a half, then 1,024 each.
        let exact: u64 = (1..=4096u64).map(|at| at.min(1024)).sum();
        let mean = exact as f64 / 4096.0;
        assert!((keys(4096, Some(1024), AttentionCount::Causal) - mean).abs() < 0.6);
        assert_eq!(keys(4096, Some(1024), AttentionCount::Full), 1024.0);
    }

    #[test]
    fn the_published_model_by_each_convention() {
        let model = Decoder::parse(QWEN3).expect("a fixture");
        let of = |attention, embeddings| {
            let convention = Convention {
                attention,
                embeddings,
            };
            Flops::of(&model, 4096, convention)
        };
        let ours = of(AttentionCount::Causal, EmbeddingCount::Output);
        assert_eq!(ours.params, 22_190_763_520 - 622_329_856);
        assert_eq!(ours.of_attention(), 6.0 * 94.0 * 4096.0 * 64.0 * 128.0);
        let ratio = |other: Flops| other.training() / ours.training();
        let both = ratio(of(AttentionCount::Causal, EmbeddingCount::Both));
        let full = ratio(of(AttentionCount::Full, EmbeddingCount::Output));
        let none = ratio(of(AttentionCount::None, EmbeddingCount::Output));
        assert!((both * 27.06 - 27.74).abs() < 0.01, "{both}");
        assert!((full * 27.06 - 30.51).abs() < 0.01, "{full}");
        assert!((none * 27.06 - 23.61).abs() < 0.01, "{none}");
    }

    #[test]
    fn what_is_computed_again_is_a_third_without_the_output() {
        let model = Decoder::parse(QWEN3).expect("a fixture");
        let flops = Flops::of(&model, 4096, Convention::default());
        let full = flops.executed(Remat::Full) / flops.training();
        assert!(full > 1.32 && full < 4.0 / 3.0, "{full}");
        let output = 2.0 * 151_936.0 * 4096.0;
        let whole = flops.training() * 4.0 / 3.0;
        assert!((flops.executed(Remat::Full) + output - whole).abs() < whole * 1e-6);
        let selective = flops.executed(Remat::Selective) - flops.training();
        assert_eq!(selective, flops.of_attention() / 3.0);
        assert_eq!(flops.executed(Remat::None), flops.training());
    }
}
