//! Operations that are slow on TPUs, and work that could be fused.

pub mod casts;
pub mod elementwise_chains;
pub mod random_numbers;
pub mod scatter_gather;
pub mod sort_topk;
pub mod tiny_ops_loop;
