//! `check`: shapes.
