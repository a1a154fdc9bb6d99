//! Rules of Python source.

pub mod attention;
pub mod coverage;
pub mod host_sync;
pub mod migration;
pub mod operations;
pub mod recompilation;
pub mod shapes;
pub mod sharding;

use crate::python::ast::{Expr, ExprCall};

/// How many places, calls or whatever a rule found: `1 call`, `2 calls`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    profiler::units::counted(number as u64, noun)
}

/// The value of a keyword argument.
pub(crate) fn keyword<'a>(call: &'a ExprCall, name: &str) -> Option<&'a Expr> {
    let found = call.arguments.find_keyword(name);
    found.map(|keyword| &keyword.value)
}
