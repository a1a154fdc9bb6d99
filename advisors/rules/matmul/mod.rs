//! Matmuls: their shapes, their element types, what they read.

pub mod f32_matmul;
pub mod matmul_below_shape_limit;
pub mod mxu_padding_waste;
pub mod small_expert_matmul;
pub mod weight_bound_decode;

mod precision;
pub(crate) mod product;
pub(crate) mod projection;
