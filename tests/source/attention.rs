//! `check`: attention.
