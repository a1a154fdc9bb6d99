//! Compiler flags that were measured to cost throughput on the chip of the launch.

use knowledge::recipes::flag_effects;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::launch::setting_place;

/// See the card.
#[derive(Debug)]
pub struct MeasuredFlags;

impl Rule for MeasuredFlags {
    fn code(&self) -> &'static str {
        "TL602"
    }

    fn name(&self) -> &'static str {
        "flag-measured-slower"
    }

    fn card(&self) -> &'static str {
        include_str!("measured_flags.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let mut remarks = Vec::new();
        for launch in &logs.launch.launches {
            let Some((accelerator, chip)) = launch.accelerator() else {
                continue;
            };
            for effect in flag_effects() {
                let Some(setting) = launch.settings.get(&effect.name) else {
                    continue;
                };
                if effect.generation != accelerator.generation || !effect.applies_to(&setting.value)
                {
                    continue;
                }
                let measured = if effect.worst_percent < effect.best_percent {
                    format!("{} % to {} %", effect.worst_percent, effect.best_percent)
                } else {
                    format!("{} %", effect.worst_percent)
                };
                let mut remark = Remark::new(
                    effect.kind,
                    Severity::Low,
                    format!(
                        "--{}={} was measured to change throughput by {measured} on {}",
                        effect.name,
                        setting.value,
                        accelerator.generation.name()
                    ),
                );
                remark.places = vec![
                    setting_place(logs, &effect.name, setting),
                    setting_place(logs, "chip", chip),
                ];
                remark.evidence = vec![Exhibit::text(
                    "measured",
                    format!("{measured}: {}", effect.on),
                    effect.source.clone(),
                )];
                remark.advice =
                    vec!["run a few steps with and without it, and keep what is faster".to_owned()];
                remark.caveats = vec!["another model may gain from it".to_owned()];
                remarks.push(remark);
            }
        }
        remarks
    }
}
