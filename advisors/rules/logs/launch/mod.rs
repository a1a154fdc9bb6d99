//! Rules of launch commands and configurations: each only where the numbers say so.

pub mod debug_settings;
pub mod measured_flags;
pub mod parallelism;
pub mod published_recipe;
pub mod sampler_rates;
#[cfg(test)]
mod tests;

use profiler::logs::Logs;
use profiler::logs::launch::Setting;

use crate::finding::Place;
use crate::rules::logs::place;

/// The place of a setting.
fn setting_place(logs: &Logs, name: &str, setting: &Setting) -> Place {
    place(
        logs,
        setting.at,
        &setting.text,
        format!("{name}={}", setting.value),
    )
}
