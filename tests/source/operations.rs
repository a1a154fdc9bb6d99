//! `check`: operations.
