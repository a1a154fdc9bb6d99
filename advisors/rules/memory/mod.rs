//! Host memory and HBM.

pub mod exposed_host_offload;
pub(crate) mod hbm;
