//! An answer for people.

use profiler::model::parallelism::Axis;
use profiler::model::{Attention, Mlp, Remat};
use profiler::units::{Bytes, count, ms};

use super::answer::{Answer, PointAnswer};
use super::{Args, Question, dtype};
use crate::render::page::Page;
use crate::render::table::{Align, Table};

/// Writes the page.
pub(super) fn page(args: &Args, question: &Question, answer: &Answer) -> Page {
    let mut page = Page::new();
    page.facts(facts(args, question, answer));
    for warning in &answer.warnings {
        page.item(format!("warning: {warning}"));
    }
    for assumption in &answer.assumptions {
        page.item(format!("assumed: {assumption}"));
    }
    page.heading("By other conventions");
    page.table(conventions(answer));
    page.heading("Memory of a device");
    memory(&mut page, question, answer);
    page.heading("As chips are added, the batch the same");
    scaling(&mut page, answer);
    if !answer.sizes.is_empty() {
        page.heading("Sizes that pad");
        for sentence in &answer.sizes {
            page.item(sentence.clone());
        }
    }
    page
}

fn facts(args: &Args, question: &Question, answer: &Answer) -> Vec<(String, String)> {
    let mut facts = vec![
        ("Model", model(question, answer)),
        ("Parameters", params(answer)),
        (
            "Fleet",
            format!(
                "{} {} chips, {} devices, {} TensorCores: {}",
                count(answer.chips),
                answer.chip,
                count(answer.devices),
                count(answer.tensor_cores),
                answer.sharding.words()
            ),
        ),
        (
            "Step",
            format!(
                "{} sequences of {}: {} tokens",
                count(answer.batch_sequences),
                count(answer.seq_tokens),
                count(answer.tokens_per_step)
            ),
        ),
        (
            "FLOPs/token",
            format!(
                "{:.2} GFLOP to train, {:.2} forward alone; experts not chosen, looked-up embeddings and norms count nothing",
                answer.flops_per_token.training / 1e9,
                answer.flops_per_token.forward / 1e9
            ),
        ),
        ("", answer.flops_per_token.formula.clone()),
    ];
    let Some(run) = &answer.run else {
        facts.push((
            "MFU",
            "needs a measured --step-time or --tokens-per-s".to_owned(),
        ));
        return owned(facts);
    };
    facts.push((
        "Speed",
        format!(
            "{} a step; {} tokens/s: {:.1} a chip, {:.1} a TensorCore",
            seconds(run.step_s),
            count(run.tokens_per_s.round() as u64),
            run.tokens_per_s_per_chip,
            run.tokens_per_s_per_core
        ),
    ));
    let [low, high] = run.mfu_range;
    let written = question
        .measured
        .as_ref()
        .map_or("", |(written, _)| written.as_str());
    facts.push((
        "MFU",
        format!(
            "{:.2} %: {:.0} of {:.0} TFLOP/s {} a chip ({:.2} to {:.2} %, as {written} is rounded)",
            run.mfu * 100.0,
            run.tflops_per_s_per_chip,
            run.peak_tflops_per_chip,
            dtype(args),
            low * 100.0,
            high * 100.0
        ),
    ));
    facts.push(("", run.formula.clone()));
    facts.push((
        "HFU",
        format!("{:.2} %, {}", run.hfu * 100.0, remat(question.stored.remat)),
    ));
    owned(facts)
}

fn owned(facts: Vec<(&str, String)>) -> Vec<(String, String)> {
    facts
        .into_iter()
        .map(|(label, words)| (label.to_owned(), words))
        .collect()
}

fn remat(remat: Remat) -> &'static str {
    match remat {
        Remat::None => "nothing computed again (--remat says otherwise)",
        Remat::Selective => "attention computed again",
        Remat::Full => "all layers computed again, the output not",
    }
}

fn model(question: &Question, answer: &Answer) -> String {
    let model = &question.model;
    let mut words = format!(
        "{}: {} layers of width {}",
        answer.architecture,
        model.layers.len(),
        model.hidden
    );
    if let Some(layer) = model.layers.last() {
        match layer.attention {
            Attention::Grouped {
                heads,
                kv_heads,
                head_dim,
                ..
            } => {
                words.push_str(&format!(", {heads} heads of {head_dim}"));
                if kv_heads != heads {
                    words.push_str(&format!(" ({kv_heads} of keys)"));
                }
            }
            Attention::Latent { heads, kv_rank, .. } => words.push_str(&format!(
                ", {heads} heads, latent attention of rank {kv_rank}"
            )),
        }
        match layer.mlp {
            Mlp::Dense { intermediate, .. } => words.push_str(&format!(", MLP {intermediate}")),
            Mlp::Sparse {
                experts,
                per_token,
                intermediate,
                ..
            } => words.push_str(&format!(
                ", {experts} experts of {intermediate}, {per_token} a token"
            )),
        }
    }
    let windows = model.layers.iter().filter(|layer| {
        matches!(
            layer.attention,
            Attention::Grouped {
                window: Some(_),
                ..
            }
        )
    });
    let windows = windows.count();
    if windows > 0 {
        words.push_str(&format!(", {windows} layers with a window"));
    }
    words.push_str(&format!(", vocabulary {}", model.vocab));
    words
}

fn params(answer: &Answer) -> String {
    let params = &answer.params;
    let mut words = count(params.total);
    if params.active != params.total {
        words.push_str(&format!("; {} active", count(params.active)));
    }
    words.push_str(&format!(
        "; {} without embeddings; N = {} multiplied with",
        count(params.without_embeddings),
        count(params.multiplied)
    ));
    words
}

fn conventions(answer: &Answer) -> Table<4> {
    let mut table = Table::new([
        ("counted", Align::Left),
        ("GFLOP/token", Align::Right),
        ("peak", Align::Left),
        ("MFU", Align::Right),
    ]);
    for row in &answer.conventions {
        table.row([
            row.convention.to_owned(),
            format!("{:.2}", row.flops_per_token / 1e9),
            row.peak.to_owned(),
            row.utilization
                .map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
        ]);
    }
    table
}

fn memory(page: &mut Page, question: &Question, answer: &Answer) {
    let memory = &answer.memory_bytes_per_device;
    let stored = &question.stored;
    let shards = answer.sharding.weight_shards();
    let mut table = Table::new([
        ("what", Align::Left),
        ("GiB", Align::Right),
        ("how", Align::Left),
    ]);
    let mut row = |what: &str, bytes: f64, how: String| {
        if bytes > 0.0 {
            table.row([what.to_owned(), gib(bytes), how]);
        }
    };
    let plan = &memory.plan;
    row(
        "weights",
        plan.weights,
        format!(
            "{} bytes each, in {} parts",
            stored.weight_bytes,
            count(shards)
        ),
    );
    row(
        "gradients",
        plan.gradients,
        format!("{} bytes each", stored.gradient_bytes),
    );
    row(
        "optimizer",
        plan.optimizer,
        stored.optimizer.words().to_owned(),
    );
    row(
        "gathered weights",
        plan.gathered,
        "bf16, of two layers".to_owned(),
    );
    let kept = match stored.remat {
        Remat::None => "all that the backward pass reads",
        Remat::Selective => "inputs of the matmuls of each layer",
        Remat::Full => "the input of each layer",
    };
    row("activations", plan.activations, format!("bf16, {kept}"));
    row(
        "layer at work",
        plan.working,
        "what is computed again of it".to_owned(),
    );
    row(
        "logits",
        plan.logits,
        "f32 with gradient; less by --loss-chunks".to_owned(),
    );
    row(
        "all",
        memory.total,
        format!(
            "of {} GiB usable{}",
            gib(memory.usable as f64),
            if memory.fits { "" } else { ": does not fit" }
        ),
    );
    page.table(table);
    if !memory.fits {
        page.sentence(match memory.fits_with_microbatches {
            Some(micro) => format!("It fits with --microbatches {micro}."),
            None => "It does not fit with one sequence a device at a time either: split the model further (--tensor, --expert, --fsdp), keep less (--remat full), or compute the loss in parts (--loss-chunks).".to_owned(),
        });
    }
    page.sentence(serving(answer));
}

fn serving(answer: &Answer) -> String {
    let serving = &answer.serving;
    let mut words = format!(
        "To serve, in bf16: weights {} a device, KV cache {} a token and {} a sequence of {}",
        Bytes(serving.weight_bytes_per_device as u64),
        Bytes(serving.cache.bytes_per_token as u64),
        Bytes(serving.cache.bytes_per_sequence as u64),
        count(answer.seq_tokens),
    );
    if serving.sequences_that_fit == 0 {
        words.push_str(": no room with these axes (--tensor, --expert and --pipeline split the weights that serve).");
    } else {
        words.push_str(&format!(
            ": room for {} sequences on all devices.",
            count(serving.sequences_that_fit)
        ));
    }
    words
}

fn scaling(page: &mut Page, answer: &Answer) {
    let used: Vec<Axis> = AXES
        .iter()
        .map(|(axis, _)| *axis)
        .filter(|axis| shown(answer).any(|row| row.point.seconds(*axis) > 0.0))
        .collect();
    if shown(answer).next().is_none() {
        page.sentence("No count of chips gives each device a whole sequence with these axes.");
        return;
    }
    match used.len() {
        0 => page.table(grid::<5>(answer, &used)),
        1 => page.table(grid::<6>(answer, &used)),
        2 => page.table(grid::<7>(answer, &used)),
        3 => page.table(grid::<8>(answer, &used)),
        4 => page.table(grid::<9>(answer, &used)),
        _ => page.table(grid::<10>(answer, &used)),
    };
    page.sentence(bound_words(answer));
    page.sentence(format!(
        "Seconds a step. Parts are micro-batches, as many as memory needs; ! does not fit in any. Matmuls at {:.0} % of the peak ({}). Collectives by where their groups lie in slices of at most {} chips, within a factor of 1.5 to 2; what hides behind compute is the program's.",
        answer.scaling.matmul_share_of_peak * 100.0,
        answer.scaling.matmul_share_source.split(':').next().unwrap_or_default(),
        count(answer.scaling.slice_chips)
    ));
}

/// From which count on what bounds a step, of the counts that fit.
fn bound_words(answer: &Answer) -> String {
    let points = &answer.scaling.points;
    let mut parts: Vec<(String, u64, u64)> = Vec::new();
    for row in points.iter().filter(|row| row.point.fits) {
        let chips = row.point.chips;
        match parts.last_mut() {
            Some((bound, _, to)) if *bound == row.bound => *to = chips,
            _ => parts.push((row.bound.clone(), chips, chips)),
        }
    }
    if parts.is_empty() {
        return "At no count does a device's memory hold it.".to_owned();
    }
    let words: Vec<String> = parts
        .iter()
        .map(|(bound, from, to)| {
            if from == to {
                format!("{bound} at {}", count(*from))
            } else {
                format!("{bound} from {} to {}", count(*from), count(*to))
            }
        })
        .collect();
    format!(
        "Where it fits a step is bound by {} chips.",
        words.join(", by ")
    )
}

/// The axes in the order of their columns.
const AXES: [(Axis, &str); 5] = [
    (Axis::Fsdp, "fsdp"),
    (Axis::Expert, "expert"),
    (Axis::Tensor, "tensor"),
    (Axis::Data, "data"),
    (Axis::Pipeline, "pipe"),
];

/// Counts worth a row: those that fit, the job's own, and one that does not fit any more.
fn shown(answer: &Answer) -> impl Iterator<Item = &PointAnswer> {
    let points = &answer.scaling.points;
    let first = points.iter().position(|row| row.point.fits);
    let from = first.unwrap_or(points.len()).saturating_sub(1);
    points
        .iter()
        .enumerate()
        .filter_map(move |(at, row)| (at >= from || row.point.chips == answer.chips).then_some(row))
}

/// The table with a column for each of some axes: `N` is five more than there are.
fn grid<const N: usize>(answer: &Answer, axes: &[Axis]) -> Table<N> {
    let name = |axis: &Axis| {
        let found = AXES.iter().find(|(known, _)| known == axis);
        (found.map_or("", |(_, name)| *name), Align::Right)
    };
    let mut header = vec![
        ("chips", Align::Right),
        ("parts", Align::Right),
        ("compute", Align::Right),
    ];
    header.extend(axes.iter().map(name));
    header.extend([("GiB", Align::Right), ("bound by", Align::Left)]);
    let mut table = Table::new(std::array::from_fn(|at| {
        header.get(at).copied().unwrap_or(("", Align::Left))
    }));
    for row in shown(answer) {
        let point = &row.point;
        let over = if point.fits { "" } else { "!" };
        let mut cells = vec![
            count(point.chips),
            count(point.microbatches),
            plain(point.compute_s),
        ];
        cells.extend(axes.iter().map(|axis| plain(point.seconds(*axis))));
        cells.extend([
            format!("{}{over}", gib(point.memory_bytes)),
            row.bound.clone(),
        ]);
        table.row(std::array::from_fn(|at| {
            cells.get(at).cloned().unwrap_or_default()
        }));
    }
    table
}

/// Seconds with three digits.
fn plain(seconds: f64) -> String {
    match seconds {
        0.0 => "-".to_owned(),
        _ if seconds >= 100.0 => count(seconds.round() as u64),
        _ if seconds >= 10.0 => format!("{seconds:.1}"),
        _ if seconds >= 1.0 => format!("{seconds:.2}"),
        _ if seconds >= 0.001 => format!("{seconds:.4}"),
        _ => "<0.001".to_owned(),
    }
}

fn gib(bytes: f64) -> String {
    let value = bytes / (1u64 << 30) as f64;
    match value {
        _ if value >= 1000.0 => count(value as u64),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Seconds in the unit that suits them.
fn seconds(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{} s", count(value.round() as u64)),
        _ if value >= 10.0 => format!("{value:.2} s"),
        _ => ms(value * 1e3),
    }
}
