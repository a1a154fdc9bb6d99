//! A change of the program that was compiled beside the original: what it is worth.

use crate::session::OpId;

/// A changed program and the original, compiled for the same target and priced by the same model.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledChange {
    /// The change in words, as `dimension 0 of %arg0 from 50257 to 50304`.
    pub change: String,
    /// What both were compiled for and by, in words.
    pub compiled: String,
    /// Predicted time of the original, in picoseconds.
    pub before_ps: u64,
    /// Predicted time of the changed program, in picoseconds.
    pub after_ps: u64,
    /// Time of the changed program over that of the original: the 90 % band, low and high.
    pub ratio: (f64, f64),
    /// Operations of this session whose time falls or that go away, those that save most first,
    /// with what they save, in picoseconds.
    pub ops: Vec<(OpId, u64)>,
    /// The largest of these in words, with times.
    pub saved: Vec<String>,
    /// What takes longer or is new, in words, with times; the largest first.
    pub paid: Vec<String>,
    /// HBM that the changed program needs more at its peak, in bytes.
    pub more_hbm_bytes: i64,
}

impl CompiledChange {
    /// The expected ratio.
    #[must_use]
    pub fn expected_ratio(&self) -> f64 {
        self.after_ps as f64 / self.before_ps.max(1) as f64
    }

    /// Whether even the unfavourable end of the band is a gain.
    #[must_use]
    pub fn is_gain(&self) -> bool {
        self.ratio.1 < 1.0
    }
}
