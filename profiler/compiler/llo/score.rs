//! The time of a kernel from its schedule, with a band, and the order of two.
//!
//! `time = max(scale × cycles / clock, bytes / bandwidth)`, where the bytes are those that the
//! kernel must move (operands and results, or its author's estimate): a schedule that was run has
//! the transfers it makes in its cycles already.

use serde::Serialize;

use crate::chip::ChipFacts;
use crate::compiler::llo::memory::REACHED;
use crate::compiler::llo::schedule::{CycleBasis, KernelSchedule};
use crate::units::Picos;

/// How time follows from cycles on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pricing {
    /// Clock of the TensorCore in Hz.
    pub clock_hz: f64,
    /// Bytes per second that transfers from HBM reach: less than the peak.
    pub hbm_bytes_per_s: f64,
    /// Measured time over time by cycles, for schedules whose course is known.
    pub scale: Scale,
}

impl Pricing {
    /// From a chip's facts; `None` where its clock is not known.
    #[must_use]
    pub fn of(chip: &ChipFacts) -> Option<Self> {
        Some(Self {
            clock_hz: chip.clock_mhz.as_ref()?.value * 1e6,
            hbm_bytes_per_s: REACHED * chip.hbm_gb_per_s_per_core() * 1e9,
            scale: RUN_SCALE,
        })
    }
}

/// A ratio that was found by measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scale {
    /// Its median.
    pub typical: f64,
    /// Nine of ten lie above.
    pub low: f64,
    /// Nine of ten lie below.
    pub high: f64,
}

/// What decides a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreBasis {
    /// Cycles of a run whose every decision is known.
    Cycles,
    /// Cycles, but some loops or branches depend on data.
    PartlyKnownCycles,
    /// The bytes that it must move.
    HbmFloor,
}

/// A predicted time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// The time.
    pub time: Picos,
    /// Low end of its band.
    pub low: Picos,
    /// High end of its band; `None` where data decides how long the kernel runs.
    pub high: Option<Picos>,
    /// What it rests on.
    pub basis: ScoreBasis,
}

/// The scale of kernels that were run with all decisions known. Sources stand in the module's
/// README: published times of kernels on v5p and v6e against schedules of kernels of the same
/// shape and block sizes.
pub const RUN_SCALE: Scale = Scale {
    typical: 1.0,
    low: 0.85,
    high: 1.15,
};

/// Scores closer than this are not told apart: static figures did not order published variants
/// whose times differ by less.
pub const RESOLUTION: f64 = 0.03;

/// Scores a kernel. `bytes` are those that it cannot but move: its operands and results, or what
/// its author declared.
#[must_use]
pub fn score(schedule: &KernelSchedule, pricing: &Pricing, bytes: Option<u64>) -> Score {
    let seconds = |cycles: u64, scale: f64| {
        if pricing.clock_hz > 0.0 {
            scale * cycles as f64 / pricing.clock_hz
        } else {
            0.0
        }
    };
    let floor = match bytes {
        Some(bytes) if pricing.hbm_bytes_per_s > 0.0 => bytes as f64 / pricing.hbm_bytes_per_s,
        _ => 0.0,
    };
    let cycles = schedule.cycles();
    let scale = pricing.scale;
    let by_cycles = seconds(cycles, scale.typical);
    let known = schedule.basis == CycleBasis::Run
        && schedule.unknown_trip_loops == 0
        && schedule.unknown_decisions == 0;
    let picos = |seconds: f64| Picos((seconds * 1e12).round() as u64);
    let high = picos(seconds(cycles, scale.high).max(floor * scale.high));
    let basis = if floor > by_cycles {
        ScoreBasis::HbmFloor
    } else if known {
        ScoreBasis::Cycles
    } else {
        ScoreBasis::PartlyKnownCycles
    };
    // A region that data may skip counts as run, so that what is sure is the floor alone.
    let low = if known {
        seconds(cycles, scale.low)
    } else {
        0.0
    };
    Score {
        time: picos(by_cycles.max(floor)),
        low: picos(low.max(floor)),
        high: (schedule.unknown_trip_loops == 0).then_some(high),
        basis,
    }
}

/// Which of two kernels is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The first.
    FirstFaster,
    /// The second.
    SecondFaster,
    /// No difference can be told.
    NoDifference,
}

/// Two scores beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Time of the first over time of the second.
    pub ratio: f64,
    /// Which is faster.
    pub order: Order,
}

/// Compares two kernels that do the same work.
#[must_use]
pub fn compare(first: &Score, second: &Score) -> Comparison {
    let (a, b) = (first.time.0 as f64, second.time.0 as f64);
    let ratio = if b > 0.0 { a / b } else { 1.0 };
    let order = if ratio > 1.0 + RESOLUTION {
        Order::SecondFaster
    } else if ratio < 1.0 / (1.0 + RESOLUTION) {
        Order::FirstFaster
    } else {
        Order::NoDifference
    };
    Comparison { ratio, order }
}

/// Ranks kernels that do the same work, fastest first. Kernels share a place where no difference
/// can be told from the first of the place.
#[must_use]
pub fn rank(scores: &[Score]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    let time = |index: usize| {
        scores
            .get(index)
            .map_or(Picos(u64::MAX), |score| score.time)
    };
    order.sort_by_key(|index| (time(*index), *index));
    let mut places: Vec<Vec<usize>> = Vec::new();
    for index in order {
        let same = places
            .last()
            .and_then(|place| place.first())
            .is_some_and(|first| match (scores.get(*first), scores.get(index)) {
                (Some(a), Some(b)) => compare(a, b).order == Order::NoDifference,
                _ => false,
            });
        match places.last_mut() {
            Some(place) if same => place.push(index),
            _ => places.push(vec![index]),
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::llo::{Memory, Setting, read};

    const PRICING: Pricing = Pricing {
        clock_hz: 1e9,
        hbm_bytes_per_s: 1e12,
        scale: Scale {
            typical: 1.1,
            low: 0.9,
            high: 1.4,
        },
    };

    /// A kernel of so many cycles, and one whose loop ends by data.
    fn kernel(cycles: u64, unknown: bool) -> KernelSchedule {
        let end = if unknown {
            "0x1 : > { %p1_p0 = scmp.lt.s32.totalorder %s1_s0, 4 } /* Start region 1 */\n\
             0x2 : > { %1 = sbr.rel (%p1_p0) target = $region1 }\n"
        } else {
            ""
        };
        let text = format!("0 : {{ %0 = vdelay {} }}\n{end}", cycles - 1);
        let setting = Setting::new(Memory::new(1e12, 500.0, 1e9));
        let file = ("1-k-02-final_bundles.txt".to_owned(), text);
        read([file], &setting).0.remove(0)
    }

    #[test]
    fn cycles_are_scaled_and_the_band_is_the_scales() {
        let score = score(&kernel(2000, false), &PRICING, Some(1_000_000));
        assert_eq!(score.time, Picos(2_200_000));
        assert_eq!(
            (score.low, score.high),
            (Picos(1_800_000), Some(Picos(2_800_000)))
        );
        assert_eq!(score.basis, ScoreBasis::Cycles);
    }

    #[test]
    fn no_kernel_is_faster_than_the_bytes_it_must_move() {
        let score = score(&kernel(2000, false), &PRICING, Some(5_000_000));
        assert_eq!(score.time, Picos(5_000_000));
        assert_eq!(
            (score.low, score.high),
            (Picos(5_000_000), Some(Picos(7_000_000)))
        );
        assert_eq!(score.basis, ScoreBasis::HbmFloor);
    }

    #[test]
    fn a_kernel_whose_loops_end_by_data_has_no_upper_bound() {
        let score = score(&kernel(2000, true), &PRICING, Some(1_000_000));
        assert_eq!((score.low, score.high), (Picos(1_000_000), None));
        assert_eq!(score.basis, ScoreBasis::PartlyKnownCycles);
    }

    #[test]
    fn what_lies_within_the_resolution_shares_a_place() {
        let scores =
            [2000, 3000, 2040, 1000].map(|cycles| score(&kernel(cycles, false), &PRICING, None));
        assert_eq!(rank(&scores), [vec![3], vec![0, 2], vec![1]]);
        assert_eq!(compare(&scores[0], &scores[2]).order, Order::NoDifference);
        assert_eq!(compare(&scores[1], &scores[3]).order, Order::SecondFaster);
        assert_eq!(compare(&scores[3], &scores[1]).order, Order::FirstFaster);
        assert!((compare(&scores[1], &scores[3]).ratio - 3.0).abs() < 1e-9);
    }
}
