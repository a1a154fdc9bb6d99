//! All rules, read top to bottom. A new rule is one file, one card, and one line here.
//!
//! Codes: 1xx capture quality, 2xx idle time and the host, 3xx host memory, 4xx collectives,
//! 5xx matmuls and kernels, 6xx layouts and data movement, 7xx operations and fusion, 8xx memory.

use crate::rule::Rule;
use crate::rules;

/// Every rule.
pub const RULES: &[&dyn Rule] = &[
    &rules::capture::truncated::TruncatedCapture,
    &rules::capture::missing_hlo::MissingHlo,
    &rules::capture::missing_steps::MissingSteps,
    &rules::capture::asymmetric_cores::AsymmetricCores,
    &rules::capture::rates_above_peak::RatesAbovePeak,
    &rules::capture::unsteady_steps::UnsteadySteps,
    &rules::idle::device_idle::DeviceIdle,
    &rules::idle::many_small_programs::ManySmallPrograms,
    &rules::idle::compile_during_capture::CompileDuringCapture,
    &rules::idle::input_stall::InputStall,
    &rules::idle::idle_inside::IdleInside,
    &rules::idle::host_reads::HostReads,
    &rules::memory::exposed_host_offload::ExposedHostOffload,
];

/// The rule of that code or name, in any case.
#[must_use]
pub fn find(code_or_name: &str) -> Option<&'static dyn Rule> {
    RULES
        .iter()
        .find(|rule| {
            rule.code().eq_ignore_ascii_case(code_or_name)
                || rule.name().eq_ignore_ascii_case(code_or_name)
        })
        .copied()
}
