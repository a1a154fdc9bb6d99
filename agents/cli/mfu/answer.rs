//! The figures of an answer: what JSON shows and the page is written from.

use anyhow::Result;
use knowledge::efficiency::{Work, reachable};
use profiler::model::memory::Cache;
use profiler::model::quantity::{self, Part};
use profiler::model::scaling::{self, Plan, Point};
use profiler::model::utilization::{Fleet, Speed};
use profiler::model::{
    Attention, AttentionCount, Convention, EmbeddingCount, Flops, MemoryPlan, Mlp, Parallelism,
    Params,
};
use serde::Serialize;

use super::{Args, Question, attention, dtype, fleet};

/// All that the command says.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub architecture: String,
    pub assumptions: Vec<String>,
    pub params: ParamsAnswer,
    pub chip: &'static str,
    pub chips: u64,
    pub devices: u64,
    pub tensor_cores: u64,
    pub sharding: Parallelism,
    pub batch_sequences: u64,
    pub seq_tokens: u64,
    pub tokens_per_step: u64,
    pub flops_per_token: FlopsAnswer,
    pub run: Option<RunAnswer>,
    pub conventions: Vec<Row>,
    pub memory_bytes_per_device: MemoryAnswer,
    pub serving: ServingAnswer,
    pub scaling: ScalingAnswer,
    pub warnings: Vec<String>,
    pub sizes: Vec<String>,
}

/// Parameters.
#[derive(Debug, Serialize)]
pub(super) struct ParamsAnswer {
    pub total: u64,
    pub active: u64,
    pub without_embeddings: u64,
    /// Those that a token multiplies with.
    pub multiplied: u64,
    pub embedding: u64,
    pub attention: u64,
    pub experts: u64,
}

/// FLOPs of a token.
#[derive(Debug, Serialize)]
pub(super) struct FlopsAnswer {
    pub training: f64,
    pub of_params: f64,
    pub of_attention: f64,
    pub executed: f64,
    pub forward: f64,
    pub formula: String,
}

/// What the measured time comes to.
#[derive(Debug, Serialize)]
pub(super) struct RunAnswer {
    pub step_s: f64,
    pub tokens_per_s: f64,
    pub tokens_per_s_per_chip: f64,
    pub tokens_per_s_per_device: f64,
    pub tokens_per_s_per_core: f64,
    pub tflops_per_s_per_chip: f64,
    pub peak_tflops_per_chip: f64,
    pub mfu: f64,
    /// MFU at both ends of what the measured figure may have been rounded from.
    pub mfu_range: [f64; 2],
    pub hfu: f64,
    pub formula: String,
}

/// The same run by another convention.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub convention: &'static str,
    pub flops_per_token: f64,
    pub peak: &'static str,
    pub utilization: Option<f64>,
}

/// Memory of a device.
#[derive(Debug, Serialize)]
pub(super) struct MemoryAnswer {
    #[serde(flatten)]
    pub plan: MemoryPlan,
    pub total: f64,
    pub usable: u64,
    pub fits: bool,
    /// The fewest micro-batches with which it fits.
    pub fits_with_microbatches: Option<u64>,
}

/// What serving takes.
#[derive(Debug, Serialize)]
pub(super) struct ServingAnswer {
    #[serde(flatten)]
    pub cache: Cache,
    /// Weights in bf16, split by tensor, expert and pipeline.
    pub weight_bytes_per_device: f64,
    /// Sequences of the given length that all devices have room for beside them.
    pub sequences_that_fit: u64,
}

/// The scaling.
#[derive(Debug, Serialize)]
pub(super) struct ScalingAnswer {
    pub matmul_share_of_peak: f64,
    pub matmul_share_source: String,
    pub slice_chips: u64,
    pub points: Vec<PointAnswer>,
}

/// One count of chips.
#[derive(Debug, Serialize)]
pub(super) struct PointAnswer {
    #[serde(flatten)]
    pub point: Point,
    pub bound: String,
    pub step_at_best_s: f64,
    pub step_at_worst_s: f64,
}

/// Works it out.
pub(super) fn answer(args: &Args, question: &Question) -> Result<Answer> {
    let fleet = fleet(args);
    let model = &question.model;
    let params = Params::of(model);
    let split = question.asked.over(fleet.devices())?;
    let convention = Convention {
        attention: attention(args),
        embeddings: EmbeddingCount::Output,
    };
    let flops = Flops::of(model, question.seq, convention);
    let tokens = question.batch.saturating_mul(question.seq);
    let speed = question.measured.as_ref().map(|(_, speed)| *speed);
    let warnings = warnings(args, question, &split, speed, &flops);
    Ok(Answer {
        architecture: model.architecture.clone(),
        assumptions: model.assumptions.clone(),
        params: ParamsAnswer {
            total: params.total(),
            active: params.active(),
            without_embeddings: params.without_embeddings(),
            multiplied: params.multiplied(),
            embedding: params.embedding,
            attention: params.attention,
            experts: params.experts,
        },
        chip: args.chip.name(),
        chips: args.chips,
        devices: fleet.devices(),
        tensor_cores: fleet.cores(),
        sharding: split,
        batch_sequences: question.batch,
        seq_tokens: question.seq,
        tokens_per_step: tokens,
        flops_per_token: FlopsAnswer {
            training: flops.training(),
            of_params: flops.of_params(),
            of_attention: flops.of_attention(),
            executed: flops.executed(question.stored.remat),
            forward: flops.forward(),
            formula: flops_formula(question, &flops, convention.attention),
        },
        run: question
            .measured
            .as_ref()
            .map(|(written, speed)| run(args, question, &fleet, &flops, written, speed)),
        conventions: conventions(args, question, &fleet, speed),
        memory_bytes_per_device: memory(question, &fleet, &split, tokens),
        serving: serving(question, &fleet, &split, &params),
        scaling: scaling_of(args, question, flops),
        warnings,
        sizes: advisors::rules::source::shapes::configuration::sentences(&question.text),
    })
}

/// The formula of FLOPs, with its figures.
fn flops_formula(question: &Question, flops: &Flops, count: AttentionCount) -> String {
    let model = &question.model;
    let seq = question.seq;
    let kinds = |of: &dyn Fn(&Attention) -> Option<String>| {
        let mut kinds: Vec<String> = Vec::new();
        for layer in &model.layers {
            let kind = of(&layer.attention)?;
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        (kinds.len() == 1).then(|| kinds.remove(0))
    };
    let layers = model.layers.len();
    let (keys, factor) = match count {
        AttentionCount::Full => ("S", 12),
        _ => ("S/2", 6),
    };
    let plain = kinds(&|attention| match *attention {
        Attention::Grouped {
            heads,
            head_dim,
            window,
            ..
        } if window.is_none_or(|window| window >= seq) => {
            Some(format!("{factor}*{layers}*{seq}*{heads}*{head_dim}"))
        }
        _ => None,
    });
    let params = flops.params as f64;
    let total = flops.training();
    match plain {
        Some(attention) => {
            format!("6*N + {factor}*L*S*H*D = 6*{params:.4e} + {attention} = {total:.4e}")
        }
        None => format!(
            "6*N + 3*F = 6*{params:.4e} + {:.3e} = {total:.4e}; F sums 2*(D_qk + D_v)*H*keys over {layers} layers, keys {keys} or what a window leaves",
            flops.of_attention()
        ),
    }
}

fn run(
    args: &Args,
    question: &Question,
    fleet: &Fleet<'_>,
    flops: &Flops,
    written: &str,
    speed: &Speed,
) -> RunAnswer {
    let peak = fleet.chip.peak_tflops_per_chip(dtype(args)).unwrap_or(0.0);
    let mfu = speed.utilization(flops.training(), fleet, dtype(args));
    let off = quantity::rounding(written);
    let of_chip = speed.tokens_per_s(fleet, Part::Chip);
    let cores = fleet.cores() as f64 / fleet.chips.max(1) as f64;
    RunAnswer {
        step_s: speed.step_s,
        tokens_per_s: speed.tokens_per_s(fleet, Part::Job),
        tokens_per_s_per_chip: of_chip,
        tokens_per_s_per_device: speed.tokens_per_s(fleet, Part::Device),
        tokens_per_s_per_core: speed.tokens_per_s(fleet, Part::Core),
        tflops_per_s_per_chip: of_chip * flops.training() / 1e12,
        peak_tflops_per_chip: peak,
        mfu,
        mfu_range: [mfu / (1.0 + off), mfu * (1.0 + off)],
        hfu: speed.utilization(flops.executed(question.stored.remat), fleet, dtype(args)),
        formula: format!(
            "tokens/s/core * FLOPs/token / peak of a core = {:.1} * {:.4e} / {:.2}e12 = {:.2} %",
            of_chip / cores,
            flops.training(),
            peak / cores,
            mfu * 100.0
        ),
    }
}

/// The same figures by other conventions.
fn conventions(
    args: &Args,
    question: &Question,
    fleet: &Fleet<'_>,
    speed: Option<Speed>,
) -> Vec<Row> {
    let row = |convention: &'static str, attention, embeddings, peak: &'static str| {
        let counted = Convention {
            attention,
            embeddings,
        };
        let flops = Flops::of(&question.model, question.seq, counted).training();
        Row {
            convention,
            flops_per_token: flops,
            peak,
            utilization: speed.map(|speed| speed.utilization(flops, fleet, peak)),
        }
    };
    let own = dtype(args);
    let output = EmbeddingCount::Output;
    let mut rows = vec![
        row("causal attention", AttentionCount::Causal, output, own),
        row(
            "causal, both embeddings",
            AttentionCount::Causal,
            EmbeddingCount::Both,
            own,
        ),
        row("full attention", AttentionCount::Full, output, own),
        row("no attention (6N)", AttentionCount::None, output, own),
    ];
    let peaks = ["bf16", "fp8"].map(|dtype| fleet.chip.peak_tflops_per_chip(dtype));
    if own == "bf16" && peaks[0] != peaks[1] {
        rows.push(row(
            "causal, of the fp8 peak",
            AttentionCount::Causal,
            output,
            "fp8",
        ));
    }
    rows
}

fn memory(
    question: &Question,
    fleet: &Fleet<'_>,
    split: &Parallelism,
    tokens: u64,
) -> MemoryAnswer {
    let plan = MemoryPlan::of(&question.model, tokens, split, &question.stored);
    let usable = fleet.chip.hbm_usable_bytes_per_device();
    let fits = plan.total() <= usable as f64;
    MemoryAnswer {
        plan,
        total: plan.total(),
        usable,
        fits,
        fits_with_microbatches: MemoryPlan::microbatches_to_fit(
            &question.model,
            question.batch,
            question.seq,
            split,
            &question.stored,
            usable as f64,
        ),
    }
}

fn serving(
    question: &Question,
    fleet: &Fleet<'_>,
    split: &Parallelism,
    params: &Params,
) -> ServingAnswer {
    let cache = Cache::of(&question.model, question.seq);
    let tensor = split.tensor.max(1) as f64;
    let stages = split.pipeline.max(1) as f64;
    let others = params.total().saturating_sub(params.experts) as f64;
    let experts = params.experts as f64 / split.expert.max(1) as f64;
    let weights = (others + experts) * 2.0 / tensor / stages;
    // Heads of keys are split as far as there are any; further shards hold copies.
    let heads = question
        .model
        .layers
        .iter()
        .map(|layer| match layer.attention {
            Attention::Grouped { kv_heads, .. } => kv_heads,
            Attention::Latent { .. } => 1,
        });
    let shards = heads.min().unwrap_or(1).min(split.tensor).max(1) as f64 * stages;
    let room = (fleet.chip.hbm_usable_bytes_per_device() as f64 - weights).max(0.0);
    let of_device = room * shards / cache.bytes_per_sequence.max(1.0);
    let groups = fleet.devices() as f64 / tensor / stages;
    ServingAnswer {
        cache,
        weight_bytes_per_device: weights,
        sequences_that_fit: (of_device.floor() * groups) as u64,
    }
}

fn scaling_of(args: &Args, question: &Question, flops: Flops) -> ScalingAnswer {
    let ceiling = reachable(Work::Matmul, args.chip).reachable;
    let links = knowledge::ici::calibration(args.chip);
    let slice_chips = args
        .slice_chips
        .unwrap_or_else(|| knowledge::slices::largest(args.chip));
    let plan = Plan {
        model: &question.model,
        flops,
        batch: question.batch,
        seq: question.seq,
        asked: question.asked,
        stored: question.stored,
        chip: knowledge::chips::chip(args.chip),
        links: &links,
        matmul_share: ceiling.typical,
        dtype: dtype(args),
        slice_chips,
    };
    ScalingAnswer {
        matmul_share_of_peak: ceiling.typical,
        matmul_share_source: ceiling.source.clone(),
        slice_chips,
        points: scaling::counts(args.chips, args.scale_to)
            .into_iter()
            .filter_map(|chips| plan.at(chips))
            .map(|point| PointAnswer {
                bound: point.bound(),
                step_at_best_s: point.step_at_best_s(),
                step_at_worst_s: point.step_at_worst_s(),
                point,
            })
            .collect(),
    }
}

/// What does not divide, and figures that cannot be.
fn warnings(
    args: &Args,
    question: &Question,
    split: &Parallelism,
    speed: Option<Speed>,
    flops: &Flops,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut uneven = |what: &str, size: u64, axis: &str, parts: u64| {
        if parts > 1 && !size.is_multiple_of(parts) {
            warnings.push(format!("{size} {what} do not divide over {axis} {parts}"));
        }
    };
    let model = &question.model;
    let shards = split.batch_shards();
    uneven(
        "sequences",
        question.batch,
        "data x fsdp x expert =",
        shards.saturating_mul(question.stored.microbatches),
    );
    uneven(
        "layers",
        model.layers.len() as u64,
        "pipeline",
        split.pipeline,
    );
    if let Some(layer) = model.layers.last() {
        match layer.attention {
            Attention::Grouped {
                heads, kv_heads, ..
            } => {
                uneven("heads", heads, "tensor", split.tensor);
                if kv_heads > 1 && kv_heads >= split.tensor {
                    uneven("key and value heads", kv_heads, "tensor", split.tensor);
                }
                if kv_heads < split.tensor {
                    warnings.push(format!(
                        "{kv_heads} key and value heads on tensor {}: each is held {} times",
                        split.tensor,
                        split.tensor.div_ceil(kv_heads.max(1))
                    ));
                }
            }
            Attention::Latent { heads, .. } => uneven("heads", heads, "tensor", split.tensor),
        }
    }
    let experts = model.layers.iter().find_map(|layer| match layer.mlp {
        Mlp::Sparse { experts, .. } => Some(experts),
        Mlp::Dense { .. } => None,
    });
    match experts {
        Some(experts) if !experts.is_multiple_of(split.expert) => warnings.push(format!(
            "{experts} experts do not divide over expert {}",
            split.expert
        )),
        None if split.expert > 1 => {
            warnings.push("the model has no experts: --expert splits nothing".to_owned());
        }
        _ => {}
    }
    if model.max_positions.is_some_and(|most| most < question.seq) {
        warnings.push(format!(
            "the configuration is made for {} positions, not {}",
            model.max_positions.unwrap_or_default(),
            question.seq
        ));
    }
    if let Some(speed) = speed {
        let share = speed.utilization(flops.training(), &fleet(args), dtype(args));
        if share > 1.0 {
            warnings.push(format!(
                "{:.0} % of the peak cannot be: check --chips, --batch (it counts sequences) and the time",
                share * 100.0
            ));
        } else if share < 0.001 {
            warnings.push(
                "less than 0.1 % of the peak: --tokens-per-s counts the whole job (write 2104/core for a core), --batch sequences".to_owned(),
            );
        }
    }
    warnings
}
