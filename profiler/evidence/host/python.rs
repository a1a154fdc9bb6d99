//! Where in the Python program the gaps come from.

use std::collections::BTreeMap;

use crate::evidence::host::{Ruler, Watched};
use crate::intervals::Intervals;
use crate::session::{NameId, Session};

/// Frames listed: the innermost, and who called it.
const FRAMES: usize = 3;

/// The frames present in at least half of the time of the gaps, outermost first, the innermost
/// [`FRAMES`] of them. Only threads that call programs count: others wait all the time.
pub(super) fn frames_in(
    gaps: &Intervals,
    threads: &[Watched<'_>],
    session: &Session,
) -> Vec<String> {
    let is_line: Vec<bool> = session
        .names
        .iter()
        .map(|name| is_python_line(name))
        .collect();
    let ruler = Ruler::new(gaps);
    let mut frames: BTreeMap<NameId, Frame> = BTreeMap::new();
    for watched in threads.iter().filter(|thread| thread.calls) {
        let mut open: Vec<u64> = Vec::new();
        let mut gap = 0;
        for (start, duration, name) in watched.thread.spans.iter() {
            if !is_line.get(name as usize).copied().unwrap_or(false) {
                continue;
            }
            let end = start.saturating_add(duration);
            while open.last().is_some_and(|last| *last <= start) {
                open.pop();
            }
            let in_gaps = ruler.within_next(&mut gap, start, end);
            if in_gaps > 0 {
                let frame = frames.entry(name).or_default();
                frame.spans.push((start, end));
                frame.depth += in_gaps as f64 * open.len() as f64;
                frame.weight += in_gaps as f64;
            }
            open.push(end);
        }
    }
    let half = gaps.total_ps() as f64 / 2.0;
    let mut present: Vec<(f64, NameId)> = frames
        .into_iter()
        .filter(|(_, frame)| {
            let union = Intervals::union(frame.spans.iter().copied());
            let time: u64 = union
                .spans()
                .iter()
                .map(|(s, e)| ruler.within(*s, *e))
                .sum();
            time as f64 >= half
        })
        .map(|(name, frame)| (frame.depth / frame.weight.max(1.0), name))
        .collect();
    present.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let skipped = present.len().saturating_sub(FRAMES);
    let names = present.into_iter().skip(skipped);
    names
        .filter_map(|(_, name)| session.names.get(name as usize))
        .map(|name| name.trim_start_matches('$').to_owned())
        .collect()
}

#[derive(Default)]
struct Frame {
    spans: Vec<(u64, u64)>,
    depth: f64,
    weight: f64,
}

/// `$train.py:42 step` is a line of Python; calls into C have no line, and what a waiting thread
/// sits in says nothing of whom it waits for.
fn is_python_line(name: &str) -> bool {
    let Some((file, rest)) = name
        .strip_prefix('$')
        .and_then(|name| name.split_once(".py:"))
    else {
        return false;
    };
    let waits = ["threading", "queue", "selectors", "contextlib"];
    rest.starts_with(|c: char| c.is_ascii_digit()) && !waits.contains(&file)
}
