//! Programs that the TPU compiler made, priced.

pub mod calibration;
pub mod cost_model;
pub mod fit;
pub mod pricer;
pub mod recalibrate;
