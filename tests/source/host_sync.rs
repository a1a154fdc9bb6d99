//! `check`: host sync.
