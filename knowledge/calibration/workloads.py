"""The programs that the cost model is calibrated on, and their export.

48 workloads of the public JAXBench suite (AI-Hypercomputer/accelerator-agents at 999e01e), whose
device times on one v6e chip it publishes, written afresh from their formulas: same shapes, same
dtypes, same operations. 7p and 11p run op by op there, so their times are of no one program; they
are left out. A program counts when the compiler sees the FLOPs and argument bytes that the suite's
own one has (`check`).

    python workloads.py export programs/       # one <name>.mlir.gz each: StableHLO for the compiler
    python workloads.py check out.tsv          # compiles each for v6e; needs libtpu, no TPU
"""

from __future__ import annotations

import gzip
import math
import pathlib
import sys

import jax
import jax.numpy as jnp
from jax.nn import gelu, log_softmax, logsumexp, relu, sigmoid, silu, softmax, softplus

bf16, f32, i32 = jnp.bfloat16, jnp.float32, jnp.int32

# name -> (function, abstract inputs), in the suite's order.
WORKLOADS = {}


def workload(name, *inputs):
    """Registers a function; an input is a shape (bf16) or a pair of shape and dtype."""

    def abstract(spec):
        shape, dtype = spec if spec and isinstance(spec[0], tuple) else (spec, bf16)
        return jax.ShapeDtypeStruct(shape, dtype)

    def register(function):
        WORKLOADS[name] = (function, [abstract(spec) for spec in inputs])
        return function

    return register


# Attention ------------------------------------------------------------------------------------


def attend(scores, value, mask, fill):
    """softmax of masked scores, times the values; batch and head axes first."""
    weights = softmax(jnp.where(mask, scores, fill), axis=-1)
    return jnp.einsum("...qk,...kd->...qd", weights, value)


def scores_of(query, key):
    return jnp.einsum("...qd,...kd->...qk", query, key)


def f32_causal(s):
    return jnp.tril(jnp.ones((s, s))) != 0


def causal(s):
    return jnp.tril(jnp.ones((s, s), dtype=bool))


def by_head(x):
    return x.transpose(0, 2, 1, 3)


@workload("1p_Flash_Attention", *[(4, 64, 4096, 128)] * 3)
def flash(query, key, value):
    scores = scores_of(query, key) * 128**-0.5
    return attend(scores, value, f32_causal(4096), -1e9)


@workload("2p_GQA_Attention", (4, 4096, 128, 128), *[(4, 4096, 8, 128)] * 2)
def gqa(query, key, value):
    def repeated(x):
        b, s, h, d = x.shape
        return jnp.broadcast_to(x[:, :, :, None], (b, s, h, 16, d)).reshape(b, s, h * 16, d)

    query, key, value = by_head(query), by_head(repeated(key)), by_head(repeated(value))
    scores = scores_of(query, key) * 128**-0.5
    return by_head(attend(scores, value, f32_causal(4096), -1e9))


@workload("3p_MLA_Attention", (4, 2048, 7168), (7168, 1536), (1536, 24576), (7168, 576),
          (512, 16384), (512, 16384), (16384, 7168))
def mla(x, q_down, q_up, kv_down, k_up, v_up, o_proj):
    b, s, h = 4, 2048, 128
    q = ((x @ q_down) @ q_up).reshape(b, s, h, 192)
    q_nope, q_rope = q[..., :128], q[..., 128:]
    c = x @ kv_down
    latent, k_rope = c[..., :512], c[..., 512:]
    k_nope = (latent @ k_up).reshape(b, s, h, 128)
    v = (latent @ v_up).reshape(b, s, h, 128)

    frequencies = 1.0 / (10000.0 ** (jnp.arange(0, 64, 2, dtype=f32) / 64))
    angles = jnp.outer(jnp.arange(s, dtype=f32), frequencies)
    cos = jnp.cos(angles).astype(bf16)[None, :, None]
    sin = jnp.sin(angles).astype(bf16)[None, :, None]

    def rotate(x):
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
        return pairs.reshape(x.shape)

    k_rope = jnp.broadcast_to(k_rope[:, :, None], (b, s, h, 64))
    query = by_head(jnp.concatenate([q_nope, rotate(q_rope)], axis=-1))
    key = by_head(jnp.concatenate([k_nope, rotate(k_rope)], axis=-1))
    scores = scores_of(query, key) * 192**-0.5
    out = by_head(attend(scores, by_head(v), f32_causal(s), -1e9))
    return out.reshape(b, s, h * 128) @ o_proj


@workload("4p_Sparse_Attention", (64, 4096, 128), *[(8, 4096, 128)] * 2)
def sparse(q, k, v):
    k, v = jnp.repeat(k, 8, axis=0), jnp.repeat(v, 8, axis=0)
    return attend(scores_of(q, k), v, causal(4096), -1e30)


@workload("5p_Flex_Attention", *[(4, 64, 4096, 128)] * 3, (64, 4096, 4096))
def flex(q, k, v, bias):
    return attend(scores_of(q, k) * 128**-0.5 + bias, v, causal(4096), -1e30)


@workload("6p_Paged_Attention", (64, 64, 128), *[(16384, 16, 8, 128)] * 2, ((64,), i32),
          ((64, 256), i32), ((65,), i32))
def paged(queries, k_pages, v_pages, kv_lens, page_indices, cu_q_lens):
    def one(i):
        query = jax.lax.dynamic_slice_in_dim(queries, cu_q_lens[i], 1)
        pages = page_indices[i]
        key = jnp.repeat(k_pages[pages].reshape(4096, 8, 128), 8, axis=1)
        value = jnp.repeat(v_pages[pages].reshape(4096, 8, 128), 8, axis=1)
        scores = jnp.einsum("qhd,khd->hqk", query, key) * 128**-0.5
        scores = jnp.where(jnp.arange(4096)[None, None] < kv_lens[i], scores, -1e30)
        return jnp.einsum("hqk,khd->qhd", softmax(scores, axis=-1), value)[0]

    return jax.vmap(one)(jnp.arange(64))


# Matmuls and mixtures --------------------------------------------------------------------------


@workload("8p_GEMM", (8192, 8192), (8192, 28672))
def gemm(a, b):
    return a @ b


@workload("9p_SwiGLU_MLP", (2, 4096, 8192), *[(8192, 28672)] * 2, (28672, 8192))
def swiglu(x, gate, up, down):
    return (silu(x @ gate) * (x @ up)) @ down


@workload("10p_Sparse_MoE", (2, 4096, 4096), (4096, 8), *[(8, 4096, 14336)] * 2, (8, 14336, 4096))
def moe(x, router, gate, up, down):
    values, indices = jax.lax.top_k(x @ router, 2)
    chosen = softmax(values, axis=-1)
    hidden = silu(jnp.einsum("bse,nem->bsnm", x, gate)) * jnp.einsum("bse,nem->bsnm", x, up)
    y = jnp.einsum("bsnm,nme->bsne", hidden, down)
    weights = (jax.nn.one_hot(indices, 8) * chosen[..., None]).sum(axis=-2)
    return jnp.einsum("bsne,bsn->bse", y, weights)


@workload("12p_RMSNorm", (8, 4096, 8192), (8192,))
def rms_norm(x, scale):
    x = x.astype(f32)
    y = x * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-5)
    return y.astype(bf16) * scale


@workload("13p_Cross_Entropy", (8192, 4096), (4096, 128256), ((8192,), i32))
def cross_entropy(hidden, weight, labels):
    log_probs = log_softmax(hidden @ weight, axis=-1)
    return jnp.mean(-jnp.sum(jax.nn.one_hot(labels, 128256) * log_probs, axis=-1))


@workload("14p_Ragged_Dot", (8, 1024, 4096), (8, 4096, 14336))
def grouped(x, weights):
    return jnp.einsum("gmk,gkn->gmn", x, weights)


@workload("15p_RetNet_Retention", *[(4, 16, 4096, 256)] * 3)
def retention(query, key, value):
    s = 4096
    log_gamma = jnp.log(1 - jnp.exp2(-5 - jnp.arange(16, dtype=f32)))
    position = jnp.arange(s, dtype=f32)
    distance = position[:, None] - position[None]
    decay = jnp.exp(log_gamma[:, None, None] * distance) * (distance >= 0).astype(f32)
    qk = scores_of(query.astype(f32), key.astype(f32)) * decay[None]
    qk = qk / jnp.maximum(jnp.sum(jnp.abs(qk), axis=-1, keepdims=True), 1.0)
    return jnp.einsum("bhqk,bhkd->bhqd", qk.astype(bf16), value)


@workload("16p_Mamba2_SSD", *[(4, 64, 4096, 64)] * 3, ((4, 64, 4096), f32))
def ssd(query, key, value, a_log):
    c = jnp.cumsum(jnp.log(sigmoid(a_log) + 1e-8), axis=-1)
    difference = c[..., :, None] - c[..., None, :]
    decay = jnp.exp(jnp.where(causal(4096), difference, -1e30))
    p = scores_of(query.astype(f32), key.astype(f32)) * decay
    total = jnp.sum(p, axis=-1, keepdims=True)
    total = jnp.where(jnp.abs(total) < 1e-6, 1.0, total)
    p = p / jnp.maximum(jnp.abs(total), 1.0)
    return jnp.einsum("bhqk,bhkd->bhqd", p.astype(bf16), value)


@workload("17p_Triangle_Multiplication", (1536, 1536, 128), (1536, 1536, 1), *[(128, 128)] * 4,
          (128,), *[(128, 128)] * 2)
def triangle(pair, mask, left_p, right_p, left_g, right_g, scale, out_p, out_g):
    a = pair * mask
    left = (a @ left_p) * sigmoid(a @ left_g)
    right = (a @ right_p) * sigmoid(a @ right_g)
    t = jnp.einsum("ikc,jkc->ijc", left, right)
    norm = jnp.sqrt(jnp.mean(t**2, axis=-1, keepdims=True) + 1e-6)
    return (t / norm * scale) @ out_p * sigmoid(pair @ out_g)


# Norms ------------------------------------------------------------------------------------------


def normalized(x, axes, biased=True, eps=1e-5):
    """(x - mean) / sqrt(var + eps); `biased` takes the library's variance, else one in bf16."""
    mean = jnp.mean(x, axis=axes, keepdims=True)
    if biased:
        variance = jnp.var(x, axis=axes, keepdims=True)
    else:
        variance = jnp.mean((x - mean) ** 2, axis=axes, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + eps)


def group_norm(x, groups, gamma, beta):
    """Channels on axis 1, in groups; the statistics are over a group and all axes behind it."""
    n, c, *rest = x.shape
    grouped = x.reshape(n, groups, c // groups, *rest)
    x = normalized(grouped, tuple(range(2, grouped.ndim))).reshape(x.shape)
    return x * channels(gamma, x) + channels(beta, x)


def channels(parameter, x):
    return parameter.reshape(1, -1, *[1] * (x.ndim - 2))


def eval_batch_norm(y, scale, bias, mean, var):
    return scale * ((y - mean) / jnp.sqrt(var + 1e-5)) + bias


def mish(x):
    return x * jnp.tanh(softplus(x))


# Convolutions -----------------------------------------------------------------------------------


def conv(x, weight):
    """Channels-first input and weights in, channels-last result out; stride 1, no padding."""
    spatial = "DHW"[-(x.ndim - 2):]
    last = (0, *range(2, x.ndim), 1)
    return jax.lax.conv_general_dilated(
        x.transpose(last), weight.transpose(*range(2, x.ndim), 1, 0), (1,) * len(spatial), "VALID",
        dimension_numbers=(f"N{spatial}C", f"{spatial}IO", f"N{spatial}C"))


def first(x):
    """Channels to axis 1."""
    return x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1))


@workload("18k_Conv2D_ReLU_BiasAdd", (128, 64, 128, 128), (128, 64, 3, 3), (128,), (128, 1, 1))
def conv_relu(x, weight, conv_bias, bias):
    return first(relu(conv(x, weight) + conv_bias)) + bias


@workload("22k_Conv2d_InstanceNorm_Divide", (128, 64, 128, 128), (128, 64, 3, 3), *[(128,)] * 3)
def conv_instance_norm(x, weight, conv_bias, gamma, beta):
    y = normalized(first(conv(x, weight) + conv_bias), (2, 3))
    return (y * channels(gamma, y) + channels(beta, y)) / 2


@workload("25k_Conv3d_GroupNorm_Mean", (128, 3, 24, 32, 32), (24, 3, 3, 3, 3), *[(24,)] * 3)
def conv3d_group_norm(x, weight, conv_bias, gamma, beta):
    y = group_norm(first(conv(x, weight) + conv_bias), 8, gamma, beta)
    return jnp.mean(y, axis=(1, 2, 3, 4))


@workload("28k_ConvTranspose3d_LayerNorm_GELU_Scaling", (32, 32, 16, 32, 32), (32, 64, 4, 4, 4),
          *[(64,)] * 3)
def conv_transpose(x, weight, conv_bias, gamma, beta):
    x = x.transpose(0, 2, 3, 4, 1)
    kernel = weight.transpose(2, 3, 4, 1, 0)[::-1, ::-1, ::-1]
    spread = jnp.zeros((32, 31, 63, 63, 32), bf16).at[:, ::2, ::2, ::2].set(x)
    y = jax.lax.conv_general_dilated(spread, kernel, (1, 1, 1), [(2, 2)] * 3,
                                     dimension_numbers=("NDHWC", "DHWOI", "NDHWC"))
    y = normalized(first(y + conv_bias), -1, biased=False) * gamma + beta
    return gelu(y) * 1


@workload("33k_Conv3d_Mish_Tanh", (16, 32, 32, 64, 64), (64, 32, 3, 3, 3), (64,))
def conv3d_mish(x, weight, bias):
    y = conv(x, weight) + bias
    return first(jnp.tanh(y * jnp.tanh(jnp.log(1 + jnp.exp(y)))))


@workload("34k_Conv2d_Activation_BatchNorm", (64, 64, 128, 128), (128, 64, 3, 3), *[(128,)] * 3)
def conv_batch_norm(x, weight, conv_bias, gamma, beta):
    y = first(conv(x, weight) + conv_bias)
    y = normalized(jnp.tanh(softplus(y)) * y, (0, 2, 3), biased=False)
    return y * channels(gamma, y) + channels(beta, y)


@workload("39k_Conv2d_GELU_GlobalAvgPool", (128, 8, 256, 256), (64, 8, 3, 3), (64,))
def conv_pool(x, weight, bias):
    return jnp.mean(gelu(conv(x, weight) + bias), axis=(1, 2))


@workload("46k_Conv2d_GroupNorm_Tanh_HardSwish_ResidualAdd_LogSumExp", (128, 8, 128, 128),
          (64, 8, 3, 3), *[(64,)] * 3)
def conv_group_norm(x, weight, conv_bias, gamma, beta):
    c = first(conv(x, weight) + conv_bias)
    t = jnp.tanh(group_norm(c, 16, gamma, beta))
    return logsumexp(c + t * jnp.minimum(jnp.maximum(t + 3, 0), 6) / 6, axis=1, keepdims=True)


# Matmuls with what follows them -------------------------------------------------------------------

X, W, V = (4096, 8192), (8192, 8192), (8192,)


def epilogue(name, function):
    """x·W + b, then elementwise or along the row."""
    workload(name, X, W, V)(lambda x, w, b: function(x @ w + b))


def transposed_epilogue(name, function):
    """x·Wᵀ + b, then elementwise or along the row."""
    workload(name, X, W, V)(lambda x, w, b: function(x @ w.T + b))


epilogue("19k_Matmul_Subtract_Multiply_ReLU", lambda y: relu((y - 2) * 1.5))


@workload("20k_Gemm_Multiply_LeakyReLU", X, W, V)
def leaky(x, w, b):
    y = (x @ w + b) * 2
    return jnp.where(y >= 0, y, y * 0.1)


@workload("21k_Gemm_Divide_Sum_Scaling", X, W)
def divide_sum(x, w):
    y = jnp.matmul(x, w.T, precision=jax.lax.Precision.HIGHEST) / 2
    return jnp.sum(y, axis=1, keepdims=True) * 1.5


def sum_and_identities(y):
    y = jnp.sum(y, axis=1, keepdims=True)
    y = jnp.mean(jnp.max(y, axis=1, keepdims=True), axis=1, keepdims=True)
    return logsumexp(logsumexp(y, axis=1, keepdims=True), axis=1, keepdims=True)


def clamped_lse_mish(y):
    y = y * 2
    lse = logsumexp(jnp.clip(y + y, -10, 10), axis=1, keepdims=True)
    return lse * mish(lse)


transposed_epilogue("23k_Matmul_Sum_Max_AvgPool_LogSumExp_LogSumExp", sum_and_identities)
transposed_epilogue("24k_Matmul_Scale_ResidualAdd_Clamp_LogSumExp_Mish", clamped_lse_mish)


@workload("26k_BMM_InstanceNorm_Sum_ResidualAdd_Multiply", X, X, W, V, V, V)
def instance_norm_residual(x, y, w, b, gamma, beta):
    z = (x @ w.T + b)[:, :, None, None]
    z = normalized(z, (2, 3)) * channels(gamma, z) + channels(beta, z)
    return (z[:, :, 0, 0] + y) * y


epilogue("27k_Matmul_Mish_Mish", lambda y: mish(mish(y)))


@workload("29k_Matmul_Swish_Sum_GroupNorm", (8192, 4096), (4096, 4096), *[(4096,)] * 3)
def swish_group_norm(x, w, b, gamma, beta):
    y = silu(x @ w) + b
    return normalized(y.reshape(8192, 64, 64), -1).reshape(8192, 4096) * gamma + beta


@workload("30k_Matmul_Scaling_ResidualAdd", (16384, 4096), (4096, 4096), (4096,))
def scaling_residual(x, w, b):
    y = x @ w + b
    return y * 0.5 + y


@workload("31k_Gemm_BatchNorm_GELU_ReLU", (16384, 8192), W, V, V, V)
def batch_norm_gelu(x, w, b, gamma, beta):
    y = normalized(x @ w.T + b, 0, biased=False) * gamma + beta
    return relu(gelu(y))


@workload("32k_Gemm_Sigmoid_LogSumExp", (16384, 2048), (4096, 2048), (4096,), (1024, 4096), (1024,))
def two_layers(x, w1, b1, w2, b2):
    return logsumexp(sigmoid(x @ w1.T + b1) @ w2.T + b2, axis=1)


def hardtanh_gelu(y):
    y = jnp.clip(y * 0.5, -2, 2)
    return y * 0.5 * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))


epilogue("35k_Gemm_Scaling_Hardtanh_GELU", hardtanh_gelu)
epilogue("36k_Matmul_Sigmoid_Sum", lambda y: jnp.sum(sigmoid(y), axis=1, keepdims=True))
epilogue("37k_Matmul_Swish_Scaling", lambda y: y * sigmoid(y) * 2)
transposed_epilogue("38k_Matmul_Dropout_Softmax", lambda y: softmax(y, axis=1))


@workload("40k_Gemm_GroupNorm_Min_BiasAdd", X, W, V, V, V, (1, 8192, 1, 1))
def group_norm_min(x, w, b, gamma, beta, bias):
    y = group_norm(x @ w.T + b, 512, gamma, beta)
    return jnp.min(y, axis=1).reshape(1, 1, 4096, 1) + bias


epilogue("41k_Gemm_Add_ReLU", relu)


def max_minus_mean(y):
    y = jnp.max(y, axis=1, keepdims=True)
    return gelu(y - jnp.mean(y, axis=1, keepdims=True))


epilogue("42k_Gemm_Max_Subtract_GELU", max_minus_mean)


@workload("43k_Gemm_BatchNorm_Scaling_Softmax", X, W, *[V] * 5, (1,))
def batch_norm_softmax(x, w, b, bn_scale, bn_bias, mean, var, scale):
    return softmax(scale * eval_batch_norm(x @ w + b, bn_scale, bn_bias, mean, var), axis=1)


epilogue("44k_Matmul_Divide_GELU", lambda y: gelu(y / 10))


@workload("45k_Gemm_GroupNorm_Swish_Multiply_Swish", X, W, *[V] * 4)
def group_norm_swish(x, w, b, gamma, beta, factor):
    y = silu(group_norm(x @ w.T + b, 256, gamma, beta))
    return silu(y * factor)


@workload("47k_Matmul_Add_Swish_Tanh_GELU_Hardtanh", X, W, V, V)
def many_activations(x, w, b, added):
    return jnp.clip(gelu(jnp.tanh(silu(x @ w + b + added))), -1, 1)


@workload("48k_Matmul_BatchNorm_BiasAdd_Divide_Swish", X, W, *[V] * 5, (1,))
def batch_norm_swish(x, w, b, bn_scale, bn_bias, mean, var, bias):
    return silu((eval_batch_norm(x @ w + b, bn_scale, bn_bias, mean, var) + bias) / 1)


def pooled(y):
    windows = jax.lax.reduce_window(y[:, None], jnp.array(0, bf16), jax.lax.add, (1, 1, 16),
                                    (1, 1, 16), "VALID")
    return jnp.max(gelu(windows[:, 0] / 16) * 2, axis=1)


epilogue("49k_Matmul_AvgPool_GELU_Scale_Max", pooled)
epilogue("50k_Matmul_GELU_Softmax", lambda y: softmax(gelu(y), axis=1))


# Export and check -----------------------------------------------------------------------------------


def ordered():
    """Names in the suite's order."""
    return sorted(WORKLOADS, key=lambda name: int(name[: name.index("_") - 1]))


def export(folder):
    """Writes StableHLO, without places in this file, compressed without a time stamp."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ordered():
        function, inputs = WORKLOADS[name]
        lowered = jax.jit(function).trace(*inputs).lower(lowering_platforms=("tpu",))
        text = lowered.as_text().encode()
        (folder / f"{name}.mlir.gz").write_bytes(gzip.compress(text, mtime=0))


def compiled(name):
    """Compiles for one v6e chip; needs no TPU."""
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    chips = topologies.get_topology_desc(platform="tpu", topology_name="v6e:2x2").devices
    one = SingleDeviceSharding(chips[0])
    function, inputs = WORKLOADS[name]
    inputs = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=one) for x in inputs]
    return jax.jit(function).trace(*inputs).lower(lowering_platforms=("tpu",)).compile()


def check(table, dump):
    """Appends FLOPs and bytes of each to a table, and dumps the optimized programs if asked to."""
    done = {line.split("\t")[0] for line in table.read_text().splitlines()} if table.exists() else set()
    for name in ordered():
        if name in done:
            continue
        program = compiled(name)
        cost, memory = program.cost_analysis(), program.memory_analysis()
        with table.open("a") as out:
            print(name, f"{cost['flops']:.0f}", f"{cost['bytes accessed']:.0f}",
                  memory.argument_size_in_bytes, memory.temp_size_in_bytes, sep="\t", file=out)
        if dump:
            module = program.runtime_executable().hlo_modules()[0]
            (dump / f"{name}.pb").write_bytes(module.as_serialized_hlo_module_proto())
            (dump / f"{name}.txt").write_text(program.as_text())


def main():
    match sys.argv[1:]:
        case ["export", folder]:
            export(pathlib.Path(folder))
        case ["check", table, *dump]:
            check(pathlib.Path(table), pathlib.Path(dump[0]) if dump else None)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
