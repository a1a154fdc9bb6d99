//! An axis that its mesh does not divide.

use knowledge::advice::AdviceKind;
use profiler::logs::indivisible::Indivisible;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;

/// See the card.
#[derive(Debug)]
pub struct IndivisibleAxis;

impl Rule for IndivisibleAxis {
    fn code(&self) -> &'static str {
        "TL402"
    }

    fn name(&self) -> &'static str {
        "indivisible-axis"
    }

    fn card(&self) -> &'static str {
        include_str!("indivisible_axis.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let errors = logs.indivisible.iter();
        errors
            .map(|error| {
                let mut remark = remark(error);
                remark
                    .places
                    .push(place(logs, error.at, &error.text, "the error"));
                remark
            })
            .collect()
    }
}

fn remark(error: &Indivisible) -> Remark {
    let Indivisible {
        size, parts, axis, ..
    } = error;
    let title = format!(
        "{} of shape {}: axis {axis} of size {size} does not divide into {parts} parts",
        error.what, error.shape
    );
    let mut remark = Remark::new(AdviceKind::ShardingMesh, Severity::High, title);
    let mesh: Vec<String> = error
        .mesh
        .iter()
        .map(|(name, size)| format!("{name} {size}"))
        .collect();
    remark.evidence = vec![
        Exhibit::text("mesh", mesh.join(", "), "the error"),
        Exhibit::text("spec", error.spec.clone(), "the error"),
    ];
    let padded = size.div_ceil(*parts.max(&1)).saturating_mul(*parts);
    remark.advice.push(format!(
        "make axis {axis} a multiple of {parts}: {padded} instead of {size}"
    ));
    let fitting = largest_common(*size, *parts);
    remark.advice.push(if fitting > 1 {
        format!("or cut it into {fitting} parts, the most that divide both, and leave the other mesh axes to another axis")
    } else {
        format!("or do not shard axis {axis}: no number of parts but 1 divides both {size} and {parts}")
    });
    remark
}

/// The greatest common divisor.
fn largest_common(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
