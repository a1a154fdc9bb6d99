//! Times of collectives, core by core.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::CoreLoad;
use super::members::Member;
use crate::evidence::Evidence;
use crate::evidence::class::OpClass;
use crate::evidence::steps::Steps;
use crate::intervals::Intervals;
use crate::session::{OpId, Session};

/// Self times in the window of each core.
pub(super) struct SelfTimes {
    /// For each analysed core: its steps, and for each collective op the self time of each
    /// execution in order.
    cores: Vec<(usize, f64, FxHashMap<OpId, Vec<u64>>)>,
}

impl SelfTimes {
    pub(super) fn of(evidence: &Evidence<'_>) -> Self {
        let session = evidence.session;
        let wanted: Vec<bool> = (0..session.ops.len())
            .map(|id| {
                OpId::try_from(id)
                    .ok()
                    .and_then(|id| evidence.op(id))
                    .is_some_and(|op| matches!(op.class, OpClass::Collective(_)))
            })
            .collect();
        let mut cores = Vec::new();
        for core in &evidence.steps.cores {
            let Some(device) = session.devices.get(core.device) else {
                continue;
            };
            let mut times: FxHashMap<OpId, Vec<u64>> = FxHashMap::default();
            for ((start, _, id), own) in device.ops.iter().zip(&device.op_self_ps) {
                let inside = start >= core.window_ps.0 && start < core.window_ps.1;
                if inside && wanted.get(id as usize) == Some(&true) {
                    times.entry(id).or_default().push(*own);
                }
            }
            cores.push((core.device, core.count().max(1) as f64, times));
        }
        Self { cores }
    }

    /// Time a step that the fastest core spends in an op: of each execution the least over cores
    /// where all have as many, else the least sum.
    pub(super) fn least(&self, id: OpId) -> f64 {
        let runs: Vec<(f64, &Vec<u64>)> = self
            .cores
            .iter()
            .filter_map(|(_, steps, times)| Some((*steps, times.get(&id)?)))
            .collect();
        let Some((steps, first)) = runs.first() else {
            return 0.0;
        };
        let alike = runs
            .iter()
            .all(|(s, r)| s == steps && r.len() == first.len());
        if alike {
            let least = |k: usize| runs.iter().filter_map(|(_, r)| r.get(k)).min().copied();
            let sum: f64 = (0..first.len())
                .filter_map(|k| least(k).map(|ps| ps as f64))
                .sum();
            return sum / steps;
        }
        runs.iter()
            .map(|(steps, r)| r.iter().map(|ps| *ps as f64).sum::<f64>() / steps)
            .min_by(f64::total_cmp)
            .unwrap_or(0.0)
    }
}

/// Time a step from start to done of each member, mean over cores: the n-th start belongs to the
/// n-th done. The line "Async XLA Ops" has the same spans, but libtpu may fill it on the first core
/// only.
pub(super) fn in_flight_ps(evidence: &Evidence<'_>, members: &[Member]) -> Vec<f64> {
    let mut ends: FxHashMap<OpId, (usize, bool)> = FxHashMap::default();
    for (at, member) in members.iter().enumerate() {
        if let [first, .., last] = member.ops.as_slice() {
            ends.insert(*first, (at, false));
            ends.insert(*last, (at, true));
        }
    }
    let mut sums = vec![0.0; members.len()];
    if ends.is_empty() {
        return sums;
    }
    for core in &evidence.steps.cores {
        let Some(device) = evidence.session.devices.get(core.device) else {
            continue;
        };
        let mut open = vec![VecDeque::new(); members.len()];
        let mut spans = vec![Vec::new(); members.len()];
        for (start, duration, id) in device.ops.iter() {
            match ends.get(&id) {
                Some((at, false)) => open[*at].push_back(start),
                Some((at, true)) => {
                    if let Some(begin) = open[*at].pop_front() {
                        spans[*at].push((begin, start.saturating_add(duration)));
                    }
                }
                None => {}
            }
        }
        for (sum, spans) in sums.iter_mut().zip(spans) {
            let union = Intervals::union_within(core.window_ps, spans);
            *sum += union.total_ps() as f64 / core.count().max(1) as f64;
        }
    }
    let cores = evidence.steps.cores.len().max(1) as f64;
    sums.into_iter().map(|sum| sum / cores).collect()
}

/// What each core does in a step.
pub(super) fn core_loads(evidence: &Evidence<'_>) -> Vec<CoreLoad> {
    let loads = evidence.steps.cores.iter().map(|core| {
        let selfs = self_per_step(evidence.session, &evidence.steps, core.device);
        let mut load = CoreLoad {
            device: core.device,
            work_ps: 0.0,
            collective_ps: 0.0,
        };
        for (id, ps) in selfs {
            match evidence.op(id).map(|op| op.class) {
                Some(OpClass::Collective(_)) => load.collective_ps += ps,
                _ => load.work_ps += ps,
            }
        }
        load
    });
    loads.collect()
}

/// Self time a step of each op on one core, in picoseconds, by op.
#[must_use]
pub fn self_per_step(session: &Session, steps: &Steps, device: usize) -> Vec<(OpId, f64)> {
    let (Some(core), Some(plane)) = (steps.of_device(device), session.devices.get(device)) else {
        return Vec::new();
    };
    let mut sums = vec![0u64; session.ops.len()];
    for ((start, _, id), own) in plane.ops.iter().zip(&plane.op_self_ps) {
        if start >= core.window_ps.0
            && start < core.window_ps.1
            && let Some(sum) = sums.get_mut(id as usize)
        {
            *sum = sum.saturating_add(*own);
        }
    }
    let count = core.count().max(1) as f64;
    (0..)
        .zip(sums)
        .filter(|(_, ps)| *ps > 0)
        .map(|(id, ps)| (id, ps as f64 / count))
        .collect()
}
