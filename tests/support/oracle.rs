//! The right figures of a profile, worked out from what was written into it.
//!
//! Follows XProf's definitions where it has one: self time is duration less the
//! operations directly inside; the total time of a device runs from the first
//! operation or step to the last; duty counts every operation but transfers to
//! the host and asynchronous ends.

use std::collections::BTreeMap;

use super::profile::{Device, OpRef, OpRun, TpuProfile};

/// Figures of one profile, summed over its devices. Times are picoseconds.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub ops: BTreeMap<OpRef, OpFigures>,
    /// Self time by category.
    pub categories: BTreeMap<String, u64>,
    /// First begin to last end of each device, summed.
    pub total: u64,
    /// Total less all self times.
    pub idle: u64,
    /// What XProf 2.24 takes for the total. It counts its own line "Framework Ops"
    /// among the operations, and that one is on the host's clock: the distance of
    /// the clocks gets into the total wherever the last operation has a `tf_op`.
    pub xprof_total: u64,
}

/// Figures of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpFigures {
    pub occurrences: u64,
    pub total: u64,
    pub self_time: u64,
}

impl Figures {
    /// The figures of a profile.
    pub fn of(profile: &TpuProfile) -> Self {
        let mut figures = Self::default();
        for device in &profile.devices {
            figures.add(profile, device);
        }
        figures
    }

    /// The self time of all operations whose category is one of these.
    pub fn category(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|n| self.categories.get(*n)).sum()
    }

    /// The figures of an operation by its name; operations of that name in
    /// several programs are added.
    pub fn op(&self, profile: &TpuProfile, name: &str) -> OpFigures {
        let mut sum = OpFigures::default();
        for (_, f) in self
            .ops
            .iter()
            .filter(|(op, _)| profile.op(**op).name == name)
        {
            sum.occurrences += f.occurrences;
            sum.total += f.total;
            sum.self_time += f.self_time;
        }
        sum
    }

    fn add(&mut self, profile: &TpuProfile, device: &Device) {
        let selfs = self_times(&device.ops);
        let mut busy = 0;
        for (run, self_time) in device.ops.iter().zip(&selfs) {
            let entry = self.ops.entry(run.op).or_default();
            entry.occurrences += 1;
            entry.total += run.duration;
            entry.self_time += self_time;
            *self
                .categories
                .entry(profile.op(run.op).category.clone())
                .or_default() += self_time;
            busy += self_time;
        }
        let spans = device.ops.iter().map(|r| (r.start, r.start + r.duration));
        let spans = spans.chain(device.steps.iter().map(|s| (s.start, s.start + s.duration)));
        let begin = spans.clone().map(|s| s.0).min().unwrap_or(0);
        let end = spans.map(|s| s.1).max().unwrap_or(0);
        let total = end - begin;
        self.total += total;
        let (mut xprof_begin, mut xprof_end) = (begin, end);
        let mut skew = device.clock_skew;
        for run in &device.ops {
            if profile.op(run.op).tf_op.is_some() {
                xprof_begin = xprof_begin.min(run.start + skew);
                xprof_end = xprof_end.max(run.start + skew + run.host_duration);
            }
            skew += run.host_duration.saturating_sub(run.duration);
        }
        self.xprof_total += xprof_end - xprof_begin;
        self.idle += total.saturating_sub(busy);
    }
}

/// Durations less what is directly inside, for events in order of their begin.
pub fn self_times(runs: &[OpRun]) -> Vec<u64> {
    let mut selfs: Vec<u64> = runs.iter().map(|r| r.duration).collect();
    let mut open: Vec<usize> = Vec::new();
    let inside = |run: &OpRun, outer: &OpRun| {
        outer.start <= run.start && run.start + run.duration <= outer.start + outer.duration
    };
    for (index, run) in runs.iter().enumerate() {
        while open.pop_if(|top| !inside(run, &runs[*top])).is_some() {}
        if let Some(parent) = open.last() {
            selfs[*parent] = selfs[*parent].saturating_sub(run.duration);
        }
        open.push(index);
    }
    selfs
}

/// The part of `of` that no interval of `by` covers: what is left exposed.
pub fn uncovered(of: &[(u64, u64)], by: &[(u64, u64)]) -> u64 {
    let of = union(of);
    let by = union(by);
    let mut left = 0;
    for (begin, end) in of {
        let mut at = begin;
        for (b, e) in by.iter().filter(|(b, e)| *e > begin && *b < end) {
            left += b.saturating_sub(at);
            at = at.max(*e);
        }
        left += end.saturating_sub(at);
    }
    left
}

fn union(spans: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in sorted {
        match out.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => out.push((begin, end)),
        }
    }
    out
}
