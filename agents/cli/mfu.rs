//! `tpu-tune mfu`: what a model's configuration and a step's time say of a run, by arithmetic.

mod answer;
mod page;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use profiler::chip::Generation;
use profiler::model::parallelism::Asked;
use profiler::model::quantity::{self, TokenRate};
use profiler::model::utilization::{Fleet, Speed};
use profiler::model::{AttentionCount, Decoder, Optimizer, Remat, Stored};

use crate::cli::input::parse_chip;
use crate::cli::{TableFormat, output};
use crate::exit;

/// Arguments of `mfu`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The model's configuration: a Hugging Face config.json.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,

    /// TPU generation, as in tpu7x.
    #[arg(long, value_parser = parse_chip, value_name = "CHIP")]
    chip: Generation,

    /// Chips.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    chips: u64,

    /// Sequences in a step, over all chips [default: one a device].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    batch: Option<u64>,

    /// Tokens in a sequence [default: 4096, or what the model is made for].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 28))]
    seq: Option<u64>,

    /// Measured time of a step, as in 31.2s or 480ms.
    #[arg(long, value_name = "TIME")]
    step_time: Option<String>,

    /// Measured tokens a second: 34.5M of the whole job, 4208/chip, 2104/core.
    #[arg(long, value_name = "RATE", conflicts_with = "step_time")]
    tokens_per_s: Option<String>,

    /// What the backward pass computes again.
    #[arg(long, value_enum, default_value_t)]
    remat: RematName,

    /// Keys that attention is counted with.
    #[arg(long, value_enum, default_value_t)]
    attention: AttentionName,

    /// Dtype of the matmuls, whose peak counts.
    #[arg(long, value_enum, default_value_t)]
    dtype: DtypeName,

    #[command(flatten)]
    split: SplitArgs,

    /// Optimizer, for its state.
    #[arg(long, value_enum, default_value_t)]
    optimizer: OptimizerName,

    /// Dtype in which weights are stored.
    #[arg(long, value_enum, default_value_t)]
    weights: StoredName,

    /// Dtype in which gradients are stored.
    #[arg(long, value_enum, default_value_t)]
    gradients: StoredName,

    /// Parts that a step's batch is worked through in.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    microbatches: u64,

    /// Parts that the logits of a micro-batch are computed in.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    loss_chunks: u64,

    /// Chips of one slice; more are several over the data centre's network [default: the largest
    /// there is].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    slice_chips: Option<u64>,

    /// Chips up to which the scaling is shown.
    #[arg(long, default_value_t = 8192, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    scale_to: u64,

    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: TableFormat,
}

/// Axes of the mesh.
#[derive(Debug, clap::Args)]
struct SplitArgs {
    /// Copies of the model [default: what is left where --fsdp is given].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    data: Option<u64>,

    /// Shards of all weights, each with its own batch [default: what is left].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    fsdp: Option<u64>,

    /// Shards of each matrix.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    tensor: Option<u64>,

    /// Shards of the experts.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    expert: Option<u64>,

    /// Groups of layers, one after the other.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pipeline: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum RematName {
    /// Nothing.
    #[default]
    None,
    /// Attention and what is cheap.
    Selective,
    /// All layers.
    Full,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum AttentionName {
    /// Those before a query: half.
    #[default]
    Causal,
    /// All.
    Full,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum DtypeName {
    #[default]
    Bf16,
    Fp8,
    Int8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum OptimizerName {
    /// Two moments in f32.
    #[default]
    Adamw,
    /// Two moments in bf16.
    AdamwBf16,
    /// One momentum in f32: SGD with momentum, Lion, Muon.
    Momentum,
    /// No state: plain SGD, Adafactor.
    Sgd,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum StoredName {
    #[default]
    F32,
    Bf16,
}

/// A configuration is a few kilobytes; what is larger is something else.
const MAX_BYTES: u64 = 16 << 20;

/// What the user asked, read.
#[derive(Debug)]
struct Question {
    text: String,
    model: Decoder,
    batch: u64,
    seq: u64,
    /// The time or rate as it was written, and the speed that it comes to.
    measured: Option<(String, Speed)>,
    asked: Asked,
    stored: Stored,
}

/// Runs the command.
///
/// # Errors
/// When the configuration cannot be read, the axes do not fit, or the answer cannot be written.
pub fn run(args: &Args) -> Result<u8> {
    let question = question(args)?;
    let answer = answer::answer(args, &question)?;
    let page = page::page(args, &question, &answer);
    output::page(args.format, &page, || {
        serde_json::to_value(&answer).unwrap_or_default()
    })?;
    Ok(exit::OK)
}

fn question(args: &Args) -> Result<Question> {
    let shown = args.config.display();
    let meta = fs::metadata(&args.config).with_context(|| format!("cannot read {shown}"))?;
    if meta.is_dir() {
        bail!("{shown} is a folder: name the config.json in it");
    }
    if meta.len() > MAX_BYTES {
        bail!("{shown} is too large to be a model's configuration");
    }
    let bytes = fs::read(&args.config).with_context(|| format!("cannot read {shown}"))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let model = Decoder::parse(&text).with_context(|| format!("cannot use {shown}"))?;
    let fleet = fleet(args);
    let seq = args
        .seq
        .unwrap_or_else(|| model.max_positions.map_or(4096, |most| most.clamp(1, 4096)));
    let batch = args.batch.unwrap_or_else(|| fleet.devices());
    let tokens = batch.saturating_mul(seq);
    let measured = match (&args.step_time, &args.tokens_per_s) {
        (Some(time), _) => Some((
            time.clone(),
            Speed::of_step(tokens, quantity::seconds(time)?),
        )),
        (None, Some(rate)) => {
            let read: TokenRate = quantity::token_rate(rate)?;
            Some((rate.clone(), Speed::of_rate(tokens, read, &fleet)))
        }
        (None, None) => None,
    };
    Ok(Question {
        text,
        model,
        batch,
        seq,
        measured,
        asked: Asked {
            data: args.split.data,
            fsdp: args.split.fsdp,
            tensor: args.split.tensor,
            expert: args.split.expert,
            pipeline: args.split.pipeline,
        },
        stored: Stored {
            weight_bytes: bytes_of(args.weights),
            gradient_bytes: bytes_of(args.gradients),
            optimizer: match args.optimizer {
                OptimizerName::Adamw => Optimizer::Adamw,
                OptimizerName::AdamwBf16 => Optimizer::AdamwBf16,
                OptimizerName::Momentum => Optimizer::Momentum,
                OptimizerName::Sgd => Optimizer::Sgd,
            },
            remat: match args.remat {
                RematName::None => Remat::None,
                RematName::Selective => Remat::Selective,
                RematName::Full => Remat::Full,
            },
            microbatches: args.microbatches,
            loss_chunks: args.loss_chunks,
        },
    })
}

fn fleet(args: &Args) -> Fleet<'static> {
    Fleet {
        chip: knowledge::chips::chip(args.chip),
        chips: args.chips,
    }
}

fn bytes_of(stored: StoredName) -> f64 {
    match stored {
        StoredName::F32 => 4.0,
        StoredName::Bf16 => 2.0,
    }
}

fn dtype(args: &Args) -> &'static str {
    match args.dtype {
        DtypeName::Bf16 => "bf16",
        DtypeName::Fp8 => "fp8",
        DtypeName::Int8 => "int8",
    }
}

fn attention(args: &Args) -> AttentionCount {
    match args.attention {
        AttentionName::Causal => AttentionCount::Causal,
        AttentionName::Full => AttentionCount::Full,
    }
}
