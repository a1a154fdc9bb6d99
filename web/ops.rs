//! The operations that took the most time, as rows of a table.

use advisors::Report;
use profiler::evidence::ops::FlopsBasis;
use profiler::evidence::{BoundBy, Evidence, OpProfile};
use serde::Serialize;

use crate::palette::Hue;

/// Operations that the table lists.
pub(crate) const OPS_LISTED: usize = 100;

/// One operation.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OpRow {
    /// By self time, from 1.
    pub(crate) rank: usize,
    pub(crate) name: String,
    /// Its program, where several ran.
    pub(crate) module: Option<String>,
    pub(crate) class: &'static str,
    pub(crate) hue: &'static str,
    pub(crate) category: String,
    pub(crate) shape: String,
    pub(crate) framework_op: String,
    /// `file:line`, of a neighbour where it has none of its own.
    pub(crate) source: String,
    pub(crate) self_ms: f64,
    /// Self time over the window of a step.
    pub(crate) share: f64,
    pub(crate) executions: f64,
    pub(crate) tflops: Option<f64>,
    pub(crate) flops_basis: &'static str,
    pub(crate) hbm_gb_per_s: Option<f64>,
    pub(crate) bound_by: &'static str,
    /// Least time over measured time; `None` where nothing is known of the cost.
    pub(crate) roof_share: Option<f64>,
}

/// The first operations by self time.
pub(crate) fn rows(report: &Report, evidence: &Evidence<'_>) -> Vec<OpRow> {
    evidence
        .ops
        .iter()
        .filter(|op| op.step_self_ps > 0.0)
        .take(OPS_LISTED)
        .enumerate()
        .map(|(at, profile)| row(at + 1, profile, report, evidence))
        .collect()
}

pub(crate) fn bound_name(bound: BoundBy) -> &'static str {
    match bound {
        BoundBy::Compute => "compute",
        BoundBy::Hbm => "HBM",
        BoundBy::Pcie => "PCIe",
        BoundBy::Ici => "ICI",
        BoundBy::Unknown => "unknown",
    }
}

fn row(rank: usize, profile: &OpProfile, report: &Report, evidence: &Evidence<'_>) -> OpRow {
    let session = evidence.session;
    let op = session.op(profile.id);
    let module = op
        .module
        .and_then(|module| session.modules.get(module as usize))
        .filter(|_| evidence.modules.len() > 1);
    let window_ms = report.breakdown.window_ms_per_step;
    let self_ms = profile.step_self_ms();
    OpRow {
        rank,
        name: op.name.clone(),
        module: module.map(|module| module.name.clone()),
        class: profile.class.name(),
        hue: Hue::of(profile.class).name(),
        category: op.category.clone(),
        shape: op.shape.clone(),
        framework_op: op.framework_op.trim_end_matches(':').to_owned(),
        source: evidence
            .source_near(profile)
            .unwrap_or_default()
            .to_owned(),
        self_ms,
        share: if window_ms > 0.0 {
            self_ms / window_ms
        } else {
            0.0
        },
        executions: profile.step_occurrences,
        tflops: profile.tflops(),
        flops_basis: match profile.cost.flops_basis {
            Some(FlopsBasis::Stated) => "stated by the profile",
            Some(FlopsBasis::Shapes) => "derived from shapes",
            Some(FlopsBasis::Kernel) => "derived from the kernel's shapes, an upper bound",
            None => "",
        },
        hbm_gb_per_s: profile.hbm_gb_per_s().filter(|rate| *rate > 0.0),
        bound_by: bound_name(profile.roofline.bound_by),
        roof_share: (profile.roofline.floor_ps() > 0.0).then_some(profile.roofline.efficiency),
    }
}
