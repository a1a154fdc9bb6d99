//! What calls of PyTorch, JAX and NumPy give, and what methods and attributes of tensors are.

use crate::python::value::Framework;

/// What a call of a library function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    /// A tensor where its operands are.
    Tensor(Framework),
    /// A new tensor: on the host unless it is told otherwise (PyTorch), on the device (JAX).
    Created(Framework),
    /// A tuple, list or tree of tensors.
    Many(Framework),
    /// Something that stays on the host: a number, a flag, a dtype, a NumPy array.
    Host,
    /// A module: calling it gives tensors.
    Module(Framework),
    /// An optimizer.
    Optimizer,
    /// A loader of batches: on the device or not.
    Loader { device: bool },
    /// A function that gives what the device computed.
    Compiled(Framework),
    /// Unknown.
    Unknown,
}

/// Parts of `torch` that give no tensor.
const TORCH_HOST: &[&str] = &[
    "Generator",
    "Size",
    "allclose",
    "are_deterministic_algorithms_enabled",
    "autocast",
    "can_cast",
    "device",
    "dtype",
    "equal",
    "enable_grad",
    "finfo",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "get_default_dtype",
    "get_num_threads",
    "get_rng_state",
    "iinfo",
    "inference_mode",
    "initial_seed",
    "is_autocast_enabled",
    "is_complex",
    "is_floating_point",
    "is_grad_enabled",
    "is_nonzero",
    "is_tensor",
    "manual_seed",
    "no_grad",
    "numel",
    "promote_types",
    "result_type",
    "save",
    "seed",
    "set_default_device",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "sym_float",
    "sym_int",
    "sym_max",
    "typename",
    "use_deterministic_algorithms",
];

/// Parts of `torch` that make a tensor out of nothing: on the CPU without `device=`.
const TORCH_CREATED: &[&str] = &[
    "arange",
    "as_tensor",
    "asarray",
    "bartlett_window",
    "blackman_window",
    "empty",
    "eye",
    "from_numpy",
    "frombuffer",
    "full",
    "hamming_window",
    "hann_window",
    "linspace",
    "logspace",
    "normal",
    "ones",
    "rand",
    "randint",
    "randn",
    "randperm",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "BoolTensor",
    "FloatTensor",
    "IntTensor",
    "LongTensor",
    "Tensor",
];

/// Parts of `torch` that give several tensors.
const TORCH_MANY: &[&str] = &[
    "aminmax",
    "broadcast_tensors",
    "chunk",
    "cummax",
    "cummin",
    "frexp",
    "hsplit",
    "meshgrid",
    "mode",
    "sort",
    "split",
    "svd",
    "tensor_split",
    "topk",
    "unbind",
    "unique",
    "unique_consecutive",
    "vsplit",
    "kthvalue",
    "lstm",
    "gru",
    "rnn_tanh",
];

/// Parts of `jax.numpy` and `jax.lax` that give no array.
const JNP_HOST: &[&str] = &[
    "can_cast",
    "dtype",
    "finfo",
    "iinfo",
    "isdtype",
    "issubdtype",
    "iterable",
    "ndim",
    "promote_types",
    "result_type",
    "save",
    "set_printoptions",
    "shape",
    "size",
    "isscalar",
    "broadcast_shapes",
    "Precision",
    "PrecisionLike",
    "ndarray",
];

/// What a call of a qualified name gives.
pub(super) fn call(name: &str) -> Gives {
    let (first, rest) = name.split_once('.').unwrap_or((name, ""));
    match first {
        "torch" => torch(rest),
        "torch_xla" => torch_xla(rest),
        "jax" => jax(rest),
        "numpy" => Gives::Host,
        "flax" if rest.starts_with("linen.") || rest.starts_with("nnx.") => {
            flax(rest.rsplit('.').next().unwrap_or(rest))
        }
        "optax" if rest == "apply_updates" => Gives::Many(Framework::Jax),
        "optax" if rest.contains("entropy") || rest.contains("loss") => {
            Gives::Tensor(Framework::Jax)
        }
        "einops" if matches!(rest, "rearrange" | "reduce" | "repeat" | "einsum") => {
            Gives::Tensor(Framework::Torch)
        }
        "transformers" if rest.starts_with("Auto") && rest.contains("Model") => {
            // `from_pretrained` of it is a method; the class itself is not called.
            if rest.ends_with("from_pretrained") || rest.ends_with("from_config") {
                Gives::Module(Framework::Torch)
            } else {
                Gives::Unknown
            }
        }
        _ => Gives::Unknown,
    }
}

fn torch(rest: &str) -> Gives {
    let torch = Framework::Torch;
    if let Some(inner) = rest.strip_prefix("nn.") {
        return match inner.strip_prefix("functional.") {
            Some(name) if name.starts_with("multi_head_attention") => Gives::Many(torch),
            Some(name) if TORCH_MANY.contains(&name) => Gives::Many(torch),
            Some(_) => Gives::Tensor(torch),
            None => match inner {
                "Parameter" => Gives::Tensor(torch),
                "utils.clip_grad_norm_" | "utils.rnn.pad_sequence" => Gives::Tensor(torch),
                _ if inner.starts_with(char::is_uppercase) && !inner.contains('.') => {
                    Gives::Module(torch)
                }
                _ => Gives::Unknown,
            },
        };
    }
    if let Some(name) = rest.strip_prefix("optim.") {
        return if name.starts_with(char::is_uppercase) && !name.contains('.') {
            Gives::Optimizer
        } else {
            Gives::Unknown
        };
    }
    match rest {
        "utils.data.DataLoader" => return Gives::Loader { device: false },
        "compile" => return Gives::Compiled(torch),
        "load" | "vmap" | "func.vmap" | "func.grad" => return Gives::Unknown,
        "utils.checkpoint.checkpoint" => return Gives::Tensor(torch),
        "autograd.grad" => return Gives::Many(torch),
        _ => {}
    }
    if let Some(name) = rest
        .strip_prefix("linalg.")
        .or_else(|| rest.strip_prefix("fft."))
        .or_else(|| rest.strip_prefix("special."))
    {
        return match name {
            "eig" | "eigh" | "qr" | "slogdet" | "svd" | "lstsq" => Gives::Many(torch),
            _ => Gives::Tensor(torch),
        };
    }
    if rest.contains('.') || rest.is_empty() || TORCH_HOST.contains(&rest) {
        return if TORCH_HOST.contains(&rest) {
            Gives::Host
        } else {
            Gives::Unknown
        };
    }
    if TORCH_CREATED.contains(&rest) {
        Gives::Created(torch)
    } else if TORCH_MANY.contains(&rest) {
        Gives::Many(torch)
    } else if rest.starts_with(char::is_lowercase)
        && !rest.starts_with("is_")
        && !rest.starts_with("get_")
        && !rest.starts_with("set_")
        && !rest.starts_with('_')
    {
        Gives::Tensor(torch)
    } else {
        Gives::Unknown
    }
}

fn torch_xla(rest: &str) -> Gives {
    match rest {
        "distributed.parallel_loader.MpDeviceLoader" => Gives::Loader { device: true },
        "device" | "core.xla_model.xla_device" => Gives::Host,
        "core.xla_model.all_reduce" | "core.xla_model.all_gather" => {
            Gives::Tensor(Framework::Torch)
        }
        "compile" => Gives::Compiled(Framework::Torch),
        _ => Gives::Unknown,
    }
}

fn jax(rest: &str) -> Gives {
    let jax = Framework::Jax;
    let (module, name) = rest.rsplit_once('.').unwrap_or(("", rest));
    match module {
        "numpy" | "lax" | "numpy.linalg" | "numpy.fft" | "scipy.special" | "lax.linalg"
            if JNP_HOST.contains(&name) =>
        {
            Gives::Host
        }
        "numpy"
            if matches!(
                name,
                "split" | "array_split" | "unique" | "meshgrid" | "where_"
            ) =>
        {
            Gives::Many(jax)
        }
        "lax" => match name {
            "scan" | "while_loop" | "fori_loop" | "cond" | "switch" | "top_k" | "map"
            | "associative_scan" => Gives::Many(jax),
            "axis_size"
            | "GatherDimensionNumbers"
            | "ScatterDimensionNumbers"
            | "ConvDimensionNumbers"
            | "conv_dimension_numbers" => Gives::Host,
            _ => Gives::Tensor(jax),
        },
        "numpy" | "numpy.linalg" | "numpy.fft" | "nn" | "scipy.special" | "ops" => {
            Gives::Tensor(jax)
        }
        "random" => match name {
            "split" => Gives::Many(jax),
            _ => Gives::Tensor(jax),
        },
        "nn.initializers" => Gives::Unknown,
        "" => match name {
            "jit" | "pmap" | "vmap" | "grad" | "value_and_grad" | "shard_map" | "checkpoint"
            | "remat" => Gives::Compiled(jax),
            "device_put" | "block_until_ready" => Gives::Many(jax),
            "device_get" | "devices" | "local_devices" | "device_count" | "local_device_count"
            | "process_index" | "process_count" | "eval_shape" | "make_mesh" => Gives::Host,
            _ => Gives::Unknown,
        },
        "tree" | "tree_util" if matches!(name, "map" | "tree_map") => Gives::Unknown,
        _ => Gives::Unknown,
    }
}

fn flax(name: &str) -> Gives {
    let layers = [
        "BatchNorm",
        "Conv",
        "ConvTranspose",
        "Dense",
        "DenseGeneral",
        "Dropout",
        "Einsum",
        "Embed",
        "Embedding",
        "GroupNorm",
        "LayerNorm",
        "Linear",
        "MultiHeadAttention",
        "MultiHeadDotProductAttention",
        "RMSNorm",
        "SelfAttention",
        "Sequential",
    ];
    if layers.contains(&name) {
        Gives::Module(Framework::Jax)
    } else if matches!(
        name,
        "relu"
            | "gelu"
            | "silu"
            | "softmax"
            | "log_softmax"
            | "sigmoid"
            | "tanh"
            | "swish"
            | "max_pool"
            | "avg_pool"
            | "dot_product_attention"
            | "one_hot"
    ) {
        Gives::Tensor(Framework::Jax)
    } else if matches!(name, "jit" | "value_and_grad" | "grad" | "vmap") {
        Gives::Compiled(Framework::Jax)
    } else if name == "Optimizer" {
        Gives::Optimizer
    } else {
        Gives::Unknown
    }
}

/// What a method of a tensor gives.
pub(super) fn method(name: &str) -> Gives {
    match name {
        "item"
        | "tolist"
        | "numpy"
        | "size"
        | "dim"
        | "ndimension"
        | "numel"
        | "nelement"
        | "stride"
        | "data_ptr"
        | "element_size"
        | "get_device"
        | "is_contiguous"
        | "is_floating_point"
        | "is_complex"
        | "is_set_to"
        | "storage_offset"
        | "storage"
        | "untyped_storage"
        | "type"
        | "backward"
        | "register_hook"
        | "has_names"
        | "is_shared"
        | "equal"
        | "allclose"
        | "is_pinned"
        | "requires_grad_"
        | "devices"
        | "is_fully_addressable"
        | "__len__" => Gives::Host,
        "split" | "chunk" | "unbind" | "topk" | "sort" | "tensor_split" | "unique"
        | "unique_consecutive" | "kthvalue" | "mode" | "nonzero_as_tuple" => {
            Gives::Many(Framework::Torch)
        }
        _ => Gives::Tensor(Framework::Torch),
    }
}

/// Whether an attribute of a tensor is one itself.
pub(super) fn attribute_is_tensor(name: &str) -> bool {
    matches!(
        name,
        "T" | "mT" | "H" | "mH" | "data" | "grad" | "real" | "imag" | "at"
    )
}

/// Methods that hardly anything but tensors has.
pub(super) fn only_tensors_have(method: &str) -> bool {
    matches!(
        method,
        "detach"
            | "unsqueeze"
            | "masked_fill"
            | "masked_fill_"
            | "masked_select"
            | "permute"
            | "contiguous"
            | "index_select"
            | "argmax_"
            | "softmax"
            | "log_softmax"
            | "sigmoid"
            | "bmm"
            | "addmm"
            | "logsumexp"
            | "cumsum_"
            | "clamp"
            | "clamp_min"
            | "clamp_max"
            | "scatter_"
            | "scatter_add_"
            | "index_add_"
            | "new_zeros"
            | "new_ones"
            | "new_full"
            | "new_tensor"
            | "new_empty"
            | "type_as"
            | "expand_as"
            | "view_as"
            | "masked_scatter"
            | "requires_grad_"
            | "block_until_ready"
    )
}

/// Attributes of a model's output that are tensors.
pub(super) fn output_attribute(name: &str) -> bool {
    matches!(
        name,
        "loss"
            | "logits"
            | "last_hidden_state"
            | "pooler_output"
            | "hidden_states"
            | "attentions"
            | "prediction_logits"
            | "sample"
            | "image_embeds"
            | "text_embeds"
            | "start_logits"
            | "end_logits"
            | "logits_per_image"
            | "encoder_last_hidden_state"
            | "aux_loss"
            | "prev_sample"
            | "sequences"
    )
}
