//! Programs that the TPU compiler made, priced: what they will take, before they run.

pub mod ici;
pub mod predicted_session;
pub mod pricer;
pub mod roofline;
