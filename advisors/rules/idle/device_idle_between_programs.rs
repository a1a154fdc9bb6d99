//! The device waits for the host to send the next program.

use knowledge::advice::AdviceKind;
use profiler::evidence::HostKind;
use profiler::evidence::idle::LAUNCH_FLOOR;
use profiler::units;

use crate::finding::{Basis, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::idle::Gaps;

/// See the card.
#[derive(Debug)]
pub struct DeviceIdle;

impl Rule for DeviceIdle {
    fn code(&self) -> &'static str {
        "TT201"
    }

    fn name(&self) -> &'static str {
        "device-idle-between-programs"
    }

    fn card(&self) -> &'static str {
        include_str!("device_idle_between_programs.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        Gaps::rest(context)
            .map(|gaps| draft(context, &gaps))
            .into_iter()
            .collect()
    }
}

fn draft(context: &Context<'_>, gaps: &Gaps<'_>) -> Draft {
    let tiny = &context.evidence.host.tiny;
    let steps = gaps.between.steps.max(1) as f64;
    let programs = tiny.all_runs as f64 / steps;
    let mut evidence = gaps.exhibits();
    evidence.push(Exhibit::text(
        "programs",
        format!(
            "{programs:.1} a step, {:.1} of them under 50 us",
            tiny.runs as f64 / steps
        ),
        "runs on the XLA Modules line",
    ));
    let floor_ms = gaps.floor_ms(gaps.count);
    let expected_ms = gaps.expected_ms(floor_ms);
    let formula = format!(
        "{} idle, less {:.1} launches of {LAUNCH_FLOOR} that queued programs need as well: {}; low: half of it",
        gaps.basis_part(),
        gaps.count,
        units::ms(expected_ms),
    );
    let mut caveats: Vec<String> = gaps.unseen().into_iter().collect();
    caveats.push(
        "a server without requests is idle as well: compare at the load that matters".to_owned(),
    );
    Draft {
        title: format!(
            "the cores wait for the next program: {}",
            gaps.title_part(context)
        ),
        kind: AdviceKind::HostDispatch,
        ops: Vec::new(),
        evidence,
        claim: Some(gaps.claim(floor_ms, expected_ms / 2.0, Basis::Modelled, formula)),
        advice: advice(gaps, programs),
        caveats,
    }
}

fn advice(gaps: &Gaps<'_>, programs: f64) -> Vec<String> {
    let mut advice = Vec::new();
    if programs >= 1.5 {
        advice.push(format!(
            "put what is now {programs:.0} programs a step into one jitted function: each launch costs a gap"
        ));
    }
    let dispatch = gaps
        .between
        .activities
        .iter()
        .find(|a| a.kind == HostKind::Dispatch);
    let dispatches =
        dispatch.is_some_and(|a| a.in_gaps_ps.0 as f64 >= 0.5 * gaps.between.total_ps.0 as f64);
    if dispatches {
        advice.push(
            "make the call cheaper: hold the compiled function, pass arguments that are on the device already with their sharding, return only what is used".to_owned(),
        );
    } else {
        advice.push(
            "move what the host does between calls (logging, progress bars, metrics, scheduling) off the thread that dispatches, or do it while the device runs".to_owned(),
        );
    }
    advice.push(
        "send the next program before the last one ends: JAX returns at once unless a result is read".to_owned(),
    );
    advice
}
