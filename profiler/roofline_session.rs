//! A program without a trace, priced by the roofline: what its schedule takes at least.
//!
//! Every operation takes the longest of its FLOPs over the peak, its HBM bytes over the HBM
//! bandwidth, and for a collective its bytes on the wire over ICI. Asynchronous operations run
//! beside the others and are waited for at their end. Real runs take longer; the session is marked
//! [`Origin::Predicted`] and its notes say what the times are.

use rustc_hash::FxHashMap;

use crate::chip::ChipFacts;
use crate::evidence::class::CollectiveKind;
use crate::evidence::peaks::Peaks;
use crate::program::cost::CostModel;
use crate::program::instruction::{CallRole, FusionKind, Instruction};
use crate::program::opcode::AsyncPart;
use crate::program::{Computation, ComputationId, OpId as HloId, Program};
use crate::session::{
    CoreKind, Device, Host, Module, Op, OpId, Origin, Session, SessionProgram, StatedPeaks,
};
use crate::timeline::settle;

/// Loops run this many operations at most; beyond that they are shortened, and a note says so.
const MAX_EVENTS: usize = 500_000;
/// Loops within loops that are followed.
const MAX_DEPTH: usize = 16;
/// Instructions and calls that are looked at, whether they take time or not: loops over nothing
/// and calls of calls end as well.
const MAX_LOOKS: u64 = 2_000_000;
/// An operation takes at least this long, in picoseconds: a nanosecond.
const MIN_PS: u64 = 1_000;

/// Gives a session that holds programs but no events one device that runs each program once.
pub fn price(session: &mut Session, facts: &ChipFacts) {
    let peaks = Peaks::of_facts(facts);
    let mut device = Device::new(0, "/device:TPU:0".to_owned(), CoreKind::TensorCore, 0);
    device.peaks = StatedPeaks {
        device_type: Some(facts.product_name.clone()),
        peak_tflops: peaks.bf16_tflops.as_ref().map(|peak| peak.value),
        peak_hbm_gb_per_s: peaks.hbm_gb_per_s.as_ref().map(|peak| peak.value),
        ..StatedPeaks::default()
    };
    let mut now = 0;
    let mut shortened = false;
    let mut unknown_trips = false;
    let mut chosen = false;
    let mut looks = MAX_LOOKS;
    let programs = std::mem::take(&mut session.programs);
    for program in &programs {
        let module = session.modules.len() as u32;
        let program_id = Some(program.program.fingerprint());
        session.modules.push(Module {
            name: program.program.name.clone(),
            program_id,
        });
        let mut player = Player {
            program: &program.program,
            model: CostModel::new(&program.program),
            peaks: &peaks,
            module,
            ops: FxHashMap::default(),
            arrivals: FxHashMap::default(),
            session,
            device: &mut device,
            now,
            branch_ps: FxHashMap::default(),
            looks,
            shortened: false,
            unknown_trips: false,
            chosen: false,
        };
        if let Some(entry) = program.program.entry_computation() {
            player.play(entry, 0);
        }
        let end = player.now;
        shortened |= player.shortened;
        unknown_trips |= player.unknown_trips;
        chosen |= player.chosen;
        looks = player.looks;
        device.modules.push(now, end - now, module);
        device.run_ids.push(0);
        now = end;
    }
    let first = (session.modules.len() - programs.len()) as u32;
    session.programs = programs
        .into_iter()
        .zip(first..)
        .map(|(program, module)| SessionProgram {
            module: Some(module),
            ..program
        })
        .collect();
    if session.hosts.is_empty() {
        session.hosts.push(Host {
            name: "(none)".to_owned(),
            capture_ns: None,
            mxu_utilization_percent: None,
            hbm_utilization_percent: None,
        });
    }
    settle(&mut device);
    session.devices.push(device);
    session.origin = Origin::Predicted;
    session.notes.info(
        "roofline-times",
        "nothing was measured: every time is the least that the roofline allows for the operation",
    );
    if shortened {
        session.notes.warn(
            "long-loop",
            format!(
                "the run was cut short: {MAX_EVENTS} operations, {MAX_DEPTH} calls within each other and {MAX_LOOKS} instructions looked at are the most"
            ),
        );
    }
    if chosen {
        session.notes.info(
            "cheapest-branch",
            "of each conditional only the branch that takes least is counted: which one runs is not known",
        );
    }
    if unknown_trips {
        session.notes.warn(
            "unknown-trip-count",
            "a loop's trip count is not known: it counts once",
        );
    }
}

/// Roles of what a call or a conditional runs.
const CALLS: &[CallRole] = &[CallRole::Applies, CallRole::Calls, CallRole::Branch];

struct Player<'p, 'a> {
    program: &'p Program,
    model: CostModel<'p>,
    peaks: &'a Peaks,
    module: u32,
    ops: FxHashMap<HloId, OpId>,
    /// When an asynchronous operation's data is there, by its start.
    arrivals: FxHashMap<HloId, u64>,
    session: &'a mut Session,
    device: &'a mut Device,
    now: u64,
    /// What a branch takes at least, by its computation.
    branch_ps: FxHashMap<ComputationId, u64>,
    /// Instructions and calls that may still be looked at.
    looks: u64,
    shortened: bool,
    unknown_trips: bool,
    /// Whether a conditional had several branches.
    chosen: bool,
}

impl<'p> Player<'p, '_> {
    /// Takes one look off what is left of them.
    fn look(&mut self) -> bool {
        self.looks = self.looks.saturating_sub(1);
        self.looks > 0
    }

    fn play(&mut self, computation: &Computation, depth: usize) {
        for id in computation.ops() {
            if !self.look() {
                self.shortened = true;
                return;
            }
            let Some(instruction) = self.program.get(id) else {
                continue;
            };
            if instruction.opcode.is_free() {
                continue;
            }
            if self.device.ops.len() >= MAX_EVENTS || depth >= MAX_DEPTH {
                self.shortened = true;
                return;
            }
            match instruction.opcode.as_str() {
                "while" => self.play_loop(id, depth),
                "call" => {
                    for (_, callee) in self.callees(id, CALLS) {
                        self.play(callee, depth + 1);
                    }
                }
                "conditional" => {
                    if let Some(branch) = self.cheapest(id, depth) {
                        self.play(branch, depth + 1);
                    }
                }
                _ => self.run(id, instruction),
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

    /// The branch that takes least, the first of several that do.
    fn cheapest(&mut self, id: HloId, depth: usize) -> Option<&'p Computation> {
        let branches = self.callees(id, CALLS);
        self.chosen |= branches.len() > 1;
        let priced: Vec<(u64, &Computation)> = branches
            .into_iter()
            .map(|(branch, computation)| {
                (self.branch_ps(branch, computation, depth + 1), computation)
            })
            .collect();
        let least = priced.into_iter().min_by_key(|(ps, _)| *ps);
        least.map(|(_, computation)| computation)
    }

    /// What a computation takes at least: its operations one after another.
    fn branch_ps(&mut self, id: ComputationId, computation: &'p Computation, depth: usize) -> u64 {
        if let Some(ps) = self.branch_ps.get(&id) {
            return *ps;
        }
        let mut sum = 0u64;
        for op in computation.ops() {
            if depth >= MAX_DEPTH || !self.look() {
                self.shortened = true;
                break;
            }
            let Some(instruction) = self.program.get(op) else {
                continue;
            };
            if instruction.opcode.is_free() {
                continue;
            }
            let all = |player: &mut Self, roles: &[CallRole]| {
                let callees = player.callees(op, roles).into_iter();
                let ps = callees.map(|(id, callee)| player.branch_ps(id, callee, depth + 1));
                ps.collect::<Vec<u64>>()
            };
            let ps = match instruction.opcode.as_str() {
                "while" => all(self, &[CallRole::Body])
                    .into_iter()
                    .fold(0, u64::saturating_add)
                    .saturating_mul(self.program.trip_count(op).unwrap_or(1)),
                "call" => all(self, CALLS).into_iter().fold(0, u64::saturating_add),
                "conditional" => all(self, CALLS).into_iter().min().unwrap_or(0),
                _ => self.least_ps(op, instruction).max(MIN_PS),
            };
            sum = sum.saturating_add(ps);
        }
        self.branch_ps.insert(id, sum);
        sum
    }

    fn play_loop(&mut self, id: HloId, depth: usize) {
        let bodies = self.callees(id, &[CallRole::Body]);
        let trips = self.program.trip_count(id).unwrap_or_else(|| {
            self.unknown_trips = true;
            1
        });
        for _ in 0..trips {
            let before = self.device.ops.len();
            for (_, body) in &bodies {
                self.play(body, depth + 1);
            }
            // What takes no time once takes none however often.
            if self.shortened || self.device.ops.len() == before {
                return;
            }
        }
    }

    fn run(&mut self, id: HloId, instruction: &Instruction) {
        let least = self.least_ps(id, instruction);
        let duration = match instruction.opcode.async_part() {
            Some((AsyncPart::Start, _)) => {
                self.arrivals.insert(id, self.now.saturating_add(least));
                MIN_PS
            }
            Some((AsyncPart::Update, _)) => {
                self.follow(id);
                MIN_PS
            }
            Some((AsyncPart::Done, _)) => {
                self.follow(id);
                let arrival = self.arrivals.get(&id).copied().unwrap_or(0);
                arrival.saturating_sub(self.now).max(MIN_PS)
            }
            None => least.max(MIN_PS),
        };
        let op = self.op(id, instruction);
        self.device.push_op(op, self.now, duration, None);
        self.now = self.now.saturating_add(duration);
    }

    /// An update or a done is of the same transfer as the start that it reads.
    fn follow(&mut self, id: HloId) {
        let start = self
            .program
            .operands(id)
            .find_map(|operand| self.arrivals.get(&operand));
        if let Some(arrival) = start.copied() {
            self.arrivals.insert(id, arrival);
        }
    }

    fn least_ps(&mut self, id: HloId, instruction: &Instruction) -> u64 {
        let cost = self.model.cost(id);
        let flops = cost.matmul_flops + cost.kernel.as_ref().and_then(|k| k.flops).unwrap_or(0.0);
        let products = cost.matmuls.iter();
        let compute = self
            .peaks
            .product_tflops(products.map(|m| (m.lhs.name(), m.rhs.name())))
            .or_else(|| self.peaks.matmul_tflops("bf16"))
            .map_or(0.0, |peak| flops / peak);
        let rate = |bytes: u64, peak: &Option<crate::evidence::peaks::Peak>| {
            peak.as_ref()
                .map_or(0.0, |peak| bytes as f64 * 1e3 / peak.value)
        };
        let hbm = rate(
            cost.traffic.hbm().total_padded().0,
            &self.peaks.hbm_gb_per_s,
        );
        let host = rate(
            cost.traffic.host().total_padded().0,
            &self.peaks.pcie_gb_per_s,
        );
        let wire = rate(wire_bytes(instruction), &self.peaks.ici_gb_per_s);
        compute.max(hbm).max(host).max(wire).min(1e18) as u64
    }

    fn op(&mut self, id: HloId, instruction: &Instruction) -> OpId {
        if let Some(op) = self.ops.get(&id) {
            return *op;
        }
        let source = self.program.source(id);
        let source = source
            .first()
            .map(|line| format!("{}:{}", line.file, line.line));
        let metadata = &instruction.metadata;
        let op = Op {
            module: Some(self.module),
            symbol_id: Some(id.index() as u64 + 1),
            name: instruction.name.clone(),
            category: self.category(id, instruction),
            framework_op: metadata.op_name.clone(),
            source: source.unwrap_or_else(|| match metadata.source_file.as_str() {
                "" => String::new(),
                file => format!("{file}:{}", metadata.source_line),
            }),
            deduplicated_name: metadata.deduplicated_name.clone(),
            shape: instruction.shape.to_string(),
            ..Op::default()
        };
        let handle = self.session.ops.len() as OpId;
        self.session.ops.push(op);
        self.ops.insert(id, handle);
        handle
    }

    /// XProf's category of an instruction, for those that matter here.
    fn category(&self, id: HloId, instruction: &Instruction) -> String {
        let opcode = instruction.opcode.as_str();
        let inside = |wanted: &[&str]| {
            let body = self.program.body_of(id);
            body.is_some_and(|body| {
                body.ops()
                    .filter_map(|op| self.program.get(op))
                    .any(|i| wanted.iter().any(|name| i.opcode.as_str() == *name))
            })
        };
        match (opcode, instruction.attributes.fusion_kind) {
            ("fusion", _) if inside(&["convolution", "dot"]) => "convolution fusion",
            ("fusion", Some(FusionKind::Loop)) => "loop fusion",
            ("fusion", Some(FusionKind::Output)) => "output fusion",
            ("fusion", Some(FusionKind::Input)) => "input fusion",
            ("fusion", _) => "custom fusion",
            ("copy" | "transpose" | "reshape", _) => "data formatting",
            _ => opcode,
        }
        .to_owned()
    }
}

/// Bytes that a collective sends from one participant, by the ring algorithm.
fn wire_bytes(instruction: &Instruction) -> u64 {
    let Some(kind) = CollectiveKind::find(instruction.opcode.as_str()) else {
        return 0;
    };
    let groups = instruction.attributes.replica_groups.as_ref();
    let size = groups.map_or(2, |groups| groups.group_size().max(1)) as f64;
    let operands: u64 = instruction
        .operands
        .iter()
        .filter_map(|o| o.shape.as_ref())
        .map(|s| s.bytes().0)
        .sum();
    let result = instruction
        .shape
        .arrays()
        .iter()
        .map(|a| a.bytes().0)
        .max()
        .unwrap_or(0);
    let share = (size - 1.0) / size;
    let bytes = match kind {
        CollectiveKind::AllReduce => 2.0 * share * result as f64,
        CollectiveKind::AllGather | CollectiveKind::AllToAll => share * result as f64,
        CollectiveKind::ReduceScatter => share * operands.max(result) as f64,
        CollectiveKind::CollectivePermute | CollectiveKind::CollectiveBroadcast => result as f64,
    };
    bytes as u64
}
