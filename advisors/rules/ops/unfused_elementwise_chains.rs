//! Elementwise work that goes through HBM between two operations.

use std::collections::BTreeSet;

use knowledge::advice::AdviceKind;
use profiler::evidence::{BoundBy, OpClass, OpProfile};
use profiler::program::shape::{Array, MemorySpace};
use profiler::session::OpId;
use profiler::units::{self, Bytes, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::share_of_step;
use crate::rules::layout::group::{Group, groups, origin, worthwhile};
use crate::rules::layout::movers::{hlo, is_mover};
use crate::rules::memory::hbm::HbmRate;

/// See the card.
#[derive(Debug)]
pub struct ElementwiseChains;

/// Operations slower than this part of HBM's rate wait for something else than the intermediate.
const MIN_EFFICIENCY: f64 = 0.4;

impl Rule for ElementwiseChains {
    fn code(&self) -> &'static str {
        "TT704"
    }

    fn name(&self) -> &'static str {
        "unfused-elementwise-chains"
    }

    fn card(&self) -> &'static str {
        include_str!("unfused_elementwise_chains.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let Some(rate) = HbmRate::of(context) else {
            return Vec::new();
        };
        let links = context
            .ops_above(0.0, |op| is_streaming(context, op))
            .flat_map(|reader| links(context, reader, &rate))
            .map(|link| (origin(context, link.reader), link));
        let groups = groups(links, |link| link.ms);
        worthwhile(context, groups)
            .map(|group| draft(context, &group, &rate))
            .collect()
    }
}

/// Elementwise work or a reduction at the memory's rate.
fn is_streaming(context: &Context<'_>, op: &OpProfile) -> bool {
    matches!(op.class, OpClass::Elementwise | OpClass::Reduce)
        && op.roofline.bound_by == BoundBy::Hbm
        && (MIN_EFFICIENCY..=1.2).contains(&op.roofline.efficiency)
        && !is_mover(context.evidence, op)
}

/// An array that one operation writes to HBM for the next to read.
#[derive(Clone, Debug)]
struct Link<'a> {
    writer: &'a OpProfile,
    reader: &'a OpProfile,
    array: &'a Array,
    /// Bytes that fusing them spares in a step.
    bytes: f64,
    /// Time of those bytes at the reachable bandwidth.
    ms: f64,
    /// Their share of the time that both operations take as they run now, at least `ms`.
    share_ms: f64,
}

fn links<'a>(context: &Context<'a>, reader: &'a OpProfile, rate: &HbmRate) -> Vec<Link<'a>> {
    let evidence = context.evidence;
    let mut seen = BTreeSet::new();
    evidence
        .producers_of(reader)
        .filter(|writer| writer.class == OpClass::Elementwise && is_streaming(context, writer))
        .filter(|writer| seen.insert(writer.id))
        .filter_map(|writer| {
            // A result with several arrays is read in parts: which is not known here.
            let array = writer.instruction.as_ref()?.shape.as_array()?;
            let once = writer.step_occurrences.min(reader.step_occurrences);
            let alone = evidence.users_of(writer).all(|user| user.id == reader.id);
            if !alone || array.memory_space() != MemorySpace::Hbm {
                return None;
            }
            // The trace does not show who else keeps the array: only a program proves that nobody
            // does and that it need not be written.
            let sole =
                hlo(evidence, writer).is_some_and(|(program, id)| program.users(id).len() == 1);
            let bytes = array.padded_bytes().0 as f64 * if sole { 2.0 } else { 1.0 } * once;
            let array_bytes = array.padded_bytes().0 as f64;
            let share_of = |op: &OpProfile| {
                let all = op.cost.hbm_bytes.unwrap_or(0.0).max(array_bytes).max(1.0);
                op.step_self_ms() * array_bytes / all
            };
            let written_ms = if sole { share_of(writer) } else { 0.0 };
            let ms = rate
                .ms(bytes)
                .min(writer.step_self_ms() + reader.step_self_ms());
            Some(Link {
                writer,
                reader,
                array,
                bytes,
                ms,
                share_ms: (share_of(reader) + written_ms).max(ms),
            })
        })
        .collect()
}

fn draft(context: &Context<'_>, group: &Group<String, Link<'_>>, rate: &HbmRate) -> Draft {
    let ops: BTreeSet<OpId> = group
        .members
        .iter()
        .flat_map(|link| [link.writer.id, link.reader.id])
        .collect();
    let bytes: f64 = group.members.iter().map(|link| link.bytes).sum();
    let ms: f64 = ops
        .iter()
        .filter_map(|id| context.evidence.op(*id))
        .map(OpProfile::step_self_ms)
        .sum();
    let share_ms: f64 = group.members.iter().map(|link| link.share_ms).sum();
    let mut evidence = vec![share_of_step(context, "time of these operations", ms)];
    for link in group.members.iter().take(4) {
        evidence.push(Exhibit::text(
            format!(
                "{} writes, {} reads",
                context.op(link.writer).name,
                context.op(link.reader).name
            ),
            format!("{} ({})", link.array, link.array.padded_bytes()),
            "operands of the instructions",
        ));
    }
    Draft {
        title: format!(
            "elementwise operations at {} pass {} through HBM: {} of each {} step ({})",
            group.key,
            Bytes(bytes as u64),
            units::ms(group.sum),
            context.evidence.step_time(),
            percent(context.share(group.sum)),
        ),
        kind: AdviceKind::Fusion,
        ops: ops.iter().copied().collect(),
        evidence,
        claim: Some(Claim {
            expected_ms: group.sum,
            low_ms: 0.0,
            high_ms: share_ms,
            upper_bound_ms: ms,
            basis: Basis::Modelled,
            formula: format!(
                "fused, {} need not pass at {}: {:.3} ms; high: their share of the time that the operations take now; the write counts only where the program shows no other reader",
                Bytes(bytes as u64),
                rate.words(),
                group.sum
            ),
            buckets: ops.iter().map(|id| Bucket::Op(*id)).collect(),
        }),
        advice: vec![
            "see what keeps XLA from fusing them: an optimization_barrier or checkpoint boundary between, an intermediate that is returned or saved, a change of layout, separate jit calls".to_owned(),
        ],
        caveats: vec![
            "do not write a kernel for it: XLA fuses norms and activations into the matmuls beside them, and a hand-written RMSNorm cost 8.1 % on v6e because it broke that".to_owned(),
        ],
    }
}
