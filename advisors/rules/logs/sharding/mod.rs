//! Rules on shardings, and what the compiler said.

pub mod full_rematerialization;
