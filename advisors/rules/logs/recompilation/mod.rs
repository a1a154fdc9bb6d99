//! Rules on programs that are compiled again.

mod buckets;
pub mod dynamo_recompiles;
pub mod eager_recompiles;
pub mod failed_compiles;
