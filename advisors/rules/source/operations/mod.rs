//! Rules on operations that are slow on a TPU.

pub mod boolean_mask_assignment;
pub(crate) mod code;
pub mod data_dependent_shape;
pub mod missing_operation;
pub mod sampler_by_sort;
pub mod scatter_in_step;
pub mod vmapped_random;
pub mod vmapped_update_slice;
