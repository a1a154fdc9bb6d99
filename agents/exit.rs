//! Exit codes, a public interface.

/// All went well, and no finding reached the threshold of `--fail-on`.
pub const OK: u8 = 0;
/// A finding reached the threshold of `--fail-on`, or `parity` found that the results change.
pub const FINDINGS: u8 = 1;
/// Bad input or wrong usage; a message on standard error says which.
pub const BAD_INPUT: u8 = 2;
