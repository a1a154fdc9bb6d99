//! Token generation: many short programs with the host in between.

use super::Stage;
use crate::support::chip::Chip;
use crate::support::model::Jitter;
use crate::support::profile::{HostEvent, HostThread, Op, TpuProfile, us};

/// Idleness before and after each token's program.
pub const DECODE_GAP: u64 = us(350);

/// Thirty tokens: the decode program, a gap, a small sampling program of 6 us, a
/// gap. Two [`DECODE_GAP`]s a token are idle; matmuls of 8 rows read all weights.
pub fn decode() -> TpuProfile {
    let mut stage = Stage::new("decode_v6e", Chip::V6e, 1);
    let script = stage.script(4, |_| None);
    let sample = Op {
        name: "argmax_fusion".to_owned(),
        hlo: "%argmax_fusion = s32[8]{0:T(128)} fusion(s32[8]{0:T(128)} %param), kind=kLoop, \
              calls=%fused_computation"
            .to_owned(),
        category: "loop fusion".to_owned(),
        symbol: 3,
        bytes: 64,
        shape: "s32[8]{0:T(128)}".to_owned(),
        tf_op: Some("jit(sample)/argmax:".to_owned()),
        ..Op::default()
    };
    let sampler = stage
        .profile
        .program("jit_sample", 4_611_686_018_427_387_905, vec![sample]);
    let op = stage.profile.find(sampler, "argmax_fusion");
    let mut events = Vec::new();
    let device = &mut stage.profile.devices[0];
    for token in 0..30 {
        let start = device.now() + device.clock_skew;
        device.run(stage.program, 2 * token + 1, |device| {
            script.play(device, &mut Jitter::default());
        });
        device.idle(DECODE_GAP);
        device.run(sampler, 2 * token + 2, |device| device.op(op, us(6)));
        device.idle(DECODE_GAP);
        events.push(HostEvent {
            name: "PjitFunction(f)".to_owned(),
            start: start - us(200),
            duration: us(300),
            stats: Vec::new(),
        });
    }
    stage.profile.host_threads.push(HostThread {
        name: "main".to_owned(),
        events,
    });
    stage.profile
}
