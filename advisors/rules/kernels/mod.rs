//! Kernels that XLA cannot look into, and attention that has none.

pub mod kernel_far_from_roof;
pub mod kernel_without_cost;
pub mod naive_attention;

mod blocks;
pub(crate) mod custom;
mod paged;
