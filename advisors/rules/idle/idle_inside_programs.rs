//! A program runs, but no operation of it.

use knowledge::advice::AdviceKind;
use profiler::evidence::InsideIdle;
use profiler::evidence::idle::MIN_WAIT;
use profiler::units::{self, Picos, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::idle::MIN_SHARE;

/// See the card.
#[derive(Debug)]
pub struct IdleInside;

/// The runtime's marker for waiting for the other cores: a matter of its own.
const BARRIER: &str = "barrier-cores";
/// Operations named.
const NAMED: usize = 4;

impl Rule for IdleInside {
    fn code(&self) -> &'static str {
        "TT205"
    }

    fn name(&self) -> &'static str {
        "idle-inside-programs"
    }

    fn card(&self) -> &'static str {
        include_str!("idle_inside_programs.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let Some(inside) = &context.evidence.inside else {
            return Vec::new();
        };
        let barrier = inside.in_mark(BARRIER);
        let waits = long_ps(inside).saturating_sub(barrier);
        let share = waits.0 as f64 / inside.window_ps.0.max(1) as f64;
        if share < MIN_SHARE {
            return Vec::new();
        }
        vec![draft(context, inside, waits, share)]
    }
}

/// The waits that are more than the clock ticks between one operation and the next.
fn long_ps(inside: &InsideIdle) -> Picos {
    let before: Picos = inside.before.iter().map(|(_, time, _)| *time).sum();
    inside.at_start_ps + inside.at_end_ps + before
}

fn draft(context: &Context<'_>, inside: &InsideIdle, waits: Picos, share: f64) -> Draft {
    let steps = inside.steps.max(1);
    let per_step = |time: Picos| Picos(time.0 / steps as u64);
    // The waits are those of one core, the time is that of all.
    let all_ms = context.capacity_ms(Bucket::IdleInside);
    let waits_ms = all_ms * waits.0 as f64 / inside.total_ps.0.max(1) as f64;
    let session = context.evidence.session;
    let mut evidence = vec![Exhibit::text(
        "waits",
        format!(
            "{:.1} a step, longest {}; {} of the time",
            inside.waits.count as f64 / steps as f64,
            inside.waits.max_ps,
            percent(share)
        ),
        "stretches of 0.1 us or more within a program and without an operation, core in the middle",
    )];
    // A twentieth and more is named.
    let is_part = |time: Picos| time.0 >= inside.total_ps.0 / 20;
    let mut ops = Vec::new();
    for (what, time) in [
        ("before a program's first operation", inside.at_start_ps),
        ("after its last", inside.at_end_ps),
    ] {
        if is_part(time) {
            evidence.push(Exhibit::text(
                what,
                format!("{} a step", per_step(time)),
                "same",
            ));
        }
    }
    for (op, time, count) in &inside.before {
        if ops.len() == NAMED || !is_part(*time) {
            break;
        }
        let times = *count as f64 / steps as f64;
        evidence.push(Exhibit::text(
            format!("before {}", session.op(*op).name),
            format!("{} a step in {times:.1} waits", per_step(*time)),
            "same",
        ));
        ops.push(*op);
    }
    for (mark, time) in &inside.marked {
        evidence.push(Exhibit::text(
            format!("in {mark}"),
            format!("{} a step", per_step(*time)),
            "marker of the runtime on the device",
        ));
    }
    Draft {
        title: format!(
            "the cores wait inside programs without an operation: {} of each {} step",
            units::ms(waits_ms),
            context.evidence.step_time()
        ),
        kind: AdviceKind::HostDispatch,
        ops,
        evidence,
        claim: Some(Claim {
            expected_ms: waits_ms / 2.0,
            low_ms: 0.0,
            high_ms: waits_ms,
            upper_bound_ms: waits_ms,
            basis: Basis::Modelled,
            formula: format!(
                "half of {} in waits of {MIN_WAIT} or more without an operation in a running program, {BARRIER} left out: waits for the host or for inputs can go, what the hardware needs to go on stays, and the profile does not tell them apart",
                units::ms(waits_ms)
            ),
            buckets: vec![Bucket::IdleInside],
        }),
        advice: vec![
            "before the operations named: look for host callbacks (jax.debug.print, io_callback, pure_callback), infeed, and send or recv through the host".to_owned(),
            "before the first operation: programs wait for their inputs there; see that they are on the device when the program is sent".to_owned(),
        ],
        caveats: vec![
            "operations that the profiler dropped look like waits: capture fewer steps and see whether they stay".to_owned(),
        ],
    }
}
