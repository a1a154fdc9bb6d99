//! Operations that are slow on TPUs, and work that could be fused.

pub mod casts_of_their_own;
pub mod random_number_cost;
pub mod scatter_gather_slow;
pub mod sort_topk_sampling;
pub mod tiny_ops_loop;
pub mod unfused_elementwise_chains;
