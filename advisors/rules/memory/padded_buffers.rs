//! Buffers of which much is padding.

use knowledge::advice::AdviceKind;
use profiler::evidence::{BoundBy, OpClass, OpProfile};
use profiler::program::shape::{Array, MemorySpace};
use profiler::units::{self, Bytes, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::share_of_step;
use crate::rules::layout::group::{Group, groups, times, worthwhile};
use crate::rules::layout::movers::operand_arrays;
use crate::rules::memory::hbm::HbmRate;

/// See the card.
#[derive(Debug)]
pub struct PaddedBuffers;

/// Padding below this factor is not worth a change of shape.
const MIN_FACTOR: f64 = 1.1;
/// Padding of one shape that takes less of the step is left alone: shapes are hard to change.
const MIN_TIME_SHARE: f64 = 0.02;
/// An operation slower than this part of HBM's rate waits for something else.
const MIN_EFFICIENCY: f64 = 0.3;
/// Padding of one shape that takes this part of the device memory is a finding by itself.
const MIN_MEMORY_SHARE: f64 = 0.1;

impl Rule for PaddedBuffers {
    fn code(&self) -> &'static str {
        "TT803"
    }

    fn name(&self) -> &'static str {
        "padded-buffers"
    }

    fn card(&self) -> &'static str {
        include_str!("padded_buffers.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let mut drafts = Vec::new();
        if let Some(rate) = HbmRate::of(context) {
            let wasted = context
                .ops_above(0.0, is_bound_by_hbm)
                .filter_map(|op| Waste::of(context, op, &rate))
                .map(|waste| (waste.array.to_string(), waste));
            let groups = groups(wasted, |waste| waste.ms);
            drafts.extend(
                worthwhile(context, groups)
                    .filter(|group| context.share(group.sum) >= MIN_TIME_SHARE)
                    .filter_map(|group| slow(context, &group, &rate)),
            );
        }
        drafts.extend(large(context));
        drafts
    }
}

/// Whether less traffic would make an operation faster.
fn is_bound_by_hbm(op: &OpProfile) -> bool {
    op.roofline.bound_by == BoundBy::Hbm
        && op.roofline.efficiency >= MIN_EFFICIENCY
        && !matches!(op.class, OpClass::AsyncCopy(_) | OpClass::Collective(_))
}

/// Padding that an operation reads and writes.
#[derive(Clone, Debug)]
struct Waste<'a> {
    op: &'a OpProfile,
    /// The array with the most of it.
    array: &'a Array,
    /// Padding in a step.
    bytes: f64,
    /// Time that it takes.
    ms: f64,
    /// Its share of the operation's time by bytes.
    share_ms: f64,
}

impl<'a> Waste<'a> {
    fn of(context: &Context<'a>, op: &'a OpProfile, rate: &HbmRate) -> Option<Self> {
        let traffic = op.model.traffic.hbm();
        let padded = traffic.total_padded().0 as f64;
        let wasted = padded - traffic.total().0 as f64;
        if wasted <= 0.0 || padded <= 0.0 {
            return None;
        }
        let results = op.instruction.iter().flat_map(|i| i.shape.arrays());
        let array = operand_arrays(context.evidence, op)
            .into_iter()
            .chain(results)
            .filter(|array| {
                array.memory_space() == MemorySpace::Hbm && array.padding_factor() >= MIN_FACTOR
            })
            .max_by_key(|array| array.padded_bytes().0.saturating_sub(array.bytes().0))?;
        let bytes = wasted * op.step_occurrences;
        // Its share of the operation's time, if bytes are all that it waits for.
        let share_ms = op.step_self_ms() * wasted / padded;
        let ms = rate.ms(bytes).min(share_ms);
        Some(Self {
            op,
            array,
            bytes,
            ms,
            share_ms,
        })
    }
}

fn slow(context: &Context<'_>, group: &Group<String, Waste<'_>>, rate: &HbmRate) -> Option<Draft> {
    let array = group.members.first()?.array;
    let bytes: f64 = group.members.iter().map(|waste| waste.bytes).sum();
    let count: f64 = group.members.iter().map(|w| w.op.step_occurrences).sum();
    let share_ms: f64 = group.members.iter().map(|waste| waste.share_ms).sum();
    let total: f64 = group.members.iter().map(|w| w.op.step_self_ms()).sum();
    Some(Draft {
        title: format!(
            "{} is padded {:.2}-fold: {} of padding, {} of each {} step ({})",
            bare(array),
            array.padding_factor(),
            Bytes(bytes as u64),
            units::ms(group.sum),
            context.evidence.step_time(),
            percent(context.share(group.sum)),
        ),
        kind: AdviceKind::Padding,
        ops: group.members.iter().map(|waste| waste.op.id).collect(),
        evidence: vec![
            share_of_step(
                context,
                "time of the operations that read or write it",
                total,
            ),
            axes(array),
            Exhibit::text(
                "padding moved",
                format!("{} a step, {}", Bytes(bytes as u64), times(count)),
                "bytes with padding less bytes of elements, over HBM only",
            ),
        ],
        claim: Some(Claim {
            expected_ms: group.sum,
            low_ms: 0.0,
            high_ms: share_ms,
            upper_bound_ms: total,
            basis: Basis::Modelled,
            formula: format!(
                "{} of padding at {}, at most its share of each operation's time: {:.3} ms; high: that share of all of their time",
                Bytes(bytes as u64),
                rate.words(),
                group.sum
            ),
            buckets: group.members.iter().map(|w| Bucket::Op(w.op.id)).collect(),
        }),
        advice: advice(array),
        caveats: caveats(),
    })
}

/// Arguments whose padding takes a good part of the memory.
fn large(context: &Context<'_>) -> Option<Draft> {
    let evidence = context.evidence;
    let capacity = evidence.memory_capacity()? as f64;
    let arrays = evidence.session.programs.iter().flat_map(|program| {
        let program = &program.program;
        let entry = program.entry_computation();
        let parameters = entry.into_iter().flat_map(|entry| &entry.parameters);
        parameters
            .filter_map(|op| program.get(*op))
            .flat_map(|parameter| parameter.shape.arrays())
            .filter(|array| array.padding_factor() >= MIN_FACTOR)
    });
    let padding = |array: &&Array| array.padded_bytes().0.saturating_sub(array.bytes().0) as f64;
    let groups = groups(arrays.map(|array| (array.to_string(), array)), padding);
    let wasted: f64 = groups.iter().map(|group| group.sum).sum();
    let worst = groups.first()?;
    let array = *worst.members.first()?;
    if wasted < MIN_MEMORY_SHARE * capacity {
        return None;
    }
    Some(Draft {
        title: format!(
            "padding of arguments takes {} of {} device memory, most of it for {}",
            Bytes(wasted as u64),
            Bytes(capacity as u64),
            bare(array),
        ),
        kind: AdviceKind::Padding,
        ops: Vec::new(),
        evidence: vec![
            axes(array),
            Exhibit::text(
                "padding of this shape",
                format!(
                    "{} in {} arguments",
                    Bytes(worst.sum as u64),
                    worst.members.len()
                ),
                "parameters of the entry computation",
            ),
        ],
        claim: None,
        advice: advice(array),
        caveats: caveats(),
    })
}

/// The shape without its layout.
fn bare(array: &Array) -> Array {
    Array {
        layout: None,
        ..array.clone()
    }
}

/// Which dimensions are rounded up.
fn axes(array: &Array) -> Exhibit {
    let padded = array.padded_dims();
    let rounded: Vec<String> = array
        .dims
        .iter()
        .zip(&padded)
        .enumerate()
        .filter(|(_, (size, padded))| size != padded)
        .map(|(dim, (size, padded))| format!("dimension {dim} from {size} to {padded}"))
        .collect();
    Exhibit::text(
        "what is rounded up",
        format!(
            "{}; {} of elements take {}",
            rounded.join(", "),
            array.bytes(),
            array.padded_bytes()
        ),
        array.to_string(),
    )
}

fn advice(array: &Array) -> Vec<String> {
    let minor = array.physical_dims().last().copied().unwrap_or(0);
    let mut advice = Vec::new();
    if minor < 128 && minor > 0 {
        advice.push(format!(
            "merge the dimension of {minor} with its neighbour, or put a larger one in its place: the minor dimension takes at least 128"
        ));
    }
    advice.push("choose sizes that are multiples of 128 in the minor dimension and of 8 (16 in bf16, 32 in 8 bit) in the next, after sharding".to_owned());
    advice
}

fn caveats() -> Vec<String> {
    vec![
        "arrays that XLA lays out itself may get another layout after the change; arguments keep their order".to_owned(),
        "what padding costs in matmuls (MXU passes over zeros) is not counted here".to_owned(),
    ]
}
