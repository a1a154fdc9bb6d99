//! Events as columns, by line, before it is known what the lines are.
//!
//! Names of processes and threads may come after their events, and runs of modules after the
//! operations in them, so nothing is decided here. Tables of parts of a file are joined in the
//! order of the file, which makes the result independent of how it was cut.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::cursor::Scalar;
use super::event::{Args, Event};
use crate::session::Track;

/// Index into [`Names`].
pub(super) type NameIndex = u32;

/// In [`DeviceColumns`]: the event has no such value.
pub(super) const ABSENT: u64 = u64::MAX;

/// Strings of a file, each once.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    list: Vec<Scalar<'a>>,
    /// By the text as it stands in the file: a writer writes a string in one way.
    index: FxHashMap<&'a [u8], NameIndex>,
}

impl<'a> Names<'a> {
    #[inline]
    pub(super) fn intern(&mut self, name: Scalar<'a>) -> NameIndex {
        let list = &mut self.list;
        *self.index.entry(name.raw).or_insert_with(|| {
            list.push(name);
            list.len() as NameIndex - 1
        })
    }

    pub(super) fn get(&self, index: NameIndex) -> Cow<'a, str> {
        let name = self.list.get(index as usize);
        name.map_or(Cow::Borrowed(""), |name| name.text())
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}

/// A `pid` or `tid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    Absent,
    Number(i64),
    Word(NameIndex),
}

/// What `M` events say of a process.
#[derive(Debug, Default)]
pub(super) struct Process<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) labels: Cow<'a, str>,
}

/// What only events of devices have.
#[derive(Debug, Default)]
pub(super) struct DeviceColumns {
    /// Start on the device's own clock, or [`ABSENT`].
    pub(super) start_ps: Vec<u64>,
    /// Duration on the device's own clock, or [`ABSENT`].
    pub(super) duration_ps: Vec<u64>,
    /// Where in the file the event begins if it has details, or [`ABSENT`].
    pub(super) event_at: Vec<u64>,
}

impl DeviceColumns {
    fn push(&mut self, start_ps: u64, duration_ps: u64, event_at: u64) {
        self.start_ps.push(start_ps);
        self.duration_ps.push(duration_ps);
        self.event_at.push(event_at);
    }

    /// Makes the columns `len` long, so that they stand beside a track of that length.
    fn pad(&mut self, len: usize) {
        for column in [
            &mut self.start_ps,
            &mut self.duration_ps,
            &mut self.event_at,
        ] {
            column.resize(len, ABSENT);
        }
    }
}

/// The events of one `tid` of one `pid`.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) pid: Key,
    pub(super) tid: Key,
    /// The thread's name, once an `M` event gave it.
    pub(super) name: Option<NameIndex>,
    /// Whether there are events of Kineto's category `kernel`: work of an accelerator.
    pub(super) has_kernels: bool,
    /// Times on the trace's clock; ids are [`NameIndex`]es.
    pub(super) spans: Track,
    /// As long as `spans`, or empty where no event has any of it.
    pub(super) device: DeviceColumns,
}

/// All that was read of a file, or of a part of it.
#[derive(Debug)]
pub(super) struct Table<'a> {
    pub(super) names: Names<'a>,
    pub(super) processes: BTreeMap<Key, Process<'a>>,
    /// In the order in which they first appear.
    pub(super) lines: Vec<Line>,
    index: FxHashMap<(Key, Key), usize>,
    /// Ids and index of the line of the latest event.
    latest: (Option<(Scalar<'a>, Scalar<'a>)>, usize),
    /// Taken off every time, so that clocks of any origin fit.
    base_ps: i128,
    /// Elements of the list that are events, `M` events apart.
    pub(super) events: u64,
    /// Elements that are not valid JSON or have no time.
    pub(super) unreadable: u64,
    /// Events of which only the arguments are not valid JSON.
    pub(super) without_args: u64,
}

impl<'a> Table<'a> {
    pub(super) fn new(base_ps: i128) -> Self {
        Self {
            names: Names::default(),
            processes: BTreeMap::new(),
            lines: Vec::new(),
            index: FxHashMap::default(),
            latest: (None, 0),
            base_ps,
            events: 0,
            unreadable: 0,
            without_args: 0,
        }
    }

    pub(super) fn base_ps(&self) -> i128 {
        self.base_ps
    }

    /// Adds the event that begins at byte `at` of the file.
    pub(super) fn add(&mut self, event: &Event<'a>, at: usize) {
        match event.phase {
            b'M' => self.describe(event),
            b'X' | b'i' | b'I' => {
                self.events += 1;
                self.add_span(event, at);
            }
            // Counters, flows and the like say nothing that is used.
            0 if !event.has_keys => {}
            0 => self.unreadable += 1,
            _ => self.events += 1,
        }
    }

    /// Adds what stands before the arguments of an event whose arguments are not JSON.
    pub(super) fn add_damaged(&mut self, event: &Event<'a>) {
        if event.phase == b'X' && event.start_ps.is_some() && event.duration_ps.is_some() {
            self.without_args += 1;
            let args = Args::default();
            self.add(&Event { args, ..*event }, 0);
        } else {
            self.unreadable += 1;
        }
    }

    fn describe(&mut self, event: &Event<'a>) {
        let pid = self.key(event.pid);
        let name = event.args.name;
        match event.name.raw {
            b"process_name" => self.processes.entry(pid).or_default().name = name.text(),
            b"process_labels" => self.processes.entry(pid).or_default().labels = name.text(),
            b"thread_name" => {
                let name = self.names.intern(name);
                self.line_of(event).name = Some(name);
            }
            _ => {}
        }
    }

    fn add_span(&mut self, event: &Event<'a>, at: usize) {
        let Some(start) = event.start_ps else {
            self.unreadable += 1;
            return;
        };
        // Kineto's instants mark its own iterations and allocations of host memory; those of
        // XProf are events of no duration.
        if event.phase != b'X' && (!event.category.raw.is_empty() || event.pid.is_string) {
            return;
        }
        let start_ps = clamp(start.saturating_sub(self.base_ps));
        let duration_ps = clamp(event.duration_ps.unwrap_or(0));
        let name = self.names.intern(event.name);
        let args = &event.args;
        let line = self.line_of(event);
        line.has_kernels |= event.is_kernel();
        let len = line.spans.len();
        line.spans.push(start_ps, duration_ps, name);
        let has_device = args.has_details || args.device_start_ps.is_some();
        if has_device || !line.device.event_at.is_empty() {
            line.device.pad(len);
            line.device.push(
                args.device_start_ps.unwrap_or(ABSENT),
                args.device_duration_ps.unwrap_or(ABSENT),
                if args.has_details { at as u64 } else { ABSENT },
            );
        }
    }

    fn key(&mut self, id: Scalar<'a>) -> Key {
        let text = std::str::from_utf8(id.raw).ok().filter(|_| !id.is_string);
        let number = text.and_then(|text| {
            let unsigned = || text.parse().map(u64::cast_signed);
            text.parse().or_else(|_| unsigned()).ok()
        });
        match number {
            Some(number) => Key::Number(number),
            None if id == Scalar::default() => Key::Absent,
            None => Key::Word(self.names.intern(id)),
        }
    }

    /// The line of an event, which is nearly always that of the event before.
    #[inline]
    fn line_of(&mut self, event: &Event<'a>) -> &mut Line {
        let ids = (event.pid, event.tid);
        if self.latest.0 != Some(ids) {
            let (pid, tid) = (self.key(event.pid), self.key(event.tid));
            self.latest = (Some(ids), self.line(pid, tid));
        }
        &mut self.lines[self.latest.1]
    }

    /// Index of a line, new or known.
    fn line(&mut self, pid: Key, tid: Key) -> usize {
        let lines = &mut self.lines;
        *self.index.entry((pid, tid)).or_insert_with(|| {
            lines.push(Line {
                pid,
                tid,
                name: None,
                has_kernels: false,
                spans: Track::default(),
                device: DeviceColumns::default(),
            });
            lines.len() - 1
        })
    }

    /// Appends what was read of the next part of the same file.
    pub(super) fn append(&mut self, next: Self) {
        let names: Vec<NameIndex> = next
            .names
            .list
            .into_iter()
            .map(|name| self.names.intern(name))
            .collect();
        let name_of = |index: NameIndex| names.get(index as usize).copied().unwrap_or_default();
        let key_of = |key: Key| match key {
            Key::Word(index) => Key::Word(name_of(index)),
            other => other,
        };
        for (pid, process) in next.processes {
            let known = self.processes.entry(key_of(pid)).or_default();
            for (known, new) in [
                (&mut known.name, process.name),
                (&mut known.labels, process.labels),
            ] {
                if !new.is_empty() {
                    *known = new;
                }
            }
        }
        for mut part in next.lines {
            let line = self.line(key_of(part.pid), key_of(part.tid));
            let line = &mut self.lines[line];
            line.name = part.name.map(name_of).or(line.name);
            line.has_kernels |= part.has_kernels;
            let (before, added) = (line.spans.len(), part.spans.len());
            line.spans.start_ps.append(&mut part.spans.start_ps);
            line.spans.duration_ps.append(&mut part.spans.duration_ps);
            line.spans.id.extend(part.spans.id.into_iter().map(name_of));
            if !line.device.event_at.is_empty() || !part.device.event_at.is_empty() {
                line.device.pad(before);
                part.device.pad(added);
                line.device.start_ps.append(&mut part.device.start_ps);
                line.device.duration_ps.append(&mut part.device.duration_ps);
                line.device.event_at.append(&mut part.device.event_at);
            }
        }
        self.events += next.events;
        self.unreadable += next.unreadable;
        self.without_args += next.without_args;
    }
}

/// A time that fits: not before the origin, not after the last picosecond that can be said.
fn clamp(picos: i128) -> u64 {
    u64::try_from(picos.max(0)).unwrap_or(u64::MAX)
}
