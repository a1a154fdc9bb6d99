//! Busy and idle time of each core, and where the gaps are.

use serde::Serialize;

use crate::evidence::idle::CoreIdle;
use crate::intervals::Intervals;
use crate::session::{Device, Session};
use crate::units::Picos;

/// A stretch in which a core ran no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Index into the session's devices.
    pub device: usize,
    /// Begin on the trace's clock.
    pub start_ps: u64,
    /// End on the trace's clock.
    pub end_ps: u64,
    /// Whether a program was running (it waited inside) or none was (the host had not sent one).
    pub inside_program: bool,
}

impl Gap {
    /// How long.
    #[must_use]
    pub fn duration(&self) -> Picos {
        Picos(self.end_ps.saturating_sub(self.start_ps))
    }
}

/// One core's time within the window of its whole steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoreTime {
    /// Index into the session's devices.
    pub device: usize,
    /// Whole steps in the window.
    pub steps: usize,
    /// Length of the window.
    pub window_ps: Picos,
    /// Union of the spans of operations.
    pub busy_ps: Picos,
    /// No operation ran although a program did.
    pub idle_inside_ps: Picos,
    /// No program ran.
    pub idle_between_ps: Picos,
    /// Number of stretches without a program.
    pub gaps_between: usize,
    /// Programs started in the window.
    pub programs_run: usize,
    /// Time in runtime markers `barrier-cores`: waiting for the other cores of the slice.
    pub barrier_ps: Picos,
}

/// The gaps that are worth a look are few; more are only counted.
const LONGEST_GAPS: usize = 64;

/// Busy and idle time of every analysed core, and the longest gaps, longest first.
#[must_use]
pub fn core_times(session: &Session, idle: &[CoreIdle]) -> (Vec<CoreTime>, Vec<Gap>) {
    let mut times = Vec::new();
    let mut gaps = Vec::new();
    for core in idle {
        let Some(device) = session.devices.get(core.device) else {
            continue;
        };
        times.push(core_time(session, device, core, &mut gaps));
    }
    gaps.sort_by_key(|gap: &Gap| (std::cmp::Reverse(gap.duration()), gap.device, gap.start_ps));
    gaps.truncate(LONGEST_GAPS);
    (times, gaps)
}

fn core_time(session: &Session, device: &Device, core: &CoreIdle, gaps: &mut Vec<Gap>) -> CoreTime {
    let window = core.window_ps;
    let mut longest = |spans: &Intervals, inside_program| {
        let mut some: Vec<(u64, u64)> = spans.spans().to_vec();
        some.sort_by_key(|(start, end)| (std::cmp::Reverse(end - start), *start));
        some.truncate(LONGEST_GAPS);
        gaps.extend(some.into_iter().map(|(start_ps, end_ps)| Gap {
            device: core.device,
            start_ps,
            end_ps,
            inside_program,
        }));
    };
    longest(&core.between, false);
    longest(&core.inside, true);
    let idle_inside_ps = Picos(core.inside.total_ps());
    let idle_between_ps = Picos(core.between.total_ps());
    let barrier = device.marks.iter().filter(|(start, _, name)| {
        let name = session.names.get(*name as usize).map_or("", String::as_str);
        name == "barrier-cores" && *start >= window.0 && *start < window.1
    });
    CoreTime {
        device: core.device,
        steps: core.steps,
        window_ps: core.window(),
        busy_ps: core.window() - idle_inside_ps - idle_between_ps,
        idle_inside_ps,
        idle_between_ps,
        gaps_between: core.between.spans().len(),
        programs_run: device
            .modules
            .start_ps
            .iter()
            .filter(|start| **start >= window.0 && **start < window.1)
            .count(),
        barrier_ps: barrier.map(|(_, duration, _)| Picos(duration)).sum(),
    }
}
