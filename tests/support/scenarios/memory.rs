//! Memory traffic and memory room.

use super::Stage;
use crate::support::chip::Chip;
use crate::support::profile::{TpuProfile, us};

/// One dynamic-update-slice of 46 MB, from VMEM into the middle axis of an array in
/// HBM: 118 GB/s, 7 % of what HBM gives.
pub const DUS: u64 = us(391);

/// Five runs of a loop of 16 layers whose gradients are written into the middle
/// axis of a stacked array: 16 x [`DUS`] of each run, where contiguous writes at
/// 80 % of HBM's rate would take 35 us each.
pub fn dus_scan_axis() -> TpuProfile {
    let mut stage = Stage::new("dus_scan_axis_v6e", Chip::V6e, 1);
    let script = stage.script(16, |op| {
        (op.category == "dynamic-update-slice").then_some(DUS)
    });
    stage.rounds(&script, 5, us(30), 0, false);
    stage.profile
}

/// Three training steps on four devices that compute attention and MLP twice
/// (scopes `rematted_computation`) with 5 % of HBM in use: the HLO is in the
/// profile and its buffer assignment tells.
pub fn remat_free_hbm() -> TpuProfile {
    let mut stage = Stage::new("train_sample_v6e", Chip::V6e, 4);
    let proto = crate::support::fixture_bytes("hlo/train_sample_v6e.hlo_proto.pb");
    stage.profile.programs[stage.program].hlo_proto = Some(proto);
    let script = stage.script(2, |_| None);
    stage.rounds(&script, 3, us(40), 0, true);
    stage.profile
}
