//! Reads the list of events, in parallel parts where it is long.
//!
//! The list is cut where one event ends and another begins. What looks like such a place may lie
//! inside an event; then the part before it ends in the middle of an event, which shows, and the
//! rest of the file is read in one go.

use rayon::prelude::*;

use super::cursor::{Cursor, Damage, next_event};
use super::event::Event;
use super::table::Table;

/// Size of a part. Large against the tables' fixed costs, small against the memory that the
/// parts in flight take.
const PART_BYTES: usize = 8 << 20;

/// Origin of clocks is moved when times do not fit comfortably in 64 bits of picoseconds.
const LARGEST_TIME_PS: i128 = 1 << 62;
/// Granularity of that move, 13 days: files of one run are moved alike.
const BASE_STEP_BITS: u32 = 60;
/// Events may begin before the one that is first in the file.
const BASE_MARGIN_PS: i128 = 86_400 * 1_000_000_000_000;

/// How a list of events ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With its bracket; the byte after that.
    Closed(usize),
    /// The text ends between two events.
    BetweenEvents,
    /// The text ends inside the event that begins at this byte.
    InEvent(usize),
}

/// Reads events from byte `start`, just behind the opening bracket, to the end of the list.
pub(super) fn read_events(bytes: &[u8], start: usize) -> (Table<'_>, End) {
    let mut table = Table::new(clock_base(bytes, start));
    let end = read_parts(bytes, start, PART_BYTES, &mut table);
    (table, end)
}

fn read_parts<'a>(bytes: &'a [u8], start: usize, size: usize, table: &mut Table<'a>) -> End {
    let mut at = start;
    loop {
        let parts = cut(bytes, at, size);
        let base_ps = table.base_ps();
        let read: Vec<_> = parts
            .par_iter()
            .map(|(from, to)| {
                let mut part = Table::new(base_ps);
                let end = read_part(bytes, *from, *to, &mut part);
                (part, end)
            })
            .collect();
        for ((from, to), (part, end)) in parts.into_iter().zip(read) {
            let is_last = to == bytes.len();
            match end {
                End::InEvent(_) if !is_last => return read_part(bytes, from, bytes.len(), table),
                _ => table.append(part),
            }
            if is_last || matches!(end, End::Closed(_)) {
                return end;
            }
            at = to;
        }
    }
}

/// As many parts as there are threads, from `at` on.
fn cut(bytes: &[u8], at: usize, size: usize) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut from = at;
    while parts.len() < rayon::current_num_threads().max(1) {
        // A short rest is not worth a part of its own.
        let wanted = from.saturating_add(size);
        let to = if wanted.saturating_add(size / 4) < bytes.len() {
            next_event(bytes, wanted).unwrap_or(bytes.len())
        } else {
            bytes.len()
        };
        parts.push((from, to));
        if to == bytes.len() {
            break;
        }
        from = to;
    }
    parts
}

/// Reads the events between two bytes.
fn read_part<'a>(bytes: &'a [u8], from: usize, to: usize, table: &mut Table<'a>) -> End {
    let text = bytes.get(..to).unwrap_or(bytes);
    let is_last = to >= bytes.len();
    let mut cursor = Cursor::new(text, from);
    loop {
        match cursor.peek() {
            None => return End::BetweenEvents,
            Some(b']') => return End::Closed(cursor.at + 1),
            Some(b',') => {
                cursor.at += 1;
                continue;
            }
            Some(b'{') => {}
            // No event, but no harm either.
            Some(_) if cursor.skip().is_ok() => continue,
            Some(_) => {}
        }
        let at = cursor.at;
        let (event, outcome) = Event::read(&mut cursor);
        let Err(damage) = outcome else {
            table.add(&event, at);
            continue;
        };
        // Go on with the next event, if there is one.
        let next = next_event(text, at + 1);
        if damage == Damage::Cut && (next.is_none() || !is_last) {
            return End::InEvent(at);
        }
        table.add_damaged(&event);
        match next {
            Some(next) => cursor.at = next,
            // The last event of the list is the bad one: what follows it is not known.
            None if is_last => return End::Closed(to),
            None => return End::BetweenEvents,
        }
    }
}

/// What to take off all times of a file, from the first of them.
fn clock_base(bytes: &[u8], start: usize) -> i128 {
    let mut cursor = Cursor::new(bytes, start);
    loop {
        if cursor.eat(b',') {
            continue;
        }
        let at = cursor.at;
        match Event::read(&mut cursor) {
            (event, Ok(())) if event.phase != b'X' => {}
            (event, Ok(())) => match event.start_ps {
                Some(time) if time > LARGEST_TIME_PS => {
                    let earliest = time.saturating_sub(BASE_MARGIN_PS);
                    return (earliest >> BASE_STEP_BITS) << BASE_STEP_BITS;
                }
                Some(_) => return 0,
                None => {}
            },
            (_, Err(_)) => match next_event(bytes, at + 1) {
                Some(next) => cursor.at = next,
                None => return 0,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nested lists that look like events, broken events, text between events, another list
    /// after the one that is read.
    const LIST: &str = r#"
    {"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}} ,
    {"ph":"X","pid":3,"tid":1,"ts":1,"dur":1,"name":"a","args":{"x":[{"name":1},{"name":2},{"name":3}]}},
    {"ph":"X","pid":"Spans","tid":"b","ts":1,"dur":1,"name":"b"},
    {"ph":"X","pid":3,"tid":1,"ts":2,"dur":1,"name":"c","args":{"device_offset_ps":"7","x":"/"c/""}},
    {"ph":"X","pid":3,"tid":1,"ts":3,"dur":1,"name":"d","args":{"device_offset_ps":"9","long_name":"d"}},
    {"ph":"X","pid":3,"tid":2,"ts":3,"dur":1,"name":"a},{\"ph\""},
    {"name":"say "e"","ph":"X"},
    {"ph":"X","pid":3,"tid":1,"ts":4,"dur":1,"name":"\"f\""},
    {"ph":"M","pid":3,"tid":1,"name":"thread_name","args":{"name":"XLA Ops"}},
    {}], "more":[{"ph":"X","ts":1,"name":"x"},{"ph":"X","ts":1,"name":"y"}]"#;

    fn read_in_parts(text: &str, size: usize) -> (String, End) {
        let mut table = Table::new(0);
        let end = read_parts(text.as_bytes(), 0, size, &mut table);
        let names: Vec<_> = (0..table.names.len() as u32)
            .map(|i| table.names.get(i))
            .collect();
        let counts = (table.events, table.unreadable, table.without_args);
        (
            format!(
                "{names:?} {:?} {:?} {counts:?}",
                table.processes, table.lines
            ),
            end,
        )
    }

    #[test]
    fn a_list_reads_the_same_in_parts_of_any_size() {
        let whole = read_in_parts(LIST, LIST.len());
        let close = LIST.find("], \"more\"").expect("the end of the list") + 1;
        assert_eq!(whole.1, End::Closed(close));
        for size in 0..LIST.len() {
            assert_eq!(read_in_parts(LIST, size), whole, "parts of {size} bytes");
        }
    }

    #[test]
    fn a_list_that_is_cut_reads_the_same_in_parts() {
        for cut in (0..LIST.len()).filter(|cut| LIST.is_char_boundary(*cut)) {
            let text = &LIST[..cut];
            let whole = read_in_parts(text, text.len());
            for size in [0, 40, 150, 400] {
                assert_eq!(
                    read_in_parts(text, size),
                    whole,
                    "{cut} bytes in parts of {size}"
                );
            }
        }
    }
}
