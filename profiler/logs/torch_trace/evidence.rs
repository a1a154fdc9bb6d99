//! What follows from the launches of a process, by counting.

use std::collections::BTreeMap;

use super::changes::{self, Change};
use super::graph::SourceLine;
use super::reads::{self, Read};
use super::steps::{self, Step, Steps};
use super::{Process, Reason, TorchTrace};
use crate::logs::At;

/// Why programs were compiled again, over all steps where it was so.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// The user's line where the first change of a step shows.
    pub place: Option<SourceLine>,
    /// The operation there.
    pub op: String,
    /// Where the log shows it first.
    pub at: At,
    /// What changed first.
    pub change: Change,
    /// Sizes of the axis that changed, with the steps that compiled for each; the size before
    /// among them, with those of warm-up.
    pub sizes: BTreeMap<u64, u64>,
    /// Steps that compiled for it.
    pub steps: u64,
    /// Programs compiled in those steps.
    pub compiles: u64,
}

/// Programs that were compiled after warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recompiles {
    /// Programs compiled after warm-up.
    pub compiles: u64,
    /// Steps after warm-up that compiled something.
    pub steps: u64,
    /// Steps after warm-up.
    pub of_steps: u64,
    /// Time of the steps after warm-up, in microseconds.
    pub steady_us: u64,
    /// Median time of those that compiled nothing, in microseconds, where there are any.
    pub clean_step_us: Option<u64>,
    /// Time of those that compiled something, in microseconds.
    pub compiling_us: u64,
    /// Time that the host spent in launches that compiled after warm-up, in microseconds.
    pub host_us: u64,
    /// Why, the cause of the most compiles first.
    pub causes: Vec<Cause>,
}

impl Recompiles {
    /// Time that steps took longer because they compiled, in microseconds: what they took above
    /// the median of those that compiled nothing; without such, what the host spent compiling.
    #[must_use]
    pub fn lost_us(&self) -> u64 {
        match self.clean_step_us {
            Some(clean) => {
                let without = clean.saturating_mul(self.steps);
                self.compiling_us.saturating_sub(without)
            }
            None => self.host_us,
        }
    }
}

/// What a process's launches tell.
#[derive(Clone, Debug)]
pub struct ProcessEvidence<'a> {
    /// The process.
    pub process: &'a Process,
    /// Its steps, where they are found.
    pub steps: Option<Steps>,
    /// Launches in all.
    pub launches: u64,
    /// Launches that compiled.
    pub compiles: u64,
    /// Time that the host spent in those, in microseconds.
    pub compile_host_us: u64,
    /// Launches whose compile failed.
    pub failed: Vec<At>,
    /// Launches forced by collectives.
    pub for_collectives: u64,
    /// Where the first of them stands.
    pub first_collective: Option<At>,
    /// Whether each operation is launched at once (strict eager mode).
    pub strict: bool,
    /// Launches of a step after warm-up, on average; 0 without steps.
    pub launches_per_step: f64,
    /// What was compiled after warm-up.
    pub recompiles: Recompiles,
    /// What the host read within steps, the most frequent first.
    pub reads: Vec<Read>,
}

/// Evidence of each process.
#[must_use]
pub fn gather(trace: &TorchTrace) -> Vec<ProcessEvidence<'_>> {
    let processes = trace.processes.iter();
    processes
        .map(|process| of_process(trace, process))
        .collect()
}

fn of_process<'a>(trace: &'a TorchTrace, process: &'a Process) -> ProcessEvidence<'a> {
    let compiled = || process.launches.iter().filter(|launch| launch.compiled);
    let of_reason = |wanted: &Reason| {
        let wanted = wanted.clone();
        process
            .launches
            .iter()
            .filter(move |l| trace.reason(l) == Some(&wanted))
    };
    let steps = steps::find(trace, process);
    let strict = of_reason(&Reason::DebugMode).count() * 10 > process.launches.len() * 9;
    let mut evidence = ProcessEvidence {
        process,
        launches: process.launches.len() as u64,
        compiles: compiled().count() as u64,
        compile_host_us: compiled().map(|launch| launch.duration_us).sum(),
        failed: process
            .launches
            .iter()
            .filter(|l| l.failed)
            .map(|l| l.at)
            .take(64)
            .collect(),
        for_collectives: of_reason(&Reason::DistributedOp).count() as u64,
        first_collective: of_reason(&Reason::DistributedOp).map(|l| l.at).next(),
        strict,
        launches_per_step: 0.0,
        recompiles: Recompiles::default(),
        reads: Vec::new(),
        steps: None,
    };
    if let Some(mut steps) = steps {
        let changes = first_changes(trace, process, &steps);
        extend_warm_up(&mut steps, &changes);
        let graphs = graphs(process, &steps);
        let steady = steps.steady();
        let launched: usize = steady.iter().map(|step| step.end - step.first).sum();
        evidence.launches_per_step = launched as f64 / steady.len().max(1) as f64;
        evidence.recompiles = recompiles(trace, process, &steps, changes);
        evidence.reads = reads::find(trace, process, &steps, &graphs);
        evidence.steps = Some(steps);
    }
    evidence
}

/// A launch among its neighbours: the operations before it, its own, and the one after it; and how
/// many launches of its operation follow in its step.
type Neighbours = ([u32; 3], u32);

/// The graph of each launch: its own, else that of a launch among the same neighbours, at the same
/// position of its step if there is one.
fn graphs(process: &Process, steps: &Steps) -> Vec<Option<u32>> {
    let launches = &process.launches;
    let op = |at: Option<usize>| launches.get(at?).map(|launch| launch.op);
    let positions = steps.positions(process);
    let neighbours = |at: usize| -> Neighbours {
        let around = [at.checked_sub(1), Some(at), Some(at + 1)];
        let after = positions.get(at).map_or(0, |(_, after)| *after);
        (around.map(|at| op(at).unwrap_or(u32::MAX)), after)
    };
    let mut exact: BTreeMap<Neighbours, u32> = BTreeMap::new();
    let mut alike: BTreeMap<[u32; 3], u32> = BTreeMap::new();
    // What comes after the last launch of a step may differ: another epoch, the end.
    let mut behind: BTreeMap<[u32; 2], u32> = BTreeMap::new();
    for (at, launch) in launches.iter().enumerate() {
        if let Some(graph) = launch.graph {
            let key = neighbours(at);
            exact.entry(key).or_insert(graph);
            alike.entry(key.0).or_insert(graph);
            behind.entry([key.0[0], key.0[1]]).or_insert(graph);
        }
    }
    let of = |(at, launch): (usize, &super::Launch)| {
        let known = || {
            let key = neighbours(at);
            let alike = || alike.get(&key.0);
            let behind = || behind.get(&[key.0[0], key.0[1]]);
            exact.get(&key).or_else(alike).or_else(behind).copied()
        };
        launch.graph.or_else(known)
    };
    launches.iter().enumerate().map(of).collect()
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// Counts the steps that only put operations together anew to warm-up, while they follow it.
fn extend_warm_up(steps: &mut Steps, changes: &[Option<FirstChange>]) {
    let last = steps::LONGEST_WARM_UP.min(steps.steps.len().saturating_sub(1));
    while steps.warm_up < last {
        match changes.get(steps.warm_up) {
            Some(Some(first)) if first.change == Change::NewOperations => steps.warm_up += 1,
            _ => break,
        }
    }
}

fn recompiles(
    trace: &TorchTrace,
    process: &Process,
    steps: &Steps,
    changes: Vec<Option<FirstChange>>,
) -> Recompiles {
    let compiled = |step: &Step| {
        let launches = process
            .launches
            .get(step.first..step.end)
            .unwrap_or_default();
        launches.iter().filter(|launch| launch.compiled).count() as u64
    };
    let steady = steps.steady();
    let compiling = || steady.iter().filter(|step| compiled(step) > 0);
    let clean = steady.iter().filter(|step| compiled(step) == 0);
    let host_us = compiling()
        .flat_map(|step| process.launches.get(step.first..step.end))
        .flatten();
    Recompiles {
        compiles: steady.iter().map(compiled).sum(),
        steps: compiling().count() as u64,
        of_steps: steady.len() as u64,
        steady_us: steady.iter().map(|step| step.span_us).sum(),
        clean_step_us: median(clean.map(|step| step.span_us).collect()),
        compiling_us: compiling().map(|step| step.span_us).sum(),
        host_us: host_us.filter(|l| l.compiled).map(|l| l.duration_us).sum(),
        causes: causes(trace, process, steps, changes),
    }
}

/// An operation, and how many launches of it follow in its step.
type Position = (u32, u32);
/// A graph and its program.
type Launched = (u32, Option<u32>);

/// What changed first in a step that compiled.
#[derive(Clone, Debug, PartialEq)]
struct FirstChange {
    change: Change,
    /// The launch that shows it.
    launch: usize,
    /// Programs that the step compiled.
    compiles: u64,
}

/// Goes through the steps, and says of each that compiled what changed first.
fn first_changes(trace: &TorchTrace, process: &Process, steps: &Steps) -> Vec<Option<FirstChange>> {
    let positions = steps.positions(process);
    // The first graph and program of each sequence of operations at each position of a step, and
    // of each sequence anywhere.
    let mut at_position: BTreeMap<(Position, u64), Launched> = BTreeMap::new();
    let mut anywhere: BTreeMap<u64, Launched> = BTreeMap::new();
    let mut changes = Vec::with_capacity(steps.steps.len());
    for step in &steps.steps {
        let mut first: Option<FirstChange> = None;
        let mut compiles = 0;
        for at in step.first..step.end {
            let Some(launch) = process.launches.get(at).filter(|l| l.compiled) else {
                continue;
            };
            compiles += 1;
            let (Some(index), Some(graph)) = (launch.graph, trace.graph(launch.graph)) else {
                continue;
            };
            let fingerprint = graph.fingerprint();
            let position = positions.get(at).copied().unwrap_or_default();
            let now = (index, launch.program);
            let known = at_position.get(&(position, fingerprint)).copied();
            let before = known.or_else(|| anywhere.get(&fingerprint).copied());
            let change = match before.and_then(|(g, p)| Some((trace.graph(Some(g))?, p))) {
                Some(before) => changes::between(trace, before, (graph, launch.program)),
                None => Change::NewOperations,
            };
            at_position.entry((position, fingerprint)).or_insert(now);
            anywhere.entry(fingerprint).or_insert(now);
            // Operations that are new tell less than a size that changed.
            let better = match &first {
                None => true,
                Some(known) => known.change.axis().is_none() && change.axis().is_some(),
            };
            if better {
                first = Some(FirstChange {
                    change,
                    launch: at,
                    compiles: 0,
                });
            }
        }
        changes.push(first.map(|first| FirstChange { compiles, ..first }));
    }
    changes
}

/// Puts the steps after warm-up together by what changed in them first.
fn causes(
    trace: &TorchTrace,
    process: &Process,
    steps: &Steps,
    changes: Vec<Option<FirstChange>>,
) -> Vec<Cause> {
    let mut causes: BTreeMap<(Option<SourceLine>, String, String), Cause> = BTreeMap::new();
    for first in changes.into_iter().skip(steps.warm_up).flatten() {
        let Some(launch) = process.launches.get(first.launch) else {
            continue;
        };
        let graph = trace.graph(launch.graph);
        let place = graph.and_then(|graph| graph.first_place()).cloned();
        let op = trace.name(launch).to_owned();
        let kind = match &first.change {
            Change::Sizes { tensor, .. } | Change::Dtype { tensor, .. } => tensor.clone(),
            Change::Constant { .. } => "constant".to_owned(),
            Change::Unseen => "unseen".to_owned(),
            Change::NewOperations => "new".to_owned(),
        };
        let axis = first.change.axis();
        let cause = causes
            .entry((place.clone(), op.clone(), kind))
            .or_insert_with(|| Cause {
                place,
                op,
                at: launch.at,
                change: first.change,
                sizes: BTreeMap::new(),
                steps: 0,
                compiles: 0,
            });
        cause.steps += 1;
        cause.compiles += first.compiles;
        if let Some((_, before, after)) = axis {
            cause.sizes.entry(before).or_default();
            *cause.sizes.entry(after).or_default() += 1;
        }
    }
    let mut causes: Vec<Cause> = causes.into_values().collect();
    causes.sort_by(|a, b| b.compiles.cmp(&a.compiles).then(a.at.cmp(&b.at)));
    causes
}
