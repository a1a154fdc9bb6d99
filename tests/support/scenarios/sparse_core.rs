//! Work that a SparseCore does beside the TensorCore.

use super::Stage;
use crate::support::chip::Chip;
use crate::support::profile::{OpRun, SparseCore, Step, TpuProfile, us};

/// Ten runs with a gather offloaded to a SparseCore for 60 us while the
/// TensorCore sorts; the TensorCore then waits in the call-done until it ends. Its scatters take
/// 200 us: four fifths of HBM's rate.
pub fn sparse_core() -> TpuProfile {
    let mut stage = Stage::new("scatter_topk_sort_v6e", Chip::V6e, 1);
    let script = stage.script(1, |op| match op.category.as_str() {
        "async-start" => Some(us(60)),
        "sort" => Some(us(25)),
        "custom fusion" => Some(us(200)),
        _ => None,
    });
    stage.rounds(&script, 10, us(10), 0, true);
    let gather = stage
        .profile
        .find(stage.program, "gather_offload_async_start");
    let device = &mut stage.profile.devices[0];
    let mut core = SparseCore::default();
    for transfer in device.transfers.iter().filter(|t| t.start_op == gather) {
        core.ops.push(OpRun {
            op: gather,
            start: transfer.start + us(1),
            duration: us(58),
            host_duration: us(58),
        });
    }
    core.steps = core
        .ops
        .iter()
        .zip(0..)
        .map(|(run, number)| Step {
            number,
            start: run.start,
            duration: run.duration,
        })
        .collect();
    device.sparse_cores.push(core);
    stage.profile
}
