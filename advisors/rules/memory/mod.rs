//! Host memory and HBM.

pub mod exposed_host_offload;
pub mod memory_near_limit;
pub mod padded_buffers;
pub mod remat_with_free_hbm;

pub(crate) mod hbm;
pub(crate) mod room;
