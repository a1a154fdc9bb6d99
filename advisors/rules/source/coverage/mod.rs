//! Rules on operations that TorchTPU does not have.
