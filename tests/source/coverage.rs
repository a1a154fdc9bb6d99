//! `check`: coverage.
