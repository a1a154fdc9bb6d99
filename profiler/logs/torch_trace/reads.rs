//! Values that the host read: each waits for the device and ends what eager mode collected.

use std::collections::BTreeMap;

use super::graph::SourceLine;
use super::steps::Steps;
use super::{Launch, Process, TorchTrace};
use crate::logs::At;

/// Launches that follow each other within this time, in microseconds, were forced by one read:
/// TorchTPU hands them to the runtime one after another, in some ten microseconds each, where
/// Python takes longer for a few operations.
const ONE_READ_US: u64 = 300;

/// Operations whose result has a size that depends on values: the host must know it.
const DATA_DEPENDENT: [&str; 6] = [
    "nonzero",
    "masked_select",
    "unique",
    "_unique2",
    "_local_scalar_dense",
    "repeat_interleave.Tensor",
];

/// How it is known that the host read something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// The log names a reason that is a read.
    Reason(String),
    /// A single truth value was computed that no launch takes in: Python branches on it.
    Branch(String),
    /// An operation whose result has a size that depends on values.
    DataDependent(String),
}

/// A place where the host reads, over all its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The user's line of the last operation before the read, where the log has it.
    pub place: Option<SourceLine>,
    /// How it is known.
    pub sign: Sign,
    /// The launch where the log shows it first.
    pub at: At,
    /// How often.
    pub count: u64,
    /// In how many steps.
    pub steps: u64,
    /// Time from the read to the next launch in steps without a compile, in microseconds.
    pub wait_us: u64,
    /// How often it was read in those steps.
    pub waits: u64,
}

/// Finds the reads within steps.
pub(super) fn find(
    trace: &TorchTrace,
    process: &Process,
    steps: &Steps,
    graphs: &[Option<u32>],
) -> Vec<Read> {
    let flags_are_read = !trace
        .graphs
        .iter()
        .any(|graph| graph.inputs.iter().any(super::TensorType::is_flag));
    let mut found: BTreeMap<(Option<SourceLine>, Sign), Read> = BTreeMap::new();
    for (index, step) in steps.steps.iter().enumerate() {
        let launches = process
            .launches
            .get(step.first..step.end)
            .unwrap_or_default();
        let clean = index >= steps.warm_up && !launches.iter().any(|l| l.compiled);
        let mut seen = Vec::new();
        for at in step.first..step.end {
            let (Some(launch), next) = (process.launches.get(at), process.launches.get(at + 1))
            else {
                continue;
            };
            let graph = trace.graph(graphs.get(at).copied().flatten());
            let Some(sign) = sign(trace, launch, next, graph, flags_are_read) else {
                continue;
            };
            let place = graph.and_then(|graph| graph.last_place()).cloned();
            let key = (place, sign);
            let read = found.entry(key.clone()).or_insert_with(|| Read {
                place: key.0.clone(),
                sign: key.1.clone(),
                at: launch.at,
                count: 0,
                steps: 0,
                wait_us: 0,
                waits: 0,
            });
            read.count += 1;
            if !seen.contains(&key) {
                read.steps += 1;
                seen.push(key);
            }
            if let Some(next) = next.filter(|_| clean) {
                read.wait_us += next.start_us.saturating_sub(launch.end_us());
                read.waits += 1;
            }
        }
    }
    let mut reads: Vec<Read> = found.into_values().collect();
    reads.sort_by(|a, b| b.count.cmp(&a.count).then(a.at.cmp(&b.at)));
    reads
}

fn sign(
    trace: &TorchTrace,
    launch: &Launch,
    next: Option<&Launch>,
    graph: Option<&super::AtenGraph>,
    flags_are_read: bool,
) -> Option<Sign> {
    if let Some(graph) = graph {
        let computed = graph.ops.iter().rev();
        let mut flagged = computed
            .clone()
            .filter(|op| op.results.iter().any(super::TensorType::is_flag));
        if flags_are_read
            && graph.outputs.iter().any(super::TensorType::is_flag)
            && let Some(op) = flagged.next()
        {
            return Some(Sign::Branch(op.name.clone()));
        }
        let base = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let dependent = computed.map(|op| op.name.as_str()).find(|name| {
            DATA_DEPENDENT
                .iter()
                .any(|known| *known == *name || *known == base(name))
        });
        if let Some(name) = dependent {
            return Some(Sign::DataDependent(name.to_owned()));
        }
    }
    let reason = trace
        .reason(launch)
        .filter(|reason| reason.reads_on_host())?;
    let goes_on = next.is_some_and(|next| {
        let pause = next.start_us.saturating_sub(launch.end_us());
        next.reason == launch.reason && pause < ONE_READ_US
    });
    (!goes_on).then(|| Sign::Reason(reason.name().to_owned()))
}
