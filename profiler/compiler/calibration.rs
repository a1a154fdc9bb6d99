//! What turns the compiler's figures into times: a few constants of a chip, how well they predict
//! what was measured, and for which builds of the compiler.
//!
//! The profiler defines the nouns; `knowledge` fills them from its data files; callers pass them
//! in. [`crate::compiler::fit`] makes them from measured times.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chip::Generation;
use crate::compiler::pricer::OpKind;

/// The constants of the cost model. All are ratios, so that they carry over to a chip of another
/// clock and bandwidth better than times would.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constants {
    /// Time of matrix products over what they would take at the peak of the MXUs.
    pub mxu: f64,
    /// Time of a matmul beyond its products, over the compiler's estimate of the same: its tiles'
    /// edges, its operands' and results' way through VMEM.
    pub matmul_excess: f64,
    /// The same of a convolution with a window.
    pub convolution_excess: f64,
    /// Time of the vector work fused to a matmul or convolution that its products do not hide, over
    /// what that work would take alone at the peak of the vector unit.
    pub epilogue: f64,
    /// Time of other operations over the compiler's estimate, where no memory bounds them: it
    /// takes them to be far slower than they are.
    pub vector: f64,
    /// The share of the HBM bandwidth that operations reach.
    pub hbm: f64,
    /// Time of a kernel over what its products take at the peak of the MXUs and its vector work at
    /// that of the vector unit, one after the other.
    pub kernel: f64,
}

impl Constants {
    /// Their number.
    pub const COUNT: usize = 7;

    /// All of them, in the order of the fields.
    #[must_use]
    pub fn to_array(&self) -> [f64; Self::COUNT] {
        [
            self.mxu,
            self.matmul_excess,
            self.convolution_excess,
            self.epilogue,
            self.vector,
            self.hbm,
            self.kernel,
        ]
    }

    /// From the order of the fields.
    #[must_use]
    pub fn from_array(values: [f64; Self::COUNT]) -> Self {
        let [
            mxu,
            matmul_excess,
            convolution_excess,
            epilogue,
            vector,
            hbm,
            kernel,
        ] = values;
        Self {
            mxu,
            matmul_excess,
            convolution_excess,
            epilogue,
            vector,
            hbm,
            kernel,
        }
    }
}

/// How far predictions are off, as the spread of ln(measured / predicted).
///
/// A program's spread is that of its kinds, weighted by their shares of its time. The spread of a
/// ratio of two programs is `ratio_floor` plus, for each kind, its spread times the square root of
/// the difference of the two shares: what both spend in the same kind is off by about the same. Bands of 90 % are
/// these spreads times a factor that makes them hold for 90 % of what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Of matmuls with what is fused to them.
    pub matmul: f64,
    /// Of convolutions with what is fused to them.
    pub convolution: f64,
    /// Of loops, reductions, copies and all else.
    pub vector: f64,
    /// Of kernels.
    pub kernel: f64,
    /// The band of a program's time, in spreads.
    pub band_factor: f64,
    /// What stays of the spread of a ratio where both programs spend their time alike.
    pub ratio_floor: f64,
    /// The band of a ratio, in spreads.
    pub ratio_factor: f64,
}

impl Spread {
    /// The spread of one kind of operation.
    #[must_use]
    pub fn of(&self, kind: OpKind) -> f64 {
        match kind {
            OpKind::Matmul => self.matmul,
            OpKind::Convolution => self.convolution,
            OpKind::Kernel | OpKind::Collective => self.kernel,
            OpKind::Loop | OpKind::Reduce | OpKind::Copy | OpKind::Other => self.vector,
        }
    }

    /// The spread of a program that spends these shares of its time in these kinds.
    #[must_use]
    pub fn of_shares(&self, kinds: &BTreeMap<OpKind, f64>) -> f64 {
        kinds
            .iter()
            .map(|(kind, share)| share * self.of(*kind))
            .sum()
    }

    /// The spread of the ratio of two such programs.
    #[must_use]
    pub fn of_ratio(&self, one: &BTreeMap<OpKind, f64>, other: &BTreeMap<OpKind, f64>) -> f64 {
        let differing =
            differences(one, other).map(|(kind, difference)| difference.sqrt() * self.of(kind));
        self.ratio_floor + differing.iter().sum::<f64>()
    }
}

/// How much of their time two programs spend in different kinds: 0 for none, 1 for all.
pub(crate) fn difference(one: &BTreeMap<OpKind, f64>, other: &BTreeMap<OpKind, f64>) -> f64 {
    let all = differences(one, other);
    all.iter().map(|(_, difference)| difference).sum::<f64>() / 2.0
}

/// The differences of two programs' shares of time, by kinds of one spread: a loop that becomes a
/// copy stays as uncertain.
fn differences(one: &BTreeMap<OpKind, f64>, other: &BTreeMap<OpKind, f64>) -> [(OpKind, f64); 4] {
    let share = |kinds: &BTreeMap<OpKind, f64>, kind| kinds.get(&kind).copied().unwrap_or(0.0);
    let of = |kind: OpKind, alike: &[OpKind]| {
        let group = std::iter::once(&kind).chain(alike);
        let difference: f64 = group.map(|k| share(one, *k) - share(other, *k)).sum();
        (kind, difference.abs())
    };
    [
        of(OpKind::Matmul, &[]),
        of(OpKind::Convolution, &[]),
        of(OpKind::Loop, &[OpKind::Reduce, OpKind::Copy, OpKind::Other]),
        of(OpKind::Kernel, &[OpKind::Collective]),
    ]
}

/// How often a predictor puts two programs into the right order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairOrder {
    /// Pairs whose measured times are so far apart.
    pub pairs: usize,
    /// The share that calibrated predictions order right.
    pub calibrated: f64,
    /// The share that the sums of the compiler's own cycles order right.
    pub cycles: f64,
}

/// How well predictions met measured times that they were not fitted to: each program was left out
/// in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracy {
    /// Programs.
    pub programs: usize,
    /// The median of |predicted / measured − 1|.
    pub median_error: f64,
    /// The mean of it.
    pub mean_error: f64,
    /// The share of programs within 15 %.
    pub within_15_percent: f64,
    /// The share of programs within 30 %.
    pub within_30_percent: f64,
    /// The order of pairs that are 1.1 to 2 times apart.
    pub near_pairs: PairOrder,
    /// The order of pairs that are further apart.
    pub far_pairs: PairOrder,
}

/// A chip's calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The chip.
    pub generation: Generation,
    /// Where the measured times are from.
    pub source: String,
    /// Builds of the compiler that made the programs.
    pub libtpu_builds: Vec<String>,
    /// Whether the times were measured on this very generation; else the constants are another's.
    pub measured: bool,
    /// The constants of the cost model.
    pub constants: Constants,
    /// How far predictions are off.
    pub spread: Spread,
    /// How well they met what was measured.
    pub accuracy: Accuracy,
}

/// Spreads grow by this where another build of the compiler made the program.
const OTHER_BUILD: f64 = 1.25;
/// Spreads grow by this on a chip that was not measured.
const OTHER_CHIP: f64 = 2.0;

impl Calibration {
    /// The calibration for a program of that build of the compiler: itself, or with wider bands
    /// where its builds do not include it.
    #[must_use]
    pub fn for_build(&self, build: &str) -> Self {
        if self.libtpu_builds.iter().any(|known| known == build) {
            return self.clone();
        }
        self.widened(OTHER_BUILD)
    }

    /// What stands in on a chip that was not measured: the same ratios to its own peaks and its own
    /// clock, with bands twice as wide. Nothing but the build of the chip supports it.
    #[must_use]
    pub fn for_chip(&self, generation: Generation) -> Self {
        if self.generation == generation {
            return self.clone();
        }
        Self {
            generation,
            measured: false,
            ..self.widened(OTHER_CHIP)
        }
    }

    /// The same with wider bands.
    #[must_use]
    pub fn widened(&self, factor: f64) -> Self {
        let mut wide = self.clone();
        let spread = &mut wide.spread;
        for spread in [
            &mut spread.matmul,
            &mut spread.convolution,
            &mut spread.vector,
            &mut spread.kernel,
            &mut spread.ratio_floor,
        ] {
            *spread *= factor;
        }
        wide
    }

    /// The factor by which 90 % of the times of one kind of operation are off at most.
    #[must_use]
    pub fn band(&self, kind: OpKind) -> f64 {
        (self.spread.band_factor * self.spread.of(kind)).exp()
    }

    /// The same for a program that spends these shares of its time in these kinds.
    #[must_use]
    pub fn program_band(&self, kinds: &BTreeMap<OpKind, f64>) -> f64 {
        (self.spread.band_factor * self.spread.of_shares(kinds)).exp()
    }

    /// The same for the ratio of two such programs.
    #[must_use]
    pub fn ratio_band(&self, one: &BTreeMap<OpKind, f64>, other: &BTreeMap<OpKind, f64>) -> f64 {
        (self.spread.ratio_factor * self.spread.of_ratio(one, other)).exp()
    }
}
