//! The rules by area. Each is a file `<name>.rs` beside its card `<name>.md`.

pub mod capture;
pub mod idle;
pub mod memory;
