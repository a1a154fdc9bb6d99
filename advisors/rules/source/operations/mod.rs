//! Rules on operations that are slow on a TPU.
