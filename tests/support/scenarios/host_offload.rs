//! Weights that live in host memory though HBM is nearly empty.

use super::Stage;
use crate::support::chip::Chip;
use crate::support::profile::{TpuProfile, us};

/// One 128 MiB weight over PCIe at 27 GB/s.
pub const HOST_COPY: u64 = us(4_971);

/// Ten runs of four matmuls, each of which waits for a weight from the host.
///
/// The four copies of a run follow each other on one link, so a run lasts about
/// 4 x [`HOST_COPY`]; the matmuls between, 0.2 ms each, hide behind the next copy.
/// Without offload only the matmuls remain: all but 4 % can be saved. The HLO is in the
/// profile, and its buffer assignment tells that HBM has room for the weights.
pub fn host_offload() -> TpuProfile {
    let mut stage = Stage::new("host_offload_v6e", Chip::V6e, 1);
    let proto = crate::support::fixture_bytes("hlo/host_offload_v6e.hlo_proto.pb");
    stage.profile.programs[stage.program].hlo_proto = Some(proto);
    let script = stage.script(1, |op| {
        let from_host = op.category == "copy-start" && op.shape.contains("S(5)");
        from_host.then_some(HOST_COPY)
    });
    stage.rounds(&script, 10, us(20), 0, false);
    stage.profile
}
