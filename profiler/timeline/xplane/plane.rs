//! A plane of an `XSpace`, indexed: its metadata and stats, its lines still unread.

use rustc_hash::FxHashMap;

use crate::note::Notes;
use crate::wire::Message;

/// A plane with its lines still unread.
#[derive(Default)]
pub(super) struct Plane<'a> {
    pub(super) name: &'a str,
    pub(super) lines: Vec<&'a [u8]>,
    pub(super) event_metadata: Vec<(i64, &'a [u8])>,
    pub(super) stat_names: FxHashMap<i64, &'a str>,
    pub(super) stats: Vec<&'a [u8]>,
    pub(super) truncated: bool,
}

impl<'a> Plane<'a> {
    pub(super) fn index(bytes: &'a [u8], notes: &mut Notes) -> Self {
        let mut plane = Self::default();
        let mut fields = Message::new(bytes);
        for (number, value) in fields.by_ref() {
            match number {
                2 => plane.name = value.text(),
                3 => plane.lines.push(value.bytes()),
                4 => {
                    let (key, entry) = map_entry(value.bytes());
                    plane.event_metadata.push((key, entry));
                }
                5 => {
                    let (key, entry) = map_entry(value.bytes());
                    let name = Message::new(entry)
                        .find(|(n, _)| *n == 2)
                        .map(|(_, v)| v.text());
                    plane.stat_names.insert(key, name.unwrap_or_default());
                }
                6 => plane.stats.push(value.bytes()),
                _ => {}
            }
        }
        if let Some(error) = fields.error() {
            plane.truncated = true;
            notes.warn(
                "bad-plane",
                format!(
                    "plane {:?} is damaged ({error}): it was read up to there",
                    shorten(plane.name)
                ),
            );
        }
        plane
    }

    pub(super) fn stat(&self, bytes: &'a [u8]) -> (&'a str, Stat<'a>) {
        let (id, value) = raw_stat(bytes);
        let name = self.stat_names.get(&id).copied().unwrap_or_default();
        let value = match value {
            Stat::Ref(key) => Stat::Text(
                self.stat_names
                    .get(&key.cast_signed())
                    .copied()
                    .unwrap_or_default(),
            ),
            other => other,
        };
        (name, value)
    }

    pub(super) fn stat_id(&self, name: &str) -> i64 {
        // Ids are unique; where a name stands twice the smaller id is taken, so that the answer
        // does not depend on the map's order.
        let ids = self.stat_names.iter().filter(|(_, known)| **known == name);
        ids.map(|(id, _)| *id).min().unwrap_or(i64::MIN)
    }
}

/// A stat's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stat<'a> {
    None,
    Int(u64),
    Double(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Ref(u64),
}

impl<'a> Stat<'a> {
    pub(super) fn uint(self) -> u64 {
        match self {
            Self::Int(v) | Self::Ref(v) => v,
            Self::Text(text) => text.parse().unwrap_or(0),
            Self::Double(v) if v >= 0.0 => v as u64,
            _ => 0,
        }
    }

    pub(super) fn double(self) -> f64 {
        match self {
            Self::Double(v) => v,
            Self::Int(v) => v as f64,
            Self::Text(text) => text.parse().unwrap_or(0.0),
            _ => 0.0,
        }
    }

    pub(super) fn text(self) -> &'a str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
            _ => &[],
        }
    }
}

#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "called for each statistic of millions of events"
)]
pub(super) fn raw_stat(bytes: &[u8]) -> (i64, Stat<'_>) {
    let mut id = 0;
    let mut stat = Stat::None;
    for (number, value) in Message::new(bytes) {
        match number {
            1 => id = value.int(),
            2 => stat = Stat::Double(value.double()),
            3 | 4 => stat = Stat::Int(value.uint()),
            5 => stat = Stat::Text(value.text()),
            6 => stat = Stat::Bytes(value.bytes()),
            7 => stat = Stat::Ref(value.uint()),
            _ => {}
        }
    }
    (id, stat)
}

pub(super) fn map_entry(bytes: &[u8]) -> (i64, &[u8]) {
    let mut key = 0;
    let mut entry: &[u8] = &[];
    for (number, value) in Message::new(bytes) {
        match number {
            1 => key = value.int(),
            2 => entry = value.bytes(),
            _ => {}
        }
    }
    (key, entry)
}

pub(super) fn shorten(text: &str) -> String {
    text.chars().take(300).collect()
}
