//! The suite: behaviour through public interfaces.

mod real_profiles;
mod rules;
mod support;
