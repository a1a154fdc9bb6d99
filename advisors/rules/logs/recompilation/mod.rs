//! Rules on programs that are compiled again.

mod buckets;
pub mod dynamic_shape_ir;
pub mod dynamo_recompiles;
pub mod eager_recompiles;
pub mod failed_compiles;
pub mod jax_persistent_cache;
pub mod jax_recompilation;
pub mod server_recompilation;
pub mod xla_compile_time;
pub mod xla_graph_variants;
pub mod xla_late_variant;
pub mod xla_recompilation;

#[cfg(test)]
mod xla_tests;
