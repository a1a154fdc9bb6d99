//! The rules by area. Each is a file `<name>.rs` beside its card `<name>.md`.

pub mod capture;
pub mod collectives;
pub mod idle;
pub mod kernels;
pub mod layout;
pub mod logs;
pub mod matmul;
pub mod memory;
pub mod ops;
pub mod source;
pub mod what_if;
