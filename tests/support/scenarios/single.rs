//! Single programs on one chip, with one thing to find or none.

use super::Stage;
use crate::support::chip::Chip;
use crate::support::model::TICK;
use crate::support::profile::{TpuProfile, us};

/// Twenty runs of an MLP at 90 % of the chip's peak: eight matmuls of 275 GFLOP
/// each, prefetches hidden, no gaps between runs to speak of. Nothing to find.
pub fn healthy() -> TpuProfile {
    let mut stage = Stage::new("mlp_infer_v6e", Chip::V6e, 1);
    stage.model.mxu = 0.9;
    let script = stage.script(1, |op| op.category.ends_with("-start").then_some(TICK));
    stage.rounds(&script, 20, us(1), 2, false);
    stage.profile
}

/// Twenty runs of float32 matmuls on v5e, the second at the highest precision:
/// six bf16 passes, so 69 GFLOP take six times as long as at peak: 2,093 us. The
/// first has the default precision and takes one pass.
pub fn f32_matmul() -> TpuProfile {
    let mut stage = Stage::new("matmul_f32_v5e", Chip::V5e, 1);
    let script = stage.script(1, |op| (op.name == "fusion").then_some(us(2_093)));
    stage.rounds(&script, 20, us(5), 0, false);
    stage.profile
}

/// Ten runs of a small model whose sizes fill tiles badly: width 1200 is
/// 1280 in tiles of 128, head_dim 48 is 128, vocabulary 50257 is 50304.
pub fn padding() -> TpuProfile {
    let mut stage = Stage::new("odd_shapes_v6e", Chip::V6e, 1);
    stage.model.mxu = 0.35;
    let script = stage.script(1, |_| None);
    stage.rounds(&script, 10, us(5), 0, false);
    stage.profile
}

/// Ten runs of attention written as matmul, softmax, matmul over 4096 positions:
/// the scores of 16 heads, 512 MiB in bf16, go to HBM and come back.
pub fn attention_naive() -> TpuProfile {
    let mut stage = Stage::new("attention_naive_v6e", Chip::V6e, 1);
    let script = stage.script(1, |_| None);
    stage.rounds(&script, 10, us(5), 0, false);
    stage.profile
}
