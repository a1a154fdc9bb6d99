//! A decoder as its configuration describes it: what Hugging Face calls `config.json`, read into
//! layers.

use serde_json::Value;

use super::families;

/// Layers that are read at most: a configuration with more is no model.
pub const MAX_LAYERS: u64 = 4096;
/// The largest value of a size.
const MAX_SIZE: u64 = 1 << 28;

/// How a layer mixes positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// Queries in heads, keys and values in as many or fewer.
    Grouped {
        /// Query heads.
        heads: u64,
        /// Key and value heads.
        kv_heads: u64,
        /// Width of a head.
        head_dim: u64,
        /// Whether the projections of queries, keys and values have a bias.
        qkv_bias: bool,
        /// Whether the output projection has a bias.
        output_bias: bool,
        /// Further parameters: norms of queries and keys, sinks.
        extra: u64,
        /// Positions that a query sees at most, itself among them; none where it sees all.
        window: Option<u64>,
    },
    /// Multi-head latent attention: keys and values through a narrow projection that is cached.
    Latent {
        /// Heads.
        heads: u64,
        /// Width of the queries' narrow projection; none where they have none.
        q_rank: Option<u64>,
        /// Width of the cached projection of keys and values.
        kv_rank: u64,
        /// Width of a head's part without position.
        nope_dim: u64,
        /// Width of the part with rotary position, shared by all heads of the keys.
        rope_dim: u64,
        /// Width of a head's values.
        value_dim: u64,
        /// Whether the narrow projections and the output have a bias.
        bias: bool,
    },
}

/// What a layer does to each position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mlp {
    /// One network for all tokens.
    Dense {
        /// Its inner width.
        intermediate: u64,
        /// Whether it has a gate: three matrices, not two.
        gated: bool,
        /// Whether its matrices have a bias.
        bias: bool,
    },
    /// A choice of experts for each token.
    Sparse {
        /// Experts that a token may go to.
        experts: u64,
        /// Experts that it goes to.
        per_token: u64,
        /// Inner width of an expert.
        intermediate: u64,
        /// Whether an expert's matrices have a bias, and the router.
        bias: bool,
        /// Inner width of what all tokens pass beside them; 0 for none.
        shared: u64,
        /// Whether what is shared has a gate of its own, one number a token.
        shared_gate: bool,
    },
}

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// How it mixes positions.
    pub attention: Attention,
    /// What it does to each.
    pub mlp: Mlp,
    /// Parameters of its norms over the model's width.
    pub norms: u64,
}

/// A decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoder {
    /// The architecture, as the configuration names it.
    pub architecture: String,
    /// Rows of the embedding.
    pub vocab: u64,
    /// The model's width.
    pub hidden: u64,
    /// Layers in their order.
    pub layers: Vec<Layer>,
    /// Rows of a table of positions that is learned; 0 for none.
    pub positions: u64,
    /// Longest sequence that it is made for; none where the configuration does not say.
    pub max_positions: Option<u64>,
    /// Whether the output matrix is the embedding itself.
    pub tied: bool,
    /// Whether the output has a bias.
    pub output_bias: bool,
    /// Parameters of the last norm.
    pub final_norm: u64,
    /// What was assumed, and what is left out: for people.
    pub assumptions: Vec<String>,
}

/// Why a configuration cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is no JSON.
    #[error("not a model's configuration: {0}; expected the config.json of a Hugging Face model")]
    Json(String),
    /// It is JSON of something else.
    #[error(
        "not a model's configuration: an object with hidden_size (or n_embd) and vocab_size was expected, as in the config.json of a Hugging Face model"
    )]
    Other,
    /// A size is missing.
    #[error(
        "{architecture}: the configuration does not say {field}; add it (a file that holds only what differs from the defaults is not enough)"
    )]
    Missing {
        /// The architecture.
        architecture: String,
        /// The field.
        field: &'static str,
    },
    /// A size is not one.
    #[error("{field} is {value}, which is not a size: expected a whole number from 1 to {max}")]
    Size {
        /// The field.
        field: String,
        /// What stands there.
        value: String,
        /// The largest that is read.
        max: u64,
    },
    /// The architecture is not a decoder that is known, nor like one.
    #[error(
        "{architecture} is not an architecture whose parameters can be counted: known are {known}, and what has the fields of a Llama"
    )]
    Architecture {
        /// The architecture.
        architecture: String,
        /// Those that are known.
        known: String,
    },
}

/// Fields of a configuration, with the names that they have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    object: &'a serde_json::Map<String, Value>,
    architecture: &'a str,
}

impl<'a> Fields<'a> {
    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// A size under the first of some names that is there.
    pub(super) fn optional(&self, names: &[&str]) -> Result<Option<u64>, ConfigError> {
        for name in names {
            let Some(value) = self.value(name) else {
                continue;
            };
            let whole = value.as_u64().or_else(|| {
                let float = value.as_f64().filter(|float| float.fract() == 0.0)?;
                (float >= 0.0 && float <= MAX_SIZE as f64).then_some(float as u64)
            });
            return match whole.filter(|whole| *whole <= MAX_SIZE) {
                Some(size) => Ok(Some(size)),
                None => Err(ConfigError::Size {
                    field: (*name).to_owned(),
                    value: value.to_string().chars().take(40).collect(),
                    max: MAX_SIZE,
                }),
            };
        }
        Ok(None)
    }

    /// A size that has to be there, under the first of some names, and is not 0.
    pub(super) fn size(&self, names: &[&'static str]) -> Result<u64, ConfigError> {
        let field = names.first().copied().unwrap_or_default();
        match self.optional(names)? {
            Some(0) => Err(ConfigError::Size {
                field: field.to_owned(),
                value: "0".to_owned(),
                max: MAX_SIZE,
            }),
            Some(size) => Ok(size),
            None => Err(ConfigError::Missing {
                architecture: self.architecture.to_owned(),
                field,
            }),
        }
    }

    /// A size that may be absent or 0; then it is another.
    pub(super) fn size_or(&self, names: &[&str], other: u64) -> Result<u64, ConfigError> {
        Ok(self
            .optional(names)?
            .filter(|size| *size > 0)
            .unwrap_or(other))
    }

    pub(super) fn flag(&self, name: &str, otherwise: bool) -> bool {
        self.value(name)
            .and_then(Value::as_bool)
            .unwrap_or(otherwise)
    }

    pub(super) fn list(&self, name: &str) -> Option<&'a Vec<Value>> {
        self.value(name).and_then(Value::as_array)
    }
}

/// The object that describes the text model: a nested one of models that also see or hear.
fn text_part(root: &Value) -> Option<&serde_json::Map<String, Value>> {
    let object = root.as_object()?;
    for name in ["text_config", "llm_config", "language_config"] {
        if let Some(inner) = object.get(name).and_then(Value::as_object)
            && is_model(inner)
        {
            return Some(inner);
        }
    }
    is_model(object).then_some(object)
}

fn is_model(object: &serde_json::Map<String, Value>) -> bool {
    let has = |name: &str| object.get(name).is_some_and(Value::is_number);
    has("vocab_size") && (has("hidden_size") || has("n_embd") || has("d_model"))
}

impl Decoder {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// When it is no configuration of a decoder whose parameters can be counted, or lacks a size.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let root: Value =
            serde_json::from_str(text).map_err(|error| ConfigError::Json(error.to_string()))?;
        let object = text_part(&root).ok_or(ConfigError::Other)?;
        let nested = root
            .as_object()
            .is_some_and(|outer| outer.len() != object.len())
            && root.get("vocab_size").is_none();
        let named = |value: &Value| {
            let first = value.get("architectures")?.as_array()?.first()?.as_str()?;
            Some(first.chars().take(60).collect::<String>())
        };
        let own = object.get("model_type").and_then(Value::as_str);
        let architecture = named(&root)
            .or_else(|| own.map(str::to_owned))
            .unwrap_or_else(|| "this model".to_owned());
        let fields = Fields {
            object,
            architecture: &architecture,
        };
        let mut decoder = families::read(&fields, own, &architecture)?;
        if nested {
            decoder.assumptions.push(
                "only the text model is counted: encoders of images and sound are left out"
                    .to_owned(),
            );
        }
        if let Some(extra) = fields
            .optional(&["num_nextn_predict_layers"])?
            .filter(|n| *n > 0)
        {
            decoder.assumptions.push(format!(
                "multi-token prediction ({extra} further layer) is left out"
            ));
        }
        Ok(decoder)
    }

    /// Whether a text is likely the configuration of a model: what `check` reads of the JSON files
    /// of a folder.
    #[must_use]
    pub fn is_config(text: &str) -> bool {
        // Most JSON files are something else: a search is cheaper than a parse.
        text.contains("\"vocab_size\"")
            && serde_json::from_str::<Value>(text).is_ok_and(|root| text_part(&root).is_some())
    }
}
