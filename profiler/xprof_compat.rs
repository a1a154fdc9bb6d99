//! XProf's own figures, by XProf's own rules, so that the two can be compared line by line.
//!
//! Where XProf's rule is one that we think wrong (bytes booked on both halves of an asynchronous
//! copy, host copies counted as HBM traffic, cut steps averaged in), it is kept here and differs
//! from our own figures elsewhere. Formulas: XProf 2.23 `op_metrics_db_utils.cc`,
//! `op_metrics_to_record.h`, `op_stats_to_roofline_model.cc`, `xplane_to_op_stats.cc`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::intervals::Intervals;
use crate::session::{CoreKind, Device, Op, OpId, Session};
use crate::units::Picos;

/// One row of XProf's `hlo_stats`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpRow {
    /// The operation.
    pub op: OpId,
    /// Executions over all cores.
    pub occurrences: u64,
    /// Time with children, over all cores.
    pub total_time_ps: Picos,
    /// Time without children, over all cores.
    pub self_time_ps: Picos,
    /// Self time as a share of the total time of all cores, idle included, in percent.
    pub self_time_percent: f64,
    /// FLOPs over all executions.
    pub flops: f64,
    /// Model FLOPs (FLOPs where those are 0) over total time, in GFLOP/s (10⁹).
    pub model_flop_rate_gflop_per_s: f64,
    /// All bytes over total time, in GiB/s (2³⁰).
    pub measured_memory_gib_per_s: f64,
    /// HBM bytes over total time, in GiB/s (2³⁰).
    pub hbm_gib_per_s: f64,
    /// FLOPs per byte.
    pub operational_intensity: f64,
    /// The resource with the largest utilisation.
    pub bound_by: &'static str,
    /// The larger of the compute and memory utilisation.
    pub roofline_efficiency: f64,
}

/// XProf's figures for a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct XprofFigures {
    /// Sum over cores of last end less first begin, operations and steps.
    pub total_time_ps: Picos,
    /// Total time less all self time.
    pub idle_time_ps: Picos,
    /// Idle time as a share of total time, in percent.
    pub idle_percent: f64,
    /// Busy share of chips by XProf's definition (waiting for a copy is busy), in percent.
    pub duty_cycle_percent: f64,
    /// Self time by category, over all cores.
    pub category_self_time_ps: BTreeMap<String, Picos>,
    /// The whole program's row; `None` without peaks.
    pub program: Option<ProgramRow>,
    /// One row an operation, longest self time first.
    pub ops: Vec<OpRow>,
}

/// XProf's `Program` row of the roofline model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ProgramRow {
    /// FLOPs over total time, in GFLOP/s (10⁹).
    pub flop_rate_gflop_per_s: f64,
    /// HBM bytes over total time, in GiB/s (2³⁰).
    pub hbm_gib_per_s: f64,
    /// Compute utilisation.
    pub compute_efficiency: f64,
    /// The larger of the compute and memory utilisation.
    pub roofline_efficiency: f64,
    /// Peak GFLOP/s over peak GB/s of HBM.
    pub hbm_ridge_flop_per_byte: f64,
}

/// Categories that XProf does not count as busy in the duty cycle.
const OFF_DUTY: [&str; 8] = [
    "infeed",
    "outfeed",
    "host send",
    "host send-done",
    "host recv",
    "host recv-done",
    "async-done",
    "megacore fusion",
];

/// Categories whose time is that of the operations inside.
const WITH_INNER_OPS: [&str; 4] = ["while", "call", "conditional", "megacore fusion"];

const GIB: f64 = (1u64 << 30) as f64;

#[derive(Clone, Copy, Default)]
struct Sum {
    occurrences: u64,
    total_ps: u64,
    self_ps: u64,
    event_flops: u64,
    event_model_flops: u64,
    event_bytes: u64,
}

/// Peaks in XProf's units.
#[derive(Clone, Copy, Default)]
struct Peaks {
    gflops: f64,
    gib_per_s: [f64; 5],
    /// Whether the roofline counts VMEM.
    merged_vmem: bool,
}

/// Bytes of all executions: all, then HBM, CMEM read, CMEM write, VMEM read, VMEM write.
#[derive(Clone, Copy, Default)]
struct Traffic {
    all: f64,
    by_memory: [f64; 5],
    has_breakdown: bool,
}

const RESOURCES: [&str; 5] = ["HBM", "CMEM Read", "CMEM Write", "VMEM Read", "VMEM Write"];

impl XprofFigures {
    /// Computes all figures.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        let mut sums = vec![Sum::default(); session.ops.len()];
        let mut total = 0u64;
        for (_, device) in session.analysed_cores() {
            if let Some((start, end)) = extent(session, device) {
                total = total.saturating_add(end.saturating_sub(start));
            }
            add_device(device, &mut sums);
        }
        let peaks = peaks_of(session);
        let mut figures = Self {
            total_time_ps: Picos(total),
            ..Self::default()
        };
        let mut own = 0u64;
        let mut program = (0f64, Traffic::default());
        for (id, sum) in sums.iter().enumerate() {
            let op = &session.ops[id];
            // XProf drops operations without a symbol id.
            if sum.occurrences == 0 || op.symbol_id.is_none_or(|symbol| symbol == 0) {
                continue;
            }
            own = own.saturating_add(sum.self_ps);
            *figures
                .category_self_time_ps
                .entry(op.category.clone())
                .or_default() += Picos(sum.self_ps);
            let (flops, model_flops) = flops_of(op, sum);
            let traffic = traffic_of(op, sum);
            if !WITH_INNER_OPS.contains(&op.category.as_str()) {
                program.0 += flops;
                program.1.add(&traffic);
            }
            figures.ops.push(row(
                id as OpId,
                sum,
                flops,
                model_flops,
                &traffic,
                &peaks,
                total,
            ));
        }
        figures
            .ops
            .sort_by(|a, b| b.self_time_ps.cmp(&a.self_time_ps).then(a.op.cmp(&b.op)));
        let idle = total.saturating_sub(own);
        figures.idle_time_ps = Picos(idle);
        figures.idle_percent = 100.0 * ratio(idle as f64, total as f64);
        figures.duty_cycle_percent = duty_cycle_percent(session);
        figures.program = peaks.map(|peaks| program_row(program.0, &program.1, &peaks, total));
        figures
    }
}

impl Traffic {
    fn add(&mut self, other: &Self) {
        self.all += other.all;
        // The program's sum is of breakdowns only, unless no operation has one.
        if other.has_breakdown {
            self.has_breakdown = true;
            for (sum, more) in self.by_memory.iter_mut().zip(other.by_memory) {
                *sum += more;
            }
        }
    }

    fn memories(&self) -> [f64; 5] {
        if self.has_breakdown {
            self.by_memory
        } else {
            [self.all, 0.0, 0.0, 0.0, 0.0]
        }
    }
}

/// What XProf takes a device's time from: operations and steps on the device's clock, and its own
/// line "Framework Ops", which it derives from operations with a framework op on the trace's
/// clock. The distance of the two clocks gets into the total.
fn extent(session: &Session, device: &Device) -> Option<(u64, u64)> {
    let (mut start, mut end) = device.device_extent_ps?;
    for (begin, duration, op) in device.ops.iter() {
        let named = session
            .ops
            .get(op as usize)
            .is_some_and(|op| !op.framework_op.is_empty());
        if named {
            start = start.min(begin);
            end = end.max(begin.saturating_add(duration));
        }
    }
    Some((start, end))
}

fn add_device(device: &Device, sums: &mut [Sum]) {
    for (i, op) in device.ops.id.iter().enumerate() {
        let Some(sum) = sums.get_mut(*op as usize) else {
            continue;
        };
        sum.occurrences = sum.occurrences.saturating_add(device.executions_of(i));
        sum.total_ps = sum.total_ps.saturating_add(device.op_device_duration_ps[i]);
        sum.self_ps = sum.self_ps.saturating_add(device.op_self_ps[i]);
    }
    #[expect(
        clippy::iter_over_hash_type,
        reason = "each entry goes to its own slot"
    )]
    for (op, cost) in &device.event_costs {
        let Some(sum) = sums.get_mut(*op as usize) else {
            continue;
        };
        sum.event_flops = sum.event_flops.saturating_add(cost.flops);
        sum.event_model_flops = sum.event_model_flops.saturating_add(cost.model_flops);
        sum.event_bytes = sum.event_bytes.saturating_add(cost.bytes_accessed);
    }
}

fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

fn flops_of(op: &Op, sum: &Sum) -> (f64, f64) {
    let count = sum.occurrences as f64;
    let mut flops = op.flops.unwrap_or(0) as f64 * count;
    let mut model_flops = op.model_flops.unwrap_or(0) as f64 * count;
    // A custom call may state its cost anew with each execution.
    if sum.event_flops > 0 || sum.event_model_flops > 0 {
        flops = sum.event_flops as f64;
        model_flops = sum.event_model_flops as f64;
    }
    (
        flops,
        if model_flops == 0.0 {
            flops
        } else {
            model_flops
        },
    )
}

fn traffic_of(op: &Op, sum: &Sum) -> Traffic {
    let count = sum.occurrences as f64;
    let mut traffic = Traffic {
        all: op.bytes_accessed.unwrap_or(0) as f64 * count,
        ..Traffic::default()
    };
    if sum.event_bytes > 0 {
        traffic.all = sum.event_bytes as f64;
        return traffic;
    }
    for access in &op.accesses {
        traffic.has_breakdown = true;
        let slot = match (access.space, access.write) {
            (1, _) => 0,
            (2, false) => 1,
            (2, true) => 2,
            (3, false) => 3,
            (3, true) => 4,
            _ => continue,
        };
        traffic.by_memory[slot] += access.bytes as f64 * count;
    }
    traffic
}

fn peaks_of(session: &Session) -> Option<Peaks> {
    let stated = session
        .analysed_cores()
        .map(|(_, device)| &device.peaks)
        .next()?;
    let gib = |gb: Option<f64>| gb.unwrap_or(0.0) * 1e9 / GIB;
    Some(Peaks {
        gflops: stated.peak_tflops? * 1e3,
        gib_per_s: [
            gib(Some(stated.peak_hbm_gb_per_s?)),
            gib(stated.peak_cmem_read_gb_per_s),
            gib(stated.peak_cmem_write_gb_per_s),
            gib(stated.peak_vmem_read_gb_per_s),
            gib(stated.peak_vmem_write_gb_per_s),
        ],
        merged_vmem: stated.has_merged_vmem == Some(true),
    })
}

fn row(
    op: OpId,
    sum: &Sum,
    flops: f64,
    model_flops: f64,
    traffic: &Traffic,
    peaks: &Option<Peaks>,
    total_ps: u64,
) -> OpRow {
    let per_ps = |amount: f64| ratio(amount, sum.total_ps as f64);
    let memories = traffic.memories();
    let (bound_by, efficiency) = match peaks {
        Some(peaks) => bound(
            per_ps(flops) * 1e3,
            &memories.map(|b| per_ps(b) * 1e12 / GIB),
            peaks,
        ),
        None => ("Unknown", 0.0),
    };
    OpRow {
        op,
        occurrences: sum.occurrences,
        total_time_ps: Picos(sum.total_ps),
        self_time_ps: Picos(sum.self_ps),
        self_time_percent: 100.0 * ratio(sum.self_ps as f64, total_ps as f64),
        flops,
        model_flop_rate_gflop_per_s: per_ps(model_flops) * 1e3,
        measured_memory_gib_per_s: per_ps(traffic.all) * 1e12 / GIB,
        hbm_gib_per_s: per_ps(memories[0]) * 1e12 / GIB,
        operational_intensity: ratio(flops, traffic.all),
        bound_by,
        roofline_efficiency: efficiency,
    }
}

/// The most used resource (the first of equals), and the efficiency that the roofline shows: the
/// largest utilisation, of which VMEM's counts only where it is merged.
fn bound(gflops: f64, gib_per_s: &[f64; 5], peaks: &Peaks) -> (&'static str, f64) {
    let compute = ratio(gflops, peaks.gflops);
    let mut best = if compute > 0.0 {
        ("Compute", compute)
    } else {
        ("Unknown", 0.0)
    };
    let mut efficiency = compute;
    let resources = RESOURCES.iter().zip(gib_per_s).zip(peaks.gib_per_s);
    for (i, ((name, rate), peak)) in resources.enumerate() {
        let used = ratio(*rate, peak);
        if used > best.1 {
            best = (name, used);
        }
        if i < 3 || peaks.merged_vmem {
            efficiency = efficiency.max(used);
        }
    }
    (best.0, efficiency)
}

fn program_row(flops: f64, traffic: &Traffic, peaks: &Peaks, total_ps: u64) -> ProgramRow {
    let per_ps = |amount: f64| ratio(amount, total_ps as f64);
    let gflops = per_ps(flops) * 1e3;
    let rates = traffic.memories().map(|b| per_ps(b) * 1e12 / GIB);
    let (_, efficiency) = bound(gflops, &rates, peaks);
    ProgramRow {
        flop_rate_gflop_per_s: gflops,
        hbm_gib_per_s: rates[0],
        compute_efficiency: ratio(gflops, peaks.gflops),
        roofline_efficiency: efficiency,
        hbm_ridge_flop_per_byte: ratio(peaks.gflops, peaks.gib_per_s[0] * GIB / 1e9),
    }
}

/// Union of busy spans over the cores of each chip, over the span that also holds the modules.
fn duty_cycle_percent(session: &Session) -> f64 {
    let on_duty: Vec<bool> = session
        .ops
        .iter()
        .map(|op| !OFF_DUTY.contains(&op.category.as_str()))
        .collect();
    let mut chips: BTreeMap<(u32, u32), Vec<&Device>> = BTreeMap::new();
    for device in &session.devices {
        if device.kind != CoreKind::Cpu {
            let chip = device.chip_on_host.unwrap_or(device.ordinal);
            chips.entry((device.host, chip)).or_default().push(device);
        }
    }
    let mut busy = 0u64;
    let mut span = 0u64;
    for cores in chips.values() {
        let spans = cores.iter().flat_map(|device| {
            device
                .ops
                .iter()
                .filter(|(_, _, op)| on_duty.get(*op as usize).copied().unwrap_or(true))
                .map(|(start, duration, _)| (start, start.saturating_add(duration)))
        });
        busy = busy.saturating_add(Intervals::union(spans).total_ps());
        let extents = cores
            .iter()
            .flat_map(|device| [device.ops.extent(), device.modules.extent()]);
        let whole = extents
            .flatten()
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        if let Some((start, end)) = whole {
            span = span.saturating_add(end.saturating_sub(start));
        }
    }
    100.0 * ratio(busy as f64, span as f64)
}
