//! The sample profile: ten steps of a small FSDP training run on four v6e chips.
use crate::support::chip::Chip;
use crate::support::hlo::Module;
use crate::support::model::{Jitter, Model, Script};
use crate::support::profile::{TpuProfile, us};

/// The profile.
pub fn sample() -> TpuProfile {
    let module = Module::fixture("train_sample_v6e");
    let mut profile = TpuProfile::new(Chip::V6e, 4);
    let program = profile.module(&module, 15_034_563_170_240_977_911);
    let model = Model::new(Chip::V6e, 4);
    let script = Script::new(&profile, program, &module, &model, |_| 2, |_| None);
    for (index, device) in (0_u64..).zip(&mut profile.devices) {
        for step in 0..6 {
            let mut jitter = Jitter { seed: index << 32 | step, permille: 10 };
            device.step(step, |device| {
                device.run(program, step + 1, |device| script.play(device, &mut jitter));
                device.idle(us(900));
            });
        }
    }
    profile
}
