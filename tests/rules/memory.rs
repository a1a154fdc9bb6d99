//! Host memory and HBM.

use crate::rules::{findings, report};
use crate::support::scenarios;

#[test]
fn exposed_host_copies_are_found_with_their_time() {
    let report = report(&[scenarios::host_offload()]);
    let found = findings(&report, "exposed-host-offload");
    assert_eq!(found.len(), 1);
    let saving = found[0].saving.as_ref().expect("a saving");
    assert!(saving.upper_bound_ms > 0.0 && saving.upper_bound_ms <= report.steps.time.median_ms);
}

#[test]
fn a_healthy_run_has_no_host_offload_finding() {
    let report = report(&[scenarios::healthy()]);
    assert!(findings(&report, "exposed-host-offload").is_empty());
}
