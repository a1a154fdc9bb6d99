//! `check` on Python sources.

mod attention;
mod check;
mod coverage;
mod host_sync;
mod migration;
mod operations;
mod recompilation;
mod shapes;
