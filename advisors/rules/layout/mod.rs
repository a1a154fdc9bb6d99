//! Layouts and data movement: copies, transposes, reshapes, pads.

pub mod data_formatting;
pub mod dus_on_minor_scan_axis;
pub mod layout_copies_around_custom_calls;
pub mod stacked_copies_in_loop;
pub mod whole_buffer_copy;

pub(crate) mod exhibits;
pub(crate) mod group;
pub(crate) mod kernels;
pub(crate) mod movers;
