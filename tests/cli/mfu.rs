//! `tpu-tune mfu`.
