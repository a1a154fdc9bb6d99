//! The rules by area. Each is a file `<name>.rs` beside its card `<name>.md`.

pub mod kernels;
pub mod matmul;
pub mod memory;
