//! Rules of Python source.

pub mod attention;
pub mod coverage;
pub mod host_sync;
pub mod migration;
pub mod operations;
pub mod recompilation;
pub mod shapes;
pub mod sharding;
