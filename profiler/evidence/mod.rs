//! What a session shows: steps, time by operation, idle time, costs against the roofline.
//!
//! Everything a rule needs, computed once. Pure and deterministic.

pub mod steps;
