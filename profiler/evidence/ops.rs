//! Time and cost of each operation, per step and against the roofline.

use serde::Serialize;

use crate::evidence::class::{CollectiveKind, CopyRoute, OpClass, copied};
use crate::evidence::peaks::Peaks;
use crate::evidence::steps::Steps;
use crate::program::cost::{Cost as ModelCost, CostModel, lone_cost};
use crate::program::instruction::Instruction;
use crate::program::opcode::AsyncPart;
use crate::program::shape::{Array, MemorySpace};
use crate::program::{self, Program, parse_instruction};
use crate::session::{ModuleId, Op, OpId, Session};
use crate::units::Picos;

/// Where a count of FLOPs comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlopsBasis {
    /// The profile's own count.
    Stated,
    /// Derived from the shapes of a matmul or convolution.
    Shapes,
    /// Derived from the shapes of a known kernel; for attention every key counts for every query,
    /// so it is an upper bound.
    Kernel,
}

/// What one execution costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// FLOPs; `None` where nothing tells.
    pub flops: Option<f64>,
    /// Where `flops` comes from.
    pub flops_basis: Option<FlopsBasis>,
    /// Bytes read from and written to HBM.
    pub hbm_bytes: Option<f64>,
    /// Bytes read from and written to VMEM by way of the op's operands.
    pub vmem_bytes: Option<f64>,
    /// Bytes that cross PCIe.
    pub host_bytes: Option<f64>,
}

/// The resource that limits an op.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoundBy {
    /// The MXU.
    Compute,
    /// HBM bandwidth.
    Hbm,
    /// The host link.
    Pcie,
    /// The inter-chip interconnect.
    Ici,
    /// Nothing is known of its cost.
    #[default]
    Unknown,
}

/// An op against the roofline: each resource's least time for one execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Roofline {
    /// FLOPs over the peak of the operands' dtype.
    pub compute_ps: f64,
    /// HBM bytes over HBM bandwidth.
    pub hbm_ps: f64,
    /// Host bytes over PCIe bandwidth.
    pub pcie_ps: f64,
    /// What limits it: the largest of the three.
    pub bound_by: BoundBy,
    /// Least time over measured time; above 1 the cost or the peak is wrong.
    pub efficiency: f64,
}

impl Roofline {
    /// The least time that one execution can take.
    #[must_use]
    pub fn floor_ps(&self) -> f64 {
        self.compute_ps.max(self.hbm_ps).max(self.pcie_ps)
    }
}

/// An operation with its time and cost.
#[derive(Clone, Debug, PartialEq)]
pub struct OpProfile {
    /// The operation.
    pub id: OpId,
    /// Its program.
    pub module: Option<ModuleId>,
    /// What it is.
    pub class: OpClass,
    /// The instruction, where its text could be read.
    pub instruction: Option<Instruction>,
    /// The instruction in the session's HLO: index into its programs, and there.
    pub hlo: Option<(usize, program::OpId)>,
    /// Executions over all cores in the whole capture.
    pub occurrences: u64,
    /// Time with children over all cores in the whole capture.
    pub total_ps: Picos,
    /// Time without children over all cores in the whole capture.
    pub self_ps: Picos,
    /// Self time a step, the mean over cores.
    pub step_self_ps: f64,
    /// Self time a step on the core where it is longest.
    pub step_self_slowest_ps: f64,
    /// Executions a step, the mean over cores.
    pub step_occurrences: f64,
    /// Cost of one execution: what the profile states, else what the model says.
    pub cost: Cost,
    /// Cost of one execution by our own model: products, padding, memory by space.
    pub model: ModelCost,
    /// One execution against the roofline.
    pub roofline: Roofline,
}

impl OpProfile {
    /// Mean duration of one execution, children included.
    #[must_use]
    pub fn mean_ps(&self) -> f64 {
        if self.occurrences == 0 {
            0.0
        } else {
            self.total_ps.0 as f64 / self.occurrences as f64
        }
    }

    /// Self time of a step in milliseconds.
    #[must_use]
    pub fn step_self_ms(&self) -> f64 {
        self.step_self_ps / 1e9
    }

    /// FLOP rate while it runs, in TFLOP/s.
    #[must_use]
    pub fn tflops(&self) -> Option<f64> {
        let mean = self.mean_ps();
        (mean > 0.0)
            .then(|| self.cost.flops.map(|flops| flops / mean))
            .flatten()
    }

    /// HBM rate while it runs, in GB/s (10⁹).
    #[must_use]
    pub fn hbm_gb_per_s(&self) -> Option<f64> {
        let mean = self.mean_ps();
        (mean > 0.0)
            .then(|| self.cost.hbm_bytes.map(|bytes| bytes * 1e3 / mean))
            .flatten()
    }

    /// Whether it is a custom kernel (Pallas, Mosaic) and not one of the compiler's own calls; a
    /// call whose target is not known could be.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        let target = self
            .instruction
            .as_ref()
            .map_or("", |i| i.attributes.custom_call_target.as_str());
        self.class == OpClass::CustomCall && matches!(target, "" | "tpu_custom_call")
    }

    /// The MXU's rate for its products in TFLOP/s, see [`Peaks::product_tflops`]: for those that the
    /// model found, else for the two largest matrices that it reads.
    #[must_use]
    pub fn peak_tflops(&self, peaks: &Peaks) -> Option<f64> {
        let products = self.model.matmuls.iter();
        let found = peaks.product_tflops(products.map(|m| (m.lhs.name(), m.rhs.name())));
        found.or_else(|| {
            let operands = self.instruction.iter().flat_map(|i| &i.operands);
            let mut matrices: Vec<&Array> = operands
                .filter_map(|operand| operand.shape.as_ref()?.as_array())
                .filter(|array| array.dims.len() >= 2)
                .collect();
            matrices.sort_by_key(|array| std::cmp::Reverse(array.elements()));
            let dtype = |at: usize| matrices.get(at).map(|array| array.dtype.name());
            let largest = dtype(0).unwrap_or("bf16");
            peaks.product_tflops([(largest, dtype(1).unwrap_or(largest))])
        })
    }

    /// The result's first array.
    #[must_use]
    pub fn result(&self) -> Option<&Array> {
        let shape = &self.instruction.as_ref()?.shape;
        shape.arrays().first().copied()
    }
}

/// Sums of one op on one core.
#[derive(Clone, Copy, Default)]
struct Sum {
    occurrences: u64,
    total_ps: u64,
    self_ps: u64,
    window_occurrences: u64,
    window_self_ps: u64,
}

/// All operations that ran on the analysed cores, longest self time a step first.
#[must_use]
pub fn op_profiles(session: &Session, steps: &Steps, peaks: &Peaks) -> Vec<OpProfile> {
    let mut totals = vec![Sum::default(); session.ops.len()];
    let mut step_self = vec![0f64; session.ops.len()];
    let mut slowest = vec![0f64; session.ops.len()];
    let mut step_count = vec![0f64; session.ops.len()];
    let mut cores = 0usize;
    for (index, device) in session.analysed_cores() {
        let Some(core) = steps.of_device(index) else {
            continue;
        };
        cores += 1;
        let mut sums = vec![Sum::default(); session.ops.len()];
        for (i, id) in device.ops.id.iter().enumerate() {
            let Some(sum) = sums.get_mut(*id as usize) else {
                continue;
            };
            let own = device.op_self_ps[i];
            let executions = device.executions_of(i);
            sum.occurrences = sum.occurrences.saturating_add(executions);
            sum.total_ps = sum.total_ps.saturating_add(device.op_device_duration_ps[i]);
            sum.self_ps = sum.self_ps.saturating_add(own);
            let start = device.ops.start_ps[i];
            if start >= core.window_ps.0 && start < core.window_ps.1 {
                sum.window_occurrences = sum.window_occurrences.saturating_add(executions);
                sum.window_self_ps = sum.window_self_ps.saturating_add(own);
            }
        }
        let count = core.count().max(1) as f64;
        for (id, sum) in sums.iter().enumerate() {
            let per_step = sum.window_self_ps as f64 / count;
            step_self[id] += per_step;
            step_count[id] += sum.window_occurrences as f64 / count;
            slowest[id] = slowest[id].max(per_step);
            let total = &mut totals[id];
            total.occurrences += sum.occurrences;
            total.total_ps = total.total_ps.saturating_add(sum.total_ps);
            total.self_ps = total.self_ps.saturating_add(sum.self_ps);
        }
    }
    let cores = cores.max(1) as f64;
    let joined = join_hlo(session);
    let mut models: Vec<CostModel<'_>> = session
        .programs
        .iter()
        .map(|program| CostModel::new(&program.program))
        .collect();
    let mut profiles = Vec::new();
    for (id, sum) in totals.iter().enumerate() {
        if sum.occurrences == 0 {
            continue;
        }
        let op = &session.ops[id];
        let hlo = joined[id];
        let instruction = instruction_of(op, session, hlo);
        let fused = fused_opcodes(session, hlo);
        let class = OpClass::of(op, instruction.as_ref(), &fused);
        let mut profile = OpProfile {
            id: id as OpId,
            module: op.module,
            class,
            instruction,
            hlo,
            occurrences: sum.occurrences,
            total_ps: Picos(sum.total_ps),
            self_ps: Picos(sum.self_ps),
            step_self_ps: step_self[id] / cores,
            step_self_slowest_ps: slowest[id],
            step_occurrences: step_count[id] / cores,
            cost: Cost::default(),
            model: ModelCost::default(),
            roofline: Roofline::default(),
        };
        profile.model = match hlo.and_then(|(program, id)| Some((models.get_mut(program)?, id))) {
            Some((model, id)) => model.cost(id),
            None => profile
                .instruction
                .as_ref()
                .map(lone_cost)
                .unwrap_or_default(),
        };
        profile.cost = cost_of(op, &profile, session);
        profile.roofline = roofline_of(&profile, peaks);
        profiles.push(profile);
    }
    profiles.sort_by(|a, b| {
        b.step_self_ps
            .total_cmp(&a.step_self_ps)
            .then(a.id.cmp(&b.id))
    });
    profiles
}

/// For each op of the session, its instruction in the session's HLO.
fn join_hlo(session: &Session) -> Vec<Option<(usize, program::OpId)>> {
    let mut program_of = vec![None; session.modules.len()];
    for (index, program) in session.programs.iter().enumerate() {
        let by_name = || {
            session
                .modules
                .iter()
                .position(|module| module.name == program.program.name)
        };
        let module = program
            .module
            .map(|module| module as usize)
            .or_else(by_name);
        if let Some(slot) = module.and_then(|module| program_of.get_mut(module)) {
            slot.get_or_insert(index);
        }
    }
    session
        .ops
        .iter()
        .map(|op| {
            let program = program_of.get(op.module? as usize).copied().flatten()?;
            let found = session.programs[program].program.find(&op.name)?;
            Some((program, found))
        })
        .collect()
}

fn instruction_of(
    op: &Op,
    session: &Session,
    hlo: Option<(usize, program::OpId)>,
) -> Option<Instruction> {
    if !op.hlo_text.is_empty()
        && let Ok(instruction) = parse_instruction(&op.hlo_text)
    {
        return Some(instruction);
    }
    let (program, id) = hlo?;
    let program = &session.programs.get(program)?.program;
    let mut instruction = program.get(id)?.clone();
    // Where a copy comes from stands in the type of what it reads.
    for (at, operand) in instruction.operands.iter_mut().enumerate() {
        if operand.shape.is_none() {
            operand.shape = program.operand_shape(id, at).cloned();
        }
    }
    Some(instruction)
}

/// The opcodes inside a fusion, its root's first; of either half of what runs beside the core, the
/// collective that it stands for, if any.
fn fused_opcodes(session: &Session, hlo: Option<(usize, program::OpId)>) -> Vec<&str> {
    let Some((program, id)) = hlo else {
        return Vec::new();
    };
    let Some(program) = session.programs.get(program).map(|p| &p.program) else {
        return Vec::new();
    };
    if let Some(collective) = started_collective(program, id) {
        return vec![collective];
    }
    let Some(body) = program.body_of(id) else {
        return Vec::new();
    };
    let opcode = |op| program.get(op).map(|i| i.opcode.as_str());
    let root = body.root.and_then(opcode);
    root.into_iter()
        .chain(body.ops().filter_map(opcode))
        .collect()
}

/// The collective inside an asynchronous operation, however many calls deep.
fn started_collective(program: &Program, id: program::OpId) -> Option<&str> {
    /// Updates between a done and its start, and calls within calls.
    const DEEP: usize = 8;
    let mut at = id;
    program.get(id)?.opcode.async_part()?;
    for _ in 0..DEEP {
        let instruction = program.get(at)?;
        if let Some((AsyncPart::Done | AsyncPart::Update, _)) = instruction.opcode.async_part() {
            at = program.find(&instruction.operands.first()?.name)?;
            continue;
        }
        let opcode = |op: &program::OpId| program.get(*op).map(|i| i.opcode.as_str());
        let is_collective = |name: &&str| CollectiveKind::find(name).is_some();
        let body: Vec<program::OpId> = program.body_of(at)?.ops().collect();
        if let Some(found) = body.iter().filter_map(opcode).find(is_collective) {
            return Some(found);
        }
        at = *body.iter().find(|op| program.body_of(**op).is_some())?;
    }
    None
}

fn cost_of(op: &Op, profile: &OpProfile, session: &Session) -> Cost {
    let mut cost = Cost::default();
    if let Some(flops) = op.flops.or(op.model_flops).filter(|flops| *flops > 0) {
        cost.flops = Some(flops as f64);
        cost.flops_basis = Some(FlopsBasis::Stated);
    }
    if profile.class == OpClass::CustomCall {
        let events: u64 = session
            .analysed_cores()
            .filter_map(|(_, device)| device.event_costs.get(&profile.id))
            .map(|cost| cost.flops.max(cost.model_flops))
            .sum();
        if events > 0 {
            cost.flops = Some(events as f64 / profile.occurrences as f64);
            cost.flops_basis = Some(FlopsBasis::Stated);
        }
    }
    if cost.flops.is_none() && profile.model.matmul_flops > 0.0 {
        cost.flops = Some(profile.model.matmul_flops);
        cost.flops_basis = Some(FlopsBasis::Shapes);
    }
    if cost.flops.is_none()
        && let Some(flops) = profile
            .model
            .kernel
            .as_ref()
            .and_then(|kernel| kernel.flops)
    {
        cost.flops = Some(flops);
        cost.flops_basis = Some(FlopsBasis::Kernel);
    }
    fill_bytes(&mut cost, op, profile);
    cost
}

fn fill_bytes(cost: &mut Cost, op: &Op, profile: &OpProfile) {
    if let OpClass::AsyncCopy(route) = profile.class {
        // A copy is one transfer of two operations. Its bytes are those of the done, which waits for
        // them; the start takes no time that they could explain.
        let instruction = profile.instruction.as_ref();
        let starts = instruction.and_then(|i| i.opcode.async_part());
        if matches!(starts, Some((AsyncPart::Start | AsyncPart::Update, _))) {
            return;
        }
        let moved = instruction.and_then(copied);
        let bytes = moved.map(|array| array.padded_bytes().0 as f64);
        match route {
            CopyRoute::HostToDevice | CopyRoute::DeviceToHost => cost.host_bytes = bytes,
            CopyRoute::HbmToVmem | CopyRoute::VmemToHbm => cost.hbm_bytes = bytes,
            CopyRoute::Within => cost.hbm_bytes = bytes.map(|bytes| bytes * 2.0),
        }
        return;
    }
    if !op.accesses.is_empty() {
        let sum = |space: u64| {
            op.accesses
                .iter()
                .filter(|a| a.space == space)
                .fold(0.0, |sum, a| sum + a.bytes as f64)
        };
        cost.hbm_bytes = Some(sum(1));
        cost.vmem_bytes = Some(sum(3));
        return;
    }
    if profile.instruction.is_none() {
        return;
    }
    let traffic = &profile.model.traffic;
    let hbm = traffic.hbm().total_padded().0 as f64;
    let host = traffic.host().total_padded().0 as f64;
    let stated = op
        .bytes_accessed
        .filter(|bytes| *bytes > 0)
        .map(|bytes| bytes as f64);
    // A gather's operand is the whole table; the profile's own count is what it reads.
    cost.hbm_bytes = Some(stated.map_or(hbm, |stated| stated.min(hbm)));
    cost.vmem_bytes = Some(traffic.of(MemorySpace::Vmem).total_padded().0 as f64);
    cost.host_bytes = (host > 0.0).then_some(host);
}

fn roofline_of(profile: &OpProfile, peaks: &Peaks) -> Roofline {
    let mut roofline = Roofline::default();
    if let (Some(flops), Some(peak)) = (profile.cost.flops, profile.peak_tflops(peaks))
        && matches!(profile.class, OpClass::Matmul | OpClass::CustomCall)
    {
        roofline.compute_ps = flops / peak;
    }
    let rate = |bytes: Option<f64>, peak: &Option<crate::evidence::peaks::Peak>| match (bytes, peak)
    {
        (Some(bytes), Some(peak)) => bytes * 1e3 / peak.value,
        _ => 0.0,
    };
    roofline.hbm_ps = rate(profile.cost.hbm_bytes, &peaks.hbm_gb_per_s);
    roofline.pcie_ps = rate(profile.cost.host_bytes, &peaks.pcie_gb_per_s);
    let floor = roofline.floor_ps();
    roofline.bound_by = if let OpClass::Collective(_) = profile.class {
        BoundBy::Ici
    } else if profile.cost.host_bytes.is_some_and(|bytes| bytes > 0.0) {
        BoundBy::Pcie
    } else if floor <= 0.0 {
        BoundBy::Unknown
    } else if roofline.compute_ps >= roofline.hbm_ps {
        BoundBy::Compute
    } else {
        BoundBy::Hbm
    };
    let mean = profile.mean_ps();
    if mean > 0.0 {
        roofline.efficiency = floor / mean;
    }
    roofline
}
