//! What the host did, and above all what it did while the cores had no program to run.
//!
//! ```text
//! host spans ──> kinds (compile, input, copies, reads, dispatch) ──> unions ─┐
//! modules, ops ──> gaps between programs ────────────────────────────────────┴──> cause of each gap
//! ```
//!
//! Spans of host and device share a clock, aligned by the profiler to some microseconds: a gap is
//! explained by what covers at least half of it, never by what merely touches it.

pub mod kind;
pub mod python;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::evidence::idle::{self, CoreIdle, TinyPrograms};
use crate::evidence::steps::Spread;
use crate::intervals::Intervals;
use crate::session::{Device, HostThread, NameId, Session};
use crate::units::Picos;

pub use kind::{HostKind, KindSet};

/// A gap with at least this much of it under one kind of activity is put down to it.
const COVERS: f64 = 0.5;
/// A look-up of a compiled program is over within this; what takes longer compiles.
const MIN_COMPILE: Picos = Picos(1_000_000_000);
/// From this many tiny programs a step on, the program is being run op by op.
pub const MANY_TINY_PER_STEP: f64 = 4.0;

/// Why no program ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GapCause {
    /// The host traced or compiled a program.
    Compile,
    /// The host waited for the next batch.
    Input,
    /// Data were on their way to the device or back.
    Transfer,
    /// The host had waited for a result before it sent the next program.
    HostRead,
    /// The next program is one of many tiny ones.
    TinyProgram,
    /// None of these: the host was busy elsewhere, or it is not known with what.
    Dispatch,
}

/// The gaps of one cause on the core that stands for all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CauseTime {
    /// The cause.
    pub cause: GapCause,
    /// The gaps.
    pub gaps: Spread,
    /// All of them together.
    pub total_ps: Picos,
}

/// What the host did in all gaps together. Kinds overlap: several threads work at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Activity {
    /// What.
    pub kind: HostKind,
    /// How much of the gaps it covers.
    pub in_gaps_ps: Picos,
    /// How much of the steps' window it covers.
    pub in_window_ps: Picos,
    /// The span that was there longest.
    pub span: String,
}

/// The gaps between programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BetweenIdle {
    /// The core that stands for all: the one in the middle by idle time.
    pub device: usize,
    /// Whole steps in the window.
    pub steps: usize,
    /// Length of the window.
    pub window_ps: Picos,
    /// The gaps.
    pub gaps: Spread,
    /// All of them together.
    pub total_ps: Picos,
    /// The gaps by cause, longest total first; each gap has one.
    pub causes: Vec<CauseTime>,
    /// What the host did in them, longest first; empty where no host thread was recorded.
    pub activities: Vec<Activity>,
    /// The Python frames present in at least half of the gaps' time, outermost first; the last
    /// three of them. Empty where Python was not traced.
    pub python: Vec<String>,
}

impl BetweenIdle {
    /// The gaps of a cause.
    #[must_use]
    pub fn of(&self, cause: GapCause) -> Option<&CauseTime> {
        self.causes.iter().find(|time| time.cause == cause)
    }

    /// A time as a share of the window.
    #[must_use]
    pub fn share(&self, time: Picos) -> f64 {
        let window = self.window_ps.0 as f64;
        if window > 0.0 {
            time.0 as f64 / window
        } else {
            0.0
        }
    }
}

/// A program compiled during the capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compile {
    /// The function, as `train_step`; empty where the trace does not say.
    pub function: String,
    /// Begin on the trace's clock.
    pub start_ps: u64,
    /// How long.
    pub duration: Picos,
    /// Whether it lies among the steps and not before or after them.
    pub in_steps: bool,
}

/// Waits of the dispatching thread for a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostReads {
    /// Reads in the window.
    pub count: usize,
    /// The span that names them.
    pub span: String,
}

/// What the host did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostEvidence {
    /// The gaps between programs; `None` where there is no core.
    pub between: Option<BetweenIdle>,
    /// Tiny programs on the same core.
    pub tiny: TinyPrograms,
    /// Compilations of a millisecond or more, in order.
    pub compiles: Vec<Compile>,
    /// Reads of results among the steps.
    pub reads: HostReads,
}

impl HostEvidence {
    /// Looks at the gaps of the core that stands for all and at the threads of its host.
    #[must_use]
    pub fn gather(session: &Session, cores: &[CoreIdle]) -> Self {
        let watched = |core: &&CoreIdle| {
            let host = session.devices.get(core.device).map(|device| device.host);
            session
                .threads
                .iter()
                .any(|thread| Some(thread.host) == host)
        };
        let amount = |core: &CoreIdle| core.between.total_ps();
        let core = idle::middle(cores.iter().filter(watched), amount);
        let Some(core) = core.or_else(|| idle::middle(cores, amount)) else {
            return Self::default();
        };
        let Some(device) = session.devices.get(core.device) else {
            return Self::default();
        };
        let kinds = kind::kinds(&session.names);
        let threads: Vec<Watched<'_>> = session
            .threads
            .iter()
            .filter(|thread| thread.host == device.host)
            .map(|thread| Watched::new(thread, &kinds))
            .collect();
        let spans = Spans::collect(&threads, &kinds, core);
        let tiny = idle::tiny_programs(device, core.window_ps);
        let between = between(session, device, core, &tiny, &spans, &threads);
        Self {
            between: Some(between),
            tiny,
            compiles: compiles(session, &threads, &kinds, core.window_ps),
            reads: spans.reads(session),
        }
    }
}

/// A thread, and what its spans are about: most threads of a runtime do nothing of interest, and
/// none of their spans need be looked at again.
struct Watched<'s> {
    thread: &'s HostThread,
    kinds: KindSet,
    /// Whether it calls programs.
    calls: bool,
}

impl<'s> Watched<'s> {
    fn new(thread: &'s HostThread, kinds: &[Option<HostKind>]) -> Self {
        let mut present = KindSet::default();
        for name in &thread.spans.id {
            if let Some(kind) = kinds.get(*name as usize).copied().flatten() {
                present.insert(kind);
            }
        }
        Self {
            thread,
            kinds: present,
            calls: present.contains(HostKind::Dispatch) && !kind::is_worker(thread),
        }
    }
}

/// Host spans by kind within the window.
struct Spans {
    unions: BTreeMap<HostKind, Intervals>,
    /// Time in the gaps by kind and name; overlaps of a name with itself count twice.
    named: BTreeMap<HostKind, BTreeMap<NameId, u64>>,
    /// Reads of the dispatching thread, outermost ones.
    reads: Vec<(u64, u64, NameId)>,
}

impl Spans {
    fn collect(threads: &[Watched<'_>], kinds: &[Option<HostKind>], core: &CoreIdle) -> Self {
        let gaps = Ruler::new(&core.between);
        let any_caller = threads.iter().any(|thread| thread.calls);
        let mut spans: BTreeMap<HostKind, Vec<(u64, u64)>> = BTreeMap::new();
        let mut named: BTreeMap<HostKind, BTreeMap<NameId, u64>> = BTreeMap::new();
        let mut reads: Vec<(u64, u64, NameId)> = Vec::new();
        for watched in threads.iter().filter(|thread| !thread.kinds.is_empty()) {
            let calls = !any_caller || watched.calls;
            let mut read_until = 0;
            let mut gap = 0;
            for (start, duration, name) in watched.thread.spans.iter() {
                let end = start.saturating_add(duration);
                if end <= core.window_ps.0 || start >= core.window_ps.1 {
                    continue;
                }
                let Some(kind) = kinds.get(name as usize).copied().flatten() else {
                    continue;
                };
                // Loaders and readers on other threads work ahead: they hold nothing up.
                let is_ahead = matches!(kind, HostKind::Input | HostKind::Read) && !calls;
                if is_ahead || (kind == HostKind::Compile && duration < MIN_COMPILE.0 / 10) {
                    continue;
                }
                if kind == HostKind::Read && start >= read_until {
                    read_until = end;
                    reads.push((start, end, name));
                }
                spans.entry(kind).or_default().push((start, end));
                let inside = gaps.within_next(&mut gap, start, end);
                if inside > 0 {
                    let sum = named.entry(kind).or_default().entry(name).or_default();
                    *sum = sum.saturating_add(inside);
                }
            }
        }
        let union = |(kind, spans)| (kind, Intervals::union_within(core.window_ps, spans));
        reads.sort_unstable();
        Self {
            unions: spans.into_iter().map(union).collect(),
            named,
            reads,
        }
    }

    fn reads(&self, session: &Session) -> HostReads {
        let mut names: BTreeMap<NameId, u64> = BTreeMap::new();
        for (start, end, name) in &self.reads {
            let sum = names.entry(*name).or_default();
            *sum = sum.saturating_add(end - start);
        }
        HostReads {
            count: self.reads.len(),
            span: longest(&names, session),
        }
    }
}

fn longest(names: &BTreeMap<NameId, u64>, session: &Session) -> String {
    let name = names
        .iter()
        .max_by_key(|(name, time)| (**time, std::cmp::Reverse(**name)));
    let name = name.and_then(|(name, _)| session.names.get(*name as usize));
    name.cloned().unwrap_or_default()
}

fn between(
    session: &Session,
    device: &Device,
    core: &CoreIdle,
    tiny: &TinyPrograms,
    spans: &Spans,
    threads: &[Watched<'_>],
) -> BetweenIdle {
    let mut causes: BTreeMap<GapCause, Vec<Picos>> = BTreeMap::new();
    for (gap, cause) in core
        .between
        .spans()
        .iter()
        .zip(gap_causes(device, core, tiny, spans))
    {
        causes.entry(cause).or_default().push(Picos(gap.1 - gap.0));
    }
    let mut causes: Vec<CauseTime> = causes
        .into_iter()
        .map(|(cause, gaps)| CauseTime {
            cause,
            total_ps: gaps.iter().copied().sum(),
            gaps: Spread::of(gaps),
        })
        .collect();
    causes.sort_by_key(|time| (std::cmp::Reverse(time.total_ps), time.cause));
    let gaps = Ruler::new(&core.between);
    let mut activities: Vec<Activity> = spans
        .unions
        .iter()
        .map(|(kind, union)| Activity {
            kind: *kind,
            in_gaps_ps: Picos(union.spans().iter().map(|(s, e)| gaps.within(*s, *e)).sum()),
            in_window_ps: Picos(union.total_ps()),
            span: spans
                .named
                .get(kind)
                .map(|names| longest(names, session))
                .unwrap_or_default(),
        })
        .filter(|activity| activity.in_gaps_ps.0 > 0)
        .collect();
    activities.sort_by_key(|activity| (std::cmp::Reverse(activity.in_gaps_ps), activity.kind));
    BetweenIdle {
        device: core.device,
        steps: core.steps,
        window_ps: core.window(),
        gaps: idle::spread(&core.between),
        total_ps: Picos(core.between.total_ps()),
        causes,
        activities,
        python: python::frames_in(&core.between, threads, session),
    }
}

fn gap_causes(
    device: &Device,
    core: &CoreIdle,
    tiny: &TinyPrograms,
    spans: &Spans,
) -> Vec<GapCause> {
    let gaps = core.between.spans();
    let none = Intervals::default();
    let covered = |kind: HostKind| overlaps(gaps, spans.unions.get(&kind).unwrap_or(&none));
    let compile = covered(HostKind::Compile);
    let input = covered(HostKind::Input);
    let to_device = covered(HostKind::ToDevice);
    let from_device = covered(HostKind::FromDevice);
    let read = covered(HostKind::Read);
    let reads = spans.unions.get(&HostKind::Read).unwrap_or(&none);
    let many_tiny = tiny.runs as f64 >= MANY_TINY_PER_STEP * core.steps.max(1) as f64;
    let next_is_tiny = |end: u64| {
        let next = device
            .modules
            .start_ps
            .partition_point(|start| *start < end);
        let module = device.modules.id.get(next);
        module.is_some_and(|id| tiny.modules.iter().any(|(tiny, _)| tiny == id))
    };
    let cause = |(i, (start, end)): (usize, &(u64, u64))| {
        let half = (end - start) as f64 * COVERS;
        let mostly = |covered: &[u64]| covered.get(i).is_some_and(|time| *time as f64 >= half);
        if mostly(&compile) {
            GapCause::Compile
        } else if mostly(&input) {
            GapCause::Input
        } else if mostly(&to_device) {
            GapCause::Transfer
        } else if mostly(&read) || contains(reads, *start) {
            GapCause::HostRead
        } else if mostly(&from_device) {
            GapCause::Transfer
        } else if many_tiny && next_is_tiny(*end) {
            GapCause::TinyProgram
        } else {
            GapCause::Dispatch
        }
    };
    gaps.iter().enumerate().map(cause).collect()
}

/// Whether a point lies within.
fn contains(spans: &Intervals, at: u64) -> bool {
    let next = spans.spans().partition_point(|(start, _)| *start <= at);
    let span = next.checked_sub(1).and_then(|i| spans.spans().get(i));
    span.is_some_and(|(_, end)| *end > at)
}

/// How much of each gap is covered.
fn overlaps(gaps: &[(u64, u64)], spans: &Intervals) -> Vec<u64> {
    let ruler = Ruler::new(spans);
    gaps.iter()
        .map(|(start, end)| ruler.within(*start, *end))
        .collect()
}

/// Measures how much of any stretch some intervals cover, in the time of two searches.
struct Ruler<'a> {
    spans: &'a [(u64, u64)],
    /// Length of all spans before each.
    before: Vec<u64>,
}

impl<'a> Ruler<'a> {
    fn new(intervals: &'a Intervals) -> Self {
        let spans = intervals.spans();
        let mut before = Vec::with_capacity(spans.len());
        let mut sum = 0;
        for (start, end) in spans {
            before.push(sum);
            sum += end - start;
        }
        Self { spans, before }
    }

    fn until(&self, at: u64) -> u64 {
        let Some(i) = self
            .spans
            .partition_point(|(start, _)| *start < at)
            .checked_sub(1)
        else {
            return 0;
        };
        match (self.spans.get(i), self.before.get(i)) {
            (Some((start, end)), Some(before)) => before + (at.min(*end) - start),
            _ => 0,
        }
    }

    fn within(&self, start: u64, end: u64) -> u64 {
        self.until(end).saturating_sub(self.until(start))
    }

    /// The same for stretches in the order of their starts: `at` is where the one before left off.
    /// Most stretches touch nothing, which takes no search.
    fn within_next(&self, at: &mut usize, start: u64, end: u64) -> u64 {
        while self.spans.get(*at).is_some_and(|(_, past)| *past <= start) {
            *at += 1;
        }
        match self.spans.get(*at) {
            Some((first, _)) if *first < end => self.within(start, end),
            _ => 0,
        }
    }
}

/// Whole compilations: spans that stand for one, outermost ones only. The same compilation seen
/// from another thread joins the one that knows its function.
fn compiles(
    session: &Session,
    threads: &[Watched<'_>],
    kinds: &[Option<HostKind>],
    window_ps: (u64, u64),
) -> Vec<Compile> {
    let name = |id: NameId| session.names.get(id as usize).map_or("", String::as_str);
    let mut found: Vec<Compile> = Vec::new();
    let compiling = threads
        .iter()
        .filter(|thread| thread.kinds.contains(HostKind::Compile));
    for watched in compiling {
        // Functions being called on this thread: where each ends, innermost last.
        let mut calls: Vec<(u64, &str)> = Vec::new();
        let mut until = 0;
        for (start, duration, id) in watched.thread.spans.iter() {
            let end = start.saturating_add(duration);
            while calls.last().is_some_and(|(call_end, _)| *call_end <= start) {
                calls.pop();
            }
            if let Some(function) = kind::called_function(name(id)) {
                calls.push((end, function));
            }
            let is_compile = kinds.get(id as usize).copied().flatten() == Some(HostKind::Compile);
            if is_compile
                && duration >= MIN_COMPILE.0
                && start >= until
                && kind::is_whole_compile(name(id))
            {
                until = end;
                found.push(Compile {
                    function: calls.last().map_or("", |(_, function)| function).to_owned(),
                    start_ps: start,
                    duration: Picos(duration),
                    in_steps: start >= window_ps.0 && start < window_ps.1,
                });
            }
        }
    }
    found.sort_by(|a, b| {
        a.start_ps
            .cmp(&b.start_ps)
            .then(b.duration.cmp(&a.duration))
            .then(a.function.cmp(&b.function))
    });
    let mut joined: Vec<Compile> = Vec::new();
    for compile in found {
        let same = joined.last_mut().filter(|last| {
            compile.start_ps < last.start_ps.saturating_add(last.duration.0)
                && (last.function.is_empty() || compile.function.is_empty())
        });
        match same {
            Some(last) if last.function.is_empty() => last.function = compile.function,
            Some(_) => {}
            None => joined.push(compile),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Ruler;
    use crate::intervals::Intervals;

    proptest! {
        #[test]
        fn a_ruler_measures_what_clipping_leaves(
            spans in prop::collection::vec((0u64..200, 0u64..30), 0..20),
            stretches in prop::collection::vec((0u64..220, 0u64..60), 0..10),
        ) {
            let intervals = Intervals::union(spans.into_iter().map(|(s, d)| (s, s + d)));
            let ruler = Ruler::new(&intervals);
            let mut stretches = stretches;
            stretches.sort_unstable();
            let mut at = 0;
            for (start, length) in stretches {
                let end = start + length;
                let clipped = intervals.clip((start, end)).total_ps();
                prop_assert_eq!(ruler.within(start, end), clipped);
                prop_assert_eq!(ruler.within_next(&mut at, start, end), clipped);
            }
        }
    }
}
