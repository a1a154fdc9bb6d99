//! A long capture, for measuring speed.

use super::Stage;
use crate::support::chip::Chip;
use crate::support::profile::{TpuProfile, us};

/// `steps` steps of an FSDP transformer on four chips.
pub fn long_run(steps: u64) -> TpuProfile {
    let mut stage = Stage::new("train_fsdp_v6e", Chip::V6e, 4);
    let script = stage.script(4, |_| None);
    stage.rounds(&script, steps, us(25), 4, true);
    stage.profile
}
