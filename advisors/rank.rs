//! Drafts become findings: savings are limited to the time that is there, severity and confidence
//! are set, and findings are put in order.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;
use profiler::evidence::Evidence;
use profiler::evidence::peaks::ChipBasis;

use crate::finding::{
    Basis, Bucket, Claim, Confidence, Draft, Finding, OpMention, Place, Remark, Saving, Severity,
};
use crate::rule::{Context, Rule};

/// Findings list at most this many operations; the count says how many there are.
const OPS_LISTED: usize = 12;
/// Shares of the step from which a finding is high or medium.
const HIGH_SHARE: f64 = 0.05;
const MEDIUM_SHARE: f64 = 0.01;

/// Findings in order, and what all of them together are expected to save.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// Largest expected value (saving times probability) first; findings without a saving last.
    pub findings: Vec<Finding>,
    /// Expected saving of all changes together if all work, in milliseconds a step.
    pub combined_ms: f64,
}

/// Runs rules over the evidence and ranks what they found.
#[must_use]
pub fn advise(evidence: &Evidence<'_>, rules: &[&dyn Rule]) -> Ranked {
    let context = Context { evidence };
    let mut findings = Vec::new();
    let mut claims = Vec::new();
    for rule in rules {
        for draft in rule.check(&context) {
            let claim = draft.claim.as_ref().map(|claim| limit(claim, &context));
            let saving = claim.as_ref().map(|claim| saving_of(claim, &context));
            claims.extend(claim.map(|claim| (draft.kind, claim)));
            findings.push(finding_of(*rule, draft, saving, &context));
        }
    }
    for rule in rules {
        let remarks = rule.check_logs(&context);
        findings.extend(remarks.into_iter().map(|remark| remarked(*rule, remark)));
    }
    sort(&mut findings);
    Ranked {
        findings,
        combined_ms: combined_ms(&claims, &context),
    }
}

/// Puts findings in order. What texts tell has no share of a step to be ranked by: a run that
/// recompiles, falls back or runs out of memory is to be cured first, what weighs less comes after
/// the savings, and what is only worth knowing comes last.
pub fn sort(findings: &mut [Finding]) {
    let band = |finding: &Finding| match (&finding.saving, finding.severity) {
        (None, Severity::High) => 0,
        (Some(_), _) => 1,
        (None, Severity::Medium) => 2,
        (None, Severity::Low) => 3,
        (None, Severity::Info) => 4,
    };
    let value = |finding: &Finding| match &finding.saving {
        Some(saving) => saving.expected_ms * finding.confidence.probability,
        None => finding.lost_s.unwrap_or(0.0),
    };
    findings.sort_by(|a, b| {
        (band(a).cmp(&band(b)))
            .then_with(|| value(b).total_cmp(&value(a)))
            .then_with(|| a.code.cmp(&b.code))
            .then_with(|| {
                a.places
                    .first()
                    .map(place_key)
                    .cmp(&b.places.first().map(place_key))
            })
            .then_with(|| a.fingerprint.cmp(&b.fingerprint))
    });
}

fn place_key(place: &Place) -> (&str, u64, u64) {
    (&place.file, place.line, place.column)
}

/// Limits a claim to the capacity of its buckets, and to the step, and orders its band.
fn limit(claim: &Claim, context: &Context<'_>) -> Claim {
    let capacity: f64 = unique(&claim.buckets)
        .map(|bucket| context.capacity_ms(bucket))
        .sum();
    // Operations count as on the core where each takes longest: their sum may exceed a step.
    let capacity = capacity.min(context.step_ms());
    let finite = |value: f64| {
        // The larger of two zeros may be the negative one.
        if value.is_finite() && value > 0.0 {
            value
        } else {
            0.0
        }
    };
    let upper_bound_ms = finite(claim.upper_bound_ms).min(capacity);
    let expected_ms = finite(claim.expected_ms).min(upper_bound_ms);
    Claim {
        expected_ms,
        low_ms: finite(claim.low_ms).min(expected_ms),
        high_ms: finite(claim.high_ms).max(expected_ms).min(upper_bound_ms),
        upper_bound_ms,
        ..claim.clone()
    }
}

fn unique(buckets: &[Bucket]) -> impl Iterator<Item = Bucket> {
    let mut sorted = buckets.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.into_iter()
}

fn saving_of(claim: &Claim, context: &Context<'_>) -> Saving {
    Saving {
        expected_ms: claim.expected_ms,
        low_ms: claim.low_ms,
        high_ms: claim.high_ms,
        upper_bound_ms: claim.upper_bound_ms,
        share_of_step: context.share(claim.expected_ms),
        basis: claim.basis,
        formula: claim.formula.clone(),
    }
}

/// What one kind of change takes of a bucket.
#[derive(Clone, Copy)]
struct Taken {
    /// The share that is left.
    left: f64,
    /// The largest share that a change of the kind can save.
    most: f64,
    /// The sum of the shares.
    sum: f64,
}

/// Savings that overlap do not add up: of what one change leaves of a bucket, the next takes its
/// own share. Changes of one kind to one operation are alternatives as well (smaller weights and
/// smaller operands): together they save no more than the best of them can. Only gaps between
/// programs add up, as no two findings claim the same one.
fn combined_ms(claims: &[(AdviceKind, Claim)], context: &Context<'_>) -> f64 {
    let mut taken: BTreeMap<(Bucket, AdviceKind), Taken> = BTreeMap::new();
    for (kind, claim) in claims {
        let capacity: f64 = unique(&claim.buckets)
            .map(|bucket| context.capacity_ms(bucket))
            .sum();
        if capacity <= 0.0 {
            continue;
        }
        let share = (claim.expected_ms / capacity).min(1.0);
        let most = (claim.upper_bound_ms / capacity).min(1.0);
        for bucket in unique(&claim.buckets) {
            let entry = taken.entry((bucket, *kind)).or_insert(Taken {
                left: 1.0,
                most: 0.0,
                sum: 0.0,
            });
            entry.left *= 1.0 - share;
            entry.most = entry.most.max(most);
            entry.sum += share;
        }
    }
    let mut left: BTreeMap<Bucket, f64> = BTreeMap::new();
    for ((bucket, _), taken) in &taken {
        let entry = left.entry(*bucket).or_insert(1.0);
        if bucket.adds_up() {
            *entry = (*entry - taken.sum).max(0.0);
        } else {
            *entry *= taken.left.max(1.0 - taken.most);
        }
    }
    let saved = left.iter().fold(0.0, |sum, (bucket, left)| {
        sum + context.capacity_ms(*bucket) * (1.0 - left)
    });
    // Each bucket is that of its slowest core; all of them on one core are no more than a step.
    saved.min(context.step_ms())
}

fn severity_of(saving: Option<&Saving>) -> Severity {
    match saving {
        Some(saving) if saving.share_of_step >= HIGH_SHARE => Severity::High,
        Some(saving) if saving.share_of_step >= MEDIUM_SHARE => Severity::Medium,
        Some(saving) if saving.expected_ms > 0.0 => Severity::Low,
        _ => Severity::Info,
    }
}

fn finding_of(
    rule: &dyn Rule,
    draft: Draft,
    saving: Option<Saving>,
    context: &Context<'_>,
) -> Finding {
    let mut ops: Vec<OpMention> = draft.ops.iter().map(|id| mention(*id, context)).collect();
    ops.sort_by(|a, b| {
        b.self_ms_per_step
            .total_cmp(&a.self_ms_per_step)
            .then(a.id.cmp(&b.id))
    });
    let op_count = ops.len();
    let fingerprint = fingerprint(rule.code(), &ops);
    let mut caveats = draft.caveats;
    if depends_on_chip(rule.code(), saving.as_ref()) {
        caveats.extend(chip_caveat(context));
    }
    ops.truncate(OPS_LISTED);
    Finding {
        code: rule.code().to_owned(),
        rule: rule.name().to_owned(),
        title: draft.title,
        severity: severity_of(saving.as_ref()),
        confidence: confidence(draft.kind),
        saving,
        ops,
        op_count,
        places: Vec::new(),
        lost_s: None,
        evidence: draft.evidence,
        advice: draft.advice,
        fix: None,
        caveats,
        fingerprint,
    }
}

/// A finding in a text.
#[must_use]
pub fn remarked(rule: &dyn Rule, remark: Remark) -> Finding {
    let keys = remark
        .places
        .iter()
        .take(1)
        .map(|place| format!("{}|{}", place.file, place.snippet.trim()))
        .collect();
    Finding {
        code: rule.code().to_owned(),
        rule: rule.name().to_owned(),
        title: remark.title,
        severity: remark.severity,
        confidence: confidence(remark.kind),
        saving: None,
        ops: Vec::new(),
        op_count: 0,
        places: remark.places,
        lost_s: remark.lost_s.filter(|lost| lost.is_finite()),
        evidence: remark.evidence,
        advice: remark.advice,
        fix: remark.fix,
        caveats: remark.caveats,
        fingerprint: hash(rule.code(), keys),
    }
}

fn confidence(kind: AdviceKind) -> Confidence {
    let rate = knowledge::advice::base_rate(kind);
    let (low, high) = rate.interval();
    Confidence {
        probability: rate.rate(),
        low,
        high,
        kind: kind.name().to_owned(),
        supported: rate.supported(),
        refuted: rate.refuted(),
        source: rate.source().to_owned(),
    }
}

/// Whether the figures of a finding rest on the chip's peaks: those of matmuls and kernels do, and
/// what a model says of operations. Gaps, collectives' waits and the capture itself do not.
fn depends_on_chip(code: &str, saving: Option<&Saving>) -> bool {
    let modelled = saving.is_some_and(|saving| saving.basis == Basis::Modelled);
    code.starts_with("TT5") || (modelled && !code.starts_with("TT2") && !code.starts_with("TT4"))
}

/// What to say where the chip is a conclusion.
fn chip_caveat(context: &Context<'_>) -> Option<String> {
    let chip = context.evidence.chip.as_ref()?;
    (chip.basis == ChipBasis::Inferred).then(|| {
        format!(
            "the chip is inferred ({}): with another chip these figures change; name it with --chip",
            chip.generation.name()
        )
    })
}

fn mention(id: u32, context: &Context<'_>) -> OpMention {
    let session = context.evidence.session;
    let op = session.op(id);
    let profile = context.evidence.op(id);
    let module = op
        .module
        .and_then(|module| session.modules.get(module as usize));
    OpMention {
        id,
        name: op.name.clone(),
        module: module.map(|module| module.name.clone()).unwrap_or_default(),
        category: op.category.clone(),
        shape: op.shape.clone(),
        framework_op: op.framework_op.clone(),
        // The halves of asynchronous copies have no line of their own.
        source: profile
            .and_then(|profile| context.evidence.source_near(profile))
            .unwrap_or_default()
            .to_owned(),
        self_ms_per_step: profile.map_or(0.0, profiler::evidence::OpProfile::step_self_ms),
        executions_per_step: profile.map_or(0.0, |profile| profile.step_occurrences),
    }
}

/// A hash of what stays when a program is recompiled: instruction numbers change, so they are
/// left out. FNV-1a, 64 bits.
fn fingerprint(code: &str, ops: &[OpMention]) -> String {
    let keys: Vec<String> = ops
        .iter()
        .map(|op| {
            let name = op
                .name
                .trim_end_matches(|c: char| c == '.' || c.is_ascii_digit());
            format!("{}|{name}|{}|{}", op.module, op.shape, op.framework_op)
        })
        .collect();
    hash(code, keys)
}

fn hash(code: &str, mut keys: Vec<String>) -> String {
    keys.sort_unstable();
    keys.dedup();
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in code
        .bytes()
        .chain(keys.iter().flat_map(|key| key.bytes().chain([0])))
    {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}
