//! Questions to the TPU compiler: which programs to compile, and what its answers mean.

pub mod what_if;
