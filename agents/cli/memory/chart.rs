//! Memory over time, drawn with characters.

use profiler::memory::MemoryTimeline;
use profiler::units::Bytes;

/// Columns and rows of the chart.
const COLUMNS: usize = 64;
const ROWS: usize = 8;

/// Use over time: of each column the most that was in use, stacks included.
pub(super) fn chart(timeline: &MemoryTimeline) -> Vec<String> {
    let mut samples: Vec<(u64, u64)> = timeline
        .time_ps
        .iter()
        .zip(timeline.in_use_bytes.iter().zip(&timeline.reserved_bytes))
        .map(|(time, (in_use, reserved))| (*time, in_use.saturating_add(*reserved)))
        .collect();
    samples.sort_by_key(|(time, _)| *time);
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Vec::new();
    };
    let (begin, end) = (first.0, last.0);
    let span = u128::from((end - begin).max(1));
    let mut columns = [0u64; COLUMNS];
    let mut held = first.1;
    let mut next = samples.iter().peekable();
    for (at, column) in columns.iter_mut().enumerate() {
        *column = held;
        let until = u128::from(begin) + span * (at as u128 + 1) / COLUMNS as u128;
        let is_last = at + 1 == COLUMNS;
        while let Some((_, used)) = next.next_if(|(time, _)| u128::from(*time) < until || is_last) {
            *column = (*column).max(*used);
            held = *used;
        }
    }
    let capacity = timeline.peak().map_or(0, |peak| peak.capacity_bytes());
    let mut lines = Vec::with_capacity(ROWS + 2);
    for row in (0..ROWS).rev() {
        // A column reaches a row when it fills at least half of it.
        let threshold = (2 * row as u128 + 1) * u128::from(capacity) / (2 * ROWS as u128);
        let cells = columns.iter().map(|used| {
            let filled = u128::from(*used) >= threshold && *used > 0;
            if filled { '#' } else { ' ' }
        });
        let label = if row + 1 == ROWS {
            Bytes(capacity).to_string()
        } else {
            String::new()
        };
        let line = format!("{label:>10} |{}", cells.collect::<String>());
        lines.push(line.trim_end().to_owned());
    }
    lines.push(format!("{:>10} +{}", "0", "-".repeat(COLUMNS)));
    let seconds = (end - begin) as f64 / 1e12;
    lines.push(format!(
        "{:>width$}",
        format!("{seconds:.3} s"),
        width = COLUMNS + 12
    ));
    lines
}
