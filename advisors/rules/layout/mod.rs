//! Layouts and data movement: copies, transposes, reshapes, pads.

pub mod copies_around_kernels;
pub mod data_formatting;
pub mod dus_on_minor_scan_axis;
pub mod stacked_copies;
pub mod whole_buffer_copy;

pub(crate) mod exhibits;
pub(crate) mod group;
pub(crate) mod kernels;
pub(crate) mod movers;
