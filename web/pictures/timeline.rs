//! One step as it ran: for each core its programs, its operations by colour, and what was in
//! flight beside them.
//!
//! However many events a step has, a row is at most as many shapes as it has columns.

use profiler::evidence::steps::Step;
use profiler::evidence::{Evidence, OpClass};
use profiler::program::parse_instruction;
use profiler::session::Device;
use profiler::units::Picos;
use serde::Serialize;

use crate::palette::{GRID, Hue, INK, MUTED, ON_HUE, PROGRAM};
use crate::pictures::Picture;
use crate::pictures::canvas::{Anchor, Canvas, WIDTH, characters_in, picture, text_width};
use crate::pictures::scale::{round_step, tick_label};
use crate::pictures::segments::{Cell, Columns, Segment, innermost, runs};
use crate::text::short;
use crate::view::{LegendEntry, legend};

const LEFT: i32 = 96;
const RIGHT: i32 = WIDTH - 8;
const AXIS: i32 = 24;
const PROGRAMS: i32 = 16;
const OPS: i32 = 32;
const FLIGHT: i32 = 6;
const ROW: i32 = PROGRAMS + OPS + FLIGHT + 14;
/// Cores shown; more would not fit a page.
const CORES_SHOWN: usize = 16;
/// Shapes that all rows together may have, about.
const SHAPES: usize = 4800;
/// An operation this wide stands alone.
const ALONE_PIXELS: usize = 10;

/// The picture and what is said beside it.
#[derive(Debug, Serialize)]
pub(crate) struct Timeline {
    pub(crate) picture: Picture,
    pub(crate) legend: Vec<LegendEntry>,
    /// Which step, from 1, of how many.
    pub(crate) step: usize,
    pub(crate) steps: usize,
    pub(crate) step_ms: f64,
    /// Length of the picture, ms.
    pub(crate) length_ms: f64,
    /// Length of a column, ms.
    pub(crate) column_ms: f64,
    pub(crate) cores: usize,
    pub(crate) cores_left_out: usize,
    /// Whether cores of several hosts are shown, whose clocks are not aligned.
    pub(crate) several_hosts: bool,
    pub(crate) has_flights: bool,
}

struct Row<'s> {
    device: &'s Device,
    label: String,
    columns: Columns,
    /// Pixels of all columns.
    width: i32,
    /// End of what is shown of this core.
    end: u64,
    segments: Vec<Segment>,
    cells: Vec<Cell>,
    flights: Vec<Cell>,
}

impl Row<'_> {
    /// The pixel of a time.
    fn pixel(&self, time: u64) -> i32 {
        let passed = time.saturating_sub(self.columns.start) as f64;
        let share = passed / self.columns.length.max(1) as f64;
        LEFT + (share.min(1.0) * f64::from(self.width)).round() as i32
    }

    /// Stretches in which nothing ran.
    fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends = std::iter::once(self.columns.start).chain(self.segments.iter().map(|s| s.end));
        let starts = self.segments.iter().map(|s| s.start).chain([self.end]);
        ends.zip(starts).filter(|(from, to)| from < to)
    }
}

/// Draws the step whose time is nearest to the median; nothing where there is no whole step.
pub(crate) fn draw(evidence: &Evidence<'_>) -> Option<Timeline> {
    let wholes: Vec<(usize, Vec<&Step>)> = evidence
        .steps
        .cores
        .iter()
        .map(|core| (core.device, core.whole().collect()))
        .collect();
    let (reference, candidates) = wholes.iter().min_by_key(|(_, whole)| whole.len())?;
    let median = evidence.steps.time.median_ps;
    let (number, chosen, time) = candidates
        .iter()
        .enumerate()
        .map(|(at, step)| {
            let chosen = same_step(evidence, &wholes, *reference, at, step);
            let times = chosen.iter().map(|(_, step, _)| step.duration());
            let time = times.max().unwrap_or_default();
            (at + 1, chosen, time)
        })
        .min_by_key(|(number, _, time)| (time.0.abs_diff(median.0), *number))?;
    let count = candidates.len();
    let spans = spans(evidence, &chosen);
    let length = spans
        .iter()
        .map(|span| span.end.saturating_sub(span.origin))
        .max()
        .filter(|length| *length > 0)?;
    let shown = spans.len().min(CORES_SHOWN);
    let room = (RIGHT - LEFT).unsigned_abs() as usize;
    let per_column = (room * shown).div_ceil(SHAPES).max(1);
    let count_of_columns = room / per_column;
    let hues = hues(evidence);
    let hue = |id: u32| hues.get(id as usize).copied().unwrap_or(Hue::Other);
    let rows: Vec<Row<'_>> = spans
        .iter()
        .take(CORES_SHOWN)
        .filter_map(|span| {
            let columns = Columns {
                start: span.origin,
                length,
                count: count_of_columns,
            };
            row(evidence, span, columns, per_column, &hue)
        })
        .collect();
    let uses = |wanted: Hue| {
        rows.iter().any(|row| {
            row.segments.iter().any(|segment| hue(segment.id) == wanted)
                || wanted == Hue::Idle
                || row
                    .flights
                    .iter()
                    .any(|cell| matches!(cell, Cell::Mixed(hue, _) if *hue == wanted))
        })
    };
    let height = AXIS + ROW * i32::try_from(rows.len()).unwrap_or(1);
    let svg = picture(height, |canvas| {
        axis(canvas, length, height);
        for (at, row) in (0..).zip(&rows) {
            paint(canvas, AXIS + at * ROW, row, per_column, &hue, evidence);
        }
    });
    let hosts: std::collections::BTreeSet<u32> = rows.iter().map(|row| row.device.host).collect();
    Some(Timeline {
        picture: Picture {
            svg,
            alt: format!(
                "Timeline of step {} of {count}, {}: one row for each of {} cores with its programs and its operations coloured by class. The shares of the classes are in the table under \"Where the time goes\".",
                number,
                time,
                rows.len()
            ),
        },
        legend: legend(uses),
        step: number,
        steps: count,
        step_ms: time.as_ms(),
        length_ms: Picos(length).as_ms(),
        column_ms: Picos(length).as_ms() / count_of_columns.max(1) as f64,
        cores: rows.len(),
        cores_left_out: spans.len().saturating_sub(rows.len()),
        several_hosts: hosts.len() > 1,
        has_flights: rows.iter().any(|row| !row.flights.is_empty()),
    })
}

/// What of a core is shown.
struct Span {
    device: usize,
    /// Where the picture begins: the first core of the host to begin the step.
    origin: u64,
    /// Until the next step begins.
    end: u64,
}

/// A core's step, and when its next begins.
type CoreStep<'s> = (usize, &'s Step, Option<u64>);

/// The step of each core that is the same as one core's. An end of the capture may cut a step of
/// some cores only, so on the same host it is the one that overlaps most; clocks of other hosts
/// are not aligned, so there it is the one of the same number.
fn same_step<'s>(
    evidence: &Evidence<'_>,
    wholes: &[(usize, Vec<&'s Step>)],
    reference: usize,
    number: usize,
    step: &Step,
) -> Vec<CoreStep<'s>> {
    let host = |device: usize| evidence.session.devices.get(device).map(|d| d.host);
    let overlap = |other: &Step| {
        let end = other.end_ps.min(step.end_ps);
        end.saturating_sub(other.start_ps.max(step.start_ps))
    };
    wholes
        .iter()
        .filter_map(|(device, whole)| {
            let at = if host(*device) == host(reference) {
                let first = whole.partition_point(|other| other.end_ps <= step.start_ps);
                (first..whole.len())
                    .take_while(|at| whole[*at].start_ps < step.end_ps)
                    .max_by_key(|at| (overlap(whole[*at]), std::cmp::Reverse(*at)))?
            } else {
                number
            };
            let next = whole.get(at + 1).map(|next| next.start_ps);
            Some((*device, *whole.get(at)?, next))
        })
        .collect()
}

fn spans(evidence: &Evidence<'_>, chosen: &[CoreStep<'_>]) -> Vec<Span> {
    let host = |device: usize| evidence.session.devices.get(device).map(|d| d.host);
    chosen
        .iter()
        .map(|(device, step, next)| {
            let neighbours = chosen
                .iter()
                .filter(|(other, ..)| host(*other) == host(*device));
            let first = neighbours.map(|(_, other, _)| other.start_ps).min();
            let pause = next.filter(|next| next.saturating_sub(step.end_ps) <= step.duration().0);
            Span {
                device: *device,
                origin: first.unwrap_or(step.start_ps),
                end: pause.unwrap_or(step.end_ps).max(step.end_ps),
            }
        })
        .collect()
}

/// The hue of each operation of the session.
fn hues(evidence: &Evidence<'_>) -> Vec<Hue> {
    let session = evidence.session;
    (0u32..)
        .zip(&session.ops)
        .map(|(id, op)| match evidence.op(id) {
            Some(profile) => Hue::of(profile.class),
            None => {
                let instruction = parse_instruction(&op.hlo_text).ok();
                Hue::of(OpClass::of(op, instruction.as_ref(), &[]))
            }
        })
        .collect()
}

fn row<'s>(
    evidence: &Evidence<'s>,
    span: &Span,
    columns: Columns,
    per_column: usize,
    hue: &impl Fn(u32) -> Hue,
) -> Option<Row<'s>> {
    let session = evidence.session;
    let device = session.devices.get(span.device)?;
    let window = (span.origin, span.end);
    let segments = innermost(&device.ops, window);
    let cells = columns.fill(&segments, hue, ALONE_PIXELS.div_ceil(per_column));
    let flights: Vec<Segment> = device
        .async_ops
        .iter()
        .map(|(start, duration, id)| Segment {
            start: start.max(window.0),
            end: start.saturating_add(duration).min(window.1),
            id,
        })
        .filter(|segment| segment.start < segment.end)
        .collect();
    let flights = if flights.is_empty() {
        Vec::new()
    } else {
        columns.fill(&flights, hue, usize::MAX)
    };
    let plane = device.plane.trim_start_matches("/device:");
    let label = match session.hosts.get(device.host as usize) {
        Some(_) if session.hosts.len() > 1 => format!("host {} {plane}", device.host),
        _ => plane.to_owned(),
    };
    Some(Row {
        device,
        label,
        columns,
        width: i32::try_from(columns.count * per_column).unwrap_or(0),
        end: span.end,
        segments,
        cells,
        flights,
    })
}

fn axis(canvas: &Canvas<'_>, length: u64, height: i32) {
    let ms = Picos(length).as_ms();
    let (unit, factor) = if ms >= 2.0 { ("ms", 1.0) } else { ("us", 1e3) };
    let step = round_step(ms * factor, 8.0);
    let mut tick = 0.0;
    while tick <= ms * factor {
        let x = LEFT + (tick / (ms * factor) * f64::from(RIGHT - LEFT)).round() as i32;
        canvas.line(&[(x, 18), (x, height)], 1, GRID);
        let label = if tick == 0.0 {
            format!("0 {unit}")
        } else if step < 1.0 {
            tick_label_of(tick, step)
        } else {
            tick_label(tick)
        };
        if x + text_width(&label) / 2 < WIDTH {
            canvas.text(x, 9, &label, MUTED, Anchor::Middle);
        }
        tick += step;
    }
}

/// A tick with the decimals that its step needs.
fn tick_label_of(tick: f64, step: f64) -> String {
    let decimals = (-step.log10()).ceil().clamp(0.0, 9.0) as usize;
    format!("{tick:.decimals$}")
}

fn paint(
    canvas: &Canvas<'_>,
    top: i32,
    row: &Row<'_>,
    per_column: usize,
    hue: &impl Fn(u32) -> Hue,
    evidence: &Evidence<'_>,
) {
    let label = short(&row.label, characters_in(LEFT - 8)).into_owned();
    canvas.text(LEFT - 8, top + PROGRAMS + OPS / 2, &label, INK, Anchor::End);
    programs(canvas, top, row, evidence);
    let ops_top = top + PROGRAMS;
    let shown = row.pixel(row.end) - LEFT;
    canvas.block(LEFT, ops_top, shown, OPS, Hue::Idle.colour());
    let per_column = i32::try_from(per_column).unwrap_or(1);
    let at = |column: usize| LEFT + i32::try_from(column).unwrap_or(0) * per_column;
    for (first, count, cell) in runs(&row.cells) {
        let (x, width) = (at(first), at(count) - LEFT);
        match cell {
            Cell::Empty => {}
            Cell::Mixed(hue, quarters) => {
                let height = OPS * i32::from(quarters) / 4;
                canvas.block(x, ops_top + OPS - height, width, height, hue.colour());
            }
            Cell::Alone(index) => {
                let Some(segment) = row.segments.get(index) else {
                    continue;
                };
                // A gap of a pixel keeps equal neighbours apart.
                canvas.block(
                    x,
                    ops_top,
                    (width - 1).max(1),
                    OPS,
                    hue(segment.id).colour(),
                );
                let name = evidence.session.ops.get(segment.id as usize);
                let name = name.map_or("", |op| op.name.as_str());
                label_inside(canvas, x, width, ops_top + OPS / 2, name);
            }
        }
    }
    for (from, to) in row.gaps() {
        let (x0, x1) = (row.pixel(from), row.pixel(to));
        let text = format!("idle {}", Picos(to - from));
        if x1 - x0 > text_width(&text) + 6 {
            canvas.text(
                (x0 + x1) / 2,
                ops_top + OPS / 2,
                &text,
                MUTED,
                Anchor::Middle,
            );
        }
    }
    for (first, count, cell) in runs(&row.flights) {
        if let Cell::Mixed(hue, _) = cell {
            let y = ops_top + OPS + 2;
            canvas.block(at(first), y, at(count) - LEFT, FLIGHT, hue.colour());
        }
    }
}

/// A name on a coloured block, where enough of it fits to be told apart.
fn label_inside(canvas: &Canvas<'_>, x: i32, width: i32, middle: i32, name: &str) {
    let fits = characters_in(width - 6);
    if fits >= 7 || fits >= name.chars().count() {
        let name = short(name, fits).into_owned();
        if fits >= 3 {
            canvas.text(x + width / 2, middle, &name, ON_HUE, Anchor::Middle);
        }
    }
}

fn programs(canvas: &Canvas<'_>, top: i32, row: &Row<'_>, evidence: &Evidence<'_>) {
    let mut drawn = i32::MIN;
    for (start, duration, module) in row.device.modules.iter() {
        let stop = start.saturating_add(duration);
        if stop <= row.columns.start || start >= row.end {
            continue;
        }
        let (x0, x1) = (row.pixel(start).max(drawn), row.pixel(stop.min(row.end)));
        if x1 <= drawn {
            continue;
        }
        canvas.block(x0, top, (x1 - x0 - 1).max(1), PROGRAMS - 2, PROGRAM);
        drawn = x1.max(x0 + 1);
        let name = evidence.session.modules.get(module as usize);
        let name = name.map_or("", |module| module.name.as_str());
        label_inside(canvas, x0, x1 - x0, top + (PROGRAMS - 2) / 2, name);
    }
}
