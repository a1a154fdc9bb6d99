//! What findings save together, and the figures that all of them rest on.

use advisors::finding::{Basis, Bucket, Claim, Draft};
use advisors::rule::{Context, Rule};
use advisors::{Report, rank};
use knowledge::advice::AdviceKind;
use profiler::evidence::Evidence;

use crate::rules::{report, session};
use crate::support::scenarios;

/// A rule that would save a part of the longest operation's time.
#[derive(Debug)]
struct Longest {
    code: &'static str,
    part: f64,
    /// The most that it could save, as a part as well.
    most: f64,
}

impl Rule for Longest {
    fn code(&self) -> &'static str {
        self.code
    }

    fn name(&self) -> &'static str {
        "longest"
    }

    fn card(&self) -> &'static str {
        ""
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let op = &context.evidence.ops[0];
        let bucket = Bucket::Op(op.id);
        let ms = self.part * context.capacity_ms(bucket);
        vec![Draft {
            title: String::new(),
            kind: AdviceKind::Remat,
            ops: vec![op.id],
            evidence: Vec::new(),
            claim: Some(Claim {
                expected_ms: ms,
                low_ms: 0.0,
                high_ms: ms,
                upper_bound_ms: self.most * context.capacity_ms(bucket),
                basis: Basis::Measured,
                formula: String::new(),
                buckets: vec![bucket, bucket],
            }),
            advice: Vec::new(),
            caveats: Vec::new(),
        }]
    }
}

#[test]
fn two_claims_on_one_operation_never_save_more_than_it() {
    let session = session(&[scenarios::sample()]);
    let evidence = Evidence::gather(&session, None, knowledge::chips::chips());
    let longest = evidence.ops[0].step_self_slowest_ps / 1e9;
    let both_of = |first: f64, second: f64, most: f64| {
        let (first, second) = (
            Longest {
                code: "TT001",
                part: first,
                most,
            },
            Longest {
                code: "TT002",
                part: second,
                most,
            },
        );
        rank::advise(&evidence, &[&first, &second]).combined_ms / longest
    };
    let both = |first: f64, second: f64| both_of(first, second, 5.0);
    assert!((both(0.8, 0.8) - 0.96).abs() < 1e-9);
    assert!((both(0.5, 0.2) - 0.6).abs() < 1e-9);
    assert!((both(1.0, 1.0) - 1.0).abs() < 1e-9);
    // More than there is cannot be claimed either.
    assert!((both(5.0, 0.3) - 1.0).abs() < 1e-9);
    assert_eq!(both(0.0, 0.0), 0.0);
    // Nor can two changes of a kind save what neither of them could.
    assert!((both_of(0.5, 0.5, 0.6) - 0.6).abs() < 1e-9);
    assert!((both_of(0.2, 0.2, 0.6) - 0.36).abs() < 1e-9);
}

/// A rule that would save a part of the time without a program.
#[derive(Debug)]
struct Gap(f64);

impl Rule for Gap {
    fn code(&self) -> &'static str {
        "TT001"
    }

    fn name(&self) -> &'static str {
        "gap"
    }

    fn card(&self) -> &'static str {
        ""
    }

    fn check(&self, context: &Context<'_>) -> Vec<Draft> {
        let ms = self.0 * context.capacity_ms(Bucket::IdleBetween);
        vec![Draft {
            title: String::new(),
            kind: AdviceKind::HostDispatch,
            ops: Vec::new(),
            evidence: Vec::new(),
            claim: Some(Claim {
                expected_ms: ms,
                low_ms: 0.0,
                high_ms: ms,
                upper_bound_ms: ms,
                basis: Basis::Measured,
                formula: String::new(),
                buckets: vec![Bucket::IdleBetween],
            }),
            advice: Vec::new(),
            caveats: Vec::new(),
        }]
    }
}

#[test]
fn savings_of_different_gaps_add_up() {
    let session = session(&[scenarios::decode()]);
    let evidence = Evidence::gather(&session, None, knowledge::chips::chips());
    let idle = Context {
        evidence: &evidence,
    }
    .capacity_ms(Bucket::IdleBetween);
    let ranked = rank::advise(&evidence, &[&Gap(0.5), &Gap(0.3)]);
    assert!(idle > 0.0 && (ranked.combined_ms - 0.8 * idle).abs() < 1e-9);
}

/// Savings together are at least the largest and at most the sum, and no more than a step.
fn assert_combined(report: &Report, what: &str) {
    let savings = report.findings.iter().filter_map(|f| f.saving.as_ref());
    let savings: Vec<f64> = savings.map(|saving| saving.expected_ms).collect();
    let largest = savings.iter().copied().fold(0.0, f64::max);
    let sum = savings.iter().sum::<f64>() + 1e-9;
    let combined = report.combined_saving_ms;
    assert!(
        largest - 1e-9 <= combined && combined <= sum,
        "{what}: {largest} to {sum}, not {combined}"
    );
    assert!(combined <= report.steps.wall_ms, "{what}: {combined}");
}

#[test]
fn savings_together_are_bounded_in_every_scenario() {
    for (name, scenario) in scenarios::ALL {
        let report = report(&[scenario()]);
        assert_combined(&report, name);
        let json = serde_json::to_string(&report).expect("a report is plain data");
        assert!(!json.contains(":-0.0"), "{name} has a negative zero");
    }
}

#[test]
fn shares_are_of_the_time_from_step_to_step() {
    // Each token waits for the host twice as long as its program runs.
    let report = report(&[scenarios::decode()]);
    let steps = &report.steps;
    let window = report.breakdown.window_ms_per_step;
    assert!((steps.wall_ms - window).abs() < 1e-6);
    assert!(steps.wall_ms > 2.0 * steps.time.median_ms);
    for finding in &report.findings {
        if let Some(saving) = &finding.saving {
            let share = saving.expected_ms / steps.wall_ms;
            assert!((saving.share_of_step - share).abs() < 1e-9 && share < 1.0);
        }
    }
}

#[test]
fn sparse_cores_are_counted_apart() {
    let report = report(&[scenarios::sparse_core()]);
    let rows = &report.breakdown.sparse_core;
    assert_eq!(rows.len(), 1, "{rows:?}");
    // One gather of 58 us in each run.
    assert!((rows[0].self_ms_per_step - 0.058).abs() < 1e-6, "{rows:?}");
    assert!((rows[0].executions_per_step - 1.0).abs() < 1e-9);
    let impossible = report.findings.iter().any(|f| f.code == "TT105");
    assert!(!impossible, "nothing runs above HBM's peak");
    let none = crate::rules::report(&[scenarios::healthy()]);
    assert!(none.breakdown.sparse_core.is_empty());
}

#[test]
fn kernels_without_flops_are_counted_only_if_they_run() {
    let report = report(&[scenarios::kernel_bad_blocks()]);
    let calls = |report: &Report| {
        let utilization = report.utilization.as_ref().expect("FLOPs and a peak");
        utilization.custom_calls_without_flops
    };
    // Both kernels state their FLOPs; `ConcatBitcast` and the like are no kernels.
    assert_eq!(calls(&report), 0);
    let joined = crate::rules::report(&[scenarios::sample()]);
    assert_eq!(calls(&joined), 0);
}
