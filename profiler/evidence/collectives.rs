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
mod members;
mod times;
mod traffic;
pub mod uses;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use self::members::{Member, members};
use self::times::{SelfTimes, core_loads, in_flight_ps};
use self::traffic::{Shapes, fabric, groups_of, wire_bytes};
use crate::evidence::class::{CollectiveKind, OpClass};
use crate::evidence::{Evidence, OpProfile};
use crate::session::{CoreKind, Device, OpId, Session};

pub use groups::{GroupBasis, Groups};
pub use times::self_per_step;
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
        let mut free: FxHashSet<(usize, crate::program::OpId)> = FxHashSet::default();
        let work = work_by_hlo(evidence);
        for collective in some.iter().take(WALKED) {
            let from = evidence.op(*collective.ops.first()?)?;
            let to = evidence.op(collective.main_op())?;
            let ops = uses::independent(evidence, from, to)?;
            let own: f64 = ops.iter().filter_map(|op| work.get(op)).sum();
            sum += own.min(collective.transfer_ps);
            free.extend(ops.into_iter().filter(|op| work.contains_key(op)));
        }
        // In order, so that the sum is the same in every run.
        let mut free: Vec<_> = free.into_iter().collect();
        free.sort_unstable();
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
        .find_map(|op| evidence.source_of(op.id))
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
