//! Casts that are passes over memory of their own.

use knowledge::advice::AdviceKind;
use profiler::evidence::{OpClass, OpProfile};
use profiler::program::shape::{Array, MemorySpace};
use profiler::units::{self, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::share_of_step;
use crate::rules::layout::group::{Group, base_name, groups, origin, times, worthwhile};
use crate::rules::layout::movers::{hlo, operand_arrays};
use crate::rules::memory::hbm::HbmRate;

/// See the card.
#[derive(Debug)]
pub struct Casts;

impl Rule for Casts {
    fn code(&self) -> &'static str {
        "TT705"
    }

    fn name(&self) -> &'static str {
        "casts-of-their-own"
    }

    fn card(&self) -> &'static str {
        include_str!("casts_of_their_own.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let Some(rate) = HbmRate::of(context) else {
            return Vec::new();
        };
        let casts = context
            .ops_above(0.0, |op| {
                op.class == OpClass::Elementwise && is_cast(context, op)
            })
            .filter_map(|op| Cast::of(context, op, &rate))
            .map(|cast| ((origin(context, cast.op), cast.words()), cast));
        let groups = groups(casts, |cast| cast.op.step_self_ms());
        worthwhile(context, groups)
            .map(|group| draft(context, &group, &rate))
            .collect()
    }
}

/// Whether an operation does nothing but convert.
fn is_cast(context: &Context<'_>, op: &OpProfile) -> bool {
    let Some(instruction) = &op.instruction else {
        return false;
    };
    if instruction.opcode != "fusion" {
        return instruction.opcode == "convert";
    }
    let body =
        hlo(context.evidence, op).and_then(|(program, id)| Some((program, program.body_of(id)?)));
    if let Some((program, body)) = body {
        let opcodes = || {
            body.ops()
                .filter_map(|op| program.get(op))
                .map(|i| i.opcode.as_str())
        };
        return opcodes().any(|opcode| opcode == "convert")
            && opcodes()
                .all(|opcode| matches!(opcode, "convert" | "bitcast" | "parameter" | "copy"));
    }
    let words: Vec<&str> = base_name(&instruction.name).split(['_', '-']).collect();
    words.contains(&"convert")
        && words
            .iter()
            .all(|word| matches!(*word, "convert" | "element" | "type" | "bitcast" | "fusion"))
}

/// A cast over HBM.
#[derive(Clone, Debug)]
struct Cast<'a> {
    op: &'a OpProfile,
    from: &'a Array,
    to: &'a Array,
    /// Time that its readers need more if they convert for themselves.
    readers_ms: f64,
}

impl<'a> Cast<'a> {
    fn of(context: &Context<'a>, op: &'a OpProfile, rate: &HbmRate) -> Option<Self> {
        let to = op.result()?;
        let from = operand_arrays(context.evidence, op)
            .into_iter()
            .find(|array| array.elements() == to.elements() && array.dtype != to.dtype)?;
        let over_hbm = [from, to]
            .iter()
            .any(|array| array.memory_space() == MemorySpace::Hbm);
        let wider = from.padded_bytes().0.saturating_sub(to.padded_bytes().0) as f64;
        let readers = context.evidence.users_of(op).count().max(1) as f64;
        over_hbm.then(|| Self {
            op,
            from,
            to,
            readers_ms: rate.ms(wider * readers * op.step_occurrences),
        })
    }

    fn words(&self) -> String {
        format!("{} to {}", self.from.dtype, self.to.dtype)
    }
}

fn draft(
    context: &Context<'_>,
    group: &Group<(String, String), Cast<'_>>,
    rate: &HbmRate,
) -> Draft {
    let (place, words) = &group.key;
    let readers: f64 = group.members.iter().map(|cast| cast.readers_ms).sum();
    let mut evidence = vec![share_of_step(context, "time casting", group.sum)];
    for cast in group.members.iter().take(4) {
        evidence.push(Exhibit::text(
            context.op(cast.op).name.clone(),
            format!(
                "{}, {} ({}) to {} ({})",
                times(cast.op.step_occurrences),
                cast.from,
                cast.from.padded_bytes(),
                cast.to,
                cast.to.padded_bytes()
            ),
            "operand and result of the instruction",
        ));
    }
    Draft {
        title: format!(
            "a cast from {words} of its own at {place}: {} of each {} step ({})",
            units::ms(group.sum),
            context.evidence.step_time(),
            percent(context.share(group.sum)),
        ),
        kind: AdviceKind::Dtype,
        ops: group.members.iter().map(|cast| cast.op.id).collect(),
        evidence,
        claim: Some(Claim {
            expected_ms: group.sum - readers,
            low_ms: 0.0,
            high_ms: group.sum,
            upper_bound_ms: group.sum,
            basis: Basis::Modelled,
            formula: format!(
                "{:.3} ms less {readers:.3} ms that the readers need more when they read the wider type at {}",
                group.sum,
                rate.words()
            ),
            buckets: group.members.iter().map(|c| Bucket::Op(c.op.id)).collect(),
        }),
        advice: vec![
            "keep the value in the type that its readers want: cast where it is made (the cast then fuses into that), or store the weights that way".to_owned(),
            "if there is one reader, find out why the cast did not fuse into it: a kernel, a collective, a loop or a layout change in between".to_owned(),
        ],
        caveats: vec![
            "a cast before an all-gather or a kernel may be there to move fewer bytes: leave it then".to_owned(),
        ],
    }
}
