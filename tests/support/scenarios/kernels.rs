//! Custom kernels: badly chosen blocks, and the copies around them.

use super::Stage;
use crate::support::chip::Chip;
use crate::support::profile::{Op, TpuProfile, us};

/// The layout copy in front of each kernel of [`layout_copies`].
pub const KERNEL_COPY: u64 = us(180);

fn kernels(time: impl Fn(&Op) -> Option<u64>) -> TpuProfile {
    let mut stage = Stage::new("pallas_blocks_v6e", Chip::V6e, 1);
    let script = stage.script(1, time);
    stage.rounds(&script, 20, us(5), 0, false);
    stage.profile
}

/// Two kernels of the same work, 17.18 GFLOP each: with blocks of 128 it takes
/// 1,112 us (1.7 % of peak), with blocks of 512 only 41 us (46 %). The
/// compiler's static schedule has the same proportion.
pub fn kernel_bad_blocks() -> TpuProfile {
    kernels(|op| match op.name.as_str() {
        "matmul_bm128_bn128_bk128.1" => Some(us(1_112)),
        "matmul_bm512_bn512_bk512.1" => Some(us(41)),
        _ => None,
    })
}

/// The same kernels as fast as each other (41 us), each behind a layout copy of
/// [`KERNEL_COPY`]: the copies are four fifths of the time.
pub fn layout_copies() -> TpuProfile {
    kernels(|op| match op.category.as_str() {
        "custom-call" => Some(us(41)),
        "data formatting" => Some(KERNEL_COPY),
        _ => None,
    })
}
