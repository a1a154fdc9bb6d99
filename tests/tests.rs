//! The suite: behaviour through public interfaces.

mod layering;
mod real_profiles;
mod rules;
mod support;
