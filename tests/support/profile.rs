//! The run that a profile tells of: programs, devices and what ran when.
//!
//! A [`TpuProfile`] knows no file format; `xspace`, `trace_json` and `kineto`
//! write it as the tools do. Times are picoseconds since the capture began, on
//! the device's own clock.

use super::chip::Chip;
use super::cost::{category, cost};
use super::hlo::Module;
use super::proto::MemoryAccess;

/// Picoseconds of so many nanoseconds.
pub const fn ns(n: u64) -> u64 {
    n * 1_000
}

/// Picoseconds of so many microseconds.
pub const fn us(n: u64) -> u64 {
    n * 1_000_000
}

/// Picoseconds of so many milliseconds.
pub const fn ms(n: u64) -> u64 {
    n * 1_000_000_000
}

/// What one host captured.
#[derive(Clone, Debug)]
pub struct TpuProfile {
    pub chip: Chip,
    pub hostname: String,
    /// Wall clock of the start and length of the capture.
    pub start_unix_ns: u64,
    pub programs: Vec<Program>,
    pub devices: Vec<Device>,
    pub host_threads: Vec<HostThread>,
    /// The counters libtpu writes on `/host:CPU`, in percent.
    pub mxu_percent: Option<f64>,
    pub hbm_percent: Option<f64>,
}

/// A compiled program that ran.
#[derive(Clone, Debug)]
pub struct Program {
    /// `jit_train_step`; the event is `jit_train_step(ID)`.
    pub name: String,
    pub id: u64,
    pub ops: Vec<Op>,
    /// A serialized `xla.HloProto` for `/host:metadata`.
    pub hlo_proto: Option<Vec<u8>>,
}

/// An operation of a program: what all its executions share.
#[derive(Clone, Debug, Default)]
pub struct Op {
    /// `fusion.12`.
    pub name: String,
    /// The full HLO text: the name of the event metadata.
    pub hlo: String,
    pub category: String,
    pub symbol: u64,
    pub flops: u64,
    pub model_flops: u64,
    pub bytes: u64,
    pub breakdown: Vec<MemoryAccess>,
    pub shape: String,
    pub tf_op: Option<String>,
    pub source: Option<String>,
    pub source_stack: Option<String>,
    pub deduplicated_name: Option<String>,
}

impl Op {
    /// What "Async XLA Ops" calls what this operation starts: `async-copy`.
    pub fn async_name(&self) -> String {
        let kind = self.name.split("-start").next().unwrap_or("copy");
        format!("async-{kind}")
    }
}

/// An operation of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpRef {
    pub program: usize,
    pub op: usize,
}

/// A TensorCore (or a device of the runtime) and its clock.
#[derive(Clone, Debug)]
pub struct Device {
    /// The N of `/device:TPU:N`, unique within the host.
    pub ordinal: u32,
    /// Unique over all hosts.
    pub global_id: u32,
    /// How far the host's clock runs ahead of the device's: event offsets are
    /// device offsets plus this.
    pub clock_skew: u64,
    pub modules: Vec<ModuleRun>,
    pub ops: Vec<OpRun>,
    pub transfers: Vec<Transfer>,
    pub trace_me: Vec<Mark>,
    pub steps: Vec<Step>,
    pub sparse_cores: Vec<SparseCore>,
    now: u64,
}

/// One execution of a program.
#[derive(Clone, Copy, Debug)]
pub struct ModuleRun {
    pub program: usize,
    pub run_id: u64,
    pub start: u64,
    pub duration: u64,
    /// Begun before the capture: the host's part of the launch is not seen.
    pub is_cut: bool,
}

/// One execution of an operation.
#[derive(Clone, Copy, Debug)]
pub struct OpRun {
    pub op: OpRef,
    pub start: u64,
    pub duration: u64,
    /// What the host's clock made of the duration: differs if the clock jumped.
    pub host_duration: u64,
}

/// An asynchronous operation from its start to the end of its done.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub start_op: OpRef,
    pub done_op: OpRef,
    pub start: u64,
    pub duration: u64,
}

/// A runtime annotation on the device: `barrier-cores`, `dependency-wait`.
#[derive(Clone, Debug)]
pub struct Mark {
    pub name: String,
    pub start: u64,
    pub duration: u64,
}

/// A training step as the runtime numbers it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub number: u64,
    pub start: u64,
    pub duration: u64,
}

/// A SparseCore of a device: `/device:TPU:N SparseCore M`.
#[derive(Clone, Debug, Default)]
pub struct SparseCore {
    pub index: u32,
    pub modules: Vec<ModuleRun>,
    pub ops: Vec<OpRun>,
    pub steps: Vec<Step>,
}

/// A thread of the host.
#[derive(Clone, Debug)]
pub struct HostThread {
    pub name: String,
    pub events: Vec<HostEvent>,
}

/// Something a host thread did.
#[derive(Clone, Debug)]
pub struct HostEvent {
    pub name: String,
    pub start: u64,
    pub duration: u64,
    /// Integer stats, such as `step_num` of a step annotation.
    pub stats: Vec<(&'static str, i64)>,
}

/// An asynchronous operation that was started and not yet waited for.
#[derive(Clone, Copy, Debug)]
#[must_use = "a start needs its done"]
pub struct Started {
    op: OpRef,
    at: u64,
}

impl TpuProfile {
    /// A capture of `devices` devices, nothing run yet.
    pub fn new(chip: Chip, devices: u32) -> Self {
        Self {
            chip,
            hostname: "tpu-host-0".to_owned(),
            // A fixed moment, so that the bytes never change.
            start_unix_ns: 1_767_225_600_000_000_000,
            programs: Vec::new(),
            devices: (0..devices).map(Device::new).collect(),
            host_threads: Vec::new(),
            mxu_percent: None,
            hbm_percent: None,
        }
    }

    /// The same capture as seen from host `index` of several: devices are
    /// numbered anew on each host and on over all hosts.
    pub fn on_host(mut self, index: u32) -> Self {
        self.hostname = format!("tpu-host-{index}");
        let count = u32::try_from(self.devices.len()).expect("few devices");
        for device in &mut self.devices {
            device.global_id = index * count + device.ordinal;
        }
        self
    }

    /// Adds a program written by hand.
    pub fn program(&mut self, name: &str, id: u64, ops: Vec<Op>) -> usize {
        self.programs.push(Program {
            name: name.to_owned(),
            id,
            ops,
            hlo_proto: None,
        });
        self.programs.len() - 1
    }

    /// Adds a compiled module: every operation that would show in a profile.
    pub fn module(&mut self, module: &Module, id: u64) -> usize {
        let mut ops = Vec::new();
        for computation in module.scheduled() {
            for instruction in computation.instructions.iter().filter(|i| i.is_event()) {
                let cost = cost(module, computation, instruction);
                let source = module.source(instruction);
                let operands: Vec<String> = instruction
                    .operands
                    .iter()
                    .map(|o| match computation.get(o) {
                        Some(producer) => format!("{} %{o}", producer.shape),
                        None => o.clone(),
                    })
                    .collect();
                ops.push(Op {
                    name: instruction.name.clone(),
                    hlo: format!(
                        "%{} = {} {}({}){}",
                        instruction.name,
                        instruction.shape,
                        instruction.opcode,
                        operands.join(", "),
                        instruction.attributes
                    ),
                    category: category(module, instruction),
                    symbol: instruction.symbol,
                    flops: cost.flops,
                    model_flops: cost.flops,
                    bytes: cost.bytes,
                    breakdown: cost.breakdown,
                    shape: instruction.shape.clone(),
                    tf_op: instruction.op_name.as_ref().map(|n| format!("{n}:")),
                    source: source.as_ref().map(|s| s.0.clone()),
                    source_stack: source.map(|s| s.1),
                    deduplicated_name: None,
                });
            }
        }
        self.program(&module.name, id, ops)
    }

    /// An operation by the name it has in its program.
    pub fn find(&self, program: usize, name: &str) -> OpRef {
        let op = self.programs[program]
            .ops
            .iter()
            .position(|o| o.name == name);
        let op = op.unwrap_or_else(|| panic!("no op {name:?} in {}", self.programs[program].name));
        OpRef { program, op }
    }

    /// What an operation's executions share.
    pub fn op(&self, op: OpRef) -> &Op {
        &self.programs[op.program].ops[op.op]
    }

    /// What an operation's executions share, to change it.
    pub fn op_mut(&mut self, op: OpRef) -> &mut Op {
        &mut self.programs[op.program].ops[op.op]
    }

    /// Keeps what a capture from `from` to `to` sees: operations that lie wholly
    /// inside, and what is left of modules and steps that were cut.
    pub fn crop(&mut self, from: u64, to: u64) {
        let inside = |start: u64, duration: u64| from <= start && start + duration <= to;
        for device in &mut self.devices {
            device.ops.retain(|r| inside(r.start, r.duration));
            device.transfers.retain(|t| inside(t.start, t.duration));
            device.trace_me.retain(|m| inside(m.start, m.duration));
            for module in device.modules.iter_mut().filter(|m| m.start < from) {
                module.is_cut = true;
            }
            for (start, duration) in device
                .modules
                .iter_mut()
                .map(|m| (&mut m.start, &mut m.duration))
                .chain(
                    device
                        .steps
                        .iter_mut()
                        .map(|s| (&mut s.start, &mut s.duration)),
                )
            {
                let end = (*start + *duration).min(to);
                *start = (*start).max(from);
                *duration = end.saturating_sub(*start);
            }
            device.modules.retain(|m| m.duration > 0);
            device.steps.retain(|s| s.duration > 0);
        }
        for thread in &mut self.host_threads {
            thread.events.retain(|e| inside(e.start, e.duration));
        }
    }

    /// The capture's length: to the end of the last thing that happened.
    pub fn duration(&self) -> u64 {
        let device_end = |d: &Device| d.now + d.clock_skew;
        let devices = self.devices.iter().map(device_end);
        let host = self
            .host_threads
            .iter()
            .flat_map(|t| &t.events)
            .map(|e| e.start + e.duration);
        devices.chain(host).max().unwrap_or(0)
    }
}

impl Device {
    fn new(ordinal: u32) -> Self {
        Self {
            ordinal,
            global_id: ordinal,
            // 225.04575 us, as large as in a real capture, and different for each device.
            clock_skew: 225_045_750 + u64::from(ordinal) * 1_250_000,
            modules: Vec::new(),
            ops: Vec::new(),
            transfers: Vec::new(),
            trace_me: Vec::new(),
            steps: Vec::new(),
            sparse_cores: Vec::new(),
            now: us(10),
        }
    }

    /// The device's clock.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Lets time pass with nothing to show for it.
    pub fn idle(&mut self, duration: u64) {
        self.now += duration;
    }

    /// Waits until `time`, if it is not yet past.
    pub fn until(&mut self, time: u64) {
        self.now = self.now.max(time);
    }

    /// Runs a program once; what `body` does happens inside it.
    pub fn run(&mut self, program: usize, run_id: u64, body: impl FnOnce(&mut Self)) {
        let start = self.now;
        self.modules.push(ModuleRun {
            program,
            run_id,
            start,
            duration: 0,
            is_cut: false,
        });
        let at = self.modules.len() - 1;
        body(self);
        self.modules[at].duration = self.now - start;
    }

    /// A step around what `body` does.
    pub fn step(&mut self, number: u64, body: impl FnOnce(&mut Self)) {
        let start = self.now;
        body(self);
        self.steps.push(Step {
            number,
            start,
            duration: self.now - start,
        });
    }

    /// Runs an operation.
    pub fn op(&mut self, op: OpRef, duration: u64) {
        self.ops.push(OpRun {
            op,
            start: self.now,
            duration,
            host_duration: duration,
        });
        self.now += duration;
    }

    /// Runs an operation during which the host's clock was corrected: by it, the
    /// operation took `host_duration`. Readers must go by the device's clock.
    pub fn op_with_clock_jump(&mut self, op: OpRef, duration: u64, host_duration: u64) {
        self.ops.push(OpRun {
            op,
            start: self.now,
            duration,
            host_duration,
        });
        self.now += duration;
    }

    /// Runs an operation that contains others: a `while` and its body.
    pub fn nest(&mut self, op: OpRef, body: impl FnOnce(&mut Self)) {
        let start = self.now;
        self.ops.push(OpRun {
            op,
            start,
            duration: 0,
            host_duration: 0,
        });
        let at = self.ops.len() - 1;
        body(self);
        self.ops[at].duration = self.now - start;
        self.ops[at].host_duration = self.now - start;
    }

    /// Starts an asynchronous operation.
    pub fn start(&mut self, op: OpRef, duration: u64) -> Started {
        let at = self.now;
        self.op(op, duration);
        Started { op, at }
    }

    /// Waits `duration` for an asynchronous operation to end.
    pub fn done(&mut self, op: OpRef, started: Started, duration: u64) {
        self.op(op, duration);
        self.transfers.push(Transfer {
            start_op: started.op,
            done_op: op,
            start: started.at,
            duration: self.now - started.at,
        });
        self.transfers.sort_by_key(|t| t.start);
    }

    /// A runtime annotation that takes time, such as `barrier-cores`.
    pub fn mark(&mut self, name: &str, duration: u64) {
        self.trace_me.push(Mark {
            name: name.to_owned(),
            start: self.now,
            duration,
        });
        self.now += duration;
    }
}
