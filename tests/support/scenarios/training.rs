//! Training on several chips: exposed collectives, cut steps, stragglers.

use super::Stage;
use crate::support::chip::Chip;
use crate::support::model::{Jitter, TICK};
use crate::support::profile::{Op, TpuProfile, us};

/// How much slower the straggler of [`two_hosts`] computes.
pub const STRAGGLER_PERCENT: u64 = 8;

/// How late the second host of [`two_hosts`] starts each step.
pub const HOST_LATE: u64 = us(25);

/// Five whole steps and two cut ones of an FSDP MLP on four chips: synchronous
/// all-gathers and all-reduce-scatter fusions, wholly exposed; a
/// collective-permute pair mostly hidden.
pub fn train_step_fsdp() -> TpuProfile {
    let mut stage = Stage::new("mlp_fsdp_v6e", Chip::V6e, 4);
    let script = stage.script(1, |_| None);
    stage.rounds(&script, 7, us(25), 4, true);
    let steps = &stage.profile.devices[0].steps;
    let (first, last) = (steps[0], steps[6]);
    let from = first.start + first.duration / 3 * 2;
    let to = last.start + last.duration / 4;
    stage.profile.crop(from, to);
    stage.profile
}

/// Five steps of a tensor-parallel MLP on two hosts of four v5e chips.
///
/// Device 2 of the second host multiplies [`STRAGGLER_PERCENT`] slower, and the
/// others wait for it in each all-reduce; it alone has short ones. The second
/// host starts each step [`HOST_LATE`] late, and the devices of the first wait
/// that long in `barrier-cores`.
pub fn two_hosts() -> [TpuProfile; 2] {
    [0, 1].map(|host| {
        let mut stage = Stage::new("mlp_tp_v5e", Chip::V5e, 4);
        stage.profile = stage.profile.on_host(host);
        let compute = |op: &Op| op.category == "convolution fusion";
        let extra = |op: &Op| stage.model.duration(op) / 100 * STRAGGLER_PERCENT / TICK * TICK;
        // What the straggler loses between two all-reduces, both alike.
        let ops = &stage.profile.programs[stage.program].ops;
        let lag = ops.iter().filter(|op| compute(op)).map(extra).sum::<u64>() / 2;
        let straggler = stage.script(1, |op| {
            compute(op).then(|| stage.model.duration(op) + extra(op))
        });
        let others = stage.script(1, |op| {
            (op.category == "all-reduce").then(|| stage.model.duration(op) + lag)
        });
        for step in 0..5 {
            for device in &mut stage.profile.devices {
                let straggles = device.global_id == 6;
                let program = stage.program;
                device.idle(us(40));
                if host == 1 {
                    device.idle(HOST_LATE);
                }
                device.step(step, |device| {
                    device.run(program, step + 1, |device| {
                        device.mark("barrier-cores", if host == 0 { HOST_LATE } else { us(2) });
                        let script = if straggles { &straggler } else { &others };
                        script.play(device, &mut Jitter::default());
                    });
                });
            }
        }
        stage.profile
    })
}
