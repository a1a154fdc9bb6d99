//! Steps of a training or serving loop, found in its launches.

use std::collections::BTreeMap;

use super::{Process, TorchTrace};

/// Steps at the start that may compile: the first meets everything, the second what the first left
/// behind (states of the optimiser).
pub const WARM_UP_STEPS: usize = 2;
/// Steps that may belong to warm-up when all that they compile are operations put together anew:
/// eager mode that defers changes what it collects after it has seen some steps.
pub const LONGEST_WARM_UP: usize = 5;

/// A step: the launches from `first` up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its first launch.
    pub first: usize,
    /// The launch after its last.
    pub end: usize,
    /// From its first launch to that of the next step, in microseconds; of the last step, to the end
    /// of its last launch.
    pub span_us: u64,
}

/// The steps of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// In the order of time.
    pub steps: Vec<Step>,
    /// How many steps at the start are warm-up.
    pub warm_up: usize,
    /// What told them apart, for people.
    pub found_by: String,
}

impl Steps {
    /// The steps after warm-up.
    #[must_use]
    pub fn steady(&self) -> &[Step] {
        self.steps.get(self.warm_up..).unwrap_or_default()
    }

    /// Of each launch: its operation, and how many launches of that operation come after it in its
    /// step. Counted from the end, because the first step also holds what prepares the run.
    #[must_use]
    pub(super) fn positions(&self, process: &Process) -> Vec<(u32, u32)> {
        let mut positions = vec![(u32::MAX, 0); process.launches.len()];
        for step in &self.steps {
            let mut after: BTreeMap<u32, u32> = BTreeMap::new();
            for at in (step.first..step.end).rev() {
                let Some(launch) = process.launches.get(at) else {
                    continue;
                };
                let count = after.entry(launch.op).or_default();
                if let Some(position) = positions.get_mut(at) {
                    *position = (launch.op, *count);
                }
                *count += 1;
            }
        }
        positions
    }
}

/// Whether an operation is an optimiser's: it updates all parameters at once.
fn is_optimizer(name: &str) -> bool {
    let foreach = name.starts_with("_foreach_") && !name.starts_with("_foreach_zero");
    foreach || name.starts_with("_fused_")
}

/// Finds the steps; none where nothing repeats.
#[must_use]
pub fn find(trace: &TorchTrace, process: &Process) -> Option<Steps> {
    let total = process.launches.len();
    let by_optimizer = optimizer_ends(&roles(trace, process));
    let (ends, found_by) = if by_optimizer.len() >= 2 {
        let last = by_optimizer
            .last()
            .and_then(|end| process.launches.get(end - 1));
        let op = last.map_or("", |launch| trace.name(launch));
        (by_optimizer, format!("the optimiser's launch `{op}`"))
    } else {
        let anchor = anchor(process)?;
        let is_anchor = |at: &usize| process.launches.get(*at).is_some_and(|l| l.op == anchor);
        let mut ends: Vec<usize> = (1..total).filter(is_anchor).collect();
        ends.push(total);
        let name = trace
            .names
            .get(anchor as usize)
            .cloned()
            .unwrap_or_default();
        (ends, format!("`{name}`, which comes back regularly"))
    };
    let mut steps = Vec::with_capacity(ends.len());
    let mut first = 0;
    for end in ends {
        steps.push(Step {
            first,
            end,
            span_us: span(process, first, end),
        });
        first = end;
    }
    let warm_up = WARM_UP_STEPS.min(steps.len().saturating_sub(1));
    (steps.len() >= 2).then_some(Steps {
        steps,
        warm_up,
        found_by,
    })
}

fn span(process: &Process, first: usize, end: usize) -> u64 {
    let launches = &process.launches;
    let start = launches.get(first).map_or(0, |launch| launch.start_us);
    let until = match launches.get(end) {
        Some(next) => next.start_us,
        None => launches.last().map_or(0, super::Launch::end_us),
    };
    until.saturating_sub(start)
}

/// What a launch does, as far as steps are told by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Role {
    backward: bool,
    optimizer: bool,
}

impl Role {
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut role = Self::default();
        for name in names {
            role.backward |= name.contains("_backward");
            role.optimizer |= is_optimizer(name);
        }
        role
    }
}

/// The role of each launch: by its graph, or the last one of a launch that begins as it does.
fn roles(trace: &TorchTrace, process: &Process) -> Vec<Role> {
    let mut known: BTreeMap<u32, Role> = BTreeMap::new();
    let launches = process.launches.iter();
    launches
        .map(|launch| match trace.graph(launch.graph) {
            Some(graph) => {
                let role = Role::of(graph.ops.iter().map(|op| op.name.as_str()));
                known.insert(launch.op, role);
                role
            }
            None => {
                let by_name = || Role::of(std::iter::once(trace.name(launch)));
                known.get(&launch.op).copied().unwrap_or_else(by_name)
            }
        })
        .collect()
}

/// Ends of steps behind launches of the optimiser: behind the last before the next backward pass,
/// because gradients are clipped and states are updated with the same operations.
fn optimizer_ends(roles: &[Role]) -> Vec<usize> {
    let has_backward = roles.iter().any(|role| role.backward);
    let mut ends: Vec<usize> = Vec::new();
    let mut closed = true;
    let mut previous_was = false;
    for (at, role) in roles.iter().enumerate() {
        closed |= role.backward;
        if role.optimizer {
            let goes_on = if has_backward { !closed } else { previous_was };
            match ends.last_mut() {
                Some(end) if goes_on => *end = at + 1,
                _ => ends.push(at + 1),
            }
            closed = false;
        }
        previous_was = role.optimizer;
    }
    ends
}

/// The operation that begins steps where no optimiser is seen: of those that come at least three
/// times, in the last tenth too, the one with the most even distances; the first of those.
fn anchor(process: &Process) -> Option<u32> {
    let total = process.launches.len();
    let mut places: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, launch) in process.launches.iter().enumerate() {
        places.entry(launch.op).or_default().push(at);
    }
    let unevenness = |places: &[usize]| {
        let distances: Vec<usize> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let longest = distances.iter().max().copied().unwrap_or(usize::MAX);
        let shortest = distances.iter().min().copied().unwrap_or(0);
        longest - shortest
    };
    places
        .into_iter()
        .filter(|(_, places)| places.len() >= 3)
        .filter(|(_, places)| {
            let period = places.windows(2).map(|pair| pair[1] - pair[0]).max();
            let last = places.last().copied().unwrap_or_default();
            period.is_some_and(|period| total - last <= period.saturating_mul(2))
        })
        .min_by_key(|(_, places)| (unevenness(places), places.first().copied()))
        .map(|(op, _)| op)
}

#[cfg(test)]
mod tests {
    use super::{Role, optimizer_ends};

    #[test]
    fn a_step_ends_behind_the_last_update_before_the_next_backward_pass() {
        let step = [
            "linear",
            "linear_backward",
            "_foreach_norm",
            "mul",
            "_foreach_add",
        ];
        let names = [&["copy_"][..], &step, &["_foreach_zero_"], &step].concat();
        let roles = |names: &[&str]| -> Vec<Role> {
            let each = names.iter().map(|name| Role::of(std::iter::once(*name)));
            each.collect()
        };
        assert_eq!(optimizer_ends(&roles(&names)), [6, 12]);
        let compiled = ["graph", "_fused_adamw", "graph", "_fused_adamw"];
        assert_eq!(optimizer_ends(&roles(&compiled)), [2, 4]);
        // Eager mode that defers puts a backward pass and the update into one launch.
        let both = Role {
            backward: true,
            optimizer: true,
        };
        assert_eq!(
            optimizer_ends(&[Role::default(), both, Role::default(), both]),
            [2, 4]
        );
    }
}
