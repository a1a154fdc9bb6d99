//! Clocks of several hosts, brought together so that their times can be compared.
//!
//! The clocks of hosts differ by microseconds to milliseconds, more than the skew that one wants to
//! see. What ties them is the program: a run of a program with collectives ends on all cores at
//! about the same time, because the last collective ends everywhere when its last participant has
//! come. So a host's offset is the median, over runs that both hosts saw (the same program, the same
//! run id), of the difference of their ends; of each host the core in the middle counts.
//!
//! Starts need no such bond, so after the alignment their differences mean something: who comes late.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::session::{ModuleId, Session};

/// A host's clock against that of the first host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HostClock {
    /// Index into the session's hosts.
    pub host: u32,
    /// What to take from its times to have them on the first host's clock, in picoseconds.
    pub offset_ps: i64,
    /// Median distance of a run from that offset: what it is uncertain by, in picoseconds.
    pub spread_ps: u64,
    /// Runs that it was taken from.
    pub runs: usize,
}

/// When a core starts its runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StartSkew {
    /// Index into the session's devices.
    pub device: usize,
    /// Median over runs: how long after the first core it starts, in picoseconds.
    pub late_ps: u64,
    /// Runs that were compared.
    pub runs: usize,
}

/// Clocks of the hosts and what can be said once they are aligned.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Clocks {
    /// Whether times of all cores can be compared: there is one host, or each has an offset.
    pub aligned: bool,
    /// One entry for each host that has cores and an offset; the first host's is zero.
    pub hosts: Vec<HostClock>,
    /// When each core starts; only of cores whose runs can be told apart, and only if `aligned`.
    pub starts: Vec<StartSkew>,
}

/// A host's offset is trusted from this many runs on.
const MIN_RUNS: usize = 3;

/// Start and end of a run.
type Span = (u64, u64);
/// Runs by program and run id, and in each the span on each device.
type Runs = BTreeMap<(ModuleId, u64), BTreeMap<usize, Span>>;

impl Clocks {
    /// Aligns the clocks of a session. `module` is the program whose runs are compared.
    #[must_use]
    pub fn align(session: &Session, module: Option<ModuleId>) -> Self {
        let runs = runs(session, module);
        let mut hosts: Vec<u32> = session.analysed_cores().map(|(_, d)| d.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let Some(first) = hosts.first().copied() else {
            return Self::default();
        };
        let mut clocks = vec![HostClock {
            host: first,
            offset_ps: 0,
            spread_ps: 0,
            runs: runs.len(),
        }];
        for host in hosts.iter().skip(1) {
            clocks.extend(host_clock(session, &runs, first, *host));
        }
        let aligned = clocks.len() == hosts.len();
        let mut clocks = Self {
            aligned,
            hosts: clocks,
            starts: Vec::new(),
        };
        if aligned {
            clocks.starts = clocks.start_skews(session, &runs);
        }
        clocks
    }

    /// A time of a host on the first host's clock; `None` if that host has no offset.
    #[must_use]
    pub fn on_first(&self, host: u32, time_ps: u64) -> Option<i64> {
        let clock = self.hosts.iter().find(|clock| clock.host == host)?;
        i64::try_from(time_ps).ok()?.checked_sub(clock.offset_ps)
    }

    /// The largest uncertainty of an offset, in picoseconds.
    #[must_use]
    pub fn spread_ps(&self) -> u64 {
        self.hosts
            .iter()
            .map(|clock| clock.spread_ps)
            .max()
            .unwrap_or(0)
    }

    /// How late a core starts.
    #[must_use]
    pub fn start_of(&self, device: usize) -> Option<&StartSkew> {
        self.starts.iter().find(|start| start.device == device)
    }

    fn start_skews(&self, session: &Session, runs: &Runs) -> Vec<StartSkew> {
        let mut late: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for spans in runs.values().filter(|spans| spans.len() > 1) {
            let starts: Vec<(usize, i64)> = spans
                .iter()
                .filter_map(|(device, (start, _))| {
                    let host = session.devices.get(*device)?.host;
                    Some((*device, self.on_first(host, *start)?))
                })
                .collect();
            let Some(earliest) = starts.iter().map(|(_, start)| *start).min() else {
                continue;
            };
            for (device, start) in starts {
                let by = start.saturating_sub(earliest);
                late.entry(device).or_default().push(by);
            }
        }
        late.into_iter()
            .map(|(device, values)| StartSkew {
                device,
                runs: values.len(),
                late_ps: u64::try_from(median(values)).unwrap_or(0),
            })
            .collect()
    }
}

/// Runs whose program and run id a profile states. A run id that occurs twice on a device is none.
fn runs(session: &Session, module: Option<ModuleId>) -> Runs {
    let mut runs = Runs::new();
    let mut twice = Vec::new();
    for (index, device) in session.analysed_cores() {
        for ((start, duration, id), run) in device.modules.iter().zip(&device.run_ids) {
            if *run == 0 || module.is_some_and(|module| module != id) {
                continue;
            }
            let span = (start, start.saturating_add(duration));
            let spans = runs.entry((id, *run)).or_default();
            if spans.insert(index, span).is_some() {
                twice.push((id, *run));
            }
        }
    }
    for key in twice {
        runs.remove(&key);
    }
    runs
}

fn host_clock(session: &Session, runs: &Runs, first: u32, host: u32) -> Option<HostClock> {
    let end = |spans: &BTreeMap<usize, Span>, wanted: u32| -> Option<i64> {
        let of_host = spans.iter().filter(|(device, _)| {
            session
                .devices
                .get(**device)
                .is_some_and(|device| device.host == wanted)
        });
        let ends: Vec<i64> = of_host
            .filter_map(|(_, (_, end))| i64::try_from(*end).ok())
            .collect();
        (!ends.is_empty()).then(|| median(ends))
    };
    let mut differences: Vec<i64> = runs
        .values()
        .filter_map(|spans| end(spans, host)?.checked_sub(end(spans, first)?))
        .collect();
    // Runs at the ends of a capture may be cut.
    if differences.len() > MIN_RUNS + 1 {
        differences.pop();
        differences.remove(0);
    }
    if differences.len() < MIN_RUNS {
        return None;
    }
    let runs = differences.len();
    let offset_ps = median(differences.clone());
    let distances: Vec<i64> = differences
        .into_iter()
        .map(|d| i64::try_from(d.abs_diff(offset_ps)).unwrap_or(i64::MAX))
        .collect();
    Some(HostClock {
        host,
        offset_ps,
        spread_ps: u64::try_from(median(distances)).unwrap_or(0),
        runs,
    })
}

/// The middle value; of two the lower.
fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    let middle = values.len().saturating_sub(1) / 2;
    values.get(middle).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{CoreKind, Device};

    /// Two hosts of one core each; the second's clock is ahead by `ahead` and it starts `late`.
    fn session(ahead: u64, late: u64, runs: u64) -> Session {
        let mut session = Session::default();
        session.modules.push(crate::session::Module {
            name: "jit_f".to_owned(),
            program_id: None,
        });
        for host in 0..2u64 {
            let plane = "/device:TPU:0".to_owned();
            let mut device = Device::new(host as u32, plane, CoreKind::TensorCore, 0);
            for run in 1..=runs {
                let start = run * 1_000 + host * (late + ahead);
                let end = run * 1_000 + 900 + host * ahead;
                device.modules.push(start, end - start, 0);
                device.run_ids.push(run);
            }
            session.devices.push(device);
        }
        session
    }

    #[test]
    fn the_offset_comes_from_ends_and_leaves_the_starts_skew() {
        let clocks = Clocks::align(&session(123_456, 70, 9), Some(0));
        assert!(clocks.aligned);
        assert_eq!(clocks.hosts[1].offset_ps, 123_456);
        assert_eq!(clocks.spread_ps(), 0);
        let late: Vec<u64> = clocks.starts.iter().map(|start| start.late_ps).collect();
        assert_eq!(late, [0, 70]);
    }

    #[test]
    fn too_few_common_runs_align_nothing() {
        let clocks = Clocks::align(&session(5, 70, 2), Some(0));
        assert!(!clocks.aligned && clocks.starts.is_empty());
        assert_eq!(clocks.on_first(1, 10), None);
    }
}
