//! Whether a changed program still computes the same numbers, without a TPU.
//!
//! ```text
//! A, B ──> signature ──> inputs (regimes, legal integers) ──> Runner ──> results ┐
//!   A  ──> widen (double precision) ────────────────────────> Runner ──> oracle  ┴─> judge ──> verdict
//! ```
//!
//! B's error against the oracle is judged by A's own, below ceilings that no caller can raise
//! ([`ceiling`]). A set of inputs counts only where candidates that compute nothing fail on it
//! ([`null`]). Pure: what runs programs is the caller's ([`check::Runner`]).
//!
//! What it does not do: it says nothing of a TPU's own arithmetic (a dot of f32 with default
//! precision is computed there from bf16 products), and proves nothing for inputs that were not
//! tried.

pub mod ceiling;
pub mod check;
pub mod float;
pub mod inputs;
pub mod judge;
pub mod mlir;
pub mod null;
pub mod random;
pub mod signature;
pub mod tensor;
pub mod uses;
pub mod widen;
