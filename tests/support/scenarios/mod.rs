//! Runs whose right answers are known.
//!
//! The operations are real, taken from modules that the TPU compiler made; the
//! durations are ours, from [`Model`] or set by hand, so no profile here is a
//! measurement. Figures that hold by construction stand in each scenario's
//! documentation or come from [`oracle`](super::oracle).

#![allow(unused_imports, reason = "each test uses a part")]

mod host_offload;
mod kernels;
mod long_run;
mod memory;
mod sample;
mod serving;
mod single;
mod sparse_core;
mod training;

pub use host_offload::{HOST_COPY, host_offload};
pub use kernels::{KERNEL_COPY, kernel_bad_blocks, layout_copies};
pub use long_run::long_run;
pub use memory::{DUS, dus_scan_axis, remat_free_hbm};
pub use sample::sample;
pub use serving::{DECODE_GAP, decode};
pub use single::{attention_naive, f32_matmul, healthy, padding};
pub use sparse_core::sparse_core;
pub use training::{HOST_LATE, STRAGGLER_PERCENT, train_step_fsdp, two_hosts};

use super::chip::Chip;
use super::hlo::Module;
use super::model::{Jitter, Model, Script};
use super::profile::{Op, TpuProfile};

/// What makes the profile of a scenario.
pub type Scenario = fn() -> TpuProfile;

/// Every scenario of one host, by name.
pub const ALL: &[(&str, Scenario)] = &[
    ("attention_naive", attention_naive),
    ("decode", decode),
    ("dus_scan_axis", dus_scan_axis),
    ("f32_matmul", f32_matmul),
    ("healthy", healthy),
    ("host_offload", host_offload),
    ("kernel_bad_blocks", kernel_bad_blocks),
    ("layout_copies", layout_copies),
    ("padding", padding),
    ("remat_free_hbm", remat_free_hbm),
    ("sample", sample),
    ("sparse_core", sparse_core),
    ("train_step_fsdp", train_step_fsdp),
];

/// A compiled program on devices that have not run it yet.
struct Stage {
    profile: TpuProfile,
    program: usize,
    module: Module,
    model: Model,
}

impl Stage {
    /// The module `fixture` on `devices` devices of `chip`.
    fn new(fixture: &str, chip: Chip, devices: u32) -> Self {
        let module = Module::fixture(fixture);
        let mut profile = TpuProfile::new(chip, devices);
        // Ids are hashes; this one is large enough to be negative as an i64.
        let program = profile.module(&module, 0xd0a5_b3c1_7e24_91f7);
        Self {
            profile,
            program,
            module,
            model: Model::new(chip, devices),
        }
    }

    /// The program as a script whose loops run `trips` times.
    fn script(&self, trips: u64, time: impl Fn(&Op) -> Option<u64>) -> Script {
        Script::new(
            &self.profile,
            self.program,
            &self.module,
            &self.model,
            |_| trips,
            time,
        )
    }

    /// Runs the script `rounds` times on all devices in lock-step, `gap` of
    /// idleness after each; as numbered steps if `steps`.
    fn rounds(&mut self, script: &Script, rounds: u64, gap: u64, permille: u64, steps: bool) {
        for round in 0..rounds {
            let begin = self
                .profile
                .devices
                .iter()
                .map(super::profile::Device::now)
                .max();
            for device in &mut self.profile.devices {
                device.until(begin.unwrap_or(0));
                let seed = u64::from(device.global_id) << 32 | round;
                let mut jitter = Jitter { seed, permille };
                let program = self.program;
                let mut run = |device: &mut super::profile::Device| {
                    device.run(program, round + 1, |device| {
                        script.play(device, &mut jitter)
                    });
                };
                if steps {
                    device.step(round, run);
                } else {
                    run(device);
                }
                device.idle(gap);
            }
        }
    }
}
