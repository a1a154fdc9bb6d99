//! The suite: behaviour through public interfaces.

mod cli;
mod compiler;
mod layering;
mod predict;
mod real_profiles;
mod robustness;
mod rules;
mod support;
mod web;
mod xprof_agreement;
