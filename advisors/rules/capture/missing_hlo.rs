//! Operations without the program that they belong to.

use profiler::units::percent;

use crate::finding::{Draft, Exhibit};
use crate::rule::{Context, Rule};
use crate::rules::capture::{Remark, is_measured};

/// See the card.
#[derive(Debug)]
pub struct MissingHlo;

/// Time under unknown programs from which it is worth a line.
const MIN_SHARE: f64 = 0.5;

impl Rule for MissingHlo {
    fn code(&self) -> &'static str {
        "TT102"
    }

    fn name(&self) -> &'static str {
        "missing-hlo"
    }

    fn card(&self) -> &'static str {
        include_str!("missing_hlo.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let ops = &context.evidence.ops;
        let all: f64 = ops.iter().map(|op| op.self_ps.0 as f64).sum();
        let without = |with_text: bool| -> f64 {
            let unknown = ops.iter().filter(|op| op.hlo.is_none());
            let unknown = unknown.filter(|op| with_text || op.instruction.is_none());
            unknown.map(|op| op.self_ps.0 as f64).sum()
        };
        if !is_measured(context) || all <= 0.0 || without(true) < MIN_SHARE * all {
            return Vec::new();
        }
        let lost = if without(false) < MIN_SHARE * all {
            "what is inside fusions and what fills memory"
        } else {
            "shapes, what is inside fusions and what fills memory"
        };
        let mut remark = Remark::new(format!("HLO is missing from this profile: {lost} is not known"))
            .advise("give the compiler's dump beside the profile: run with XLA_FLAGS=\"--xla_dump_to=DIR --xla_dump_hlo_as_text\" and add the *after_optimizations.txt files to the command")
            .advise("or take the xplane.pb: libtpu puts the HLO there (/host:metadata) unless the process compiled for the CPU as well");
        remark.evidence = vec![Exhibit::text(
            "time in operations without HLO",
            percent(without(true) / all),
            "of the self time of all operations",
        )];
        vec![remark.draft()]
    }
}
