//! What the fields of a configuration mean, family by family.
//!
//! The counts of every family were compared with models that transformers built from the same
//! configurations: `tests/fixtures/models`.

use super::config::{Attention, ConfigError, Decoder, Fields, Layer, MAX_LAYERS, Mlp};

/// Families whose parameters are counted exactly, by `model_type`.
const KNOWN: &[&str] = &[
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3_text",
    "gpt2",
    "gpt_neox",
    "gpt_oss",
    "olmo2",
    "phi",
    "phi3",
    "deepseek_v2",
    "deepseek_v3",
];

/// Names of fields that mean the same.
const HIDDEN: &[&str] = &["hidden_size", "n_embd", "d_model"];
const LAYERS: &[&str] = &["num_hidden_layers", "n_layer", "num_layers"];
const HEADS: &[&str] = &["num_attention_heads", "n_head", "num_heads"];
const INTERMEDIATE: &[&str] = &["intermediate_size", "n_inner", "ffn_dim"];
const EXPERTS: &[&str] = &["num_experts", "num_local_experts", "n_routed_experts"];

/// Reads a configuration by its family.
pub(super) fn read(
    fields: &Fields<'_>,
    model_type: Option<&str>,
    architecture: &str,
) -> Result<Decoder, ConfigError> {
    let family = family(model_type, architecture);
    let unknown = || ConfigError::Architecture {
        architecture: model_type.unwrap_or(architecture).to_owned(),
        known: KNOWN.join(", "),
    };
    let mut decoder = start(fields, architecture)?;
    let layers = fields.size(LAYERS)?;
    if layers > MAX_LAYERS {
        return Err(ConfigError::Size {
            field: "num_hidden_layers".to_owned(),
            value: layers.to_string(),
            max: MAX_LAYERS,
        });
    }
    let reader: fn(&Fields<'_>, &mut Decoder, u64) -> Result<Layer, ConfigError> = match family {
        Some("gpt2") => gpt2,
        Some("gpt_neox") => gpt_neox,
        Some("phi") => phi,
        Some("deepseek_v2" | "deepseek_v3") => deepseek,
        Some("gemma") => gemma,
        Some("gemma2") => gemma2,
        Some("gemma3" | "gemma3_text") => gemma3,
        Some("qwen2" | "qwen2_moe") => qwen2,
        Some("qwen3" | "qwen3_moe") => qwen3,
        Some("gpt_oss") => gpt_oss,
        Some("olmo2") => olmo2,
        Some(_) => llama,
        None => {
            // What has queries, keys and a gated MLP under the usual names is counted like a Llama.
            let looks_alike = ["hidden_size", "num_attention_heads", "intermediate_size"]
                .iter()
                .all(|name| fields.value(name).is_some());
            let encodes =
                architecture.contains("MaskedLM") || fields.flag("is_encoder_decoder", false);
            if !looks_alike || encodes || fields.value("type_vocab_size").is_some() {
                return Err(unknown());
            }
            decoder.assumptions.push(format!(
                "{} is not known here: counted as a Llama of these sizes (gated MLP, two norms a layer, biases only where the configuration says so)",
                model_type.unwrap_or(architecture)
            ));
            if fields.value("kv_lora_rank").is_some() {
                deepseek
            } else {
                llama
            }
        }
    };
    for index in 0..layers {
        let layer = reader(fields, &mut decoder, index)?;
        decoder.layers.push(layer);
    }
    Ok(decoder)
}

/// The family, by `model_type` or by the architecture's name.
fn family(model_type: Option<&str>, architecture: &str) -> Option<&'static str> {
    if let Some(model_type) = model_type {
        return KNOWN.iter().find(|known| **known == model_type).copied();
    }
    let squeezed: String = architecture
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    // The longest name that fits: Qwen3MoeForCausalLM is no Qwen3.
    KNOWN
        .iter()
        .filter(|known| squeezed.starts_with(&known.replace('_', "")))
        .max_by_key(|known| known.len())
        .copied()
}

/// What all families have.
fn start(fields: &Fields<'_>, architecture: &str) -> Result<Decoder, ConfigError> {
    let hidden = fields.size(HIDDEN)?;
    Ok(Decoder {
        architecture: architecture.to_owned(),
        vocab: fields.size(&["vocab_size"])?,
        hidden,
        layers: Vec::new(),
        positions: 0,
        max_positions: fields.optional(&["max_position_embeddings", "n_positions", "n_ctx"])?,
        tied: fields.flag("tie_word_embeddings", false),
        output_bias: false,
        final_norm: hidden,
        assumptions: Vec::new(),
    })
}

/// Width of a head where the configuration does not say it.
fn head_dim(fields: &Fields<'_>, hidden: u64, heads: u64) -> Result<u64, ConfigError> {
    fields.size_or(&["head_dim"], hidden / heads.max(1))
}

/// Grouped attention under the usual names, without bias.
fn grouped(fields: &Fields<'_>, hidden: u64) -> Result<(u64, u64, u64), ConfigError> {
    let heads = fields.size(HEADS)?;
    let kv_heads = fields.size_or(&["num_key_value_heads"], heads)?;
    Ok((heads, kv_heads, head_dim(fields, hidden, heads)?))
}

/// The window of a layer, by `layer_types` where the file has them.
fn window(fields: &Fields<'_>, layer: u64, otherwise: bool) -> Result<Option<u64>, ConfigError> {
    let slides = fields
        .list("layer_types")
        .and_then(|types| types.get(usize::try_from(layer).ok()?)?.as_str())
        .map_or(otherwise, |kind| kind == "sliding_attention");
    let size = fields.optional(&["sliding_window"])?;
    Ok(size.filter(|size| slides && *size > 0))
}

/// A choice of experts under the usual names; none where there are none.
fn experts(fields: &Fields<'_>) -> Result<Option<Mlp>, ConfigError> {
    let Some(experts) = fields.optional(EXPERTS)?.filter(|experts| *experts > 1) else {
        return Ok(None);
    };
    let per_token = fields
        .size(&["num_experts_per_tok", "moe_topk", "top_k"])?
        .min(experts);
    let intermediate = match fields.optional(&["moe_intermediate_size"])? {
        Some(size) if size > 0 => size,
        _ => fields.size(INTERMEDIATE)?,
    };
    let shared_experts = fields.optional(&["n_shared_experts"])?.unwrap_or(0);
    let shared = match fields.optional(&["shared_expert_intermediate_size"])? {
        Some(size) => size,
        None => shared_experts.saturating_mul(intermediate),
    };
    Ok(Some(Mlp::Sparse {
        experts,
        per_token,
        intermediate,
        bias: false,
        shared,
        shared_gate: false,
    }))
}

/// Llama, Mistral, Mixtral, Phi-3, and what is like them.
fn llama(fields: &Fields<'_>, decoder: &mut Decoder, layer: u64) -> Result<Layer, ConfigError> {
    let (heads, kv_heads, head_dim) = grouped(fields, decoder.hidden)?;
    let bias = fields.flag("attention_bias", false);
    let mlp = match experts(fields)? {
        Some(sparse) => sparse,
        None => Mlp::Dense {
            intermediate: fields.size(INTERMEDIATE)?,
            gated: true,
            bias: fields.flag("mlp_bias", false),
        },
    };
    Ok(Layer {
        attention: Attention::Grouped {
            heads,
            kv_heads,
            head_dim,
            qkv_bias: bias,
            output_bias: bias,
            extra: 0,
            window: window(fields, layer, true)?,
        },
        mlp,
        norms: decoder.hidden.saturating_mul(2),
    })
}

/// Whether a layer of a Qwen has experts.
fn is_sparse(fields: &Fields<'_>, layer: u64) -> Result<bool, ConfigError> {
    let step = fields.size_or(&["decoder_sparse_step"], 1)?;
    let dense = fields
        .list("mlp_only_layers")
        .is_some_and(|layers| layers.iter().any(|l| l.as_u64() == Some(layer)));
    Ok(!dense && (layer + 1).is_multiple_of(step))
}

/// The MLP of a layer of a Qwen.
fn qwen_mlp(fields: &Fields<'_>, layer: u64, gate: bool) -> Result<Mlp, ConfigError> {
    if let Some(Mlp::Sparse {
        experts,
        per_token,
        intermediate,
        bias,
        shared,
        ..
    }) = experts(fields)?
        && is_sparse(fields, layer)?
    {
        return Ok(Mlp::Sparse {
            experts,
            per_token,
            intermediate,
            bias,
            shared,
            shared_gate: gate && shared > 0,
        });
    }
    Ok(Mlp::Dense {
        intermediate: fields.size(INTERMEDIATE)?,
        gated: true,
        bias: false,
    })
}

/// The window of a layer of a Qwen: only where it is switched on, and above some layer.
fn qwen_window(fields: &Fields<'_>, layer: u64) -> Result<Option<u64>, ConfigError> {
    let from = fields.optional(&["max_window_layers"])?.unwrap_or(28);
    let slides = fields.flag("use_sliding_window", false) && layer >= from;
    window(fields, layer, slides)
}

fn qwen2(fields: &Fields<'_>, decoder: &mut Decoder, layer: u64) -> Result<Layer, ConfigError> {
    let (heads, kv_heads, head_dim) = grouped(fields, decoder.hidden)?;
    Ok(Layer {
        attention: Attention::Grouped {
            heads,
            kv_heads,
            head_dim,
            qkv_bias: fields.flag("qkv_bias", true),
            output_bias: false,
            extra: 0,
            window: qwen_window(fields, layer)?,
        },
        mlp: qwen_mlp(fields, layer, true)?,
        norms: decoder.hidden.saturating_mul(2),
    })
}

fn qwen3(fields: &Fields<'_>, decoder: &mut Decoder, layer: u64) -> Result<Layer, ConfigError> {
    let (heads, kv_heads, _) = grouped(fields, decoder.hidden)?;
    // Absent, the class's own default holds, whatever the width.
    let head_dim = fields.size_or(&["head_dim"], 128)?;
    let bias = fields.flag("attention_bias", false);
    Ok(Layer {
        attention: Attention::Grouped {
            heads,
            kv_heads,
            head_dim,
            qkv_bias: bias,
            output_bias: bias,
            extra: head_dim.saturating_mul(2),
            window: qwen_window(fields, layer)?,
        },
        mlp: qwen_mlp(fields, layer, false)?,
        norms: decoder.hidden.saturating_mul(2),
    })
}

/// Gemma ties its embedding unless it is told not to, and has heads of 256.
fn gemma_layer(
    fields: &Fields<'_>,
    decoder: &mut Decoder,
    norms: u64,
    qk_norm: bool,
    window: Option<u64>,
) -> Result<Layer, ConfigError> {
    decoder.tied = fields.flag("tie_word_embeddings", true);
    let (heads, kv_heads, _) = grouped(fields, decoder.hidden)?;
    let head_dim = fields.size_or(&["head_dim"], 256)?;
    let bias = fields.flag("attention_bias", false);
    Ok(Layer {
        attention: Attention::Grouped {
            heads,
            kv_heads,
            head_dim,
            qkv_bias: bias,
            output_bias: bias,
            extra: if qk_norm {
                head_dim.saturating_mul(2)
            } else {
                0
            },
            window,
        },
        mlp: Mlp::Dense {
            intermediate: fields.size(INTERMEDIATE)?,
            gated: true,
            bias: false,
        },
        norms: decoder.hidden.saturating_mul(norms),
    })
}

fn gemma(fields: &Fields<'_>, decoder: &mut Decoder, _: u64) -> Result<Layer, ConfigError> {
    gemma_layer(fields, decoder, 2, false, None)
}

fn gemma2(fields: &Fields<'_>, decoder: &mut Decoder, layer: u64) -> Result<Layer, ConfigError> {
    let window = window(fields, layer, layer.is_multiple_of(2))?;
    gemma_layer(fields, decoder, 4, false, window)
}

fn gemma3(fields: &Fields<'_>, decoder: &mut Decoder, layer: u64) -> Result<Layer, ConfigError> {
    let every = fields.size_or(&["sliding_window_pattern", "_sliding_window_pattern"], 6)?;
    let window = window(fields, layer, !(layer + 1).is_multiple_of(every))?;
    gemma_layer(fields, decoder, 4, true, window)
}

/// GPT-OSS: experts with a bias, a sink for each head, every other layer with a window.
fn gpt_oss(fields: &Fields<'_>, decoder: &mut Decoder, layer: u64) -> Result<Layer, ConfigError> {
    let (heads, kv_heads, head_dim) = grouped(fields, decoder.hidden)?;
    let bias = fields.flag("attention_bias", true);
    let mut mlp = experts(fields)?.unwrap_or(Mlp::Dense {
        intermediate: fields.size(INTERMEDIATE)?,
        gated: true,
        bias: true,
    });
    if let Mlp::Sparse { bias, .. } = &mut mlp {
        *bias = true;
    }
    Ok(Layer {
        attention: Attention::Grouped {
            heads,
            kv_heads,
            head_dim,
            qkv_bias: bias,
            output_bias: bias,
            extra: heads,
            window: window(fields, layer, layer.is_multiple_of(2))?,
        },
        mlp,
        norms: decoder.hidden.saturating_mul(2),
    })
}

/// OLMo 2 norms queries and keys over all heads.
fn olmo2(fields: &Fields<'_>, decoder: &mut Decoder, layer: u64) -> Result<Layer, ConfigError> {
    let mut read = llama(fields, decoder, layer)?;
    if let Attention::Grouped {
        heads,
        kv_heads,
        head_dim,
        extra,
        ..
    } = &mut read.attention
    {
        *extra = heads.saturating_add(*kv_heads).saturating_mul(*head_dim);
    }
    Ok(read)
}

/// Multi-head attention with biases and a plain MLP with biases.
fn classic(fields: &Fields<'_>, decoder: &Decoder, norms: u64) -> Result<Layer, ConfigError> {
    let (heads, kv_heads, head_dim) = grouped(fields, decoder.hidden)?;
    let bias = fields.flag("attention_bias", true);
    let intermediate = fields.size_or(INTERMEDIATE, decoder.hidden.saturating_mul(4))?;
    Ok(Layer {
        attention: Attention::Grouped {
            heads,
            kv_heads,
            head_dim,
            qkv_bias: bias,
            output_bias: bias,
            extra: 0,
            window: None,
        },
        mlp: Mlp::Dense {
            intermediate,
            gated: false,
            bias: true,
        },
        // A scale and a shift each.
        norms: decoder.hidden.saturating_mul(2).saturating_mul(norms),
    })
}

fn gpt2(fields: &Fields<'_>, decoder: &mut Decoder, _: u64) -> Result<Layer, ConfigError> {
    decoder.tied = fields.flag("tie_word_embeddings", true);
    decoder.positions =
        fields.size_or(&["n_positions", "n_ctx", "max_position_embeddings"], 1024)?;
    decoder.final_norm = decoder.hidden.saturating_mul(2);
    classic(fields, decoder, 2)
}

fn gpt_neox(fields: &Fields<'_>, decoder: &mut Decoder, _: u64) -> Result<Layer, ConfigError> {
    decoder.final_norm = decoder.hidden.saturating_mul(2);
    classic(fields, decoder, 2)
}

fn phi(fields: &Fields<'_>, decoder: &mut Decoder, _: u64) -> Result<Layer, ConfigError> {
    decoder.final_norm = decoder.hidden.saturating_mul(2);
    decoder.output_bias = true;
    let mut layer = classic(fields, decoder, 1)?;
    if let Attention::Grouped {
        extra, head_dim, ..
    } = &mut layer.attention
        && fields.flag("qk_layernorm", false)
    {
        *extra = head_dim.saturating_mul(4);
    }
    Ok(layer)
}

/// DeepSeek V2 and V3: latent attention, shared experts, the first layers dense.
fn deepseek(fields: &Fields<'_>, decoder: &mut Decoder, layer: u64) -> Result<Layer, ConfigError> {
    let dense_first = fields.optional(&["first_k_dense_replace"])?.unwrap_or(0);
    let every = fields.size_or(&["moe_layer_freq"], 1)?;
    let sparse = experts(fields)?.filter(|_| layer >= dense_first && layer.is_multiple_of(every));
    let mlp = match sparse {
        Some(sparse) => sparse,
        None => Mlp::Dense {
            intermediate: fields.size(INTERMEDIATE)?,
            gated: true,
            bias: false,
        },
    };
    Ok(Layer {
        attention: Attention::Latent {
            heads: fields.size(HEADS)?,
            q_rank: fields.optional(&["q_lora_rank"])?.filter(|rank| *rank > 0),
            kv_rank: fields.size(&["kv_lora_rank"])?,
            nope_dim: fields.size(&["qk_nope_head_dim"])?,
            rope_dim: fields.size(&["qk_rope_head_dim"])?,
            value_dim: fields.size(&["v_head_dim"])?,
            bias: fields.flag("attention_bias", false),
        },
        mlp,
        norms: decoder.hidden.saturating_mul(2),
    })
}
