//! The TPU compiler as a component: targets, the pool, what happens to bad programs.

mod bad_programs;
mod doctor;
mod predict;
