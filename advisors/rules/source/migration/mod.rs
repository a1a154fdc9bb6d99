//! Rules on what must change for TorchTPU.
