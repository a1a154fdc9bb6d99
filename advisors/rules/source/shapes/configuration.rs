//! Sizes of a model's configuration.

use profiler::model::{Attention, Decoder, Mlp};
use profiler::units::percent;

use super::{Found, LANES, Role, padded, waste};
use crate::model_config::ModelConfig;

/// The sizes of a configuration that are written in it.
pub(crate) fn found(config: &ModelConfig) -> Vec<Found> {
    let mut found = Vec::new();
    for (role, name, size, fields) in sizes(&config.decoder) {
        if let Some(place) = config.place(fields, "") {
            found.push(Found {
                role,
                name: name.to_owned(),
                size,
                place,
            });
        }
    }
    found
}

/// Role, name, size, and the fields of which the first that is there says it.
type Named = (Role, &'static str, u64, &'static [&'static str]);

fn sizes(decoder: &Decoder) -> Vec<Named> {
    let mut sizes: Vec<Named> = vec![
        (
            Role::Vocabulary,
            "the vocabulary",
            decoder.vocab,
            &["vocab_size"],
        ),
        (
            Role::Hidden,
            "the width",
            decoder.hidden,
            &["hidden_size", "n_embd", "d_model"],
        ),
    ];
    for layer in &decoder.layers {
        match layer.attention {
            Attention::Grouped { head_dim, .. } => sizes.push((
                Role::Head,
                "a head",
                head_dim,
                &["head_dim", "num_attention_heads", "n_head"],
            )),
            Attention::Latent {
                nope_dim, rope_dim, ..
            } => sizes.push((
                Role::Head,
                "a head of queries and keys",
                nope_dim.saturating_add(rope_dim),
                &["qk_rope_head_dim"],
            )),
        }
        match layer.mlp {
            Mlp::Dense { intermediate, .. } => sizes.push((
                Role::Intermediate,
                "the MLP",
                intermediate,
                &["intermediate_size", "n_inner", "ffn_dim"],
            )),
            Mlp::Sparse { intermediate, .. } => sizes.push((
                Role::Expert,
                "an expert",
                intermediate,
                &["moe_intermediate_size", "intermediate_size"],
            )),
        }
    }
    // Layers repeat.
    let mut once: Vec<Named> = Vec::new();
    for size in sizes {
        if !once
            .iter()
            .any(|other| (other.0, other.2) == (size.0, size.2))
        {
            once.push(size);
        }
    }
    once
}

/// What of a configuration is padded, one sentence a size; none where nothing is, or it is no
/// configuration.
#[must_use]
pub fn sentences(text: &str) -> Vec<String> {
    let Ok(decoder) = Decoder::parse(text) else {
        return Vec::new();
    };
    sizes(&decoder)
        .into_iter()
        .filter(|(_, _, size, _)| !size.is_multiple_of(LANES))
        .map(|(role, name, size, _)| {
            let (code, words) = match role {
                Role::Vocabulary => (
                    "TS401",
                    "alone often without effect, with an odd sequence not",
                ),
                Role::Head => ("TS404", "kernels and caches hold whole lanes"),
                _ => ("TS402", "an odd width has its embedding copied each step"),
            };
            format!(
                "{name} of {size} is stored as {} ({} empty): {words}; tpu-tune explain {code}",
                padded(size, LANES),
                percent(waste(size, LANES)),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::sentences;

    #[test]
    fn sizes_of_a_model_that_pad_are_named_once() {
        let gpt2 = include_str!("../../../../tests/fixtures/models/gpt2.json");
        let said = sentences(gpt2);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("the vocabulary of 50257 is stored as 50304 (0.09 % empty)"));
        assert!(said[1].starts_with("a head of 64 is stored as 128 (50.0 % empty)"));
        let qwen3 = include_str!("../../../../tests/fixtures/models/qwen3_235b_a22b.json");
        assert_eq!(sentences(qwen3), Vec::<String>::new());
    }
}
