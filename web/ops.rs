//! The operations that took the most time, as rows of a table. Layers that are compiled one by one
//! give the same operation many times: equal ones are one row.

use std::collections::BTreeMap;

use advisors::Report;
use profiler::evidence::ops::FlopsBasis;
use profiler::evidence::{BoundBy, Evidence, OpClass, OpProfile};
use serde::Serialize;

use crate::palette::Hue;

/// Rows that the table lists.
const ROWS_LISTED: usize = 100;

/// Operations that are the same but for their number and their layer.
#[derive(Clone, Debug)]
pub(crate) struct Group<'e> {
    /// Its members, longest self time first; never empty.
    pub(crate) members: Vec<&'e OpProfile>,
    /// Their self time a step, mean over cores, ps.
    pub(crate) self_ps: f64,
}

/// All groups that ran in steps, longest self time first.
pub(crate) fn groups<'e>(evidence: &'e Evidence<'_>) -> Vec<Group<'e>> {
    let mut places: BTreeMap<(Option<u32>, &str, &str, String, &str), usize> = BTreeMap::new();
    let mut groups: Vec<Group<'e>> = Vec::new();
    for profile in evidence.ops.iter().filter(|op| op.step_self_ps > 0.0) {
        let op = evidence.session.op(profile.id);
        let stem = op
            .name
            .trim_end_matches(|c: char| c == '.' || c.is_ascii_digit());
        let key = (
            op.module,
            stem,
            op.shape.as_str(),
            without_numbers(&op.framework_op),
            op.source.as_str(),
        );
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => {
                group.members.push(profile);
                group.self_ps += profile.step_self_ps;
            }
            None => groups.push(Group {
                members: vec![profile],
                self_ps: profile.step_self_ps,
            }),
        }
    }
    groups.sort_by(|a, b| b.self_ps.total_cmp(&a.self_ps));
    groups
}

/// A framework's op without the numbers of layers: `layers_3/mlp` is `layers_#/mlp`.
fn without_numbers(framework_op: &str) -> String {
    let mut text = String::with_capacity(framework_op.len());
    for c in framework_op.chars() {
        if !c.is_ascii_digit() {
            text.push(c);
        } else if !text.ends_with('#') {
            text.push('#');
        }
    }
    text
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OpRow {
    /// By self time, from 1.
    pub(crate) rank: usize,
    /// Name of the longest.
    pub(crate) name: String,
    /// How many operations the row stands for.
    pub(crate) alike: usize,
    pub(crate) class: &'static str,
    pub(crate) hue: &'static str,
    pub(crate) shape: String,
    pub(crate) framework_op: String,
    /// `file:line`, of a neighbour where it has none of its own.
    pub(crate) source: String,
    pub(crate) self_ms: f64,
    /// Self time over the window of a step.
    pub(crate) share: f64,
    pub(crate) executions: f64,
    pub(crate) tflops: Option<f64>,
    /// Whether FLOPs were derived from shapes.
    pub(crate) derived_flops: bool,
    pub(crate) hbm_gb_per_s: Option<f64>,
    pub(crate) bound_by: &'static str,
    /// Least time over measured time; `None` where nothing is known of the cost.
    pub(crate) roof_share: Option<f64>,
}

/// The first groups as rows.
pub(crate) fn rows(report: &Report, evidence: &Evidence<'_>, groups: &[Group<'_>]) -> Vec<OpRow> {
    (1..)
        .zip(groups)
        .take(ROWS_LISTED)
        .filter_map(|(rank, group)| row(rank, group, report, evidence))
        .collect()
}

/// A resource's name.
pub(crate) fn bound_name(bound: BoundBy) -> &'static str {
    match bound {
        BoundBy::Compute => "compute",
        BoundBy::Hbm => "HBM",
        BoundBy::Pcie => "PCIe",
        BoundBy::Ici => "ICI",
        BoundBy::Unknown => "unknown",
    }
}

fn row(rank: usize, group: &Group<'_>, report: &Report, evidence: &Evidence<'_>) -> Option<OpRow> {
    let first = *group.members.first()?;
    let op = evidence.session.op(first.id);
    let window_ms = report.breakdown.window_ms_per_step;
    let self_ms = group.self_ps / 1e9;
    // What an asynchronous copy moves is moved while others run: no rate follows from its time.
    let waits = matches!(first.class, OpClass::AsyncCopy(_) | OpClass::Collective(_));
    let rate = |amount: &dyn Fn(&OpProfile) -> Option<f64>| {
        (!waits).then(|| rate(group, amount)).flatten()
    };
    let gb_per_s = rate(&|op| op.cost.hbm_bytes).map(|rate| rate * 1e3);
    let floor = |op: &OpProfile| Some(op.roofline.floor_ps()).filter(|floor| *floor > 0.0);
    Some(OpRow {
        rank,
        name: op.name.clone(),
        alike: group.members.len(),
        class: first.class.name(),
        hue: Hue::of(first.class).name(),
        shape: op.shape.clone(),
        framework_op: op.framework_op.trim_end_matches(':').to_owned(),
        source: evidence.source_near(first).unwrap_or_default().to_owned(),
        self_ms,
        share: if window_ms > 0.0 {
            self_ms / window_ms
        } else {
            0.0
        },
        executions: group.members.iter().map(|op| op.step_occurrences).sum(),
        tflops: rate(&|op| op.cost.flops),
        derived_flops: matches!(
            first.cost.flops_basis,
            Some(FlopsBasis::Shapes | FlopsBasis::Kernel)
        ),
        hbm_gb_per_s: gb_per_s.filter(|rate| *rate > 0.0),
        bound_by: bound_name(first.roofline.bound_by),
        roof_share: rate(&floor),
    })
}

/// An amount of one execution over the time of one, over all executions of all members; `None`
/// where a member has none.
fn rate(group: &Group<'_>, amount: impl Fn(&OpProfile) -> Option<f64>) -> Option<f64> {
    let mut sum = 0.0;
    let mut time = 0.0;
    for op in &group.members {
        sum += amount(op)? * op.occurrences as f64;
        time += op.total_ps.0 as f64;
    }
    (time > 0.0).then_some(sum / time)
}

#[cfg(test)]
mod tests {
    use super::without_numbers;

    #[test]
    fn layers_of_any_number_are_alike() {
        assert_eq!(
            without_numbers("layers_12/mlp"),
            without_numbers("layers_3/mlp")
        );
        assert_ne!(
            without_numbers("layers_1/mlp"),
            without_numbers("layers/mlp")
        );
    }
}
