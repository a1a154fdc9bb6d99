//! Steps: where the program repeats itself.
//!
//! Step markers are used where the profile has them. Where it has none (inference, most JAX
//! programs without `StepTraceAnnotation`), the runs of the program that took the most time are
//! the steps. Runs cut by the ends of the capture are dropped and counted, where XProf averages
//! them in.

use serde::Serialize;

use crate::note::Notes;
use crate::session::{Device, ModuleId, Origin, Session, Track};
use crate::units::Picos;

/// What a step was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepBasis {
    /// The profile's step markers.
    Markers,
    /// Runs of this module.
    ModuleRuns(ModuleId),
    /// Neither: the whole capture is one step.
    WholeCapture,
}

/// One step on one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Begin on the trace's clock.
    pub start_ps: u64,
    /// End on the trace's clock.
    pub end_ps: u64,
    /// Whether it is whole: steps cut by an end of the capture are not counted.
    pub whole: bool,
}

impl Step {
    /// How long it took.
    #[must_use]
    pub fn duration(&self) -> Picos {
        Picos(self.end_ps.saturating_sub(self.start_ps))
    }
}

/// The steps of one core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CoreSteps {
    /// Index into the session's devices.
    pub device: usize,
    /// All steps, cut ones included.
    pub steps: Vec<Step>,
    /// A whole number of steps with what lies between them: per-step figures are sums over this
    /// window divided by the number of whole steps.
    pub window_ps: (u64, u64),
}

impl CoreSteps {
    /// The whole steps.
    pub fn whole(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.whole)
    }

    /// Number of whole steps.
    #[must_use]
    pub fn count(&self) -> usize {
        self.whole().count()
    }

    /// Durations of the whole steps, sorted.
    #[must_use]
    pub fn sorted_durations(&self) -> Vec<Picos> {
        let mut durations: Vec<Picos> = self.whole().map(Step::duration).collect();
        durations.sort_unstable();
        durations
    }
}

/// Order statistics of a set of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Number of values.
    pub count: usize,
    /// Smallest.
    pub min_ps: Picos,
    /// Middle (the mean of the two middle ones where the count is even).
    pub median_ps: Picos,
    /// 90th percentile, nearest rank.
    pub p90_ps: Picos,
    /// Largest.
    pub max_ps: Picos,
    /// Arithmetic mean.
    pub mean_ps: Picos,
}

impl Spread {
    /// Of values in any order.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = Picos>) -> Self {
        let mut values: Vec<u64> = values.into_iter().map(|v| v.0).collect();
        let count = values.len();
        let (Some(min), Some(max)) = (values.iter().min().copied(), values.iter().max().copied())
        else {
            return Self::default();
        };
        let sum: u128 = values.iter().map(|v| u128::from(*v)).sum();
        // There may be a million values: sorting them all costs more than reading them did.
        let mut ranked = |rank: usize| *values.select_nth_unstable(rank).1;
        let upper = ranked(count / 2);
        let lower = ranked((count - 1) / 2);
        let p90 = ranked((count * 9).div_ceil(10).max(1) - 1);
        Self {
            count,
            min_ps: Picos(min),
            median_ps: Picos(lower + (upper - lower) / 2),
            p90_ps: Picos(p90),
            max_ps: Picos(max),
            mean_ps: Picos((sum / count as u128) as u64),
        }
    }
}

/// The steps of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Steps {
    /// What they were taken from.
    pub basis: StepBasis,
    /// Per TensorCore.
    pub cores: Vec<CoreSteps>,
    /// Steps that an end of the capture cut, over all cores.
    pub cut: usize,
    /// Time of a step: of each step the slowest core counts.
    pub time: Spread,
    /// Start-to-start period on the core whose steps are slowest; zero count below two steps.
    pub period: Spread,
    /// What could make them wrong: cores without steps, steps that no other confirms.
    #[serde(skip)]
    pub notes: Notes,
}

/// An edge step with fewer operations than this part of the usual was cut by the capture.
const CUT_BELOW_OPS: f64 = 0.95;
/// So was one shorter than this part of the median; times vary, so only much shorter ones count.
const CUT_BELOW_TIME: f64 = 0.5;
/// Up to this many steps, both edges may be cut and their median with them: the step with the most
/// operations is the usual one.
const FEW_STEPS: usize = 5;

impl Steps {
    /// Finds the steps of a session.
    #[must_use]
    pub fn find(session: &Session) -> Self {
        let devices: Vec<(usize, &Device)> = session.analysed_cores().collect();
        let ran = || devices.iter().filter(|(_, device)| !device.ops.is_empty());
        let marked = devices
            .iter()
            .filter(|(_, device)| !device.steps.is_empty())
            .count();
        let unmarked = ran().filter(|(_, device)| device.steps.is_empty()).count();
        let main = main_module(session, &devices);
        let basis = match (marked > 0 && unmarked == 0, main) {
            (true, _) => StepBasis::Markers,
            (false, Some(module)) => StepBasis::ModuleRuns(module),
            (false, None) if marked > 0 => StepBasis::Markers,
            (false, None) => StepBasis::WholeCapture,
        };
        let mut notes = Notes::default();
        if marked > 0 && unmarked > 0 && basis != StepBasis::Markers {
            notes.warn(
                "steps-on-some-cores",
                format!(
                    "only {marked} of {} cores have step markers: runs of the main program are the steps of all",
                    devices.len()
                ),
            );
        }
        let mut cores = Vec::new();
        for (index, device) in devices.iter().copied() {
            let steps = match basis {
                StepBasis::Markers => spans(&device.steps, |_| true),
                StepBasis::ModuleRuns(module) => spans(&device.modules, |id| id == module),
                StepBasis::WholeCapture => device
                    .ops
                    .extent()
                    .map(|(start_ps, end_ps)| Step {
                        start_ps,
                        end_ps,
                        whole: true,
                    })
                    .into_iter()
                    .collect(),
            };
            if let Some(core) = core_steps(index, device, steps) {
                cores.push(core);
            }
        }
        let left_out = ran()
            .filter(|(index, _)| !cores.iter().any(|core: &CoreSteps| core.device == *index))
            .count();
        if left_out > 0 {
            notes.warn(
                "cores-left-out",
                format!("{left_out} cores ran operations but no whole step: no figure of a step counts them"),
            );
        }
        let unconfirmed = cores.iter().any(|core| core.count() < 2);
        let measured = session.origin == Origin::Measured;
        if unconfirmed && measured && basis != StepBasis::WholeCapture {
            notes.info(
                "unconfirmed-step",
                "a core has one step only: an end of the capture may have cut it, as no other step confirms that it is whole",
            );
        }
        let cut = cores
            .iter()
            .map(|core| core.steps.len() - core.count())
            .sum();
        let time = Spread::of(slowest_of_each(session, &cores));
        let slowest = cores
            .iter()
            .max_by_key(|core| Spread::of(core.whole().map(Step::duration)).median_ps);
        let period = slowest.map(periods).unwrap_or_default();
        Self {
            basis,
            cores,
            cut,
            time,
            period: Spread::of(period),
            notes,
        }
    }

    /// The steps of a device.
    #[must_use]
    pub fn of_device(&self, device: usize) -> Option<&CoreSteps> {
        self.cores.iter().find(|core| core.device == device)
    }

    /// Whole steps on the core that has the fewest.
    #[must_use]
    pub fn count(&self) -> usize {
        self.cores.iter().map(CoreSteps::count).min().unwrap_or(0)
    }
}

/// The module whose runs took the most time over all cores.
fn main_module(session: &Session, devices: &[(usize, &Device)]) -> Option<ModuleId> {
    let mut total = vec![0u64; session.modules.len()];
    for (_, device) in devices {
        for (_, duration, module) in device.modules.iter() {
            if let Some(sum) = total.get_mut(module as usize) {
                *sum = sum.saturating_add(duration);
            }
        }
    }
    let best = total
        .iter()
        .enumerate()
        .max_by_key(|(id, sum)| (**sum, std::cmp::Reverse(*id)))?;
    (*best.1 > 0).then_some(best.0 as ModuleId)
}

fn spans(track: &Track, wanted: impl Fn(u32) -> bool) -> Vec<Step> {
    track
        .iter()
        .filter(|(_, _, id)| wanted(*id))
        .map(|(start_ps, duration, _)| Step {
            start_ps,
            end_ps: start_ps.saturating_add(duration),
            whole: true,
        })
        .collect()
}

fn core_steps(index: usize, device: &Device, mut steps: Vec<Step>) -> Option<CoreSteps> {
    if steps.is_empty() {
        return None;
    }
    if steps.len() > 1 {
        let last = steps.len() - 1;
        let cut = [0, last].map(|edge| is_cut(device, &steps, edge));
        steps[0].whole = !cut[0];
        steps[last].whole = !cut[1];
    }
    let window_ps = window(device, &steps)?;
    Some(CoreSteps {
        device: index,
        steps,
        window_ps,
    })
}

/// Whether an end of the capture cut that step: it lacks operations that the others have, or is
/// much shorter.
fn is_cut(device: &Device, steps: &[Step], edge: usize) -> bool {
    let starts = &device.ops.start_ps;
    let ops = |step: &Step| {
        let first = starts.partition_point(|start| *start < step.start_ps);
        starts
            .partition_point(|start| *start < step.end_ps)
            .saturating_sub(first)
    };
    let own = ops(&steps[edge]);
    let others = steps.iter().enumerate().filter(|(at, _)| *at != edge);
    let mut counts: Vec<usize> = others.map(|(_, step)| ops(step)).collect();
    counts.sort_unstable();
    let usual = if steps.len() <= FEW_STEPS {
        counts.last()
    } else {
        counts.get(counts.len() / 2)
    };
    let usual = usual.copied().unwrap_or(0);
    if (own as f64) < CUT_BELOW_OPS * usual as f64 {
        return true;
    }
    // Of two steps with the same operations the shorter one is no less whole.
    let median = Spread::of(steps.iter().map(Step::duration)).median_ps;
    (steps.len() > 2 || usual == 0)
        && (steps[edge].duration().0 as f64) < CUT_BELOW_TIME * median.0 as f64
}

/// A whole number of steps, each with what follows it until the next begins. What happens before
/// the first step (set-up) and long after the last is not part of it. Of a single step the whole
/// capture counts.
fn window(device: &Device, steps: &[Step]) -> Option<(u64, u64)> {
    let first = steps.iter().position(|step| step.whole)?;
    let last = steps.iter().rposition(|step| step.whole)?;
    let extent = device.ops.extent().or_else(|| device.modules.extent())?;
    let after = steps.get(last + 1).map_or(extent.1, |next| next.start_ps);
    if first == last {
        let before = if first == 0 {
            extent.0
        } else {
            steps[first].start_ps
        };
        return Some((
            before.min(steps[first].start_ps),
            after.max(steps[last].end_ps),
        ));
    }
    let between = steps[first..=last].windows(2);
    let gaps = between.map(|pair| Picos(pair[1].start_ps.saturating_sub(pair[0].end_ps)));
    let gap = Spread::of(gaps).median_ps.0;
    let end = steps[last]
        .end_ps
        .saturating_add(gap)
        .min(after)
        .max(steps[last].end_ps);
    Some((steps[first].start_ps, end))
}

/// Of each step the slowest core's duration. Steps of different cores are one step where they
/// overlap in time; of other hosts, whose clocks differ, the k-th is the k-th.
fn slowest_of_each(session: &Session, cores: &[CoreSteps]) -> Vec<Picos> {
    let Some(reference) = cores.iter().min_by_key(|core| core.count()) else {
        return Vec::new();
    };
    let host = |core: &CoreSteps| session.devices.get(core.device).map(|device| device.host);
    let mut slowest: Vec<Picos> = reference.whole().map(Step::duration).collect();
    for core in cores {
        let steps: Vec<&Step> = core.whole().collect();
        let same_clock = host(core) == host(reference);
        for (k, (slot, step)) in slowest.iter_mut().zip(reference.whole()).enumerate() {
            let other = if same_clock {
                let at = steps.partition_point(|other| other.end_ps <= step.start_ps);
                let overlap = |other: &&Step| {
                    other
                        .end_ps
                        .min(step.end_ps)
                        .saturating_sub(other.start_ps.max(step.start_ps))
                };
                let near = steps.get(at..(at + 2).min(steps.len())).unwrap_or_default();
                near.iter()
                    .copied()
                    .max_by_key(overlap)
                    .filter(|other| overlap(other) > 0)
            } else {
                steps.get(k).copied()
            };
            if let Some(other) = other {
                *slot = (*slot).max(other.duration());
            }
        }
    }
    slowest
}

fn periods(core: &CoreSteps) -> Vec<Picos> {
    let starts: Vec<u64> = core.whole().map(|step| step.start_ps).collect();
    starts
        .windows(2)
        .map(|pair| Picos(pair[1].saturating_sub(pair[0])))
        .collect()
}
