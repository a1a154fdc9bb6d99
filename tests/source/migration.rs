//! `check`: migration.
