//! Rules on operations that TorchTPU does not have.

pub mod unsupported_op;
pub mod used;
