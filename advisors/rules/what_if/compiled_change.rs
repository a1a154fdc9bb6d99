//! Changes that the compiler itself says are gains.

use knowledge::advice::AdviceKind;
use profiler::evidence::compiled_change::CompiledChange;
use profiler::session::Origin;
use profiler::units::{self, Bytes, Picos, percent};

use crate::finding::{Basis, Bucket, Claim, Draft, Exhibit};
use crate::rule::{Context, Rule};

/// See the card.
#[derive(Debug)]
pub struct CompiledChangeRule;

impl Rule for CompiledChangeRule {
    fn code(&self) -> &'static str {
        "TT901"
    }

    fn name(&self) -> &'static str {
        "compiled-change"
    }

    fn card(&self) -> &'static str {
        include_str!("compiled_change.md")
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let changes = &context.evidence.compiled_changes;
        let gains = changes.iter().filter(|change| change.is_gain());
        gains.map(|change| draft(context, change)).collect()
    }
}

/// Operations that are mentioned.
const MAX_OPS: usize = 8;

fn draft(context: &Context<'_>, change: &CompiledChange) -> Draft {
    let CompiledChange {
        before_ps,
        after_ps,
        ratio: (low, high),
        ..
    } = *change;
    let ratio = change.expected_ratio();
    // Of a measured step the same share is saved as of the predicted one.
    let step_ms = match context.evidence.session.origin {
        Origin::Predicted => Picos(before_ps).as_ms(),
        Origin::Measured => context.step_ms().min(busy_ms(context)),
    };
    let expected_ms = step_ms * (1.0 - ratio);
    let buckets: Vec<Bucket> = change.ops.iter().map(|(op, _)| Bucket::Op(*op)).collect();
    let capacity: f64 = buckets.iter().map(|b| context.capacity_ms(*b)).sum();
    let mut evidence = vec![Exhibit::text(
        "compiled both ways",
        format!(
            "{} before, {} after: ratio {ratio:.3} ({low:.3} to {high:.3})",
            Picos(before_ps),
            Picos(after_ps)
        ),
        format!(
            "{}; check with `tpu-tune what-if` and `tpu-tune compare`",
            change.compiled
        ),
    )];
    let lists = [
        ("takes less or goes away", &change.saved),
        ("takes more", &change.paid),
    ];
    for (what, list) in lists {
        evidence.extend(
            list.iter()
                .map(|words| Exhibit::text(what, words.clone(), "the compared schedules")),
        );
    }
    if change.more_hbm_bytes != 0 {
        let bytes = Bytes(change.more_hbm_bytes.unsigned_abs());
        let direction = if change.more_hbm_bytes > 0 {
            "more"
        } else {
            "less"
        };
        evidence.push(Exhibit::text(
            "HBM at the peak",
            format!("{bytes} {direction}"),
            "the compiler's memory figures of both",
        ));
    }
    Draft {
        title: format!(
            "{}: compiled both ways, {} of each {} step ({})",
            change.change,
            units::ms(expected_ms),
            context.evidence.step_time(),
            percent(context.share(expected_ms)),
        ),
        kind: AdviceKind::Padding,
        ops: change.ops.iter().take(MAX_OPS).map(|(op, _)| *op).collect(),
        evidence,
        claim: Some(Claim {
            expected_ms,
            low_ms: (step_ms * (1.0 - high)).max(0.0),
            high_ms: (step_ms * (1.0 - low)).max(expected_ms),
            upper_bound_ms: capacity.max(expected_ms),
            basis: Basis::Compiled,
            formula: format!(
                "{} x (1 - {ratio:.3}); band: 1 - {high:.3} to 1 - {low:.3}",
                units::ms(step_ms)
            ),
            buckets,
        }),
        advice: vec![format!("change it: {}", change.change)],
        caveats: vec![
            "predicted from two schedules of the compiler, not measured: run both before you keep it".to_owned(),
            "weights must be stored in the new form (padded with zeros, or transposed once), and whoever reads the results must skip what was added".to_owned(),
        ],
    }
}

/// Time of all operations of a step, in milliseconds.
fn busy_ms(context: &Context<'_>) -> f64 {
    let ops = context.evidence.ops.iter();
    ops.map(|op| op.step_self_ps).sum::<f64>() / 1e9
}
