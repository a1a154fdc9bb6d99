//! Rules on sizes that pad: in Python and in configurations of models.
//!
//! A size alone is a hint, never a proof: what an odd size costs was measured by compiling whole
//! models both ways, and padding one size often changed nothing. Findings therefore say what is
//! padded, what such a change gained where it was tried, and which command prices it.

pub mod configuration;
pub mod literals;
pub mod narrow_head;
pub mod odd_batch;
pub mod odd_sequence;
pub mod odd_vocabulary;
pub mod odd_width;
#[cfg(test)]
mod testing;

use profiler::units::percent;

use crate::finding::{Exhibit, Place};

/// The tile's minor dimension on every generation: lanes of a vector register.
pub(crate) const LANES: u64 = 128;
/// Side of the MXU from v6e on; before it is as wide as the lanes.
pub(crate) const WIDE_MXU: u64 = 256;
/// Places that a finding lists at most.
pub(crate) const MAX_PLACES: usize = 6;

/// What a size is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Rows of an embedding.
    Vocabulary,
    /// The model's width.
    Hidden,
    /// Inner width of an MLP.
    Intermediate,
    /// Inner width of an expert.
    Expert,
    /// Width of a head.
    Head,
    /// Positions of a sequence.
    Sequence,
    /// Sequences or samples of a batch.
    Batch,
}

/// A size that stands somewhere.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// What it is of.
    pub role: Role,
    /// What it is called there.
    pub name: String,
    /// The size.
    pub size: u64,
    /// Where.
    pub place: Place,
}

/// The next multiple.
pub(crate) fn padded(size: u64, tile: u64) -> u64 {
    size.div_ceil(tile.max(1)).saturating_mul(tile.max(1))
}

/// The share of a padded size that is nothing.
pub(crate) fn waste(size: u64, tile: u64) -> f64 {
    1.0 - size as f64 / padded(size, tile).max(1) as f64
}

/// Sizes of a role that are no multiple of the lanes and at least so large, each once.
pub(crate) fn odd(found: &[Found], role: Role, least: u64) -> Vec<&Found> {
    found
        .iter()
        .filter(|found| {
            found.role == role && found.size >= least && !found.size.is_multiple_of(LANES)
        })
        .collect()
}

/// Different sizes, in their order.
pub(crate) fn sizes(found: &[&Found]) -> Vec<u64> {
    let mut sizes: Vec<u64> = Vec::new();
    for one in found {
        if !sizes.contains(&one.size) {
            sizes.push(one.size);
        }
    }
    sizes
}

/// The places of sizes, each said what it is padded to.
pub(crate) fn places(found: &[&Found]) -> Vec<Place> {
    found
        .iter()
        .take(MAX_PLACES)
        .map(|found| Place {
            label: format!("stored as {}", padded(found.size, LANES)),
            ..found.place.clone()
        })
        .collect()
}

/// What a size is padded to, as evidence.
pub(crate) fn exhibit(found: &Found, axis: &str) -> Exhibit {
    let (narrow, wide) = (padded(found.size, LANES), padded(found.size, WIDE_MXU));
    let mut words = format!(
        "{} {} is stored as {narrow} ({} of it empty)",
        found.name,
        found.size,
        percent(waste(found.size, LANES))
    );
    if wide != narrow {
        words.push_str(&format!(
            "; v6e and TPU7x multiply {wide} ({})",
            percent(waste(found.size, WIDE_MXU))
        ));
    }
    Exhibit::text(
        axis,
        words,
        "lanes of 128; MXU of 128, from v6e on of 256: jax/_src/pallas/mosaic/tpu_info.py",
    )
}

/// How to find out what a change gains, before it is made.
pub(crate) fn price_it() -> String {
    "price it first: export the step as StableHLO (JAX: `jax.jit(step).lower(...).as_text()`) and run `tpu-tune what-if step.mlir --target v6e-1`, which compiles it with each size rounded up; `tpu-tune predict step.mlir --target v6e-1` says what it takes now".to_owned()
}

/// Whether a file is a test: its sizes are no run's.
pub(crate) fn is_test(path: &str) -> bool {
    let path = path.replace('\\', "/");
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with("test_")
        || name.ends_with("_test.py")
        || name == "conftest.py"
        || path.split('/').any(|part| matches!(part, "tests" | "test"))
}

/// The role that a name stands for; none for names that say nothing.
pub(crate) fn role_of(name: &str) -> Option<Role> {
    let lower = name.to_ascii_lowercase().replace('-', "_");
    Some(match lower.trim_start_matches('_') {
        "vocab_size" | "n_vocab" | "vocab" | "vocabulary_size" | "num_embeddings"
        | "vocab_length" => Role::Vocabulary,
        "hidden_size" | "n_embd" | "d_model" | "embed_dim" | "embedding_dim" | "emb_dim"
        | "hidden_dim" | "model_dim" | "n_embed" => Role::Hidden,
        "intermediate_size" | "ffn_dim" | "d_ff" | "mlp_dim" | "n_inner" | "ffn_hidden_size"
        | "dim_feedforward" | "ffn_size" | "d_ffn" | "mlp_hidden_size" => Role::Intermediate,
        "moe_intermediate_size"
        | "expert_dim"
        | "expert_hidden_size"
        | "shared_expert_intermediate_size" => Role::Expert,
        "head_dim" | "d_head" | "head_size" => Role::Head,
        "block_size"
        | "max_seq_len"
        | "seq_len"
        | "sequence_length"
        | "seq_length"
        | "max_seq_length"
        | "context_length"
        | "context_len"
        | "n_ctx"
        | "ctx_len"
        | "model_max_length"
        | "max_sequence_length"
        | "sequence_len" => Role::Sequence,
        "batch_size"
        | "per_device_train_batch_size"
        | "per_device_batch_size"
        | "micro_batch_size"
        | "train_batch_size"
        | "device_batch_size"
        | "local_batch_size" => Role::Batch,
        _ => return None,
    })
}
