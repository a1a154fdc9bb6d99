//! Op-by-op execution: a program for each operation instead of one for the step.

use knowledge::advice::AdviceKind;
use profiler::evidence::GapCause;
use profiler::evidence::idle::LAUNCH_FLOOR;
use profiler::units::Picos;

use crate::finding::{Basis, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::idle::Gaps;

/// See the card.
#[derive(Debug)]
pub struct ManySmallPrograms;

/// Programs named in the evidence.
const NAMED: usize = 4;

impl Rule for ManySmallPrograms {
    fn code(&self) -> &'static str {
        "TT202"
    }

    fn name(&self) -> &'static str {
        "many-small-programs"
    }

    fn card(&self) -> &'static str {
        include_str!("many_small_programs.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let gaps = Gaps::of(context, &[GapCause::TinyProgram]);
        gaps.map(|gaps| draft(context, &gaps)).into_iter().collect()
    }
}

fn draft(context: &Context<'_>, gaps: &Gaps<'_>) -> Draft {
    let evidence = context.evidence;
    let tiny = &evidence.host.tiny;
    let steps = gaps.between.steps.max(1);
    let per_step = tiny.runs as f64 / steps as f64;
    let name = |module: u32| {
        let module = evidence.session.modules.get(module as usize);
        module.map_or("(unknown)", |module| module.name.as_str())
    };
    let named: Vec<String> = tiny
        .modules
        .iter()
        .take(NAMED)
        .map(|(module, runs)| format!("{} {:.1}", name(*module), *runs as f64 / steps as f64))
        .collect();
    let mut exhibits = vec![Exhibit::text(
        "small programs",
        format!(
            "{per_step:.1} a step of {} different ones, {} together: {}",
            tiny.modules.len(),
            Picos(tiny.total_ps.0 / steps as u64),
            named.join(", ")
        ),
        "runs a step of programs whose median run is under 50 us, most runs first",
    )];
    exhibits.extend(gaps.exhibits());
    let floor_ms = gaps.floor_ms(1.0);
    let formula = format!(
        "{} idle before these programs, less one launch of {LAUNCH_FLOOR}; low: half of it",
        gaps.basis_part()
    );
    let in_tiny = |op: &&profiler::evidence::OpProfile| {
        tiny.modules
            .iter()
            .any(|(module, _)| Some(*module) == op.module)
    };
    Draft {
        title: format!(
            "the step runs op by op: {per_step:.0} programs under 50 us a step and the gaps before them, {}",
            gaps.title_part(context)
        ),
        kind: AdviceKind::HostDispatch,
        ops: evidence.ops.iter().filter(in_tiny).map(|op| op.id).collect(),
        evidence: exhibits,
        claim: Some(gaps.claim(
            floor_ms,
            gaps.expected_ms(floor_ms) / 2.0,
            Basis::Modelled,
            formula,
        )),
        advice: vec![
            "call them inside one jax.jit; with PyTorch, torch.compile the whole step, optimizer included (capturable=True)".to_owned(),
            "compute small values (positions, masks, learning rates) in numpy on the host, or inside the jitted step".to_owned(),
        ],
        caveats: gaps.unseen().into_iter().collect(),
    }
}
