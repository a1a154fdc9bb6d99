//! Collectives that ran: who talked to whom, how many bytes, how long, and how much of it the
//! TensorCore waited for.
//!
//! ```text
//! blocking op         ████████████            exposed: its self time
//! start .. done       █ compute compute ██    exposed: self time of both; in flight: start to done
//! carried by a fusion ████████████            exposed: nothing, the fusion computes meanwhile
//! ```
//!
//! A core that comes early waits inside the collective for the last one. The time that the fastest
//! core spends is the transfer, the rest is waiting for others: two different troubles.

pub mod groups;
pub mod uses;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::evidence::class::{CollectiveKind, OpClass};
use crate::evidence::steps::Steps;
use crate::evidence::{Evidence, OpProfile};
use crate::intervals::Intervals;
use crate::program::instruction::Instruction;
use crate::program::opcode::AsyncPart;
use crate::program::shape::Shape;
use crate::session::{CoreKind, Device, Op, OpId, Session};

pub use groups::{GroupBasis, Groups};
pub use uses::Consumption;

/// How a collective runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// One op, in which the core waits.
    Blocking,
    /// A start and a done; other work may run between them.
    Async,
    /// Carried along by a fusion that computes.
    Carried,
}

impl Form {
    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Async => "async",
            Self::Carried => "carried by a fusion",
        }
    }
}

/// What the bytes travel over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fabric {
    /// The inter-chip interconnect.
    Ici,
    /// Between the devices of one chip: faster than ICI, and no figure is published.
    OnChip,
    /// The data centre network, between slices.
    Dcn,
}

impl Fabric {
    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ici => "ICI",
            Self::OnChip => "within a chip",
            Self::Dcn => "DCN",
        }
    }
}

/// A collective of a program with its times, which are means over cores unless they say otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// Which.
    pub kind: CollectiveKind,
    /// How it runs.
    pub form: Form,
    /// Its ops: the blocking one, or start, updates and done.
    pub ops: Vec<OpId>,
    /// Bytes without padding: an all-gather's result, a reduce-scatter's operand, else the operand.
    pub payload_bytes: Option<f64>,
    /// Who takes part.
    pub groups: Groups,
    /// What the bytes travel over.
    pub fabric: Fabric,
    /// Bytes that a device sends in one execution if the algorithm is a ring.
    pub wire_bytes: Option<f64>,
    /// Executions a step.
    pub count: f64,
    /// Time a step in which a core does nothing else, in picoseconds.
    pub exposed_ps: f64,
    /// The part of it that even the core spends that waits least: the transfer itself.
    pub transfer_ps: f64,
    /// From start to done, a step, overlaps of the same collective counted once; `None` of blocking
    /// ones.
    pub in_flight_ps: Option<f64>,
    /// Wire bytes over the transfer's time, in GB/s (10⁹). For asynchronous ones the time is that in
    /// flight, so the rate is a lower bound.
    pub bus_gb_per_s: Option<f64>,
    /// How much of its result is read, where that can be told.
    pub consumption: Option<Consumption>,
    /// The nearest source line, empty where there is none.
    pub source: String,
}

impl Collective {
    /// The op that stands for it: the one that the core waits in.
    #[must_use]
    pub fn main_op(&self) -> OpId {
        self.ops.last().copied().unwrap_or_default()
    }

    /// Waiting for cores that come later, a step, in picoseconds.
    #[must_use]
    pub fn wait_ps(&self) -> f64 {
        (self.exposed_ps - self.transfer_ps).max(0.0)
    }

    /// Transfer time of one execution, in picoseconds.
    #[must_use]
    pub fn transfer_each_ps(&self) -> f64 {
        if self.count > 0.0 {
            self.transfer_ps / self.count
        } else {
            0.0
        }
    }
}

/// What one core does in a step, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreLoad {
    /// Index into the session's devices.
    pub device: usize,
    /// Self time of everything but collectives.
    pub work_ps: f64,
    /// Self time of collectives.
    pub collective_ps: f64,
}

/// All collectives of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collectives {
    /// Those that ran, the most exposed first.
    pub list: Vec<Collective>,
    /// What each core does.
    pub cores: Vec<CoreLoad>,
}

impl Collectives {
    /// Gathers them.
    pub(super) fn find(evidence: &Evidence<'_>) -> Self {
        let members = members(evidence);
        let selfs = SelfTimes::of(evidence);
        let mut list: Vec<Collective> = members
            .iter()
            .zip(in_flight_ps(evidence, &members))
            .map(|(member, in_flight)| collective(evidence, member, in_flight, &selfs))
            .collect();
        list.sort_by(|a, b| {
            b.exposed_ps
                .total_cmp(&a.exposed_ps)
                .then_with(|| a.ops.cmp(&b.ops))
        });
        Self {
            list,
            cores: core_loads(evidence),
        }
    }

    /// Time a step in which work runs that could run during these collectives, as far as they need
    /// hiding: each collective's own transfer or the work that does not depend on it, whichever is
    /// less, and in sum no more than the work there is. `None` where no HLO tells what depends on
    /// what.
    #[must_use]
    pub fn hideable_ps(evidence: &Evidence<'_>, some: &[&Collective]) -> Option<f64> {
        /// Graphs are walked for the largest only: the rest adds little.
        const WALKED: usize = 512;
        let mut sum = 0.0;
        let mut free: Vec<(usize, crate::program::OpId)> = Vec::new();
        let work = work_by_hlo(evidence);
        for collective in some.iter().take(WALKED) {
            let from = evidence.op(*collective.ops.first()?)?;
            let to = evidence.op(collective.main_op())?;
            let ops = uses::independent(evidence, from, to)?;
            let own: f64 = ops.iter().filter_map(|op| work.get(op)).sum();
            sum += own.min(collective.transfer_ps);
            free.extend(ops);
        }
        free.sort_unstable();
        free.dedup();
        let all: f64 = free.iter().filter_map(|op| work.get(op)).sum();
        Some(all.min(sum))
    }
}

/// Time a step of ops that work, with what runs inside them, by their place in the HLO.
fn work_by_hlo(evidence: &Evidence<'_>) -> FxHashMap<(usize, crate::program::OpId), f64> {
    let works = |op: &&OpProfile| {
        !matches!(
            op.class,
            OpClass::Collective(_) | OpClass::AsyncCopy(_) | OpClass::HostTransfer
        )
    };
    evidence
        .ops
        .iter()
        .filter(works)
        .filter_map(|op| Some((op.hlo?, op.mean_ps() * op.step_occurrences)))
        .collect()
}

/// The ops of one collective.
struct Member {
    kind: CollectiveKind,
    form: Form,
    ops: Vec<OpId>,
}

/// Which part of a collective an op is.
fn part(op: &OpProfile, name: &str) -> Option<AsyncPart> {
    let opcode = op.instruction.as_ref().map(|i| &i.opcode);
    if let Some((part, _)) = opcode.and_then(|opcode| opcode.async_part()) {
        return Some(part);
    }
    // Fusions start and end a collective too: async-collective-start, async-collective-done.
    let bare = name.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit());
    if bare.ends_with("-start") {
        Some(AsyncPart::Start)
    } else if bare.ends_with("-done") {
        Some(AsyncPart::Done)
    } else {
        None
    }
}

/// Whether a fusion computes while a collective is under way.
fn is_carried(op: &OpProfile, category: &str) -> bool {
    let calls = op
        .instruction
        .as_ref()
        .and_then(|i| i.calls(crate::program::instruction::CallRole::Calls));
    category == "async-collective fusion"
        || category == "convolution fusion"
        || calls.is_some_and(|name| name.starts_with("async_collective_fusion"))
}

fn members(evidence: &Evidence<'_>) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    // The start that an op leads back to, by op.
    let mut starts: FxHashMap<OpId, usize> = FxHashMap::default();
    let mut ends: Vec<(&OpProfile, CollectiveKind)> = Vec::new();
    for op in &evidence.ops {
        let OpClass::Collective(kind) = op.class else {
            continue;
        };
        let session_op = evidence.session.op(op.id);
        let form = match part(op, &session_op.name) {
            Some(AsyncPart::Update | AsyncPart::Done) => {
                ends.push((op, kind));
                continue;
            }
            Some(AsyncPart::Start) => {
                starts.insert(op.id, members.len());
                Form::Async
            }
            None if is_carried(op, &session_op.category) => Form::Carried,
            None => Form::Blocking,
        };
        members.push(Member {
            kind,
            form,
            ops: vec![op.id],
        });
    }
    // Ends in program order, so that a done comes last; a done may follow an update.
    ends.sort_by_key(|(op, _)| {
        let done = matches!(
            part(op, &evidence.session.op(op.id).name),
            Some(AsyncPart::Done)
        );
        (done, op.id)
    });
    for (op, kind) in ends {
        match start_of(evidence, op, &starts) {
            Some(at) => {
                starts.insert(op.id, at);
                if let Some(member) = members.get_mut(at) {
                    member.ops.push(op.id);
                }
            }
            None => members.push(Member {
                kind,
                form: Form::Async,
                ops: vec![op.id],
            }),
        }
    }
    members
}

fn start_of(
    evidence: &Evidence<'_>,
    end: &OpProfile,
    starts: &FxHashMap<OpId, usize>,
) -> Option<usize> {
    /// Updates between a start and its done.
    const MAX_UPDATES: usize = 64;
    let mut op = end;
    for _ in 0..MAX_UPDATES {
        if let Some(at) = evidence
            .producers_of(op)
            .find_map(|producer| starts.get(&producer.id))
        {
            return Some(*at);
        }
        op = evidence
            .producers_of(op)
            .find(|producer| matches!(producer.class, OpClass::Collective(_)))?;
    }
    None
}

/// Self times in the window of each core.
struct SelfTimes {
    /// For each analysed core: its steps, and for each collective op the self time of each
    /// execution in order.
    cores: Vec<(usize, f64, FxHashMap<OpId, Vec<u64>>)>,
}

impl SelfTimes {
    fn of(evidence: &Evidence<'_>) -> Self {
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
    fn least(&self, id: OpId) -> f64 {
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

fn collective(
    evidence: &Evidence<'_>,
    member: &Member,
    in_flight: f64,
    selfs: &SelfTimes,
) -> Collective {
    let ops: Vec<&OpProfile> = member
        .ops
        .iter()
        .filter_map(|id| evidence.op(*id))
        .collect();
    let carried = member.form == Form::Carried;
    let exposed_ps = if carried {
        0.0
    } else {
        ops.iter().map(|op| op.step_self_ps).sum()
    };
    let transfer_ps: f64 = if carried {
        0.0
    } else {
        ops.iter().map(|op| selfs.least(op.id)).sum()
    };
    let in_flight_ps = match member.form {
        Form::Blocking => None,
        Form::Carried => Some(ops.iter().map(|op| op.step_self_ps).sum()),
        Form::Async => Some(in_flight),
    };
    let shapes = Shapes::of(evidence, member.kind, &ops);
    let groups = groups_of(evidence, &ops, &shapes);
    let payload_bytes = shapes.payload(member.kind, groups.size);
    let wire_bytes = payload_bytes.and_then(|bytes| wire_bytes(member.kind, bytes, groups.size));
    let count = ops.last().map_or(0.0, |op| op.step_occurrences);
    let time = match in_flight_ps {
        Some(in_flight) if in_flight > 0.0 => in_flight,
        _ => transfer_ps,
    };
    let bus_gb_per_s = wire_bytes
        .filter(|_| time > 0.0 && !carried)
        .map(|bytes| bytes * count * 1e3 / time);
    let source = ops
        .iter()
        .find_map(|op| code_line(evidence.session.op(op.id)))
        .or_else(|| ops.last().and_then(|op| evidence.source_near(op)))
        .unwrap_or_default();
    Collective {
        kind: member.kind,
        form: member.form,
        fabric: fabric(evidence, &ops, &groups),
        payload_bytes,
        wire_bytes,
        count,
        exposed_ps,
        transfer_ps: transfer_ps.min(exposed_ps),
        in_flight_ps,
        bus_gb_per_s,
        consumption: ops.last().and_then(|op| uses::consumption(evidence, op)),
        source: source.to_owned(),
        groups,
        ops: member.ops.clone(),
    }
}

/// The innermost line of an op's stack that is not in an installed package: the program's own line
/// says more than that of the framework's dispatch. Where there is none, the op's line.
fn code_line(op: &Op) -> Option<&str> {
    let installed = |line: &str| line.contains("-packages/");
    let own = op.source_stack.lines().find(|line| !installed(line));
    match own.filter(|_| installed(&op.source)) {
        // Lines of a stack end with the column.
        Some(line) => Some(line.rsplit_once(':').map_or(line, |(line, _)| line)),
        None => Some(op.source.as_str()),
    }
    .filter(|line| !line.is_empty())
}

/// Time a step from start to done of each member, mean over cores: the n-th start belongs to the
/// n-th done. The line "Async XLA Ops" has the same spans, but libtpu may fill it on the first core
/// only.
fn in_flight_ps(evidence: &Evidence<'_>, members: &[Member]) -> Vec<f64> {
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
            let union = Intervals::union(spans).clip(core.window_ps);
            *sum += union.total_ps() as f64 / core.count().max(1) as f64;
        }
    }
    let cores = evidence.steps.cores.len().max(1) as f64;
    sums.into_iter().map(|sum| sum / cores).collect()
}

/// The sizes that a collective's instructions state, in bytes without padding.
struct Shapes {
    operand: Option<f64>,
    result: Option<f64>,
}

fn bytes(shape: &Shape) -> Option<f64> {
    let bytes = shape.bytes().0;
    (bytes > 0).then_some(bytes as f64)
}

impl Shapes {
    fn of(evidence: &Evidence<'_>, kind: CollectiveKind, ops: &[&OpProfile]) -> Self {
        let first = ops.first();
        let last = ops.last();
        let start = first.and_then(|op| op.instruction.as_ref());
        let is_start = matches!(
            start.and_then(|i| i.opcode.async_part()),
            Some((AsyncPart::Start, _))
        );
        let operand = first.and_then(|op| operand_bytes(evidence, op));
        let end =
            last.and_then(|op| op.instruction.as_ref())
                .and_then(|i| match i.opcode.async_part() {
                    // A start's own type also lists its operands and what it needs for itself.
                    Some((AsyncPart::Start, _)) => None,
                    _ => bytes(&i.shape),
                });
        let alone = start.filter(|_| is_start && end.is_none()).and_then(|i| {
            // (operand, result, …), but an all-reduce-start has the result's type.
            match (kind, i.shape.elements()) {
                (CollectiveKind::AllReduce, _) => bytes(&i.shape),
                (_, [_, result, ..]) => bytes(result),
                _ => None,
            }
        });
        Self {
            operand,
            result: end.or(alone),
        }
    }

    fn payload(&self, kind: CollectiveKind, size: Option<u64>) -> Option<f64> {
        let size = size.map(|n| n as f64);
        match kind {
            CollectiveKind::AllGather => self
                .result
                .or_else(|| self.operand.zip(size).map(|(b, n)| b * n)),
            CollectiveKind::ReduceScatter => self
                .operand
                .or_else(|| self.result.zip(size).map(|(b, n)| b * n)),
            _ => self.result.or(self.operand),
        }
    }

    fn ratio(&self) -> Option<f64> {
        let (operand, result) = self.operand.zip(self.result)?;
        Some(if operand > result {
            operand / result
        } else {
            result / operand
        })
    }
}

fn operand_bytes(evidence: &Evidence<'_>, op: &OpProfile) -> Option<f64> {
    let instruction = op.instruction.as_ref()?;
    let program = op
        .hlo
        .and_then(|(program, id)| Some((&evidence.session.programs.get(program)?.program, id)));
    let mut sum = 0.0;
    for (position, operand) in instruction.operands.iter().enumerate() {
        let shape = operand
            .shape
            .as_ref()
            .or_else(|| program.and_then(|(program, id)| program.operand_shape(id, position)));
        sum += bytes(shape?)?;
    }
    (sum > 0.0).then_some(sum)
}

/// Bytes that each device sends in a ring.
fn wire_bytes(kind: CollectiveKind, payload: f64, size: Option<u64>) -> Option<f64> {
    let others = || {
        let n = size.filter(|n| *n > 1)? as f64;
        Some((n - 1.0) / n)
    };
    Some(match kind {
        CollectiveKind::AllReduce => 2.0 * others()? * payload,
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => {
            others()? * payload
        }
        CollectiveKind::CollectivePermute | CollectiveKind::CollectiveBroadcast => payload,
    })
}

fn groups_of(evidence: &Evidence<'_>, ops: &[&OpProfile], shapes: &Shapes) -> Groups {
    let session = evidence.session;
    for op in ops {
        let devices = devices_of(evidence, op);
        if let Some(found) = op
            .instruction
            .as_ref()
            .and_then(|i| stated_groups(i, devices))
        {
            return found;
        }
        let text = &session.op(op.id).hlo_text;
        if let Some((_, rest)) = text.split_once("replica_groups=")
            && let Some(found) = Groups::parse_mesh(rest)
        {
            return found;
        }
        let Some((program, id)) = op.hlo else {
            continue;
        };
        let Some(program) = session.programs.get(program).map(|p| &p.program) else {
            continue;
        };
        let inner = program.body_of(id).into_iter().flat_map(|body| body.ops());
        let found = [id]
            .into_iter()
            .chain(inner)
            .filter_map(|op| program.get(op))
            .find_map(|i| stated_groups(i, devices));
        if let Some(found) = found {
            return found;
        }
    }
    shapes.ratio().map(Groups::from_ratio).unwrap_or_default()
}

fn stated_groups(instruction: &Instruction, devices: Option<u64>) -> Option<Groups> {
    let attributes = &instruction.attributes;
    if !attributes.source_target_pairs.is_empty() {
        return Some(Groups::of_pairs(&attributes.source_target_pairs));
    }
    let groups = attributes.replica_groups.as_ref()?;
    Some(Groups::stated(groups, devices))
}

/// How many devices the program of an op runs on.
fn devices_of(evidence: &Evidence<'_>, op: &OpProfile) -> Option<u64> {
    let session = evidence.session;
    let program = op
        .hlo
        .and_then(|(program, _)| session.programs.get(program));
    let stated = program.and_then(|p| {
        let partitions = p.program.num_partitions?;
        partitions.checked_mul(p.program.replica_count.unwrap_or(1))
    });
    stated.or_else(|| {
        let recorded = session.tensor_cores().count() as u64;
        (recorded > 1).then_some(recorded)
    })
}

fn fabric(evidence: &Evidence<'_>, ops: &[&OpProfile], groups: &Groups) -> Fabric {
    let dcn = ops.iter().any(|op| {
        let op = evidence.session.op(op.id);
        [&op.name, &op.category, &op.framework_op]
            .iter()
            .any(|text| text.contains("megascale") || text.contains("dcn"))
    });
    if dcn {
        return Fabric::Dcn;
    }
    let per_chip = evidence
        .chip
        .as_ref()
        .map_or(1, |chip| u64::from(chip.facts.devices_per_chip.value));
    // Devices of a chip are numbered next to each other.
    let neighbours = groups.stride == Some(1) && groups.shift.is_none();
    match groups.size {
        Some(size) if size > 1 && size <= per_chip && neighbours => Fabric::OnChip,
        _ => Fabric::Ici,
    }
}

fn core_loads(evidence: &Evidence<'_>) -> Vec<CoreLoad> {
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

/// A core's name for people: the plane, and the host where there are several.
#[must_use]
pub fn core_name(session: &Session, device: &Device) -> String {
    let plane = device.plane.trim_start_matches("/device:");
    match session.hosts.get(device.host as usize) {
        Some(host) if session.hosts.len() > 1 && device.kind == CoreKind::TensorCore => {
            format!("{plane} of {}", host.name)
        }
        _ => plane.to_owned(),
    }
}
