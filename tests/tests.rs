//! The suite: behaviour through public interfaces.

mod cli;
mod compiler;
mod layering;
mod logs;
mod predict;
mod real_profiles;
mod robustness;
mod rules;
mod source;
mod support;
mod web;
mod xprof_agreement;
