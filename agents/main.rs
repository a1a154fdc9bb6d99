//! The `tpu-tune` program.
fn main() {}
