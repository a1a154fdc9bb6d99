//! What the published recipe of this model and chip reaches.

use knowledge::advice::AdviceKind;
use knowledge::chips::chip;
use knowledge::recipes::recipe;
use profiler::logs::Logs;
use profiler::logs::launch::Launch;
use profiler::units::percent;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::launch::setting_place;

/// See the card.
#[derive(Debug)]
pub struct PublishedRecipe;

impl Rule for PublishedRecipe {
    fn code(&self) -> &'static str {
        "TL603"
    }

    fn name(&self) -> &'static str {
        "published-recipe"
    }

    fn card(&self) -> &'static str {
        include_str!("published_recipe.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let launches = logs.launch.launches.iter();
        launches.filter_map(|launch| remark(logs, launch)).collect()
    }
}

fn remark(logs: &Logs, launch: &Launch) -> Option<Remark> {
    let (accelerator, device) = launch.accelerator()?;
    let model = launch.model()?;
    let slices = launch
        .get(&["num_slices"])
        .and_then(|s| s.number())
        .unwrap_or(1);
    let chips = accelerator.chips.map(|chips| chips.saturating_mul(slices));
    let recipe = recipe(&model.value, accelerator.generation, chips)?;
    let peak = chip(accelerator.generation).peak_tflops_per_chip("bf16")?;
    let rate = recipe.tflops_per_chip.value;
    let share = percent(rate / peak);
    let (kind, severity, title) = match recipe.kind {
        Some(kind) => (
            kind,
            Severity::Low,
            format!(
                "the published run of this recipe reaches {rate:.1} TFLOP/s a chip, {share} of {peak:.0}: it is limited by {}",
                recipe.limited_by
            ),
        ),
        None => (
            AdviceKind::MatmulShape,
            Severity::Info,
            format!(
                "the published run of this recipe reaches {rate:.1} TFLOP/s a chip, {share} of {peak:.0}: little is left to add"
            ),
        ),
    };
    let mut remark = Remark::new(kind, severity, title);
    remark.places = vec![
        setting_place(logs, "model", model),
        setting_place(logs, "chip", device),
    ];
    remark.evidence = vec![
        Exhibit::number(
            "published",
            rate,
            "TFLOP/s a chip",
            recipe.tflops_per_chip.source.clone(),
        ),
        Exhibit::text(
            "of the peak",
            share,
            format!("{rate:.1} / {peak:.0} TFLOP/s, bf16"),
        ),
        Exhibit::text("recipe", recipe.name.clone(), ""),
    ];
    remark.evidence.extend(video_tokens(launch));
    remark.advice = recipe.advice.clone();
    if recipe.advice.is_empty() {
        remark.advice.push(
            "compare your own step lines with it: a run far below has a fault of its own"
                .to_owned(),
        );
    }
    remark.caveats = vec![
        "this is what others measured with their versions; nothing of your run was measured"
            .to_owned(),
    ];
    Some(remark)
}

/// Tokens of a video as Wan counts them: its VAE takes 4 frames (the first one alone) and 8 by 8
/// pixels to a latent, a patch 2 by 2 latents to a token.
fn video_tokens(launch: &Launch) -> Option<Exhibit> {
    if !launch
        .model()?
        .value
        .to_ascii_lowercase()
        .starts_with("wan")
    {
        return None;
    }
    let number = |name: &str| launch.get(&[name]).and_then(|setting| setting.number());
    let (frames, height, width) = (number("num_frames")?, number("height")?, number("width")?);
    let latents = frames.saturating_sub(1) / 4 + 1;
    let tokens = latents
        .saturating_mul(height / 16)
        .saturating_mul(width / 16);
    Some(Exhibit::text(
        "sequence",
        format!("{tokens} tokens a video"),
        format!("({frames} - 1) / 4 + 1 latent frames of {height} / 16 by {width} / 16 patches"),
    ))
}
