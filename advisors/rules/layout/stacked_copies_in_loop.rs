//! Loops that copy a whole stack to write one slice of it.

use knowledge::advice::AdviceKind;
use profiler::units::{self, Bytes, percent};

use crate::finding::{Basis, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::layout::exhibits::{Removal, buckets, patterns, share_of_step};
use crate::rules::layout::group::{Group, groups, times, worthwhile};
use crate::rules::layout::movers::{Mover, Role, movers};

/// See the card.
#[derive(Debug)]
pub struct StackedCopies;

impl Rule for StackedCopies {
    fn code(&self) -> &'static str {
        "TT605"
    }

    fn name(&self) -> &'static str {
        "stacked-copies-in-loop"
    }

    fn card(&self) -> &'static str {
        include_str!("stacked_copies_in_loop.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let copies = movers(context)
            .into_iter()
            .filter(|mover| matches!(mover.role, Role::LoopStack { .. }))
            .map(|mover| (mover.pattern(), mover));
        let groups = groups(copies, Mover::ms);
        worthwhile(context, groups)
            .filter_map(|group| draft(context, &group))
            .collect()
    }
}

fn draft(context: &Context<'_>, group: &Group<String, Mover<'_>>) -> Option<Draft> {
    let first = group.members.first()?;
    let array = first.to?;
    let Role::LoopStack { slice_bytes } = first.role else {
        return None;
    };
    let removal = Removal::of(context, &group.members);
    let count: f64 = group.members.iter().map(|m| m.op.step_occurrences).sum();
    let mut dims = array.clone();
    dims.layout = None;
    let mut evidence = vec![share_of_step(context, "time copying", group.sum)];
    if let Some(slice) = slice_bytes.filter(|slice| *slice > 0) {
        evidence.push(Exhibit::text(
            "bytes copied for each byte written",
            format!(
                "{:.1}: {} of stack for a slice of {}",
                array.bytes().0 as f64 / slice as f64,
                array.bytes(),
                Bytes(slice)
            ),
            "the copy's shape against the update of the dynamic-update-slice before it",
        ));
    }
    evidence.extend(patterns(context, &group.members));
    Some(Draft {
        title: format!(
            "a loop copies the whole stack {dims} for each slice that it writes: {}, {} of each {} step ({})",
            times(count),
            units::ms(group.sum),
            context.evidence.step_time(),
            percent(context.share(group.sum)),
        ),
        kind: AdviceKind::LayoutCopy,
        ops: group.members.iter().map(|mover| mover.op.id).collect(),
        evidence,
        claim: Some(Claim {
            expected_ms: removal.expected_ms,
            low_ms: 0.0,
            high_ms: group.sum,
            upper_bound_ms: group.sum,
            basis: Basis::Modelled,
            formula: format!(
                "{}; high: written in place, all of the copies' time, {:.3} ms",
                removal.words, group.sum
            ),
            buckets: buckets(&group.members),
        }),
        advice: vec![
            "write the slice in place: carry the stack through the loop and read nothing of it in the same iteration after the write".to_owned(),
            "save another value for the backward pass (a checkpoint name of a smaller activation), or let the scan stack its outputs (ys) instead of updating an array by hand".to_owned(),
        ],
        caveats: vec![
            "the copy is needed where an iteration reads the old stack after it wrote to it".to_owned(),
        ],
    })
}
