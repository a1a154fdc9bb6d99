//! The roofline: each operation's FLOP rate over its FLOPs per byte of HBM, under the roofs that
//! the chip's peaks are.

use std::collections::BTreeSet;

use advisors::Report;
use profiler::evidence::{Evidence, OpClass, OpProfile};
use profiler::units::{percent, with_digits};
use serde::Serialize;

use crate::ops::{Group, bound_name};
use crate::palette::{GRID, Hue, INK, MUTED};
use crate::pictures::Picture;
use crate::pictures::canvas::{Anchor, Canvas, WIDTH, picture, text_width};
use crate::pictures::scale::{LogScale, tick_label};
use crate::view::{LegendEntry, legend};

const HEIGHT: i32 = 520;
const LEFT: i32 = 64;
const RIGHT: i32 = WIDTH - 16;
const TOP: i32 = 14;
const BOTTOM: i32 = HEIGHT - 46;
/// Rows of the table of operations whose longest operation has its number beside it.
const NUMBERED: usize = 12;
/// Points below this share of the time may lie beyond an edge.
const SMALL_SHARE: f64 = 0.0005;
/// Decades shown below the highest roof, and around the ridge.
const DECADES: i32 = 5;

/// The picture and what is said beside it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Roofline {
    /// Nothing to draw without peaks, or where no operation has both FLOPs and HBM bytes.
    pub(crate) picture: Option<Picture>,
    pub(crate) has_peaks: bool,
    pub(crate) ridge_flop_per_byte: f64,
    pub(crate) legend: Vec<LegendEntry>,
    pub(crate) points: usize,
    pub(crate) points_share: f64,
    /// Operations that only move data or state no FLOPs, and their share of time.
    pub(crate) without_flops: usize,
    pub(crate) without_flops_share: f64,
    /// Operations with FLOPs that touch no HBM.
    pub(crate) without_hbm: usize,
    pub(crate) without_hbm_share: f64,
    /// Points above the roof: their FLOPs or bytes are not what they did.
    pub(crate) above_roof: usize,
    pub(crate) numbered: Vec<NumberedPoint>,
}

/// A row of the table beside the picture.
#[derive(Debug, Serialize)]
pub(crate) struct NumberedPoint {
    /// Its row in the table of operations.
    pub(crate) rank: usize,
    pub(crate) name: String,
    pub(crate) class: &'static str,
    pub(crate) hue: &'static str,
    pub(crate) flop_per_byte: f64,
    pub(crate) tflops: f64,
    pub(crate) roof_tflops: f64,
    pub(crate) bound_by: &'static str,
    pub(crate) self_ms: f64,
}

struct Point<'p> {
    rank: usize,
    profile: &'p OpProfile,
    flop_per_byte: f64,
    tflops: f64,
    share: f64,
    hue: Hue,
}

struct Roofs {
    /// HBM bandwidth in TB/s: TFLOP/s for each FLOP per byte.
    hbm: f64,
    /// Name and TFLOP/s, lowest first.
    compute: Vec<(&'static str, f64)>,
}

impl Roofs {
    fn of(evidence: &Evidence<'_>) -> Option<Self> {
        let peaks = &evidence.peaks;
        let hbm = peaks.hbm_gb_per_s.as_ref()?.value / 1e3;
        let mut compute: Vec<(&'static str, f64)> = Vec::new();
        for (name, peak) in [
            ("bf16", &peaks.bf16_tflops),
            ("fp8", &peaks.fp8_tflops),
            ("int8", &peaks.int8_tops),
        ] {
            let Some(value) = peak.as_ref().map(|peak| peak.value) else {
                continue;
            };
            if value > 0.0 && value.is_finite() && compute.iter().all(|(_, known)| *known != value)
            {
                compute.push((name, value));
            }
        }
        compute.sort_by(|a, b| a.1.total_cmp(&b.1));
        (hbm > 0.0 && hbm.is_finite() && !compute.is_empty()).then_some(Self { hbm, compute })
    }

    fn lowest(&self) -> f64 {
        self.compute.first().map_or(1.0, |(_, peak)| *peak)
    }

    fn highest(&self) -> f64 {
        self.compute.last().map_or(1.0, |(_, peak)| *peak)
    }
}

/// Whether FLOPs say nothing of an operation: it waits for a link, or for others.
fn only_moves(class: OpClass) -> bool {
    matches!(
        class,
        OpClass::Collective(_)
            | OpClass::AsyncCopy(_)
            | OpClass::HostTransfer
            | OpClass::ControlFlow
    )
}

/// Draws the roofline.
pub(crate) fn draw(report: &Report, evidence: &Evidence<'_>, groups: &[Group<'_>]) -> Roofline {
    let window_ps = report.breakdown.window_ms_per_step * 1e9;
    let mut view = Roofline::default();
    let mut points = Vec::new();
    let ranked = (1..).zip(groups);
    let members = ranked.flat_map(|(rank, group)| group.members.iter().map(move |op| (rank, *op)));
    for (rank, profile) in members {
        let share = if window_ps > 0.0 {
            profile.step_self_ps / window_ps
        } else {
            0.0
        };
        let tflops = profile
            .tflops()
            .filter(|rate| *rate > 0.0 && rate.is_finite());
        let bytes = profile.cost.hbm_bytes.filter(|bytes| *bytes > 0.0);
        match (tflops, profile.cost.flops, bytes) {
            _ if only_moves(profile.class) => {
                view.without_flops += 1;
                view.without_flops_share += share;
            }
            (Some(tflops), Some(flops), Some(bytes)) => {
                view.points_share += share;
                points.push(Point {
                    rank,
                    profile,
                    flop_per_byte: flops / bytes,
                    tflops,
                    share,
                    hue: Hue::of(profile.class),
                });
            }
            (Some(_), _, None) => {
                view.without_hbm += 1;
                view.without_hbm_share += share;
            }
            _ => {
                view.without_flops += 1;
                view.without_flops_share += share;
            }
        }
    }
    view.points = points.len();
    let Some(roofs) = Roofs::of(evidence) else {
        return view;
    };
    view.has_peaks = true;
    view.ridge_flop_per_byte = roofs.lowest() / roofs.hbm;
    if points.is_empty() {
        return view;
    }
    view.legend = legend(|hue| points.iter().any(|point| point.hue == hue));
    view.above_roof = points
        .iter()
        .filter(|point| point.tflops > 1.005 * roofs.highest().min(point.flop_per_byte * roofs.hbm))
        .count();
    let mut ranks = BTreeSet::new();
    let firsts: Vec<&Point<'_>> = points
        .iter()
        .filter(|point| ranks.insert(point.rank))
        .take(NUMBERED)
        .collect();
    view.numbered = firsts
        .iter()
        .map(|point| numbered(point, &roofs, evidence))
        .collect();
    view.picture = Some(Picture {
        svg: picture(HEIGHT, |canvas| paint(canvas, &points, &firsts, &roofs)),
        alt: alt(&view, &roofs),
    });
    view
}

fn numbered(point: &Point<'_>, roofs: &Roofs, evidence: &Evidence<'_>) -> NumberedPoint {
    NumberedPoint {
        rank: point.rank,
        name: evidence.session.op(point.profile.id).name.clone(),
        class: point.profile.class.name(),
        hue: point.hue.name(),
        flop_per_byte: point.flop_per_byte,
        tflops: point.tflops,
        roof_tflops: roofs.lowest().min(point.flop_per_byte * roofs.hbm),
        bound_by: bound_name(point.profile.roofline.bound_by),
        self_ms: point.profile.step_self_ms(),
    }
}

fn alt(view: &Roofline, roofs: &Roofs) -> String {
    let longest: Vec<String> = view
        .numbered
        .iter()
        .take(3)
        .map(|point| {
            format!(
                "{} at {} FLOP per byte and {}",
                point.name,
                with_digits(point.flop_per_byte, "").trim_end(),
                with_digits(point.tflops, "TFLOP/s")
            )
        })
        .collect();
    format!(
        "Roofline, both axes logarithmic: FLOPs per byte of HBM against TFLOP/s. {} operations with {} of the time, under an HBM roof of {} and compute roofs of {}. The longest: {}.",
        view.points,
        percent(view.points_share),
        with_digits(roofs.hbm * 1e3, "GB/s"),
        roofs
            .compute
            .iter()
            .map(|(name, peak)| format!("{} ({name})", with_digits(*peak, "TFLOP/s")))
            .collect::<Vec<_>>()
            .join(", "),
        longest.join("; ")
    )
}

fn paint(canvas: &Canvas<'_>, points: &[Point<'_>], firsts: &[&Point<'_>], roofs: &Roofs) {
    let ridge = roofs.lowest() / roofs.hbm;
    let reach = 10f64.powi(DECADES);
    // What takes next to no time does not stretch the axes.
    let seen = || points.iter().filter(|point| point.share >= SMALL_SHARE);
    let lowest =
        |values: &dyn Fn(&Point<'_>) -> f64| seen().map(values).fold(f64::INFINITY, f64::min);
    let highest = |values: &dyn Fn(&Point<'_>) -> f64| seen().map(values).fold(0.0, f64::max);
    let x = LogScale::new(
        lowest(&|p| p.flop_per_byte).clamp(ridge / reach, ridge / 10.0),
        highest(&|p| p.flop_per_byte).clamp(ridge * 10.0, ridge * reach),
        LEFT,
        RIGHT,
    );
    let top = roofs.highest();
    let y = LogScale::new(
        lowest(&|p| p.tflops).clamp(top / reach, top / 100.0),
        highest(&|p| p.tflops).clamp(top * 1.2, top * 10.0),
        BOTTOM,
        TOP,
    );
    axes(canvas, &x, &y);
    paint_roofs(canvas, &x, &y, roofs);
    paint_points(canvas, &x, &y, points, firsts);
}

fn axes(canvas: &Canvas<'_>, x: &LogScale, y: &LogScale) {
    for tick in x.ticks() {
        let at = x.at(tick);
        canvas.line(&[(at, TOP), (at, BOTTOM)], 1, GRID);
        canvas.text(at, BOTTOM + 14, &tick_label(tick), MUTED, Anchor::Middle);
    }
    for tick in y.ticks() {
        let at = y.at(tick);
        canvas.line(&[(LEFT, at), (RIGHT, at)], 1, GRID);
        canvas.text(LEFT - 6, at, &tick_label(tick), MUTED, Anchor::End);
    }
    let middle = (LEFT + RIGHT) / 2;
    canvas.text(
        middle,
        HEIGHT - 10,
        "FLOP per byte of HBM",
        INK,
        Anchor::Middle,
    );
    canvas.upwards(12, (TOP + BOTTOM) / 2, "TFLOP/s", INK);
}

fn paint_roofs(canvas: &Canvas<'_>, x: &LogScale, y: &LogScale, roofs: &Roofs) {
    for (name, peak) in &roofs.compute {
        let ridge = peak / roofs.hbm;
        let level = y.at(*peak);
        canvas.line(&[(x.at(ridge), level), (RIGHT, level)], 2, INK);
        let label = format!("{name} {}", with_digits(*peak, "TFLOP/s"));
        canvas.text(RIGHT - 4, level - 9, &label, INK, Anchor::End);
    }
    // The slope begins where it enters the picture, from the left or from below.
    let low = x.low().max(y.low() / roofs.hbm);
    let end = (roofs.highest() / roofs.hbm).min(x.high());
    let ends = [low, end].map(|at| (x.at(at), y.at(at * roofs.hbm)));
    canvas.line(&ends, 2, INK);
    let [(x0, y0), (x1, y1)] = ends;
    let label = format!("HBM {}", with_digits(roofs.hbm * 1e3, "GB/s"));
    let at = (x0 + (x1 - x0) / 3, y0 + (y1 - y0) / 3);
    canvas.text(at.0 - 8, at.1 - 6, &label, INK, Anchor::End);
}

fn paint_points(
    canvas: &Canvas<'_>,
    x: &LogScale,
    y: &LogScale,
    points: &[Point<'_>],
    firsts: &[&Point<'_>],
) {
    let radius = |point: &Point<'_>| 3 + (point.share.clamp(0.0, 1.0).sqrt() * 30.0).round() as i32;
    let mut by_size: Vec<&Point<'_>> = points.iter().collect();
    // Small ones are drawn over large ones.
    by_size.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.rank.cmp(&b.rank)));
    for point in by_size {
        canvas.disc(
            x.at(point.flop_per_byte),
            y.at(point.tflops),
            radius(point),
            point.hue.colour(),
        );
    }
    let mut placed: Vec<(i32, i32)> = Vec::new();
    for point in firsts {
        let (px, py) = (x.at(point.flop_per_byte), y.at(point.tflops));
        let label = point.rank.to_string();
        let away = radius(point) + 4 + text_width(&label) / 2;
        let spots = [
            (px + away, py),
            (px - away, py),
            (px, py - radius(point) - 8),
            (px, py + radius(point) + 9),
        ];
        let free = spots.into_iter().find(|(sx, sy)| {
            (LEFT..=RIGHT).contains(sx)
                && placed
                    .iter()
                    .all(|(ox, oy)| (ox - sx).abs() > 16 || (oy - sy).abs() > 13)
        });
        if let Some(spot) = free {
            canvas.text(spot.0, spot.1, &label, INK, Anchor::Middle);
            placed.push(spot);
        }
    }
}
