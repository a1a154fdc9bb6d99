//! How sure the ratio of two predicted programs is.
//!
//! What both programs do alike is off by the same factor, and cancels. What stays is the spread of
//! what differs: of operations that one has and the other has not, or that take another time, and
//! of the kinds of operation that they spend their time in.

use crate::compiler::calibration::Calibration;
use crate::compiler::cost_model::program_price::{ProgramPrice, RatioBand};
use crate::diff::Diff;

/// A time differs when it does by more than this share.
const ALIKE: f64 = 0.005;

/// The share of both programs' time that is spent in operations which differ, 0 to 1.
#[must_use]
pub fn differing_share(diff: &Diff) -> f64 {
    let mut all = 0.0;
    let mut differing = 0.0;
    for op in &diff.ops {
        let time = op.time.before_ms + op.time.after_ms;
        let is_alike = op.before.is_some()
            && op.after.is_some()
            && op.time.delta_ms.abs() <= ALIKE * op.time.before_ms.max(op.time.after_ms);
        all += time;
        if !is_alike {
            differing += time;
        }
    }
    if all > 0.0 { differing / all } else { 1.0 }
}

/// The second program's time over the first's, both predicted by the same calibration: `before`
/// and `after` are their times on the device by kinds, `times` their whole times in picoseconds.
/// None where the first takes no time.
#[must_use]
pub fn ratio(
    before: &ProgramPrice,
    after: &ProgramPrice,
    times: (u64, u64),
    diff: &Diff,
    calibration: &Calibration,
) -> Option<RatioBand> {
    let (a, b) = times;
    if a == 0 {
        return None;
    }
    let mut calibration = calibration.clone();
    calibration.spread.ratio_floor *= differing_share(diff);
    let device = after.over(before, &calibration)?;
    let ratio = b as f64 / a as f64;
    Some(RatioBand {
        ratio,
        low: ratio * device.low / device.ratio,
        high: ratio * device.high / device.ratio,
    })
}
