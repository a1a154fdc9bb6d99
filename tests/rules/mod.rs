//! Rules on scenarios with known answers: what must be found, what must not, and how much.

mod by_hand;
mod capture;
mod collectives;
mod figures;
mod idle;
mod kernels;
mod layout;
mod matmul;
mod memory;
mod ops;
mod ranking;

use advisors::registry::RULES;
use advisors::{Finding, Report};
use profiler::evidence::Evidence;
use profiler::session::Session;
use profiler::session_builder::SessionBuilder;
use profiler::timeline::xplane;

use crate::support::profile::TpuProfile;
use crate::support::xspace;

/// The session of one profile for each host.
pub(crate) fn session(hosts: &[TpuProfile]) -> Session {
    let mut builder = SessionBuilder::default();
    for (i, profile) in hosts.iter().enumerate() {
        let bytes = xspace::to_bytes(profile);
        xplane::read(&bytes, &format!("host{i}"), &mut builder).expect("a valid XSpace");
    }
    builder.finish()
}

/// The report of one profile for each host.
pub(crate) fn report(hosts: &[TpuProfile]) -> Report {
    let session = session(hosts);
    let evidence = Evidence::gather(&session, None, knowledge::chips::chips());
    Report::new(&evidence, RULES)
}

/// The findings of one rule.
pub(crate) fn findings<'r>(report: &'r Report, rule: &str) -> Vec<&'r Finding> {
    report
        .findings
        .iter()
        .filter(|finding| finding.rule == rule)
        .collect()
}

/// A finding's saving.
pub(crate) fn saving(finding: &Finding) -> &advisors::finding::Saving {
    finding.saving.as_ref().expect("a saving")
}

/// Within that part of what was wanted.
pub(crate) fn close(got: f64, want: f64, relative: f64, what: &str) {
    assert!(
        (got - want).abs() <= relative * want.abs(),
        "{what}: got {got}, want {want}"
    );
}

/// Everything that a finding says, as one text.
pub(crate) fn said(finding: &Finding) -> String {
    serde_json::to_string(finding).expect("a finding is plain data")
}
