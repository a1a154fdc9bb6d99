//! Parameters of a decoder, counted part by part.

use super::config::{Attention, Decoder, Layer, Mlp};

/// Parameters of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerParams {
    /// Of the attention, its own norms included.
    pub attention: u64,
    /// Of what every token passes: the MLP, shared experts, the router.
    pub dense: u64,
    /// Of all experts.
    pub experts: u64,
    /// Of the experts that one token goes to.
    pub chosen: u64,
    /// Of the norms.
    pub norms: u64,
}

impl LayerParams {
    /// Of a layer of a model of that width.
    #[must_use]
    pub fn of(layer: &Layer, hidden: u64) -> Self {
        let (dense, experts, chosen) = mlp(&layer.mlp, hidden);
        Self {
            attention: attention(&layer.attention, hidden),
            dense,
            experts,
            chosen,
            norms: layer.norms,
        }
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.shared().saturating_add(self.experts)
    }

    /// All but the experts.
    #[must_use]
    pub fn shared(&self) -> u64 {
        self.attention
            .saturating_add(self.dense)
            .saturating_add(self.norms)
    }
}

/// Parameters of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// Of the embedding of tokens.
    pub embedding: u64,
    /// Of a learned table of positions.
    pub positions: u64,
    /// Of the output matrix and its bias; of a tied one only the bias.
    pub output: u64,
    /// Of all attentions.
    pub attention: u64,
    /// Of what every token passes beside them: MLPs, shared experts, routers.
    pub dense: u64,
    /// Of all experts.
    pub experts: u64,
    /// Of the experts that one token goes to.
    pub chosen: u64,
    /// Of all norms.
    pub norms: u64,
    /// Whether the output matrix is the embedding.
    pub tied: bool,
}

impl Params {
    /// Counts a model's.
    #[must_use]
    pub fn of(model: &Decoder) -> Self {
        let table = model.vocab.saturating_mul(model.hidden);
        let bias = if model.output_bias { model.vocab } else { 0 };
        let mut params = Self {
            embedding: table,
            positions: model.positions.saturating_mul(model.hidden),
            output: bias.saturating_add(if model.tied { 0 } else { table }),
            norms: model.final_norm,
            tied: model.tied,
            ..Self::default()
        };
        for layer in &model.layers {
            let of_layer = LayerParams::of(layer, model.hidden);
            params.attention = params.attention.saturating_add(of_layer.attention);
            params.dense = params.dense.saturating_add(of_layer.dense);
            params.experts = params.experts.saturating_add(of_layer.experts);
            params.chosen = params.chosen.saturating_add(of_layer.chosen);
            params.norms = params.norms.saturating_add(of_layer.norms);
        }
        params
    }

    /// What is there whatever the experts.
    fn fixed(&self) -> u64 {
        [
            self.embedding,
            self.positions,
            self.output,
            self.attention,
            self.dense,
            self.norms,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// All of them, a tied embedding counted once.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.fixed().saturating_add(self.experts)
    }

    /// Those that one token passes: experts that it does not go to left out.
    #[must_use]
    pub fn active(&self) -> u64 {
        self.fixed().saturating_add(self.chosen)
    }

    /// Those that one token multiplies with: the active ones without tables that are only looked
    /// up. A tied embedding is multiplied with as the output.
    #[must_use]
    pub fn multiplied(&self) -> u64 {
        let looked_up = if self.tied { 0 } else { self.embedding };
        self.active()
            .saturating_sub(looked_up)
            .saturating_sub(self.positions)
    }

    /// All but the embedding, the positions and the output.
    #[must_use]
    pub fn without_embeddings(&self) -> u64 {
        self.total()
            .saturating_sub(self.embedding)
            .saturating_sub(self.positions)
            .saturating_sub(self.output)
    }
}

/// A matrix and, where it has one, its bias.
fn matrix(inputs: u64, outputs: u64, bias: bool) -> u64 {
    inputs
        .saturating_mul(outputs)
        .saturating_add(if bias { outputs } else { 0 })
}

fn attention(attention: &Attention, hidden: u64) -> u64 {
    match *attention {
        Attention::Grouped {
            heads,
            kv_heads,
            head_dim,
            qkv_bias,
            output_bias,
            extra,
            ..
        } => {
            let queries = heads.saturating_mul(head_dim);
            let keys = kv_heads.saturating_mul(head_dim);
            matrix(hidden, queries, qkv_bias)
                .saturating_add(matrix(hidden, keys, qkv_bias).saturating_mul(2))
                .saturating_add(matrix(queries, hidden, output_bias))
                .saturating_add(extra)
        }
        Attention::Latent {
            heads,
            q_rank,
            kv_rank,
            nope_dim,
            rope_dim,
            value_dim,
            bias,
        } => {
            let queries = heads.saturating_mul(nope_dim.saturating_add(rope_dim));
            let of_queries = match q_rank {
                // Down, a norm, up.
                Some(rank) => matrix(hidden, rank, bias)
                    .saturating_add(rank)
                    .saturating_add(matrix(rank, queries, false)),
                None => matrix(hidden, queries, false),
            };
            let up = heads.saturating_mul(nope_dim.saturating_add(value_dim));
            of_queries
                .saturating_add(matrix(hidden, kv_rank.saturating_add(rope_dim), bias))
                .saturating_add(kv_rank)
                .saturating_add(matrix(kv_rank, up, false))
                .saturating_add(matrix(heads.saturating_mul(value_dim), hidden, bias))
        }
    }
}

/// What all tokens pass, all experts, the experts of one token.
fn mlp(mlp: &Mlp, hidden: u64) -> (u64, u64, u64) {
    let network = |intermediate: u64, gated: bool, bias: bool| {
        let inner = matrix(hidden, intermediate, bias);
        inner
            .saturating_mul(if gated { 2 } else { 1 })
            .saturating_add(matrix(intermediate, hidden, bias))
    };
    match *mlp {
        Mlp::Dense {
            intermediate,
            gated,
            bias,
        } => (network(intermediate, gated, bias), 0, 0),
        Mlp::Sparse {
            experts,
            per_token,
            intermediate,
            bias,
            shared,
            shared_gate,
        } => {
            let one = network(intermediate, true, bias);
            let mut dense = matrix(hidden, experts, bias);
            if shared > 0 {
                dense = dense.saturating_add(network(shared, true, false));
            }
            if shared_gate {
                dense = dense.saturating_add(hidden);
            }
            (
                dense,
                one.saturating_mul(experts),
                one.saturating_mul(per_token),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Params;
    use crate::model::Decoder;

    /// Name, all parameters, those of a token, those of the embeddings: as transformers counts
    /// them, see `tests/fixtures/models/count.py`.
    const COUNTS: &str = include_str!("../../tests/fixtures/models/counts.tsv");

    fn text(name: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/models");
        std::fs::read_to_string(format!("{folder}/{name}.json")).expect("a fixture")
    }

    #[test]
    fn every_family_has_the_parameters_that_transformers_counts() {
        let mut families = 0;
        for line in COUNTS.lines() {
            let mut cells = line.split('\t');
            let name = cells.next().expect("a name");
            let model = Decoder::parse(&text(name)).expect(name);
            let params = Params::of(&model);
            let counted = [
                params.total(),
                params.active(),
                params.embedding + params.positions,
            ];
            let expected: Vec<u64> = cells.map(|cell| cell.parse().expect("a count")).collect();
            assert_eq!(counted.to_vec(), expected, "{name}");
            families += 1;
        }
        assert_eq!(families, 22);
    }

    #[test]
    fn an_output_that_is_the_embedding_is_multiplied_with() {
        let model = Decoder::parse(&text("gpt2")).expect("a fixture");
        let params = Params::of(&model);
        assert_eq!(params.total(), 124_439_808);
        // All but the positions: 1,024 of 768.
        assert_eq!(params.multiplied(), 124_439_808 - 1024 * 768);
        let model = Decoder::parse(&text("qwen3_235b_a22b")).expect("a fixture");
        let params = Params::of(&model);
        assert_eq!(params.multiplied(), params.active() - 151_936 * 4096);
    }
}
