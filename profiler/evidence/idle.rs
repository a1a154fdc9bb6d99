//! When a core ran nothing, stretch by stretch, and what came next.

use std::collections::BTreeMap;

use crate::evidence::steps::{CoreSteps, Spread, Steps};
use crate::intervals::Intervals;
use crate::session::{Device, ModuleId, OpId, Session};
use crate::units::Picos;

/// What a queued program cannot do without between its predecessor's end and its own start.
///
/// Programs that the host had sent long before follow each other after 1.1 us on v6e and 3.7 to
/// 4.5 us on TPU7x, in captures of each.
pub const LAUNCH_FLOOR: Picos = Picos(5_000_000);

/// A program whose median run is shorter than this does next to nothing: launching it costs more.
pub const TINY_PROGRAM: Picos = Picos(50_000_000);

/// Operations follow each other after a clock tick or two; that is no wait.
pub const MIN_WAIT: Picos = Picos(100_000);

/// The idle time of one core within the window of its whole steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreIdle {
    /// Index into the session's devices.
    pub device: usize,
    /// Whole steps in the window.
    pub steps: usize,
    /// The window on the trace's clock.
    pub window_ps: (u64, u64),
    /// No program ran.
    pub between: Intervals,
    /// A program ran, but none of its operations.
    pub inside: Intervals,
}

impl CoreIdle {
    fn of(device: &Device, core: &CoreSteps) -> Self {
        let ends = |(start, duration, _): (u64, u64, u32)| (start, start.saturating_add(duration));
        let window_ps = core.window_ps;
        let busy = Intervals::union_within(window_ps, device.ops.iter().map(ends));
        let programs = Intervals::union_within(window_ps, device.modules.iter().map(ends));
        // An operation outside any program on record still means that one was running.
        let running = programs.or(&busy);
        Self {
            device: core.device,
            steps: core.count(),
            window_ps,
            between: Intervals::union([window_ps]).minus(&running),
            inside: running.minus(&busy),
        }
    }

    /// Length of the window.
    #[must_use]
    pub fn window(&self) -> Picos {
        Picos(self.window_ps.1.saturating_sub(self.window_ps.0))
    }
}

/// The idle time of every analysed core.
#[must_use]
pub fn core_idle(session: &Session, steps: &Steps) -> Vec<CoreIdle> {
    let of = |core: &CoreSteps| Some(CoreIdle::of(session.devices.get(core.device)?, core));
    steps.cores.iter().filter_map(of).collect()
}

/// The core in the middle when they are put in order of an amount: one that stands for all.
#[must_use]
pub fn middle<'a>(
    cores: impl IntoIterator<Item = &'a CoreIdle>,
    amount: impl Fn(&CoreIdle) -> u64,
) -> Option<&'a CoreIdle> {
    let mut cores: Vec<&CoreIdle> = cores.into_iter().collect();
    cores.sort_by_key(|core| (amount(core), core.device));
    cores.get(cores.len() / 2).copied()
}

/// Durations of stretches.
#[must_use]
pub fn spread(stretches: &Intervals) -> Spread {
    Spread::of(stretches.spans().iter().map(|(s, e)| Picos(e - s)))
}

/// Programs that are too short to be worth a launch each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TinyPrograms {
    /// Runs in the window.
    pub runs: usize,
    /// Runs of programs of any length in the window.
    pub all_runs: usize,
    /// Sum of the tiny runs.
    pub total_ps: Picos,
    /// The programs, most runs first, with their runs.
    pub modules: Vec<(ModuleId, usize)>,
}

/// Programs of a median run below [`TINY_PROGRAM`] on one core.
#[must_use]
pub fn tiny_programs(device: &Device, window_ps: (u64, u64)) -> TinyPrograms {
    let mut runs: BTreeMap<ModuleId, Vec<Picos>> = BTreeMap::new();
    for (start, duration, module) in device.modules.iter() {
        if start >= window_ps.0 && start < window_ps.1 {
            runs.entry(module).or_default().push(Picos(duration));
        }
    }
    let mut tiny = TinyPrograms {
        all_runs: runs.values().map(Vec::len).sum(),
        ..TinyPrograms::default()
    };
    for (module, durations) in runs {
        let total: Picos = durations.iter().copied().sum();
        let count = durations.len();
        if Spread::of(durations).median_ps < TINY_PROGRAM {
            tiny.runs += count;
            tiny.total_ps += total;
            tiny.modules.push((module, count));
        }
    }
    tiny.modules
        .sort_by_key(|(module, count)| (std::cmp::Reverse(*count), *module));
    tiny
}

/// Where a core waited inside its programs.
#[derive(Clone, Debug, PartialEq)]
pub struct InsideIdle {
    /// The core that stands for all.
    pub device: usize,
    /// Whole steps in the window.
    pub steps: usize,
    /// Length of the window.
    pub window_ps: Picos,
    /// The stretches of [`MIN_WAIT`] or more.
    pub waits: Spread,
    /// All of them together.
    pub total_ps: Picos,
    /// Time in each runtime marker, as `barrier-cores`, longest first.
    pub marked: Vec<(String, Picos)>,
    /// Before the first operation of a program.
    pub at_start_ps: Picos,
    /// After the last operation of a program.
    pub at_end_ps: Picos,
    /// Before an operation in the middle of a program, longest total first, with how often.
    pub before: Vec<(OpId, Picos, usize)>,
}

impl InsideIdle {
    /// Time in the markers of that name.
    #[must_use]
    pub fn in_mark(&self, name: &str) -> Picos {
        let of_name = self.marked.iter().filter(|(mark, _)| mark == name);
        of_name.map(|(_, time)| *time).sum()
    }
}

/// Sorts out the waits inside programs of the core that stands for all.
#[must_use]
pub fn inside_idle(session: &Session, cores: &[CoreIdle]) -> Option<InsideIdle> {
    let core = middle(cores, |core| core.inside.total_ps())?;
    let device = session.devices.get(core.device)?;
    let program_starts = &device.modules.start_ps;
    let mut at_start_ps = Picos(0);
    let mut at_end_ps = Picos(0);
    let mut before: BTreeMap<OpId, (Picos, usize)> = BTreeMap::new();
    for (start, end) in long(&core.inside) {
        let time = Picos(end - start);
        let next = device.ops.start_ps.partition_point(|op| op < end);
        let next_op = device.ops.start_ps.get(next).filter(|op| *op == end);
        let program = program_starts.partition_point(|program| program <= start);
        let program_start = program.checked_sub(1).and_then(|at| program_starts.get(at));
        // The first operation since the program began: nothing of it ran before the wait.
        let ran = program_start
            .is_some_and(|begin| device.ops.start_ps.partition_point(|op| op < begin) < next);
        match (next_op, device.ops.id.get(next)) {
            _ if !ran => at_start_ps += time,
            (Some(_), Some(op)) => {
                let entry = before.entry(*op).or_default();
                entry.0 += time;
                entry.1 += 1;
            }
            _ => at_end_ps += time,
        }
    }
    let mut before: Vec<(OpId, Picos, usize)> = before
        .into_iter()
        .map(|(op, (time, count))| (op, time, count))
        .collect();
    before.sort_by_key(|(op, time, _)| (std::cmp::Reverse(*time), *op));
    Some(InsideIdle {
        device: core.device,
        steps: core.steps,
        window_ps: core.window(),
        waits: Spread::of(long(&core.inside).map(|(s, e)| Picos(e - s))),
        total_ps: Picos(core.inside.total_ps()),
        marked: marked(session, device, &core.inside),
        at_start_ps,
        at_end_ps,
        before,
    })
}

fn long(waits: &Intervals) -> impl Iterator<Item = &(u64, u64)> {
    waits.spans().iter().filter(|(s, e)| e - s >= MIN_WAIT.0)
}

fn marked(session: &Session, device: &Device, waits: &Intervals) -> Vec<(String, Picos)> {
    let mut spans: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for (start, duration, name) in device.marks.iter() {
        if let Some(name) = session.names.get(name as usize) {
            spans
                .entry(name)
                .or_default()
                .push((start, start.saturating_add(duration)));
        }
    }
    let mut times: Vec<(String, Picos)> = spans
        .into_iter()
        .map(|(name, spans)| {
            let outside = waits.minus(&Intervals::union(spans)).total_ps();
            (name.to_owned(), Picos(waits.total_ps() - outside))
        })
        .filter(|(_, time)| time.0 > 0)
        .collect();
    times.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    times
}
