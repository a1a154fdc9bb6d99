//! Nested spans laid flat, and a row of them counted into columns.

use profiler::session::Track;

use crate::palette::Hue;

/// A stretch in which one operation was the innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Begin, ps.
    pub(crate) start: u64,
    /// End, ps.
    pub(crate) end: u64,
    /// The span's id.
    pub(crate) id: u32,
}

/// What of a window the innermost spans cover: disjoint, in order.
pub(crate) fn innermost(track: &Track, window: (u64, u64)) -> Vec<Segment> {
    let mut flat = Vec::new();
    let mut open: Vec<(u64, u32)> = Vec::new();
    let mut at = window.0;
    let mut emit = |at: &mut u64, end: u64, id: u32| {
        let end = end.min(window.1);
        if *at < end {
            flat.push(Segment {
                start: *at,
                end,
                id,
            });
            *at = end;
        }
    };
    for (start, duration, id) in track.iter() {
        let end = start.saturating_add(duration);
        if end <= window.0 || duration == 0 {
            continue;
        }
        if start >= window.1 {
            break;
        }
        while let Some((outer_end, outer)) = open.last().copied() {
            emit(&mut at, outer_end.min(start), outer);
            if outer_end > start {
                break;
            }
            open.pop();
        }
        at = at.max(start);
        open.push((end, id));
    }
    while let Some((end, id)) = open.pop() {
        emit(&mut at, end, id);
    }
    flat
}

/// A window divided into columns of equal length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) count: usize,
}

/// What a column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Nothing ran.
    Empty,
    /// One segment, by its index, that is wide enough to stand alone.
    Alone(usize),
    /// The hue that took the most time, and how many quarters of the column are busy.
    Mixed(Hue, u8),
}

impl Columns {
    fn edge(&self, column: usize) -> u64 {
        let part = u128::from(self.length) * column as u128 / self.count.max(1) as u128;
        self.start.saturating_add(part as u64)
    }

    fn of(&self, time: u64) -> usize {
        let part = u128::from(time.saturating_sub(self.start)) * self.count as u128;
        (part / u128::from(self.length.max(1))) as usize
    }

    /// Columns that a stretch is long, about.
    pub(crate) fn width(&self, start: u64, end: u64) -> usize {
        self.of(end).saturating_sub(self.of(start))
    }

    /// Fills the columns. Segments of at least `alone` columns stand alone. Where segments
    /// overlap, columns count their sum.
    pub(crate) fn fill(
        &self,
        segments: &[Segment],
        hue: impl Fn(u32) -> Hue,
        alone: usize,
    ) -> Vec<Cell> {
        const HUES: usize = Hue::OPS.len();
        let mut time = vec![[0u64; HUES]; self.count];
        let mut owner: Vec<Option<usize>> = vec![None; self.count];
        for (index, segment) in segments.iter().enumerate() {
            let slot = hue(segment.id).slot();
            let stands_alone = self.width(segment.start, segment.end) >= alone;
            let (first, last) = (self.of(segment.start), self.of(segment.end));
            for column in first..=last.min(self.count.saturating_sub(1)) {
                let (begin, end) = (self.edge(column), self.edge(column + 1));
                let overlap = segment
                    .end
                    .min(end)
                    .saturating_sub(segment.start.max(begin));
                if let Some(sum) = time.get_mut(column).and_then(|c| c.get_mut(slot)) {
                    *sum = sum.saturating_add(overlap);
                }
                let is_mine = stands_alone && overlap * 2 > end - begin;
                if let Some(owner) = owner.get_mut(column).filter(|_| is_mine) {
                    *owner = Some(index);
                }
            }
        }
        (0..self.count)
            .map(|column| {
                if let Some(index) = owner[column] {
                    return Cell::Alone(index);
                }
                let length = self.edge(column + 1) - self.edge(column);
                let busy: u64 = time[column].iter().fold(0, |sum, t| sum.saturating_add(*t));
                let most = Hue::OPS
                    .into_iter()
                    .max_by_key(|hue| (time[column][hue.slot()], std::cmp::Reverse(hue.slot())));
                match most {
                    Some(hue) if busy > 0 => {
                        let quarters = (u128::from(busy) * 4).div_ceil(u128::from(length.max(1)));
                        Cell::Mixed(hue, quarters.clamp(1, 4) as u8)
                    }
                    _ => Cell::Empty,
                }
            })
            .collect()
    }
}

/// Equal neighbours joined: `(first column, number of columns, cell)`.
pub(crate) fn runs(cells: &[Cell]) -> Vec<(usize, usize, Cell)> {
    let mut runs: Vec<(usize, usize, Cell)> = Vec::new();
    for (column, cell) in cells.iter().enumerate() {
        match runs.last_mut() {
            Some((_, count, last)) if last == cell => *count += 1,
            _ => runs.push((column, 1, *cell)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::{Cell, Columns, Segment, innermost, runs};
    use crate::palette::Hue;
    use profiler::session::Track;

    fn track(spans: &[(u64, u64, u32)]) -> Track {
        let mut track = Track::default();
        for (start, end, id) in spans {
            track.push(*start, end - start, *id);
        }
        track
    }

    fn segments(spans: &[(u64, u64, u32)]) -> Vec<Segment> {
        spans
            .iter()
            .map(|(start, end, id)| Segment {
                start: *start,
                end: *end,
                id: *id,
            })
            .collect()
    }

    #[test]
    fn a_loop_shows_only_where_none_of_its_operations_runs() {
        let nested = track(&[
            (0, 100, 0),
            (10, 30, 1),
            (15, 20, 2),
            (40, 50, 3),
            (120, 130, 4),
        ]);
        assert_eq!(
            innermost(&nested, (5, 125)),
            segments(&[
                (5, 10, 0),
                (10, 15, 1),
                (15, 20, 2),
                (20, 30, 1),
                (30, 40, 0),
                (40, 50, 3),
                (50, 100, 0),
                (120, 125, 4),
            ])
        );
    }

    #[test]
    fn spans_that_overlap_without_nesting_never_count_twice() {
        let crossed = track(&[(0, 10, 0), (5, 20, 1), (8, 9, 2)]);
        let flat = innermost(&crossed, (0, 30));
        assert!(flat.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert_eq!(flat.iter().map(|s| s.end - s.start).sum::<u64>(), 20);
    }

    #[test]
    fn a_million_operations_become_as_many_cells_as_there_are_columns() {
        let many: Vec<Segment> = (0..1_000_000)
            .map(|i| Segment {
                start: i * 4,
                end: i * 4 + 1,
                id: 0,
            })
            .collect();
        let columns = Columns {
            start: 0,
            length: 4_000_000,
            count: 1000,
        };
        let cells = columns.fill(&many, |_| Hue::Reduce, 24);
        assert_eq!(runs(&cells), [(0, 1000, Cell::Mixed(Hue::Reduce, 1))]);
    }

    #[test]
    fn a_long_operation_stands_alone_and_a_gap_stays_empty() {
        let columns = Columns {
            start: 100,
            length: 100,
            count: 100,
        };
        let spans = segments(&[(100, 150, 7), (160, 162, 8)]);
        let cells = columns.fill(&spans, |_| Hue::Matmul, 24);
        assert_eq!(
            runs(&cells),
            [
                (0, 50, Cell::Alone(0)),
                (50, 10, Cell::Empty),
                (60, 2, Cell::Mixed(Hue::Matmul, 4)),
                (62, 38, Cell::Empty),
            ]
        );
    }
}
