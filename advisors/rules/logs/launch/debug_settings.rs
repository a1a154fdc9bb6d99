//! Settings for debugging that were left on.

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::launch::setting_place;

/// See the card.
#[derive(Debug)]
pub struct DebugSettings;

/// A setting, how much it weighs, and what it does.
const SETTINGS: [(&str, Severity, &str); 7] = [
    (
        "TPU_LAUNCH_BLOCKING",
        Severity::Medium,
        "every launch waits for the device, so that host and device never overlap",
    ),
    (
        "TORCH_TPU_INTERNAL_ENABLE_DEBUG_CHECKS",
        Severity::Medium,
        "checks run at each launch",
    ),
    (
        "TORCH_TPU_ENABLE_DEBUG_CHECKS",
        Severity::Medium,
        "checks run at each launch",
    ),
    (
        "JAX_DISABLE_JIT",
        Severity::High,
        "nothing is compiled: operations run one by one",
    ),
    (
        "JAX_DEBUG_NANS",
        Severity::Medium,
        "each result is read on the host and looked through for NaN",
    ),
    (
        "JAX_ENABLE_CHECKS",
        Severity::Low,
        "JAX checks its own invariants as it traces",
    ),
    (
        "enforce_eager",
        Severity::Medium,
        "the server compiles nothing: operations run one by one",
    ),
];

impl Rule for DebugSettings {
    fn code(&self) -> &'static str {
        "TL601"
    }

    fn name(&self) -> &'static str {
        "debug-settings-left-on"
    }

    fn card(&self) -> &'static str {
        include_str!("debug_settings.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let remark = |launch: &profiler::logs::launch::Launch| {
            let on: Vec<_> = SETTINGS
                .iter()
                .filter_map(|(name, severity, what)| {
                    let setting = launch.settings.get(*name)?;
                    setting
                        .is_on()
                        .then_some((*name, *severity, *what, setting))
                })
                .collect();
            // Severities count down: the smallest weighs most.
            let (name, severity, what, _) = on.iter().min_by_key(|(_, severity, ..)| *severity)?;
            let others = match on.len() {
                1 => String::new(),
                n => format!(", and {} more such settings", n - 1),
            };
            let mut remark = Remark::new(
                AdviceKind::HostDispatch,
                *severity,
                format!("{name} is left on: {what}{others}"),
            );
            for (name, _, what, setting) in &on {
                remark.places.push(setting_place(logs, name, setting));
                remark.evidence.push(Exhibit::text(
                    *name,
                    format!("{}: {what}", setting.value),
                    setting.text.clone(),
                ));
            }
            remark.advice = vec!["unset it for runs whose speed counts".to_owned()];
            Some(remark)
        };
        logs.launch.launches.iter().filter_map(remark).collect()
    }
}
