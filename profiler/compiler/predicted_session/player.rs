//! Plays a program's schedule: what runs when, and what waits for what.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Branch;
use super::op::op_of;
use super::queue::{Queues, Resource};
use crate::compiler::ici::{Chain, ChainPart, Transfer};
use crate::compiler::pricer::{OpKind, Price, PriceBasis, Pricer};
use crate::prediction::{Band, OpPrediction};
use crate::program::cost::CostModel;
use crate::program::instruction::{CallRole, Instruction};
use crate::program::opcode::AsyncPart;
use crate::program::{Computation, ComputationId, OpId as HloId, Program};
use crate::session::{Device, ModuleId, Op, OpId};

/// Operations that are told one by one at most; of loops beyond that the first iterations are.
pub(super) const MAX_EVENTS: usize = 500_000;
/// Loops within loops that are followed.
pub(super) const MAX_DEPTH: usize = 16;
/// Instructions and calls that are looked at, whether they take time or not: loops over nothing
/// and calls of calls end as well.
pub(super) const MAX_LOOKS: u64 = 2_000_000;
/// An operation takes at least this long, in picoseconds: a nanosecond.
const MIN_PS: u64 = 1_000;
/// Iterations that are told of a loop that is too long to be told whole.
const TOLD: u64 = 16;

/// Roles of what a call or a conditional runs.
const CALLS: &[CallRole] = &[CallRole::Applies, CallRole::Calls, CallRole::Branch];

/// What has to be said of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    /// It was cut: time is missing.
    pub(super) is_cut: bool,
    /// Later iterations of a loop are one event for each operation.
    pub(super) is_folded: bool,
    /// A loop's trip count is not known.
    pub(super) has_unknown_trips: bool,
    /// A conditional had several branches.
    pub(super) has_branches: bool,
    /// An operation had no price.
    pub(super) has_unknown_prices: bool,
}

impl Said {
    pub(super) fn merge(&mut self, other: Self) {
        self.is_cut |= other.is_cut;
        self.is_folded |= other.is_folded;
        self.has_unknown_trips |= other.has_unknown_trips;
        self.has_branches |= other.has_branches;
        self.has_unknown_prices |= other.has_unknown_prices;
    }
}

/// One execution, or several of the same, as they were played.
#[derive(Clone, Copy)]
struct Event {
    op: OpId,
    band: Band,
    executions: u64,
    price: Price,
}

/// A transfer that was started.
#[derive(Clone, Copy)]
struct Started {
    start: HloId,
    resource: Resource,
    at: u64,
    op: OpId,
    price: Price,
}

/// What an operation is of a transfer.
#[derive(Clone, Copy)]
enum Part {
    /// Nothing: it runs by itself.
    Plain,
    /// It starts one.
    Start(Resource),
    /// It stands between start and done.
    Update(Option<Started>),
    /// It waits for the end.
    Done(Option<Started>),
}

/// What the core itself uses in one execution.
#[derive(Clone, Copy, Default)]
struct Uses {
    hbm_ps: u64,
    ici_ps: u64,
}

/// Where what is played is written.
struct Sink<'s> {
    device: &'s mut Device,
    ops: &'s mut Vec<Op>,
    predictions: &'s mut Vec<OpPrediction>,
}

/// Plays one program.
pub(super) struct Player<'p> {
    program: &'p Program,
    pricer: Box<dyn Pricer + 'p>,
    model: CostModel<'p>,
    module: ModuleId,
    branch: Branch,
    hbm_gb_per_s: Option<f64>,
    now: u64,
    begin: u64,
    ops: FxHashMap<HloId, OpId>,
    prices: FxHashMap<HloId, (Price, Uses)>,
    computations: FxHashMap<ComputationId, Band>,
    queues: Queues,
    /// Transfers by the start, update or done that knows them.
    started: FxHashMap<HloId, Started>,
    /// Collectives that fusions started, by their channel.
    channels: FxHashMap<i64, Started>,
    events: Vec<Event>,
    /// By how much the branches that were not taken would take less, or more.
    branch_slack: (u64, u64),
    looks: u64,
    said: Said,
}

impl<'p> Player<'p> {
    pub(super) fn new(
        program: &'p Program,
        pricer: Box<dyn Pricer + 'p>,
        module: ModuleId,
        branch: Branch,
        hbm_gb_per_s: Option<f64>,
        looks: u64,
    ) -> Self {
        Self {
            program,
            pricer,
            model: CostModel::new(program),
            module,
            branch,
            hbm_gb_per_s,
            now: 0,
            begin: 0,
            ops: FxHashMap::default(),
            prices: FxHashMap::default(),
            computations: FxHashMap::default(),
            queues: Queues::default(),
            started: FxHashMap::default(),
            channels: FxHashMap::default(),
            events: Vec::new(),
            branch_slack: (0, 0),
            looks,
            said: Said::default(),
        }
    }

    /// Plays the program once, from that time on.
    pub(super) fn run(
        &mut self,
        now: u64,
        device: &mut Device,
        ops: &mut Vec<Op>,
        predictions: &mut Vec<OpPrediction>,
    ) {
        (self.now, self.begin) = (now, now);
        predictions.resize(ops.len(), OpPrediction::default());
        let mut sink = Sink {
            device,
            ops,
            predictions,
        };
        if let Some(entry) = self.program.entry_computation() {
            self.play(entry, 0, &mut sink);
        }
        for event in &self.events {
            if let Some(prediction) = sink.predictions.get_mut(event.op as usize) {
                prediction.add(event.band, event.executions, &event.price);
            }
        }
    }

    pub(super) fn said(&self) -> Said {
        self.said
    }

    pub(super) fn looks_left(&self) -> u64 {
        self.looks
    }

    /// The time of the run. Errors of one kind and basis go the same way and add up; those of
    /// different ones do not, and add up as squares.
    pub(super) fn band(&self) -> Band {
        let mut deviations: BTreeMap<(PriceBasis, OpKind), (f64, f64)> = BTreeMap::new();
        for event in &self.events {
            let sum = deviations
                .entry((event.price.basis, event.price.kind))
                .or_default();
            sum.0 += event.band.time_ps.saturating_sub(event.band.low_ps) as f64;
            sum.1 += event.band.high_ps.saturating_sub(event.band.time_ps) as f64;
        }
        let (low, high) = deviations.values().fold((0.0, 0.0), |sum, (low, high)| {
            (sum.0 + low * low, sum.1 + high * high)
        });
        let time_ps = self.now.saturating_sub(self.begin);
        Band {
            low_ps: time_ps
                .saturating_sub(low.sqrt() as u64)
                .saturating_sub(self.branch_slack.0),
            time_ps,
            high_ps: time_ps
                .saturating_add(high.sqrt() as u64)
                .saturating_add(self.branch_slack.1),
        }
    }

    /// Takes one look off what is left of them.
    fn look(&mut self) -> bool {
        self.looks = self.looks.saturating_sub(1);
        self.looks > 0
    }

    fn play(&mut self, computation: &Computation, depth: usize, sink: &mut Sink<'_>) {
        for id in computation.ops() {
            if !self.look() {
                self.said.is_cut = true;
                return;
            }
            let Some(instruction) = self.program.get(id) else {
                continue;
            };
            if instruction.opcode.is_free() {
                continue;
            }
            if sink.device.ops.len() >= MAX_EVENTS || depth >= MAX_DEPTH {
                self.said.is_cut = true;
                return;
            }
            match instruction.opcode.as_str() {
                "while" => self.play_loop(id, depth, sink),
                "call" => {
                    for (_, callee) in self.callees(id, CALLS) {
                        self.play(callee, depth + 1, sink);
                    }
                }
                "conditional" => {
                    if let Some(branch) = self.taken(id, depth) {
                        self.play(branch, depth + 1, sink);
                    }
                }
                _ => self.execute(id, instruction, sink),
            }
        }
    }

    fn callees(&self, id: HloId, roles: &[CallRole]) -> Vec<(ComputationId, &'p Computation)> {
        let program = self.program;
        program
            .called(id)
            .filter(|(role, _)| roles.contains(role))
            .filter_map(|(_, callee)| Some((callee, program.computation(callee)?)))
            .collect()
    }

    /// The branch that is taken to run, the first of equals.
    fn taken(&mut self, id: HloId, depth: usize) -> Option<&'p Computation> {
        let branches = self.callees(id, CALLS);
        self.said.has_branches |= branches.len() > 1;
        let mut priced: Vec<(u64, &Computation)> = branches
            .into_iter()
            .map(|(branch, computation)| {
                let band = self.computation_band(branch, computation, depth + 1);
                (band.time_ps, computation)
            })
            .collect();
        priced.sort_by_key(|(ps, _)| *ps);
        let (least, most) = (priced.first()?.0, priced.last()?.0);
        match self.branch {
            Branch::Least => {
                self.branch_slack.1 = self.branch_slack.1.saturating_add(most - least);
                priced.first().map(|(_, branch)| *branch)
            }
            Branch::Most => {
                self.branch_slack.0 = self.branch_slack.0.saturating_add(most - least);
                priced.iter().find(|(ps, _)| *ps == most).map(|(_, b)| *b)
            }
        }
    }

    /// What a computation takes: its operations one after another.
    fn computation_band(
        &mut self,
        id: ComputationId,
        computation: &'p Computation,
        depth: usize,
    ) -> Band {
        if let Some(band) = self.computations.get(&id) {
            return *band;
        }
        let mut sum = Band::default();
        for op in computation.ops() {
            if depth >= MAX_DEPTH || !self.look() {
                self.said.is_cut = true;
                break;
            }
            let Some(instruction) = self.program.get(op) else {
                continue;
            };
            if instruction.opcode.is_free() {
                continue;
            }
            let band = self.static_band(op, instruction, depth);
            sum.low_ps = sum.low_ps.saturating_add(band.low_ps);
            sum.time_ps = sum.time_ps.saturating_add(band.time_ps);
            sum.high_ps = sum.high_ps.saturating_add(band.high_ps);
        }
        self.computations.insert(id, sum);
        sum
    }

    fn static_band(&mut self, op: HloId, instruction: &Instruction, depth: usize) -> Band {
        let times = |band: Band, times: u64| Band {
            low_ps: band.low_ps.saturating_mul(times),
            time_ps: band.time_ps.saturating_mul(times),
            high_ps: band.high_ps.saturating_mul(times),
        };
        let mut of = |roles: &[CallRole]| -> Vec<Band> {
            let callees = self.callees(op, roles).into_iter();
            callees
                .map(|(id, callee)| self.computation_band(id, callee, depth + 1))
                .collect()
        };
        let sum = |bands: Vec<Band>| {
            bands.into_iter().fold(Band::default(), |sum, band| Band {
                low_ps: sum.low_ps.saturating_add(band.low_ps),
                time_ps: sum.time_ps.saturating_add(band.time_ps),
                high_ps: sum.high_ps.saturating_add(band.high_ps),
            })
        };
        match instruction.opcode.as_str() {
            "while" => {
                let body = sum(of(&[CallRole::Body]));
                times(body, self.program.trip_count(op).unwrap_or(1))
            }
            "call" => sum(of(CALLS)),
            "conditional" => {
                let branches = of(CALLS).into_iter();
                let taken = match self.branch {
                    Branch::Least => branches.min_by_key(|band| band.time_ps),
                    Branch::Most => branches.max_by_key(|band| band.time_ps),
                };
                taken.unwrap_or_default()
            }
            _ => match instruction.opcode.async_part() {
                Some((AsyncPart::Done | AsyncPart::Update, _)) => Band {
                    low_ps: MIN_PS,
                    time_ps: MIN_PS,
                    high_ps: MIN_PS,
                },
                _ => at_least(self.price(op, instruction).0),
            },
        }
    }

    fn play_loop(&mut self, id: HloId, depth: usize, sink: &mut Sink<'_>) {
        let bodies = self.callees(id, &[CallRole::Body]);
        let trips = self.program.trip_count(id).unwrap_or_else(|| {
            self.said.has_unknown_trips = true;
            1
        });
        let mut done = 0;
        while done < trips {
            let before = (self.events.len(), self.now, self.looks);
            for (_, body) in &bodies {
                self.play(body, depth + 1, sink);
            }
            done += 1;
            let events = self.events.len() - before.0;
            // What takes no time once takes none however often.
            if self.said.is_cut || events == 0 {
                return;
            }
            let left = trips - done;
            // The first iteration may wait for transfers that later ones find done.
            if done < 2 || left == 0 {
                continue;
            }
            // Half of what may still be told is left to what comes after.
            let room = MAX_EVENTS.saturating_sub(sink.device.ops.len()) as u64 / 2;
            let looked = before.2.saturating_sub(self.looks);
            let fits = left.saturating_mul(events as u64) <= room
                && left.saturating_mul(looked) <= self.looks / 2;
            if !fits && (done >= TOLD || (events as u64).saturating_mul(TOLD) > room) {
                self.fold(before.0, before.1, left, sink);
                return;
            }
        }
    }

    /// Tells so many more iterations like the one whose events begin there, as one event for each
    /// operation.
    fn fold(&mut self, first: usize, began: u64, iterations: u64, sink: &mut Sink<'_>) {
        self.said.is_folded = true;
        let mut order: Vec<OpId> = Vec::new();
        let mut sums: FxHashMap<OpId, Event> = FxHashMap::default();
        for event in self.events.get(first..).unwrap_or_default() {
            match sums.get_mut(&event.op) {
                None => {
                    order.push(event.op);
                    sums.insert(event.op, *event);
                }
                Some(sum) => {
                    sum.executions = sum.executions.saturating_add(event.executions);
                    let band = &mut sum.band;
                    band.low_ps = band.low_ps.saturating_add(event.band.low_ps);
                    band.time_ps = band.time_ps.saturating_add(event.band.time_ps);
                    band.high_ps = band.high_ps.saturating_add(event.band.high_ps);
                }
            }
        }
        let end = self
            .now
            .saturating_add(self.now.saturating_sub(began).saturating_mul(iterations));
        for op in order {
            let Some(mut event) = sums.get(&op).copied() else {
                continue;
            };
            event.executions = event.executions.saturating_mul(iterations);
            event.band.low_ps = event.band.low_ps.saturating_mul(iterations);
            event.band.time_ps = event.band.time_ps.saturating_mul(iterations);
            event.band.high_ps = event.band.high_ps.saturating_mul(iterations);
            self.tell(event, sink);
        }
        self.now = end;
        let transfers_done = u64::MAX;
        self.queues.pass(transfers_done, 0, 0);
    }

    fn execute(&mut self, id: HloId, instruction: &'p Instruction, sink: &mut Sink<'_>) {
        let op = self.op(id, instruction, sink);
        let part = self.part(id, instruction);
        let (price, band, uses) = match part {
            Part::Plain => {
                let (price, uses) = self.price(id, instruction);
                (price, at_least(price), uses)
            }
            Part::Start(resource) => {
                let price = self.price(id, instruction).0;
                let started = Started {
                    start: id,
                    resource,
                    at: self.now,
                    op,
                    price,
                };
                self.started.insert(id, started);
                if let Some(channel) = self.channel(id) {
                    self.channels.insert(channel, started);
                }
                self.queues.of(resource).start(id, price.time_ps);
                (price, exactly(MIN_PS), Uses::default())
            }
            Part::Update(started) | Part::Done(started) => {
                let band = match (part, &started) {
                    (Part::Done(_), Some(started)) => self.wait(started),
                    _ => exactly(MIN_PS),
                };
                let price = started.map(|started| started.price);
                (price.unwrap_or_default(), band, Uses::default())
            }
        };
        self.queues.pass(band.time_ps, uses.hbm_ps, uses.ici_ps);
        let event = Event {
            op,
            band,
            executions: 1,
            price,
        };
        self.tell(event, sink);
        if let Part::Done(Some(started)) = part {
            let flight = self.now.saturating_sub(started.at);
            sink.device.async_ops.push(started.at, flight, started.op);
        }
    }

    /// What an operation is of a transfer.
    fn part(&mut self, id: HloId, instruction: &Instruction) -> Part {
        match instruction.opcode.async_part() {
            Some((AsyncPart::Start, base)) => {
                return Part::Start(self.resource(id, instruction, base));
            }
            Some((AsyncPart::Update, _)) => return Part::Update(self.follow(id)),
            Some((AsyncPart::Done, _)) => return Part::Done(self.follow(id)),
            None => {}
        }
        match Chain::of(self.program, id) {
            Some(Chain {
                part: ChainPart::Start,
                ..
            }) => Part::Start(Resource::Ici),
            Some(Chain {
                part: ChainPart::Done,
                channel,
            }) => {
                let started = channel.and_then(|channel| self.channels.get(&channel));
                Part::Done(started.copied())
            }
            _ => Part::Plain,
        }
    }

    /// The channel of a collective that a fusion starts.
    fn channel(&self, id: HloId) -> Option<i64> {
        Chain::of(self.program, id)?.channel
    }

    /// Writes an execution at the present time, and lets that pass.
    fn tell(&mut self, event: Event, sink: &mut Sink<'_>) {
        if event.executions > 1 {
            sink.device
                .repeats
                .insert(sink.device.ops.len(), event.executions);
        }
        sink.device
            .push_op(event.op, self.now, event.band.time_ps, None);
        self.now = self.now.saturating_add(event.band.time_ps);
        self.events.push(event);
    }

    /// An update or a done is of the same transfer as the start that it reads.
    fn follow(&mut self, id: HloId) -> Option<Started> {
        let found = self
            .program
            .operands(id)
            .find_map(|operand| self.started.get(&operand))
            .copied()?;
        self.started.insert(id, found);
        Some(found)
    }

    /// How long the core waits for a transfer.
    fn wait(&mut self, started: &Started) -> Band {
        let left = self.queues.of(started.resource).left(started.start);
        if left <= MIN_PS {
            return exactly(MIN_PS);
        }
        // What a slower transfer takes longer is waited for as well.
        let price = started.price;
        let less = price.time_ps.saturating_sub(price.low_ps);
        let more = price.high_ps.saturating_sub(price.time_ps);
        Band {
            low_ps: left.saturating_sub(less).max(MIN_PS),
            time_ps: left,
            high_ps: left.saturating_add(more),
        }
    }

    fn resource(&mut self, id: HloId, instruction: &Instruction, base: &str) -> Resource {
        let thread = &instruction.attributes.execution_thread;
        if Transfer::of(self.program, id).is_some() {
            Resource::Ici
        } else if base == "call" || !(thread.is_empty() || thread == "main") {
            Resource::OtherCore
        } else if self.model.cost(id).traffic.host().total().0 > 0 {
            Resource::Host
        } else {
            Resource::Hbm
        }
    }

    /// The price of an operation, and what it leaves to transfers beside it.
    fn price(&mut self, id: HloId, instruction: &Instruction) -> (Price, Uses) {
        if let Some(known) = self.prices.get(&id) {
            return *known;
        }
        let mut price = self.pricer.price(id);
        // A call that runs beside is as long as what it runs.
        if price.time_ps == 0 && instruction.opcode == "call-start" {
            let callees = self.callees(id, CALLS).into_iter();
            for (callee, computation) in callees {
                // Deep enough that calls of calls end.
                let band = self.computation_band(callee, computation, MAX_DEPTH - 2);
                price.low_ps = price.low_ps.saturating_add(band.low_ps);
                price.time_ps = price.time_ps.saturating_add(band.time_ps);
                price.high_ps = price.high_ps.saturating_add(band.high_ps);
            }
        }
        // A time beyond any run is no time: sums must not run into each other's limits.
        const LONGEST_PS: u64 = 1_000_000_000_000_000_000;
        price.time_ps = price.time_ps.min(LONGEST_PS);
        price.low_ps = price.low_ps.min(price.time_ps);
        price.high_ps = price.high_ps.clamp(price.time_ps, LONGEST_PS);
        self.said.has_unknown_prices |= price.basis == PriceBasis::Unknown;
        let moved = self.model.cost(id).traffic.hbm().total_padded().0 as f64;
        let hbm_ps = self
            .hbm_gb_per_s
            .map_or(0.0, |rate| (moved * 1e3 / rate).min(1e18));
        let uses = Uses {
            hbm_ps: (hbm_ps as u64).min(price.time_ps),
            ici_ps: if price.kind == OpKind::Collective {
                price.time_ps
            } else {
                0
            },
        };
        self.prices.insert(id, (price, uses));
        (price, uses)
    }

    fn op(&mut self, id: HloId, instruction: &Instruction, sink: &mut Sink<'_>) -> OpId {
        if let Some(op) = self.ops.get(&id) {
            return *op;
        }
        let cost = self.model.cost(id);
        let handle = sink.ops.len() as OpId;
        sink.ops
            .push(op_of(self.program, id, instruction, self.module, &cost));
        sink.predictions.push(OpPrediction::default());
        self.ops.insert(id, handle);
        handle
    }
}

fn exactly(ps: u64) -> Band {
    Band {
        low_ps: ps,
        time_ps: ps,
        high_ps: ps,
    }
}

fn at_least(price: Price) -> Band {
    Band {
        low_ps: price.low_ps.max(MIN_PS),
        time_ps: price.time_ps.max(MIN_PS),
        high_ps: price.high_ps.max(MIN_PS),
    }
}
