//! The report: the only thing that the terminal, JSON, HTML and pull requests render.
//!
//! Its JSON is a public format: fields are added, never renamed or given another meaning, without
//! a new [`SCHEMA_VERSION`]. Every time names its unit. `xprof_compat` holds XProf's own figures
//! where ours differ on purpose.

pub mod host;
pub mod prediction;

use std::collections::BTreeMap;

use profiler::evidence::ops::FlopsBasis;
use profiler::evidence::peaks::{ChipBasis, Peak};
use profiler::evidence::source::scope;
use profiler::evidence::sparse::sparse_times;
use profiler::evidence::{Evidence, OpClass, OpProfile, Spread, StepBasis};
use profiler::note::{NoteLevel, Notes};
use profiler::session::{CoreKind, Origin};
use profiler::units::Picos;
use profiler::xprof_compat::XprofFigures;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Finding, Severity};
use crate::rank;
use crate::rule::Rule;

/// Version of the JSON format.
pub const SCHEMA_VERSION: u32 = 1;

/// All that is known of a run, ready to be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of this format.
    pub schema_version: u32,
    /// The program that made it.
    pub tool: String,
    /// `measured` (a trace), `predicted` (a compiled program), `text` (logs and reports) or `source`
    /// (code, not run).
    pub origin: String,
    /// How the times were predicted; absent where they were measured.
    #[serde(default)]
    pub prediction: Option<prediction::PredictionSummary>,
    /// The files that were read.
    pub inputs: Vec<InputFile>,
    /// The chip, if known.
    pub chip: Option<ChipSummary>,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// The cores that ran.
    pub devices: Vec<DeviceSummary>,
    /// Steps and their time.
    pub steps: StepSummary,
    /// Where the time of a step goes.
    pub breakdown: Breakdown,
    /// Model FLOP/s utilization, where FLOPs and peak are known.
    pub utilization: Option<Utilization>,
    /// Findings, the most worth first.
    pub findings: Vec<Finding>,
    /// Expected saving of all changes together if all work, overlaps taken out, in ms a step.
    pub combined_saving_ms: f64,
    /// Programs that ran.
    pub modules: Vec<ModuleSummary>,
    /// Collectives that ran in the steps, the most exposed first; equal ones are one row.
    #[serde(default)]
    pub collectives: Vec<CollectiveRow>,
    /// What the host did while the cores had no program.
    #[serde(default)]
    pub host: Option<host::HostSummary>,
    /// Functions that ran as several programs, one for each shape.
    #[serde(default)]
    pub families: Vec<host::ProgramFamily>,
    /// Device memory at its fullest, where the profile tells.
    pub memory: Option<MemorySummary>,
    /// What the readers noticed.
    pub notes: Vec<NoteSummary>,
    /// XProf's figures by XProf's rules, for comparison.
    pub xprof_compat: XprofCompat,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputFile {
    /// Path as given or found.
    pub path: String,
    /// Its format.
    pub format: String,
    /// Its size as stored.
    pub stored_bytes: u64,
}

/// The chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChipSummary {
    /// `v2` to `tpu7x`.
    pub generation: String,
    /// Google's product name.
    pub product_name: String,
    /// `stated`, `given` or `inferred`.
    pub basis: String,
    /// Why.
    pub reason: String,
    /// Peaks of one device by name, each with unit and source.
    pub peaks: BTreeMap<String, PeakFigure>,
}

/// A peak with unit and source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeakFigure {
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Where it is from.
    pub source: String,
}

/// One core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceSummary {
    /// Index of its host.
    pub host: u32,
    /// Plane name.
    pub plane: String,
    /// `tensor-core`, `sparse-core` or `cpu`.
    pub kind: String,
    /// Executions of operations recorded.
    pub op_events: u64,
    /// Whole steps.
    pub steps: usize,
    /// Median step in ms.
    pub step_median_ms: f64,
    /// Share of the steps' window in which an operation ran.
    pub busy_share: f64,
    /// No operation although a program ran, ms a step.
    pub idle_inside_ms_per_step: f64,
    /// No program ran, ms a step.
    pub idle_between_ms_per_step: f64,
    /// Waiting at the start of programs for the other cores, ms a step.
    pub barrier_ms_per_step: f64,
}

/// Order statistics of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSpread {
    /// Number of values.
    pub count: usize,
    /// Smallest, ms.
    pub min_ms: f64,
    /// Median, ms.
    pub median_ms: f64,
    /// 90th percentile, ms.
    pub p90_ms: f64,
    /// Largest, ms.
    pub max_ms: f64,
    /// Mean, ms.
    pub mean_ms: f64,
}

impl From<Spread> for TimeSpread {
    fn from(spread: Spread) -> Self {
        Self {
            count: spread.count,
            min_ms: spread.min_ps.as_ms(),
            median_ms: spread.median_ps.as_ms(),
            p90_ms: spread.p90_ps.as_ms(),
            max_ms: spread.max_ps.as_ms(),
            mean_ms: spread.mean_ps.as_ms(),
        }
    }
}

/// Steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepSummary {
    /// What steps were taken from, in words.
    pub basis: String,
    /// Time of a step; of each step the slowest core counts.
    pub time: TimeSpread,
    /// From the start of a step to the start of the next.
    pub period: TimeSpread,
    /// What a step costs on the wall, ms: the window of the whole steps, idle time included,
    /// divided by their number, mean over cores. Shares of findings are of this.
    #[serde(default)]
    pub wall_ms: f64,
    /// Steps left out because an end of the capture cut them.
    pub cut: usize,
}

/// A row of the breakdown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BreakdownRow {
    /// What.
    pub name: String,
    /// Self time a step, mean over cores, ms.
    pub self_ms_per_step: f64,
    /// Share of all busy and idle time of the window.
    pub share: f64,
    /// Executions a step, mean over cores.
    pub executions_per_step: f64,
}

/// Where the time goes. Rows of each table but the SparseCores' add up, with the idle time, to the
/// window of the steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Breakdown {
    /// Length of the window for each step, idle time included, ms.
    pub window_ms_per_step: f64,
    /// By XProf's category.
    pub categories: Vec<BreakdownRow>,
    /// By our class.
    pub classes: Vec<BreakdownRow>,
    /// By framework scope: the first levels of the framework's op names.
    pub scopes: Vec<BreakdownRow>,
    /// By source line.
    pub sources: Vec<BreakdownRow>,
    /// What the SparseCores do beside, by category, mean over SparseCores: no part of the window
    /// of the TensorCores. Empty where none ran.
    #[serde(default)]
    pub sparse_core: Vec<BreakdownRow>,
    /// Idle while a program ran, ms a step.
    pub idle_inside_ms_per_step: f64,
    /// Idle between programs, ms a step.
    pub idle_between_ms_per_step: f64,
}

/// Model FLOP/s utilization: the time that the FLOPs of the matmuls need at the peak of their
/// operands' dtype, over step time. What is computed again (remat) does not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Utilization {
    /// Without custom calls, whose FLOPs are their author's word.
    pub mfu_without_custom_calls: f64,
    /// With the custom calls that state their FLOPs.
    pub mfu_with_custom_calls: f64,
    /// Also with the kernels whose FLOPs follow from their shapes only: an upper bound, as it counts
    /// what a mask leaves out.
    #[serde(default)]
    pub mfu_at_most: f64,
    /// Hardware FLOP/s utilization: as `mfu_with_custom_calls`, with what is computed again.
    #[serde(default)]
    pub hfu_with_custom_calls: f64,
    /// Custom kernels whose FLOPs nobody states, of those that take 0.1 % of the step or more.
    pub custom_calls_without_flops: usize,
    /// The convention, with its figures.
    pub formula: String,
}

/// Runs of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModuleSummary {
    /// Its name.
    pub name: String,
    /// XLA's id as decimal text: it does not fit a JSON number.
    pub program_id: String,
    /// Runs over all cores and their durations.
    pub time: TimeSpread,
    /// Sum over all cores, ms.
    pub total_ms: f64,
    /// Whether the profile holds its HLO.
    pub has_hlo: bool,
}

/// Collectives of one kind, form, size, axis and source line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CollectiveRow {
    /// `all-reduce`, `all-gather` and so on.
    pub kind: String,
    /// `blocking`, `async` or `carried by a fusion`.
    pub form: String,
    /// Name of the first, the most exposed.
    pub name: String,
    /// Its program.
    pub module: String,
    /// How many instructions the row stands for.
    pub instructions: usize,
    /// Who takes part, in words.
    pub groups: String,
    /// Devices in a group, where known.
    pub group_size: Option<u64>,
    /// `ICI`, `within a chip` or `DCN`.
    pub fabric: String,
    /// Bytes without padding: an all-gather's result, a reduce-scatter's operand, else the operand.
    pub payload_bytes: Option<f64>,
    /// Bytes that a device sends in one execution (ring).
    pub wire_bytes: Option<f64>,
    /// Executions a step, mean over cores.
    pub executions_per_step: f64,
    /// Time that the core waits in them, mean over cores, ms a step.
    pub exposed_ms_per_step: f64,
    /// Of that the transfer: what the core spends that waits least, ms a step.
    pub transfer_ms_per_step: f64,
    /// From start to done, ms a step; absent for blocking ones.
    pub in_flight_ms_per_step: Option<f64>,
    /// Wire bytes over transfer time, GB/s (10⁹); a lower bound for asynchronous ones.
    pub bus_gb_per_s: Option<f64>,
    /// `file:line`, empty where unknown.
    pub source: String,
    /// The framework's op of the first.
    pub framework_op: String,
}

/// Device memory at its fullest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySummary {
    /// In use at the peak, stacks included, bytes.
    pub peak_bytes: u64,
    /// Of those, reserved for stacks of programs, bytes.
    pub reserved_bytes: u64,
    /// Free at the peak, bytes.
    pub free_bytes: u64,
    /// Size of the memory that programs can use, bytes.
    pub capacity_bytes: u64,
    /// Where the figures come from, in words.
    #[serde(default)]
    pub source: String,
}

/// A note of the readers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoteSummary {
    /// Stable key.
    pub code: String,
    /// `warning` or `info`.
    pub level: String,
    /// What was found.
    pub message: String,
    /// How often.
    pub count: u64,
}

/// XProf's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct XprofCompat {
    /// Sum over cores, idle included, ms.
    pub total_time_ms: f64,
    /// Idle, percent.
    pub idle_percent: f64,
    /// Duty cycle, percent.
    pub duty_cycle_percent: f64,
    /// Self time over all cores by category, ms.
    pub category_self_time_ms: BTreeMap<String, f64>,
    /// GFLOP/s (10⁹) of the whole program; absent without peaks.
    pub program_gflop_per_s: Option<f64>,
    /// HBM GiB/s (2³⁰) of the whole program.
    pub program_hbm_gib_per_s: Option<f64>,
    /// Roofline efficiency of the whole program.
    pub program_roofline_efficiency: Option<f64>,
}

/// The notes of the readers and those on the steps.
fn all_notes(evidence: &Evidence<'_>) -> Notes {
    let mut notes = evidence.session.notes.clone();
    notes.merge(evidence.steps.notes.clone());
    notes
}

/// What people and other programs ask first.
impl Report {
    /// The report of a check of source code: findings and notes, and nothing that only a run tells.
    #[must_use]
    pub fn of_source(
        inputs: Vec<InputFile>,
        findings: Vec<Finding>,
        notes: Vec<NoteSummary>,
    ) -> Self {
        let session = profiler::session::Session::default();
        let evidence = Evidence::gather(&session, None, &[]);
        Self {
            origin: "source".to_owned(),
            inputs,
            findings,
            notes,
            ..Self::new(&evidence, &[])
        }
    }

    /// Gathers the report.
    #[must_use]
    pub fn new(evidence: &Evidence<'_>, rules: &[&dyn Rule]) -> Self {
        let ranked = rank::advise(evidence, rules);
        let session = evidence.session;
        Self {
            schema_version: SCHEMA_VERSION,
            tool: format!("tpu-tune {}", env!("CARGO_PKG_VERSION")),
            origin: match session.origin {
                _ if session.devices.is_empty() && !session.logs.files.is_empty() => {
                    "text".to_owned()
                }
                Origin::Measured => "measured".to_owned(),
                Origin::Predicted => "predicted".to_owned(),
            },
            prediction: prediction::prediction_summary(evidence),
            inputs: session
                .inputs
                .iter()
                .map(|input| InputFile {
                    path: input.path.display().to_string(),
                    format: input.format.name().to_owned(),
                    stored_bytes: input.stored_bytes,
                })
                .collect(),
            chip: chip_summary(evidence),
            hosts: session.hosts.iter().map(|host| host.name.clone()).collect(),
            devices: device_summaries(evidence),
            steps: StepSummary {
                basis: step_basis(evidence),
                time: evidence.steps.time.into(),
                period: evidence.steps.period.into(),
                wall_ms: evidence.step_time().as_ms(),
                cut: evidence.steps.cut,
            },
            breakdown: breakdown(evidence),
            utilization: utilization(evidence),
            findings: ranked.findings,
            combined_saving_ms: ranked.combined_ms,
            modules: module_summaries(evidence),
            collectives: collective_rows(evidence),
            host: host::host_summary(evidence),
            families: host::families(evidence),
            memory: evidence.memory().map(|memory| MemorySummary {
                peak_bytes: memory.used_bytes,
                reserved_bytes: memory.reserved_bytes,
                free_bytes: memory.free_bytes(),
                capacity_bytes: memory.capacity_bytes,
                source: memory.source.words().to_owned(),
            }),
            notes: all_notes(evidence)
                .iter()
                .map(|note| NoteSummary {
                    code: note.code.to_owned(),
                    level: match note.level {
                        NoteLevel::Warning => "warning".to_owned(),
                        NoteLevel::Info => "info".to_owned(),
                    },
                    message: note.message,
                    count: note.count,
                })
                .collect(),
            xprof_compat: xprof_compat(&XprofFigures::of(session)),
        }
    }

    /// The worst severity among the findings.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).min()
    }

    /// The JSON schema of the report.
    #[must_use]
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Report).to_value()
    }
}

fn chip_summary(evidence: &Evidence<'_>) -> Option<ChipSummary> {
    let chip = evidence.chip.as_ref()?;
    let peaks = &evidence.peaks;
    let figures: [(&str, &Option<Peak>, &str); 9] = [
        ("bf16 matmul", &peaks.bf16_tflops, "TFLOP/s"),
        ("fp8 matmul", &peaks.fp8_tflops, "TFLOP/s"),
        ("int8 matmul", &peaks.int8_tops, "TOP/s"),
        ("HBM", &peaks.hbm_gb_per_s, "GB/s"),
        ("VMEM read", &peaks.vmem_read_gb_per_s, "GB/s"),
        ("VMEM write", &peaks.vmem_write_gb_per_s, "GB/s"),
        ("ICI, one direction", &peaks.ici_gb_per_s, "GB/s"),
        ("PCIe, one direction", &peaks.pcie_gb_per_s, "GB/s"),
        ("HBM size", &peaks.hbm_bytes, "bytes"),
    ];
    let peaks = figures.into_iter().filter_map(|(name, peak, unit)| {
        let peak = peak.as_ref()?;
        let figure = PeakFigure {
            value: peak.value,
            unit: unit.to_owned(),
            source: peak.source.clone(),
        };
        Some((name.to_owned(), figure))
    });
    Some(ChipSummary {
        generation: chip.generation.name().to_owned(),
        product_name: chip.facts.product_name.clone(),
        basis: match chip.basis {
            ChipBasis::Stated => "stated".to_owned(),
            ChipBasis::Given => "given".to_owned(),
            ChipBasis::Inferred => "inferred".to_owned(),
        },
        reason: chip.reason.clone(),
        peaks: peaks.collect(),
    })
}

fn device_summaries(evidence: &Evidence<'_>) -> Vec<DeviceSummary> {
    let summary = |(index, device): (usize, &profiler::session::Device)| {
        let steps = evidence.steps.of_device(index);
        let core = evidence.cores.iter().find(|core| core.device == index);
        let durations = steps.map(|s| s.whole().map(|step| step.duration()).collect::<Vec<_>>());
        let per_step = |time: Picos| core.map_or(0.0, |c| time.as_ms() / c.steps.max(1) as f64);
        DeviceSummary {
            host: device.host,
            plane: device.plane.clone(),
            kind: match device.kind {
                CoreKind::TensorCore => "tensor-core".to_owned(),
                CoreKind::SparseCore => "sparse-core".to_owned(),
                CoreKind::Cpu => "cpu".to_owned(),
            },
            op_events: device.ops.len() as u64,
            steps: steps.map_or(0, |steps| steps.count()),
            step_median_ms: Spread::of(durations.unwrap_or_default()).median_ps.as_ms(),
            busy_share: core.map_or(0.0, |core| ratio(core.busy_ps, core.window_ps)),
            idle_inside_ms_per_step: per_step(core.map_or(Picos(0), |core| core.idle_inside_ps)),
            idle_between_ms_per_step: per_step(core.map_or(Picos(0), |core| core.idle_between_ps)),
            barrier_ms_per_step: per_step(core.map_or(Picos(0), |core| core.barrier_ps)),
        }
    };
    evidence
        .session
        .devices
        .iter()
        .enumerate()
        .map(summary)
        .collect()
}

fn ratio(part: Picos, whole: Picos) -> f64 {
    if whole.0 == 0 {
        0.0
    } else {
        part.0 as f64 / whole.0 as f64
    }
}

fn step_basis(evidence: &Evidence<'_>) -> String {
    match evidence.steps.basis {
        StepBasis::Markers => "step markers of the profile".to_owned(),
        StepBasis::ModuleRuns(module) => {
            let name = &evidence.session.modules[module as usize].name;
            format!("runs of {name}, the program that took the most time (no step markers)")
        }
        StepBasis::WholeCapture => {
            "the whole capture as one step (no step markers, no program runs)".to_owned()
        }
    }
}

fn breakdown(evidence: &Evidence<'_>) -> Breakdown {
    let session = evidence.session;
    let window_ps = evidence.mean_per_step(|core| core.window_ps);
    let of_window = |ps: f64| if window_ps > 0.0 { ps / window_ps } else { 0.0 };
    let by = |key: &dyn Fn(&OpProfile) -> String| -> Vec<BreakdownRow> {
        let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for op in &evidence.ops {
            let sum = sums.entry(key(op)).or_default();
            sum.0 += op.step_self_ps;
            sum.1 += op.step_occurrences;
        }
        let mut rows: Vec<BreakdownRow> = sums
            .into_iter()
            .map(|(name, (self_ps, executions_per_step))| BreakdownRow {
                name,
                self_ms_per_step: self_ps / 1e9,
                share: of_window(self_ps),
                executions_per_step,
            })
            .collect();
        rows.sort_by(|a, b| {
            b.self_ms_per_step
                .total_cmp(&a.self_ms_per_step)
                .then_with(|| a.name.cmp(&b.name))
        });
        rows
    };
    let named = |text: &str| {
        if text.is_empty() {
            "(unknown)".to_owned()
        } else {
            text.to_owned()
        }
    };
    Breakdown {
        window_ms_per_step: window_ps / 1e9,
        categories: by(&|op| named(&session.op(op.id).category)),
        classes: by(&|op| op.class.name().to_owned()),
        scopes: by(&|op| named(&scope(&session.op(op.id).framework_op))),
        sources: by(&|op| named(evidence.source_near(op).unwrap_or_default())),
        sparse_core: sparse_times(session, &evidence.steps)
            .iter()
            .map(|time| BreakdownRow {
                name: named(&time.category),
                self_ms_per_step: time.step_self_ps / 1e9,
                share: of_window(time.step_self_ps),
                executions_per_step: time.step_occurrences,
            })
            .collect(),
        idle_inside_ms_per_step: evidence.mean_per_step(|core| core.idle_inside_ps) / 1e9,
        idle_between_ms_per_step: evidence.mean_per_step(|core| core.idle_between_ps) / 1e9,
    }
}

/// FLOPs of a step, and the time that they take at the peaks of their operands.
#[derive(Clone, Copy, Default)]
struct Work {
    flops: f64,
    ps: f64,
}

impl Work {
    fn add(&mut self, flops: f64, tflops: f64) {
        self.flops += flops;
        self.ps += flops / tflops;
    }
}

fn utilization(evidence: &Evidence<'_>) -> Option<Utilization> {
    let bf16 = evidence.peaks.bf16_tflops.as_ref()?.value;
    let window_ps = evidence.mean_per_step(|core| core.window_ps);
    let [mut matmul, mut custom, mut again, mut at_most] = [Work::default(); 4];
    let mut unknown = 0;
    // Calls that join buffers or run once take no time that FLOPs could explain.
    let ran = |op: &OpProfile| evidence.share_of_step(op.step_self_ps) >= 0.001;
    for op in &evidence.ops {
        let flops = op.cost.flops.unwrap_or(0.0) * op.step_occurrences;
        let peak = op.peak_tflops(&evidence.peaks).unwrap_or(bf16);
        let recomputed = evidence.session.op(op.id).is_recomputed();
        match (op.class, op.cost.flops_basis) {
            (OpClass::Matmul | OpClass::CustomCall, Some(_)) if recomputed => {
                again.add(flops, peak);
            }
            (OpClass::Matmul, _) => matmul.add(flops, peak),
            (OpClass::CustomCall, Some(FlopsBasis::Kernel)) => at_most.add(flops, peak),
            (OpClass::CustomCall, Some(_)) => custom.add(flops, peak),
            (OpClass::CustomCall, None) if op.is_kernel() && ran(op) => unknown += 1,
            _ => {}
        }
    }
    if window_ps <= 0.0 || matmul.flops + custom.flops + at_most.flops <= 0.0 {
        return None;
    }
    let used = |work: &[Work]| work.iter().map(|work| work.ps).sum::<f64>() / window_ps;
    let mut formula = format!(
        "FLOPs of matmuls ({:.3} TFLOP a step and core; with custom calls {:.3}), each over the peak of its operands' dtype (bf16: {bf16} TFLOP/s), over {:.3} ms from step to step, idle time included",
        matmul.flops / 1e12,
        (matmul.flops + custom.flops) / 1e12,
        window_ps / 1e9
    );
    if again.flops > 0.0 {
        formula.push_str(&format!(
            "; left out: {:.3} TFLOP computed again (remat)",
            again.flops / 1e12
        ));
    }
    if at_most.flops > 0.0 {
        formula.push_str(&format!(
            "; left out: at most {:.3} TFLOP of kernels known by their shapes only (no mask)",
            at_most.flops / 1e12
        ));
    }
    Some(Utilization {
        mfu_without_custom_calls: used(&[matmul]),
        mfu_with_custom_calls: used(&[matmul, custom]),
        mfu_at_most: used(&[matmul, custom, at_most]),
        hfu_with_custom_calls: used(&[matmul, custom, again]),
        custom_calls_without_flops: unknown,
        formula,
    })
}

fn module_summaries(evidence: &Evidence<'_>) -> Vec<ModuleSummary> {
    let session = evidence.session;
    let summary = |run: &profiler::evidence::ModuleRuns| {
        let module = &session.modules[run.module as usize];
        let has_hlo = session
            .programs
            .iter()
            .any(|p| p.module == Some(run.module));
        ModuleSummary {
            name: module.name.clone(),
            program_id: module
                .program_id
                .map(|id| id.to_string())
                .unwrap_or_default(),
            time: run.time.into(),
            total_ms: run.total_ps.as_ms(),
            has_hlo,
        }
    };
    evidence.modules.iter().map(summary).collect()
}

fn collective_rows(evidence: &Evidence<'_>) -> Vec<CollectiveRow> {
    let session = evidence.session;
    let mut rows: Vec<(CollectiveRow, Option<f64>)> = Vec::new();
    let mut positions: BTreeMap<(String, Option<u64>), usize> = BTreeMap::new();
    for collective in evidence.collectives.list.iter().filter(|c| c.count > 0.0) {
        let op = session.op(collective.main_op());
        let in_flight = collective.in_flight_ps;
        // Rates do not add: wire bytes and the time that they took do.
        let time = collective
            .bus_gb_per_s
            .zip(collective.wire_bytes)
            .map(|(rate, bytes)| bytes * collective.count / rate);
        let row = CollectiveRow {
            kind: collective.kind.name().to_owned(),
            form: collective.form.name().to_owned(),
            name: op.name.clone(),
            module: op
                .module
                .and_then(|id| session.modules.get(id as usize))
                .map(|module| module.name.clone())
                .unwrap_or_default(),
            instructions: 1,
            groups: collective.groups.to_string(),
            group_size: collective.groups.size,
            fabric: collective.fabric.name().to_owned(),
            payload_bytes: collective.payload_bytes,
            wire_bytes: collective.wire_bytes,
            executions_per_step: collective.count,
            exposed_ms_per_step: collective.exposed_ps / 1e9,
            transfer_ms_per_step: collective.transfer_ps / 1e9,
            in_flight_ms_per_step: in_flight.map(|ps| ps / 1e9),
            bus_gb_per_s: collective.bus_gb_per_s,
            source: collective.source.clone(),
            framework_op: op.framework_op.clone(),
        };
        let text =
            [&row.kind, &row.form, &row.module, &row.groups, &row.source].map(String::as_str);
        let key = (text.join("|"), row.payload_bytes.map(f64::to_bits));
        let Some((sum, total)) = positions.get(&key).and_then(|at| rows.get_mut(*at)) else {
            positions.insert(key, rows.len());
            rows.push((row, time));
            continue;
        };
        sum.instructions += 1;
        sum.executions_per_step += row.executions_per_step;
        sum.exposed_ms_per_step += row.exposed_ms_per_step;
        sum.transfer_ms_per_step += row.transfer_ms_per_step;
        sum.in_flight_ms_per_step = add(sum.in_flight_ms_per_step, row.in_flight_ms_per_step);
        *total = add(*total, time);
        let sent = sum.wire_bytes.map(|bytes| bytes * sum.executions_per_step);
        sum.bus_gb_per_s = sent.zip(*total).map(|(bytes, time)| bytes / time);
    }
    let mut rows: Vec<CollectiveRow> = rows.into_iter().map(|(row, _)| row).collect();
    rows.sort_by(|a, b| b.exposed_ms_per_step.total_cmp(&a.exposed_ms_per_step));
    rows
}

fn add(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a + b)
}

fn xprof_compat(figures: &XprofFigures) -> XprofCompat {
    let categories = figures.category_self_time_ps.iter();
    XprofCompat {
        total_time_ms: figures.total_time_ps.as_ms(),
        idle_percent: figures.idle_percent,
        duty_cycle_percent: figures.duty_cycle_percent,
        category_self_time_ms: categories.map(|(k, v)| (k.clone(), v.as_ms())).collect(),
        program_gflop_per_s: figures.program.map(|p| p.flop_rate_gflop_per_s),
        program_hbm_gib_per_s: figures.program.map(|p| p.hbm_gib_per_s),
        program_roofline_efficiency: figures.program.map(|p| p.roofline_efficiency),
    }
}
