//! Where the time of a step goes, as bars: one for each class, and for idle time.

use advisors::report::Breakdown;
use profiler::units::percent;

use crate::palette::{Hue, INK, MUTED};
use crate::pictures::Picture;
use crate::pictures::canvas::{Anchor, WIDTH, characters_in, picture, text_width};
use crate::text::short;

/// Classes below this share are summed up in one bar.
const SMALL_SHARE: f64 = 0.005;
const ROW: i32 = 24;
const LABELS: i32 = 190;
const FIGURES: i32 = 150;

struct Bar {
    name: String,
    hue: Hue,
    ms: f64,
    share: f64,
}

/// The bars; nothing where no operation took time.
pub(crate) fn draw(breakdown: &Breakdown) -> Option<Picture> {
    let bars = bars(breakdown);
    let longest = bars.iter().map(|bar| bar.share).fold(0.0, f64::max);
    if longest <= 0.0 || !longest.is_finite() {
        return None;
    }
    let room = f64::from(WIDTH - LABELS - FIGURES);
    let height = ROW * i32::try_from(bars.len()).unwrap_or(1) + 4;
    let svg = picture(height, |canvas| {
        for (row, bar) in (0..).zip(&bars) {
            let middle = row * ROW + ROW / 2 + 2;
            let name = short(&bar.name, characters_in(LABELS - 10)).into_owned();
            canvas.text(LABELS - 10, middle, &name, INK, Anchor::End);
            let width = ((bar.share / longest * room).round() as i32).max(1);
            canvas.block(LABELS, middle - 9, width, 18, bar.hue.colour());
            let figures = format!("{:.3} ms, {}", bar.ms, percent(bar.share));
            let x = (LABELS + width + 8).min(WIDTH - text_width(&figures));
            canvas.text(x, middle, &figures, MUTED, Anchor::Start);
        }
    });
    let parts: Vec<String> = bars
        .iter()
        .map(|bar| format!("{} {:.3} ms ({})", bar.name, bar.ms, percent(bar.share)))
        .collect();
    Some(Picture {
        svg,
        alt: format!(
            "Bars of the time of a step of {:.3} ms by class: {}.",
            breakdown.window_ms_per_step,
            parts.join(", ")
        ),
    })
}

fn bars(breakdown: &Breakdown) -> Vec<Bar> {
    let (large, small): (Vec<_>, Vec<_>) = breakdown
        .classes
        .iter()
        .partition(|row| row.share >= SMALL_SHARE);
    let mut bars: Vec<Bar> = large
        .into_iter()
        .map(|row| Bar {
            name: row.name.clone(),
            hue: Hue::of_name(&row.name),
            ms: row.self_ms_per_step,
            share: row.share,
        })
        .collect();
    let ms: f64 = small.iter().map(|row| row.self_ms_per_step).sum();
    if ms > 0.0 {
        bars.push(Bar {
            name: format!("{} smaller classes", small.len()),
            hue: Hue::Other,
            ms,
            share: small.iter().map(|row| row.share).sum(),
        });
    }
    let window = breakdown.window_ms_per_step;
    for (name, ms) in [
        ("idle between programs", breakdown.idle_between_ms_per_step),
        ("idle inside programs", breakdown.idle_inside_ms_per_step),
    ] {
        if window > 0.0 && ms / window >= 0.0005 {
            bars.push(Bar {
                name: name.to_owned(),
                hue: Hue::Idle,
                ms,
                share: ms / window,
            });
        }
    }
    bars
}
