//! A report for people: at the terminal.

pub mod table;
pub mod text;
