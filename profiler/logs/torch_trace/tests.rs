//! The reader on logs that TorchTPU wrote.
