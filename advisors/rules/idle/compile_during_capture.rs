//! Programs compiled while the capture ran.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;
use profiler::evidence::GapCause;
use profiler::evidence::host::Compile;
use profiler::units::{self, Picos};

use crate::finding::{Basis, Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::idle::Gaps;

/// See the card.
#[derive(Debug)]
pub struct CompileDuringCapture;

/// Compilations before the first step are worth a line from this on.
const MIN_WARM_UP: Picos = Picos(1_000_000_000_000);
/// Functions named.
const NAMED: usize = 6;

impl Rule for CompileDuringCapture {
    fn code(&self) -> &'static str {
        "TT203"
    }

    fn name(&self) -> &'static str {
        "compile-during-capture"
    }

    fn card(&self) -> &'static str {
        include_str!("compile_during_capture.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let compiles = &context.evidence.host.compiles;
        let gaps = Gaps::of(context, &[GapCause::Compile]);
        let among: Vec<&Compile> = compiles.iter().filter(|compile| compile.in_steps).collect();
        if gaps.is_some() || !among.is_empty() {
            return vec![among_steps(context, &among, gaps.as_ref())];
        }
        let total: Picos = compiles.iter().map(|compile| compile.duration).sum();
        if total < MIN_WARM_UP {
            return Vec::new();
        }
        vec![warm_up(&compiles.iter().collect::<Vec<_>>(), total)]
    }
}

fn among_steps(context: &Context<'_>, compiles: &[&Compile], gaps: Option<&Gaps<'_>>) -> Draft {
    let total: Picos = compiles.iter().map(|compile| compile.duration).sum();
    let mut evidence = by_function(compiles);
    evidence.extend(gaps.iter().flat_map(|gaps| gaps.exhibits()));
    let times = match compiles.len() {
        0 => "programs were traced or compiled among the steps".to_owned(),
        1 => format!("a program was compiled among the steps, {total}"),
        count => format!("{count} programs were compiled among the steps, {total} together"),
    };
    let title = match gaps {
        Some(gaps) => format!("{times}: the cores waited {}", gaps.title_part(context)),
        None => format!("{times}: the cores hardly waited for it"),
    };
    Draft {
        title,
        kind: AdviceKind::Recompilation,
        ops: Vec::new(),
        evidence,
        claim: gaps.map(|gaps| {
            let formula = format!(
                "{} without a program while the host traced or compiled",
                units::ms(gaps.ms)
            );
            gaps.claim(0.0, gaps.ms, Basis::Measured, formula)
        }),
        advice: vec![
            "find the axis, Python scalar, weak type, seed or fresh closure that differs from call to call: JAX_EXPLAIN_CACHE_MISSES=1 names it".to_owned(),
            "pad or bucket what varies, compile every bucket before the first step, drop the ragged last batch".to_owned(),
        ],
        caveats: vec![
            "a few steps of a long run may not be typical: compilations stop once every shape was seen".to_owned(),
        ],
    }
}

fn warm_up(compiles: &[&Compile], total: Picos) -> Draft {
    Draft {
        title: format!(
            "{} programs were compiled outside the steps in this capture: {total}, in no figure of a step",
            compiles.len()
        ),
        kind: AdviceKind::Recompilation,
        ops: Vec::new(),
        evidence: by_function(compiles),
        claim: None,
        advice: vec![
            "run a few steps before the capture, so that it holds nothing but steps".to_owned(),
            "if the start takes long, set JAX_COMPILATION_CACHE_DIR: the next start loads instead"
                .to_owned(),
        ],
        caveats: Vec::new(),
    }
}

fn by_function(compiles: &[&Compile]) -> Vec<Exhibit> {
    let mut functions: BTreeMap<&str, (usize, Picos)> = BTreeMap::new();
    for compile in compiles {
        let entry = functions.entry(&compile.function).or_default();
        entry.0 += 1;
        entry.1 += compile.duration;
    }
    let mut functions: Vec<(&str, (usize, Picos))> = functions.into_iter().collect();
    functions.sort_by_key(|(name, (_, time))| (std::cmp::Reverse(*time), *name));
    let exhibit = |(name, (count, time)): (&str, (usize, Picos))| {
        let name = if name.is_empty() {
            "(function unknown)"
        } else {
            name
        };
        let times = if count == 1 {
            "compiled once".to_owned()
        } else {
            format!("compiled {count} times")
        };
        Exhibit::text(
            name,
            format!("{times}, {time}"),
            "host spans of whole compilations",
        )
    };
    functions.into_iter().take(NAMED).map(exhibit).collect()
}
