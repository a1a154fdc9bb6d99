//! One run of a program on TPUs, whatever file it came from.
//!
//! A [`Session`] is columnar where there are millions (events) and plain structs where there are
//! thousands (operations). Handles are indices into its tables: [`OpId`], [`ModuleId`],
//! [`NameId`]. All times are picoseconds; see [`Track`] for which clock.

use std::path::PathBuf;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::note::Notes;
use crate::program::Program;

/// Index into [`Session::ops`].
pub type OpId = u32;
/// Index into [`Session::modules`].
pub type ModuleId = u32;
/// Index into [`Session::names`].
pub type NameId = u32;

/// Whether times were measured on a device or predicted from a compiled program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A trace of a run.
    #[default]
    Measured,
    /// The compiler's schedule with calibrated costs.
    Predicted,
}

/// The format of an input, found from its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `XSpace` protobuf (`*.xplane.pb`).
    XSpace,
    /// Chrome trace JSON in XProf's dialect.
    TraceJson,
    /// PyTorch Kineto JSON.
    Kineto,
    /// HLO module as text.
    HloText,
    /// `HloProto` or `HloModuleProto`.
    HloProto,
    /// StableHLO, compiled on the way.
    StableHlo,
    /// Text: a log, a report, a launch command; `Session::logs` tells of what kind.
    Log,
}

impl Format {
    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::XSpace => "XSpace",
            Self::TraceJson => "trace JSON",
            Self::Kineto => "Kineto JSON",
            Self::HloText => "HLO text",
            Self::HloProto => "HLO proto",
            Self::StableHlo => "StableHLO",
            Self::Log => "text",
        }
    }
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Input {
    /// The path as the user gave it, or as it was found under the directory that they gave.
    pub path: PathBuf,
    /// What it is.
    pub format: Format,
    /// Its size as stored.
    pub stored_bytes: u64,
}

/// What a device plane stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreKind {
    /// `/device:TPU:N`: a TensorCore (two of them where megacore joins them).
    TensorCore,
    /// `/device:TPU:N SparseCore M`.
    SparseCore,
    /// A thread of the host on which XLA:CPU ran operations.
    Cpu,
}

/// Peaks that the profile itself states for a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StatedPeaks {
    /// `device_type_string`, as `TPU v6 Lite`.
    pub device_type: Option<String>,
    /// Peak of the device in TFLOP/s (10¹²).
    pub peak_tflops: Option<f64>,
    /// HBM bandwidth of the device in GB/s (10⁹).
    pub peak_hbm_gb_per_s: Option<f64>,
    /// VMEM read bandwidth in GB/s (10⁹).
    pub peak_vmem_read_gb_per_s: Option<f64>,
    /// VMEM write bandwidth in GB/s (10⁹).
    pub peak_vmem_write_gb_per_s: Option<f64>,
    /// CMEM read bandwidth in GB/s (10⁹).
    pub peak_cmem_read_gb_per_s: Option<f64>,
    /// CMEM write bandwidth in GB/s (10⁹).
    pub peak_cmem_write_gb_per_s: Option<f64>,
    /// Whether two TensorCores act as one device.
    pub has_megacore: Option<bool>,
    /// Whether VMEM counts as a memory of its own in XProf's roofline.
    pub has_merged_vmem: Option<bool>,
}

/// Spans on one line, sorted by start.
///
/// Times are on the trace's clock: XProf's alignment of all devices of a host with the host. A
/// device's own clock drifts against it (microseconds in a second), so operations carry their
/// durations on the device's clock apart, see [`Device::op_device_duration_ps`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// Start of each span.
    pub start_ps: Vec<u64>,
    /// Duration of each span.
    pub duration_ps: Vec<u64>,
    /// What each span is: an [`OpId`], [`ModuleId`] or [`NameId`], by track.
    pub id: Vec<u32>,
}

impl Track {
    /// Appends a span.
    pub fn push(&mut self, start_ps: u64, duration_ps: u64, id: u32) {
        self.start_ps.push(start_ps);
        self.duration_ps.push(duration_ps);
        self.id.push(id);
    }

    /// Makes room for that many more spans.
    pub fn reserve(&mut self, spans: usize) {
        self.start_ps.reserve(spans);
        self.duration_ps.reserve(spans);
        self.id.reserve(spans);
    }

    /// Number of spans.
    #[must_use]
    pub fn len(&self) -> usize {
        self.id.len()
    }

    /// Whether there are no spans.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    /// `(start, duration, id)` of each span.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64, u32)> + '_ {
        self.start_ps
            .iter()
            .zip(&self.duration_ps)
            .zip(&self.id)
            .map(|((start, duration), id)| (*start, *duration, *id))
    }

    /// Sorts spans by start, longer first where starts are equal. `others` are columns that go with
    /// the spans; one that has not as many rows stays as it is.
    pub fn sort_with(&mut self, others: &mut [&mut Vec<u64>]) {
        // Lines are written in the order in which spans begin, an inner one at times before the
        // outer one that began in the same picosecond: mostly nothing moves, or only by one.
        let rows = self.len();
        let mut moves_left = rows.saturating_mul(2);
        for from in 1..rows {
            let mut at = from;
            while at > 0 && self.key(at - 1) > self.key(at) {
                if moves_left == 0 {
                    self.sort_far(others);
                    return;
                }
                moves_left -= 1;
                self.start_ps.swap(at - 1, at);
                self.duration_ps.swap(at - 1, at);
                self.id.swap(at - 1, at);
                for column in &mut *others {
                    if column.len() == rows {
                        column.swap(at - 1, at);
                    }
                }
                at -= 1;
            }
        }
    }

    fn key(&self, at: usize) -> (u64, std::cmp::Reverse<u64>) {
        (self.start_ps[at], std::cmp::Reverse(self.duration_ps[at]))
    }

    /// Sorts spans that are far from where they belong.
    fn sort_far(&mut self, others: &mut [&mut Vec<u64>]) {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|at| self.key(*at));
        let pick = |column: &[u64]| order.iter().map(|at| column[*at]).collect();
        for column in others {
            if column.len() == order.len() {
                **column = pick(column);
            }
        }
        self.start_ps = pick(&self.start_ps);
        self.duration_ps = pick(&self.duration_ps);
        self.id = order.iter().map(|at| self.id[*at]).collect();
    }

    /// The first start and the last end.
    #[must_use]
    pub fn extent(&self) -> Option<(u64, u64)> {
        let start = *self.start_ps.iter().min()?;
        let end = self.iter().map(|(s, d, _)| s.saturating_add(d)).max()?;
        Some((start, end))
    }
}

/// Costs that a profile gives for each execution of a custom call instead of once for the op.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCosts {
    /// Sum of FLOPs over the executions on this device.
    pub flops: u64,
    /// Sum of model FLOPs.
    pub model_flops: u64,
    /// Sum of bytes accessed.
    pub bytes_accessed: u64,
}

/// One core's lines.
#[derive(Clone, Debug)]
pub struct Device {
    /// Index into [`Session::hosts`].
    pub host: u32,
    /// The plane's name, as `/device:TPU:0`.
    pub plane: String,
    /// TensorCore or SparseCore.
    pub kind: CoreKind,
    /// `N` of `/device:TPU:N`.
    pub ordinal: u32,
    /// The chip that the core sits on, where the profile says so.
    pub chip_on_host: Option<u32>,
    /// Peaks that the plane states.
    pub peaks: StatedPeaks,
    /// Runs of whole programs; ids are [`ModuleId`]s.
    pub modules: Track,
    /// The run id of each span of `modules` (0 where the profile gives none).
    pub run_ids: Vec<u64>,
    /// Executions of operations; ids are [`OpId`]s.
    pub ops: Track,
    /// Start of each span of `ops` on the device's own clock; dropped once self times are known.
    pub op_device_start_ps: Vec<u64>,
    /// Duration of each span of `ops` on the device's own clock, the one that XProf counts.
    pub op_device_duration_ps: Vec<u64>,
    /// Self time of each span of `ops` on the device's own clock: its duration less that of the
    /// spans directly inside it.
    pub op_self_ps: Vec<u64>,
    /// Windows in which asynchronous operations were in flight; ids are [`OpId`]s.
    pub async_ops: Track,
    /// Step markers; ids are [`NameId`]s.
    pub steps: Track,
    /// Runtime markers as `barrier-cores`; ids are [`NameId`]s.
    pub marks: Track,
    /// Spans of `ops` that stand for more than one execution, by position: the later iterations of
    /// long loops are predicted as one span for each operation.
    pub repeats: std::collections::BTreeMap<usize, u64>,
    /// Costs per execution for custom calls.
    pub event_costs: FxHashMap<OpId, EventCosts>,
    /// First begin and last end of operations and steps on the device's own clock.
    pub device_extent_ps: Option<(u64, u64)>,
}

impl Device {
    /// Adds an execution of an operation: its span on the trace's clock, and `(start, duration)`
    /// on the device's own clock where the profile has it.
    #[inline]
    pub fn push_op(
        &mut self,
        op: OpId,
        start_ps: u64,
        duration_ps: u64,
        device: Option<(u64, u64)>,
    ) {
        let (device_start, device_duration) = device.unwrap_or((start_ps, duration_ps));
        self.ops.push(start_ps, duration_ps, op);
        self.op_device_start_ps.push(device_start);
        self.op_device_duration_ps.push(device_duration);
    }

    /// How many executions a span of `ops` stands for.
    #[must_use]
    pub fn executions_of(&self, span: usize) -> u64 {
        self.repeats.get(&span).copied().unwrap_or(1)
    }

    /// A device with no events yet.
    #[must_use]
    pub fn new(host: u32, plane: String, kind: CoreKind, ordinal: u32) -> Self {
        Self {
            host,
            plane,
            kind,
            ordinal,
            chip_on_host: None,
            peaks: StatedPeaks::default(),
            modules: Track::default(),
            run_ids: Vec::new(),
            ops: Track::default(),
            op_device_start_ps: Vec::new(),
            op_device_duration_ps: Vec::new(),
            op_self_ps: Vec::new(),
            async_ops: Track::default(),
            steps: Track::default(),
            marks: Track::default(),
            repeats: std::collections::BTreeMap::new(),
            event_costs: FxHashMap::default(),
            device_extent_ps: None,
        }
    }
}

/// A host that took part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Host {
    /// The host's name, or a stand-in from the file's name.
    pub name: String,
    /// `profile_start_time` and `profile_stop_time` in nanoseconds since the epoch, if given.
    pub capture_ns: Option<(u64, u64)>,
    /// `matrix_unit_utilization_percent`, a hardware counter that libtpu writes.
    pub mxu_utilization_percent: Option<f64>,
    /// `hbm_utilization_percent`, likewise.
    pub hbm_utilization_percent: Option<f64>,
}

/// A thread of the host process; ids of its spans are [`NameId`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostThread {
    /// Index into [`Session::hosts`].
    pub host: u32,
    /// The thread's name.
    pub name: String,
    /// Its spans, on the host's clock.
    pub spans: Track,
}

/// A program as the trace names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Module {
    /// The name without the id, as `jit_step_fun`.
    pub name: String,
    /// XLA's program id; `None` where the trace has none.
    pub program_id: Option<u64>,
}

/// Bytes that one execution moves, by direction and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MemoryAccess {
    /// Whether it writes.
    pub write: bool,
    /// XProf's memory space: 1 HBM, 2 CMEM, 3 VMEM.
    pub space: u64,
    /// Bytes per execution.
    pub bytes: u64,
}

/// An operation of a program, with what the profile says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Op {
    /// Its program.
    pub module: Option<ModuleId>,
    /// XLA's symbol id within the program; `None` or 0 where the trace has none.
    pub symbol_id: Option<u64>,
    /// The short name, as `fusion.12`.
    pub name: String,
    /// The whole HLO instruction as text, empty where the trace has none.
    pub hlo_text: String,
    /// XProf's `hlo_category`, as `convolution fusion`.
    pub category: String,
    /// The framework's op (`tf_op`), as `jit(f)/dot_general:`.
    pub framework_op: String,
    /// `file:line`, empty where unknown.
    pub source: String,
    /// The Python stack, innermost first, one `file:line:column` a line.
    pub source_stack: String,
    /// The name that equal operations share.
    pub deduplicated_name: String,
    /// The result's shape with layout.
    pub shape: String,
    /// FLOPs per execution; `None` where the trace does not say.
    pub flops: Option<u64>,
    /// Model FLOPs per execution (without recomputation and padding, as the compiler sees it).
    pub model_flops: Option<u64>,
    /// Bytes per execution over all memories.
    pub bytes_accessed: Option<u64>,
    /// The same by memory; empty where the trace does not say.
    pub accesses: Vec<MemoryAccess>,
}

impl Op {
    /// Whether it computes again what was not kept: the compiler (`.remat`) or `jax.checkpoint`
    /// (`rematted_computation`) made a copy of it.
    #[must_use]
    pub fn is_recomputed(&self) -> bool {
        self.name.contains(".remat") || self.framework_op.contains("rematted_computation")
    }
}

/// HLO found in the profile or given beside it.
#[derive(Clone, Debug)]
pub struct SessionProgram {
    /// The module of the trace that it belongs to, if one was found.
    pub module: Option<ModuleId>,
    /// The program.
    pub program: Program,
}

/// One run, read.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Measured or predicted.
    pub origin: Origin,
    /// How it was predicted, where it was.
    pub prediction: Option<crate::prediction::Prediction>,
    /// The files it was read from.
    pub inputs: Vec<Input>,
    /// The hosts that took part.
    pub hosts: Vec<Host>,
    /// The cores, by host and ordinal.
    pub devices: Vec<Device>,
    /// Host threads.
    pub threads: Vec<HostThread>,
    /// Programs as the trace names them.
    pub modules: Vec<Module>,
    /// Operations of all programs.
    pub ops: Vec<Op>,
    /// Names of markers and host spans.
    pub names: Vec<String>,
    /// HLO, where there is any.
    pub programs: Vec<SessionProgram>,
    /// Device memory over time, per allocator.
    pub memory: Vec<crate::memory::MemoryTimeline>,
    /// Names of the lines on device planes, sorted: some tell the generation.
    pub device_lines: std::collections::BTreeSet<String>,
    /// Planes of devices that are not TPUs, as `/device:GPU:0`.
    pub foreign_planes: Vec<String>,
    /// What logs, reports and launch commands tell.
    pub logs: crate::logs::Logs,
    /// What the readers noticed.
    pub notes: Notes,
}

impl Session {
    /// TensorCores only.
    pub fn tensor_cores(&self) -> impl Iterator<Item = (usize, &Device)> {
        self.devices
            .iter()
            .enumerate()
            .filter(|(_, device)| device.kind == CoreKind::TensorCore)
    }

    /// The cores that figures are about: TensorCores, or where there are none the threads of
    /// XLA:CPU.
    pub fn analysed_cores(&self) -> impl Iterator<Item = (usize, &Device)> {
        let has_tpu = self
            .devices
            .iter()
            .any(|device| device.kind == CoreKind::TensorCore);
        let wanted = if has_tpu {
            CoreKind::TensorCore
        } else {
            CoreKind::Cpu
        };
        self.devices
            .iter()
            .enumerate()
            .filter(move |(_, device)| device.kind == wanted)
    }

    /// An operation by its handle.
    ///
    /// # Panics
    /// Never for handles that this session gave out.
    #[must_use]
    pub fn op(&self, id: OpId) -> &Op {
        &self.ops[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;

    use super::Track;

    proptest! {
        #[test]
        fn a_sorted_track_has_the_same_rows_in_order(
            rows in prop::collection::vec((0u64..40, 0u64..4), 0..60),
            nearly_sorted: bool,
        ) {
            let mut rows = rows;
            if nearly_sorted {
                rows.sort_by_key(|row| row.0 / 4);
            }
            let mut track = Track::default();
            let mut beside = Vec::new();
            for (id, (start, duration)) in rows.iter().enumerate() {
                track.push(*start, *duration, id as u32);
                beside.push(id as u64);
            }
            let mut other = vec![7];
            track.sort_with(&mut [&mut beside, &mut other]);
            let mut wanted: Vec<(u64, u64, u32)> = (0..)
                .zip(rows)
                .map(|(id, (start, duration))| (start, duration, id))
                .collect();
            wanted.sort_by_key(|(start, duration, _)| (*start, Reverse(*duration)));
            prop_assert_eq!(track.iter().collect::<Vec<_>>(), wanted);
            let ids: Vec<u64> = track.id.iter().map(|id| u64::from(*id)).collect();
            prop_assert_eq!(beside, ids);
            prop_assert_eq!(other, [7]);
        }
    }
}
