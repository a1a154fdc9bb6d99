//! Rules on operations that are slow on a TPU.

pub mod boolean_mask_assignment;
pub(crate) mod code;
pub mod data_dependent_shape;
pub mod float64_in_step;
pub mod masked_update;
pub mod masks_as_long;
pub mod matmul_precision;
pub mod pool_with_indices;
pub mod resize_by_factor;
pub mod sampler_by_sort;
pub mod scatter_in_step;
pub mod transposed_experts;
pub mod unrolled_recurrence;
pub mod vmapped_random;
pub mod vmapped_update_slice;

#[cfg(test)]
mod tests;
