//! Two runs compared: where the time of a step went, operation by operation.
//!
//! ```text
//! Evidence A ─┐                     ┌─> ops: matched, removed, added
//!             ├─> keys ─> matching ─┼─> rest: idle between, idle inside, unattributed
//! Evidence B ─┘                     └─> groups: by category, class, scope, source
//! ```
//!
//! The deltas of `ops` and `rest` add up to the delta of the window of a step, and so do those of
//! each grouping with `rest`: nothing is left out and nothing counts twice. Whether the difference
//! is larger than the spread within the runs is said in [`Comparison`]; a difference of two
//! captures is an observation, never a proof of a speedup.

mod groups;
mod keys;
mod matching;
mod significance;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use groups::Groups;
pub use keys::without_layout;
pub use matching::Matched;
pub use significance::{Comparison, Distribution, Verdict};

use crate::evidence::{Evidence, OpProfile, StepBasis};
use crate::session::Origin;

/// Version of the JSON form.
pub const SCHEMA_VERSION: u32 = 1;

/// A time of a step before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// In the first run, ms a step, mean over cores.
    pub before_ms: f64,
    /// In the second run, ms a step, mean over cores.
    pub after_ms: f64,
    /// Second less first: negative where the second run is faster.
    pub delta_ms: f64,
}

impl Change {
    /// From one time to another, in ms.
    #[must_use]
    pub fn new(before_ms: f64, after_ms: f64) -> Self {
        Self {
            before_ms,
            after_ms,
            delta_ms: after_ms - before_ms,
        }
    }
}

/// A named time before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is the time of.
    pub name: String,
    /// The time.
    pub time: Change,
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Paths of its files.
    pub inputs: Vec<String>,
    /// Its chip, as `v6e`, if known.
    pub chip: Option<String>,
    /// Cores that the figures are means over.
    pub cores: usize,
    /// Hosts that took part.
    pub hosts: usize,
    /// What its steps were taken from, in words.
    pub step_basis: String,
    /// Whole steps on the core that has the fewest.
    pub steps: usize,
    /// Operations that ran.
    pub ops: usize,
}

/// An operation as one run has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpSide {
    /// Its handle in that run.
    pub id: u32,
    /// Its short HLO name.
    pub name: String,
    /// Its program.
    pub module: String,
    /// XProf's category.
    pub category: String,
    /// Our class.
    pub class: String,
    /// The shape of its result, with layout.
    pub shape: String,
    /// The framework's op.
    pub framework_op: String,
    /// `file:line`, empty where unknown.
    pub source: String,
    /// FLOPs of one execution, where known.
    pub flops: Option<f64>,
    /// Executions a step, mean over cores.
    pub executions_per_step: f64,
}

/// What else differs between the two sides of a matched operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// `shape`, `layout`, `category`, `FLOPs` or `executions`.
    pub what: &'static str,
    /// In the first run.
    pub before: String,
    /// In the second run.
    pub after: String,
}

/// An operation before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpChange {
    /// How the two were found to be the same, or that there is only one.
    pub matched: Matched,
    /// In the first run; absent where it was added.
    pub before: Option<OpSide>,
    /// In the second run; absent where it was removed.
    pub after: Option<OpSide>,
    /// Self time.
    pub time: Change,
    /// What else differs.
    pub differences: Vec<Difference>,
}

impl OpChange {
    /// The side that there is, the second run's where there are both.
    #[must_use]
    pub fn either(&self) -> Option<&OpSide> {
        self.after.as_ref().or(self.before.as_ref())
    }
}

/// How many operations were matched in one way, and their time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatchCount {
    /// The way.
    pub matched: Matched,
    /// How many pairs, or operations where there is only one side.
    pub count: usize,
    /// Their self time.
    pub time: Change,
}

/// Two runs compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// Version of this format.
    pub schema_version: u32,
    /// The first run.
    pub before: Side,
    /// The second run.
    pub after: Side,
    /// What makes the two hard to compare, in sentences.
    pub caveats: Vec<String>,
    /// A step with what lies between it and the next, mean over cores: what all rows add up to.
    pub window: Change,
    /// Durations of the steps; of each step the slowest core counts.
    pub step: Comparison,
    /// From the start of a step to the start of the next, where there are two steps.
    pub period: Option<Comparison>,
    /// Operations, the largest change first.
    pub ops: Vec<OpChange>,
    /// Time of a step that is not the self time of operations.
    pub rest: Vec<Row>,
    /// How operations were matched.
    pub matching: Vec<MatchCount>,
    /// The operations in groups.
    pub groups: Groups,
}

impl Diff {
    /// Compares two runs.
    #[must_use]
    pub fn between(before: &Evidence<'_>, after: &Evidence<'_>) -> Self {
        let pairs = matching::pairs(before, after);
        let mut ops: Vec<OpChange> = pairs
            .iter()
            .map(|pair| op_change(before, after, pair))
            .collect();
        ops.sort_by(|a, b| {
            let name = |op: &OpChange| op.either().map(|side| (side.name.clone(), side.id));
            largest_first(&a.time, &b.time).then_with(|| name(a).cmp(&name(b)))
        });
        let window = Change::new(Parts::of(before).window_ms, Parts::of(after).window_ms);
        Self {
            schema_version: SCHEMA_VERSION,
            before: side(before),
            after: side(after),
            caveats: caveats(before, after),
            window,
            step: Comparison::of(
                significance::step_times(before),
                significance::step_times(after),
            ),
            period: significance::periods(before)
                .zip(significance::periods(after))
                .map(|(before, after)| Comparison::of(before, after)),
            matching: match_counts(&ops),
            ops,
            rest: rest(before, after),
            groups: Groups::of(before, after),
        }
    }

    /// The sum of all rows' deltas, which is the window's.
    #[must_use]
    pub fn attributed_ms(&self) -> f64 {
        let ops: f64 = self.ops.iter().map(|op| op.time.delta_ms).sum();
        let rest: f64 = self.rest.iter().map(|row| row.time.delta_ms).sum();
        ops + rest
    }
}

/// The largest change first, whichever its sign; of equal changes the longest time. Changes are
/// told apart to a picosecond: below that they are rounding errors of means.
fn largest_first(a: &Change, b: &Change) -> std::cmp::Ordering {
    let picos = |change: &Change| (change.delta_ms.abs() * 1e9).round();
    let by_delta = picos(b).total_cmp(&picos(a));
    by_delta.then_with(|| b.before_ms.total_cmp(&a.before_ms))
}

/// A step's window taken apart, in ms.
struct Parts {
    window_ms: f64,
    idle_between_ms: f64,
    idle_inside_ms: f64,
    ops_ms: f64,
}

impl Parts {
    fn of(evidence: &Evidence<'_>) -> Self {
        let ops: f64 = evidence.ops.iter().map(OpProfile::step_self_ms).sum();
        Self {
            window_ms: evidence.mean_per_step(|core| core.window_ps) / 1e9,
            idle_between_ms: evidence.mean_per_step(|core| core.idle_between_ps) / 1e9,
            idle_inside_ms: evidence.mean_per_step(|core| core.idle_inside_ps) / 1e9,
            ops_ms: ops,
        }
    }

    /// Operations are timed by the device's clock and the window by the trace's, and an operation
    /// may begin in the window and end after it: a part that belongs to no row.
    fn unattributed_ms(&self) -> f64 {
        self.window_ms - self.idle_between_ms - self.idle_inside_ms - self.ops_ms
    }
}

fn rest(before: &Evidence<'_>, after: &Evidence<'_>) -> Vec<Row> {
    let (before, after) = (Parts::of(before), Parts::of(after));
    let row = |name: &str, of: fn(&Parts) -> f64| Row {
        name: name.to_owned(),
        time: Change::new(of(&before), of(&after)),
    };
    vec![
        row("idle between programs", |parts| parts.idle_between_ms),
        row("idle inside programs", |parts| parts.idle_inside_ms),
        row("unattributed (clocks, cut ends)", Parts::unattributed_ms),
    ]
}

fn match_counts(ops: &[OpChange]) -> Vec<MatchCount> {
    let of = |matched: Matched| {
        let these = || ops.iter().filter(move |op| op.matched == matched);
        MatchCount {
            matched,
            count: these().count(),
            time: Change::new(
                these().map(|op| op.time.before_ms).sum(),
                these().map(|op| op.time.after_ms).sum(),
            ),
        }
    };
    let counts = Matched::ALL.iter().map(|matched| of(*matched));
    counts.filter(|count| count.count > 0).collect()
}

fn op_change(before: &Evidence<'_>, after: &Evidence<'_>, pair: &matching::Pair) -> OpChange {
    let old = pair.before.and_then(|at| before.ops.get(at));
    let new = pair.after.and_then(|at| after.ops.get(at));
    let ms = |op: Option<&OpProfile>| op.map_or(0.0, OpProfile::step_self_ms);
    let old_side = old.map(|op| op_side(before, op));
    let new_side = new.map(|op| op_side(after, op));
    OpChange {
        matched: pair.matched,
        time: Change::new(ms(old), ms(new)),
        differences: match (&old_side, &new_side) {
            (Some(old), Some(new)) => differences(old, new),
            _ => Vec::new(),
        },
        before: old_side,
        after: new_side,
    }
}

fn op_side(evidence: &Evidence<'_>, profile: &OpProfile) -> OpSide {
    let op = evidence.session.op(profile.id);
    OpSide {
        id: profile.id,
        name: op.name.clone(),
        module: keys::module_name(evidence, profile).to_owned(),
        category: op.category.clone(),
        class: profile.class.name().to_owned(),
        shape: op.shape.clone(),
        framework_op: op.framework_op.clone(),
        source: op.source.clone(),
        flops: profile.cost.flops,
        executions_per_step: profile.step_occurrences,
    }
}

/// Executions a step that differ by less are equal: runs cut at other places have other means.
const SAME_EXECUTIONS: f64 = 0.01;

fn differences(before: &OpSide, after: &OpSide) -> Vec<Difference> {
    let mut list = Vec::new();
    let mut add = |what: &'static str, before: String, after: String| {
        if before != after {
            list.push(Difference {
                what,
                before,
                after,
            });
        }
    };
    let both = |a: &str, b: &str| !a.is_empty() && !b.is_empty();
    if both(&before.shape, &after.shape) {
        let same_dims = without_layout(&before.shape) == without_layout(&after.shape);
        let what = if same_dims { "layout" } else { "shape" };
        add(what, before.shape.clone(), after.shape.clone());
    }
    if both(&before.category, &after.category) {
        add("category", before.category.clone(), after.category.clone());
    }
    if let (Some(old), Some(new)) = (before.flops, after.flops)
        && (old - new).abs() > 1e-9 * old.abs().max(new.abs())
    {
        add("FLOPs", format!("{old:.0}"), format!("{new:.0}"));
    }
    let (old, new) = (before.executions_per_step, after.executions_per_step);
    if (old - new).abs() > SAME_EXECUTIONS * old.abs().max(new.abs()) {
        add("executions", format!("{old:.2}"), format!("{new:.2}"));
    }
    list
}

fn side(evidence: &Evidence<'_>) -> Side {
    let inputs = evidence.session.inputs.iter();
    Side {
        inputs: inputs.map(|i| i.path.display().to_string()).collect(),
        chip: chip_name(evidence).map(str::to_owned),
        cores: evidence.cores.len(),
        hosts: evidence.session.hosts.len(),
        step_basis: step_basis(evidence),
        steps: evidence.steps.count(),
        ops: evidence.ops.len(),
    }
}

fn chip_name(evidence: &Evidence<'_>) -> Option<&'static str> {
    evidence.chip.as_ref().map(|chip| chip.generation.name())
}

fn step_basis(evidence: &Evidence<'_>) -> String {
    match evidence.steps.basis {
        StepBasis::Markers => "step markers".to_owned(),
        StepBasis::ModuleRuns(module) => {
            let module = evidence.session.modules.get(module as usize);
            format!("runs of {}", module.map_or("", |m| m.name.as_str()))
        }
        StepBasis::WholeCapture => "the whole capture as one step".to_owned(),
    }
}

fn caveats(before: &Evidence<'_>, after: &Evidence<'_>) -> Vec<String> {
    let mut list = Vec::new();
    let known = |evidence| chip_name(evidence).unwrap_or("unknown");
    if chip_name(before) != chip_name(after) {
        list.push(format!(
            "the chips differ: {} and {}; a difference says nothing of the program",
            known(before),
            known(after)
        ));
    }
    let (old, new) = (step_basis(before), step_basis(after));
    if old != new {
        list.push(format!(
            "steps are not of the same kind: {old} and {new}; times of a step may not compare"
        ));
    }
    let (old, new) = (before.cores.len(), after.cores.len());
    if old != new {
        list.push(format!(
            "the runs have {old} and {new} cores; all figures are means over cores"
        ));
    }
    if before.session.origin != after.session.origin {
        let name = |evidence: &Evidence<'_>| match evidence.session.origin {
            Origin::Measured => "measured",
            Origin::Predicted => "predicted",
        };
        list.push(format!(
            "the first is {} and the second {}",
            name(before),
            name(after)
        ));
    }
    list
}
