//! Durations for programs that never ran: a roofline with fixed efficiencies.
//!
//! Good for profiles whose figures a test can work out again, and no statement
//! about real hardware.

use std::collections::BTreeMap;

use super::chip::Chip;
use super::hlo::{Computation, Module};
use super::profile::{Device, Op, OpRef, Started, TpuProfile};
use super::shape::{Array, arrays};
use super::xspace::mix;

/// Device clocks tick at 800 MHz: times are multiples of this many picoseconds.
pub const TICK: u64 = 1_250;

/// How fast operations of each kind go.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    pub chip: Chip,
    /// Part of the peak FLOP rate that matmul fusions reach.
    pub mxu: f64,
    /// Part of the peak HBM bandwidth that everything else reaches.
    pub hbm: f64,
    /// Bytes per second that a device receives in a collective.
    pub ici: f64,
    /// Bytes per second between the device and its host.
    pub pcie: f64,
    /// What even an empty operation takes, in picoseconds.
    pub overhead: f64,
    /// Devices in a collective.
    pub group: f64,
}

impl Model {
    /// Usual figures for a chip: 75 % of peak FLOPs, 80 % of HBM, and for
    /// collectives and host copies what real v6e captures show.
    pub fn new(chip: Chip, group: u32) -> Self {
        Self {
            chip,
            mxu: 0.75,
            hbm: 0.80,
            ici: 90e9,
            pcie: 27e9,
            overhead: 800_000.0,
            group: group.into(),
        }
    }

    /// How long one execution takes, in picoseconds, a multiple of [`TICK`].
    pub fn duration(&self, op: &Op) -> u64 {
        let chip = self.chip.figures();
        let result: f64 = arrays(&op.shape).iter().map(|a| a.bytes() as f64).sum();
        let hbm: u64 = op
            .breakdown
            .iter()
            .filter(|a| a.memory_space == 1)
            .map(|a| a.bytes_accessed)
            .sum();
        let others = (self.group - 1.0) / self.group;
        let seconds = match op.category.as_str() {
            // A device receives the parts of the others.
            "all-gather" | "all-to-all" => result * others / self.ici,
            "all-reduce" => 2.0 * result * others / self.ici,
            // The result is one part of what is reduced.
            "all-reduce-scatter fusion" | "reduce-scatter" => {
                result * (self.group - 1.0) / self.ici
            }
            "collective-permute" => result / self.ici,
            _ => {
                let compute = op.flops as f64 / (chip.peak_teraflops * 1e12 * self.mxu);
                let memory = hbm as f64 / (chip.hbm_gb * 1e9 * self.hbm);
                if op.category == "convolution fusion" {
                    compute.max(memory)
                } else {
                    memory
                }
            }
        };
        ticks(seconds * 1e12 + self.overhead)
    }

    /// How long the data of an asynchronous start are under way.
    fn transfer(&self, op: &Op) -> u64 {
        let host = crosses_pcie(op);
        let bytes = arrays(&op.shape).first().map_or(0, Array::bytes) as f64;
        let rate = if host {
            self.pcie
        } else if op.category.starts_with("collective-permute") {
            self.ici
        } else {
            self.chip.figures().hbm_gb * 1e9 * self.hbm
        };
        ticks(bytes / rate * 1e12 + self.overhead)
    }
}

/// Whether a start copies from or to the host's memory.
fn crosses_pcie(op: &Op) -> bool {
    op.category == "copy-start" && arrays(&op.shape).iter().any(|a| a.space == 5)
}

fn ticks(ps: f64) -> u64 {
    ((ps / TICK as f64).round() as u64).max(1) * TICK
}

/// A module as a list of things to do, each with its time.
#[derive(Clone, Debug)]
pub struct Script {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
enum Node {
    Op {
        op: OpRef,
        duration: u64,
    },
    Start {
        op: OpRef,
        transfer: u64,
        pcie: bool,
    },
    Done {
        op: OpRef,
        start: OpRef,
    },
    While {
        op: OpRef,
        trips: u64,
        body: Vec<Node>,
    },
}

/// Variation between executions: up to `permille` of a duration either way. The
/// default has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    pub seed: u64,
    pub permille: u64,
}

impl Jitter {
    fn apply(&mut self, duration: u64) -> u64 {
        if self.permille == 0 {
            return duration;
        }
        self.seed = mix(self.seed);
        let by = self.seed % (2 * self.permille + 1);
        let scaled = duration / 1_000 * (1_000 + by - self.permille);
        (scaled / TICK).max(1) * TICK
    }
}

impl Script {
    /// What `program` does in schedule order: loops run `trips(name)` times, an
    /// operation takes `time(op)` or, where that says nothing, what `model` says.
    pub fn new(
        profile: &TpuProfile,
        program: usize,
        module: &Module,
        model: &Model,
        trips: impl Fn(&str) -> u64,
        time: impl Fn(&Op) -> Option<u64>,
    ) -> Self {
        let context = Context {
            profile,
            program,
            module,
            model,
            trips: &trips,
            time: &time,
        };
        Self {
            nodes: context.nodes(module.entry()),
        }
    }

    /// Plays the script on a device.
    pub fn play(&self, device: &mut Device, jitter: &mut Jitter) {
        play(&self.nodes, device, jitter);
    }
}

struct Context<'a> {
    profile: &'a TpuProfile,
    program: usize,
    module: &'a Module,
    model: &'a Model,
    trips: &'a dyn Fn(&str) -> u64,
    time: &'a dyn Fn(&Op) -> Option<u64>,
}

impl Context<'_> {
    fn nodes(&self, computation: &Computation) -> Vec<Node> {
        let mut nodes = Vec::new();
        // What each name that stands for a start was started by.
        let mut started: BTreeMap<&str, OpRef> = BTreeMap::new();
        for instruction in computation.instructions.iter().filter(|i| i.is_event()) {
            let op = self.profile.find(self.program, &instruction.name);
            let what = self.profile.op(op);
            let duration = (self.time)(what).unwrap_or_else(|| self.model.duration(what));
            let start = instruction
                .operands
                .iter()
                .find_map(|o| started.get(o.as_str()).copied());
            let opcode = instruction.opcode.as_str();
            if opcode == "while" {
                let mut body = Vec::new();
                for key in ["condition", "body"] {
                    let callee = instruction.callee(key).expect("a while has both");
                    body.extend(self.nodes(self.module.computation(callee)));
                }
                nodes.push(Node::While {
                    op,
                    trips: (self.trips)(&instruction.name),
                    body,
                });
            } else if opcode.ends_with("-start") {
                started.insert(&instruction.name, op);
                let transfer = (self.time)(what).unwrap_or_else(|| self.model.transfer(what));
                nodes.push(Node::Start {
                    op,
                    transfer,
                    pcie: crosses_pcie(what),
                });
            } else if let (true, Some(start)) = (opcode.ends_with("-update"), start) {
                started.insert(&instruction.name, start);
                nodes.push(Node::Op {
                    op,
                    duration: 2 * TICK,
                });
            } else if let (true, Some(start)) = (opcode.ends_with("-done"), start) {
                nodes.push(Node::Done { op, start });
            } else {
                nodes.push(Node::Op { op, duration });
            }
        }
        nodes
    }
}

fn play(nodes: &[Node], device: &mut Device, jitter: &mut Jitter) {
    let mut pending: BTreeMap<OpRef, (Started, u64)> = BTreeMap::new();
    let mut pcie_free = 0;
    for node in nodes {
        match node {
            Node::Op { op, duration } => device.op(*op, jitter.apply(*duration)),
            Node::Start { op, transfer, pcie } => {
                // Copies over PCIe follow each other; HBM and ICI take many at once.
                let begins = if *pcie {
                    pcie_free.max(device.now())
                } else {
                    device.now()
                };
                let arrives = begins + jitter.apply(*transfer);
                if *pcie {
                    pcie_free = arrives;
                }
                pending.insert(*op, (device.start(*op, TICK), arrives));
            }
            Node::Done { op, start } => {
                let (started, arrives) = pending.remove(start).expect("started before done");
                let wait = arrives.saturating_sub(device.now()).max(TICK);
                device.done(*op, started, wait);
            }
            Node::While { op, trips, body } => device.nest(*op, |device| {
                for _ in 0..*trips {
                    play(body, device, jitter);
                }
            }),
        }
    }
}
