//! The host reads a result before it sends the next program.

use knowledge::advice::AdviceKind;
use profiler::evidence::GapCause;
use profiler::evidence::idle::LAUNCH_FLOOR;

use crate::finding::{Basis, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::idle::Gaps;

/// See the card.
#[derive(Debug)]
pub struct HostReads;

impl Rule for HostReads {
    fn code(&self) -> &'static str {
        "TT206"
    }

    fn name(&self) -> &'static str {
        "host-read-in-step"
    }

    fn card(&self) -> &'static str {
        include_str!("host_read_in_step.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let gaps = Gaps::of(context, &[GapCause::HostRead]);
        gaps.map(|gaps| draft(context, &gaps)).into_iter().collect()
    }
}

fn draft(context: &Context<'_>, gaps: &Gaps<'_>) -> Draft {
    let reads = &context.evidence.host.reads;
    let per_step = reads.count as f64 / gaps.between.steps.max(1) as f64;
    let mut evidence = vec![Exhibit::text(
        "reads",
        format!("{per_step:.1} a step in {}", reads.span),
        "host spans of the thread that dispatches; one in progress when a program ends holds up the next",
    )];
    evidence.extend(gaps.exhibits());
    let floor_ms = gaps.floor_ms(gaps.count);
    let formula = format!(
        "{} of gaps that begin while the host waits for a result, less {:.1} launches of {LAUNCH_FLOOR}; low: half of it",
        gaps.basis_part(),
        gaps.count
    );
    Draft {
        title: format!("the host reads results before it goes on: the cores wait {}", gaps.title_part(context)),
        kind: AdviceKind::HostDispatch,
        ops: Vec::new(),
        evidence,
        claim: Some(gaps.claim(
            floor_ms,
            gaps.expected_ms(floor_ms) / 2.0,
            Basis::Modelled,
            formula,
        )),
        advice: vec![
            "keep losses and metrics on the device and read them every N steps, or a step late (copy_to_host_async)".to_owned(),
            "decide on the device (jnp.where, lax.cond, lax.while_loop) what is now decided by .item(), bool() or float()".to_owned(),
            "in a server: schedule the next step before the last one's tokens arrive (async scheduling)".to_owned(),
        ],
        caveats: vec![
            "a last read to measure time belongs there: only reads in every step cost".to_owned(),
        ],
    }
}
