//! Where a step begins and ends is a guess.

use profiler::evidence::{ModuleRuns, StepBasis};
use profiler::units::percent;

use crate::finding::{Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::capture::{Remark, is_measured};

/// See the card.
#[derive(Debug)]
pub struct MissingSteps;

/// When other programs take this much of the time, the main program's runs may not be the steps.
const OTHER_PROGRAMS: f64 = 0.1;
const ANNOTATE: &str = "mark steps in the loop: with jax.profiler.StepTraceAnnotation(\"train\", step_num=i): around the call";

impl Rule for MissingSteps {
    fn code(&self) -> &'static str {
        "TT103"
    }

    fn name(&self) -> &'static str {
        "missing-steps"
    }

    fn card(&self) -> &'static str {
        include_str!("missing_steps.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        if !is_measured(context) || context.evidence.ops.is_empty() {
            return Vec::new();
        }
        let steps = &context.evidence.steps;
        if steps.basis == StepBasis::WholeCapture {
            return vec![no_steps().draft()];
        }
        if steps.count() < 2 {
            return vec![one_step(steps.count(), steps.cut).draft()];
        }
        guessed(context).map(Remark::draft).into_iter().collect()
    }
}

fn no_steps() -> Remark {
    Remark::new("neither steps nor programs are marked: figures are those of the whole capture")
        .advise(ANNOTATE)
}

fn one_step(whole: usize, cut: usize) -> Remark {
    let what = if whole == 1 {
        "one whole step"
    } else {
        "no whole step"
    };
    let mut remark = Remark::new(format!(
        "the capture holds {what}: how steady steps are, and the time between them, it cannot tell"
    ))
    .advise("capture five to ten steps after the warm-up");
    if cut > 0 {
        remark.evidence.push(Exhibit::number(
            "steps cut by the ends of the capture",
            cut as f64,
            "",
            "over all cores",
        ));
    }
    remark
}

/// Without markers the runs of the longest program are the steps; not so if others run as long.
fn guessed(context: &Context<'_>) -> Option<Remark> {
    let evidence = context.evidence;
    let StepBasis::ModuleRuns(main) = evidence.steps.basis else {
        return None;
    };
    let window = evidence.host.between.as_ref()?;
    let device = evidence.session.devices.get(window.device)?;
    let core = evidence.steps.of_device(window.device)?;
    let inside = |start: u64| start >= core.window_ps.0 && start < core.window_ps.1;
    let (mut own, mut other) = (0u64, 0u64);
    for (_, duration, module) in device.modules.iter().filter(|(start, _, _)| inside(*start)) {
        let sum = if module == main { &mut own } else { &mut other };
        *sum = sum.saturating_add(duration);
    }
    let share = other as f64 / own.saturating_add(other).max(1) as f64;
    if share < OTHER_PROGRAMS {
        return None;
    }
    let name = |runs: &ModuleRuns| {
        let module = evidence.session.modules.get(runs.module as usize);
        module.map(|module| format!("{} x{}", module.name, runs.time.count))
    };
    let programs: Vec<String> = evidence.modules.iter().take(5).filter_map(name).collect();
    let mut remark = Remark::new(format!(
        "steps are not marked, and the runs taken for them leave out {} of the program time: a step may really be several programs",
        percent(share)
    ))
    .advise(ANNOTATE);
    remark.evidence = vec![Exhibit::text(
        "programs",
        programs.join(", "),
        "runs over all cores, longest total first; the first one was taken for the steps",
    )];
    Some(remark)
}
