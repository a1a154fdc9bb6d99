//! The outer structure of a trace file: fields of a header and the list of events.

use std::borrow::Cow;

use serde::de::{IgnoredAny, MapAccess};

use super::JsonTraceError;
use super::cursor::Cursor;
use super::lenient::{FromKeys, Lenient, Text};
use super::scan::{self, End};
use super::table::Table;

/// Keys named in the error for JSON that is no trace.
const MAX_KEYS_SHOWN: usize = 8;
/// Bytes of a file shown in errors.
const MAX_START_SHOWN: usize = 24;

/// What a file says of itself, apart from its events.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::timeline) struct Header {
    /// Whether there are fields that only Kineto writes.
    pub(in crate::timeline) is_kineto: bool,
    /// Names of the GPUs that Kineto met.
    pub(in crate::timeline) gpus: Vec<String>,
    /// The host's name.
    pub(in crate::timeline) host: Option<String>,
    /// The process's rank in a distributed run.
    pub(in crate::timeline) rank: Option<String>,
}

/// A file, read.
pub(super) struct Document<'a> {
    pub(super) header: Header,
    pub(super) table: Table<'a>,
    pub(super) ending: Ending,
}

/// How a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// As it should, or in a way that costs no event.
    Whole,
    /// Between two events.
    BetweenEvents,
    /// Inside the event that begins at this byte.
    InEvent(usize),
}

/// Reads a file.
pub(super) fn read(bytes: &[u8]) -> Result<Document<'_>, JsonTraceError> {
    let byte_order_mark: &[u8] = b"\xef\xbb\xbf";
    let start = if bytes.starts_with(byte_order_mark) {
        byte_order_mark.len()
    } else {
        0
    };
    let mut cursor = Cursor::new(bytes, start);
    match cursor.peek() {
        None => Err(JsonTraceError::Empty),
        Some(b'[') => read_list(bytes, cursor.at + 1),
        Some(b'{') => {
            cursor.at += 1;
            read_object(bytes, cursor)
        }
        Some(_) => {
            let rest = bytes.get(cursor.at..).unwrap_or_default();
            let start = rest.get(..MAX_START_SHOWN).unwrap_or(rest);
            Err(JsonTraceError::NotJson {
                start: start.escape_ascii().to_string(),
            })
        }
    }
}

/// A bare list of events.
fn read_list(bytes: &[u8], at: usize) -> Result<Document<'_>, JsonTraceError> {
    let (table, end) = scan::read_events(bytes, at);
    if table.events == 0 && table.processes.is_empty() {
        return Err(JsonTraceError::NotATrace {
            found: "a list without trace events".to_owned(),
        });
    }
    Ok(Document {
        header: Header::default(),
        table,
        ending: ending(end),
    })
}

fn read_object<'a>(
    bytes: &'a [u8],
    mut cursor: Cursor<'a>,
) -> Result<Document<'a>, JsonTraceError> {
    let mut header = Header::default();
    let mut keys: Vec<String> = Vec::new();
    let mut events: Option<(Table<'a>, Ending)> = None;
    while !cursor.eat(b'}') {
        let Some(key) = read_key(&mut cursor) else {
            // Kineto copies some metadata into its header unquoted.
            match find_events(bytes, cursor.at) {
                Some(at) if events.is_none() => {
                    cursor.at = at;
                    continue;
                }
                _ => break,
            }
        };
        if key == "traceEvents" && cursor.eat(b'[') {
            let (table, end) = scan::read_events(bytes, cursor.at);
            events = Some(match events {
                Some((mut known, _)) if known.base_ps() == table.base_ps() => {
                    known.append(table);
                    (known, ending(end))
                }
                _ => (table, ending(end)),
            });
            match end {
                End::Closed(at) => cursor.at = at,
                End::BetweenEvents | End::InEvent(_) => break,
            }
        } else if header.take(&key, &mut cursor).is_none() && events.is_some() {
            break;
        }
        if keys.len() < MAX_KEYS_SHOWN {
            keys.push(key.chars().take(40).collect());
        }
        cursor.eat(b',');
    }
    match events {
        Some((table, ending)) => Ok(Document {
            header,
            table,
            ending,
        }),
        None if keys.is_empty() => Err(JsonTraceError::NotATrace {
            found: "an empty object".to_owned(),
        }),
        None => Err(JsonTraceError::NotATrace {
            found: format!("an object with the keys {}", keys.join(", ")),
        }),
    }
}

/// A key and its colon.
fn read_key<'a>(cursor: &mut Cursor<'a>) -> Option<Cow<'a, str>> {
    if cursor.peek() != Some(b'"') {
        return None;
    }
    let Text(key) = cursor.value().ok()?;
    cursor.eat(b':').then_some(key)
}

fn ending(end: End) -> Ending {
    match end {
        End::Closed(_) => Ending::Whole,
        End::BetweenEvents => Ending::BetweenEvents,
        End::InEvent(at) => Ending::InEvent(at),
    }
}

fn find_events(bytes: &[u8], from: usize) -> Option<usize> {
    const KEY: &[u8] = b"\"traceEvents\"";
    let rest = bytes.get(from..)?;
    Some(from + rest.windows(KEY.len()).position(|window| window == KEY)?)
}

/// An object of which one field is wanted.
#[derive(Default)]
struct Named {
    name: Option<String>,
    rank: Option<String>,
}

impl<'de> FromKeys<'de> for Named {
    fn take<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let field = match key {
            "name" => &mut self.name,
            "rank" => &mut self.rank,
            _ => {
                map.next_value::<IgnoredAny>()?;
                return Ok(());
            }
        };
        let Text(text) = map.next_value()?;
        *field = Some(text.into_owned());
        Ok(())
    }
}

impl Header {
    /// Takes the value of a key; `None` where it is not JSON.
    fn take(&mut self, key: &str, cursor: &mut Cursor<'_>) -> Option<()> {
        match key {
            "schemaVersion" | "baseTimeNanoseconds" => {
                self.is_kineto = true;
                cursor.value::<IgnoredAny>().ok()?;
            }
            "deviceProperties" => {
                self.is_kineto = true;
                if cursor.peek() == Some(b'[') {
                    let devices: Vec<Lenient<Named>> = cursor.value().ok()?;
                    self.gpus
                        .extend(devices.into_iter().filter_map(|Lenient(gpu)| gpu.name));
                } else {
                    cursor.value::<IgnoredAny>().ok()?;
                }
            }
            "host_name" => {
                let Text(name) = cursor.value().ok()?;
                self.host = Some(name.into_owned()).filter(|name| !name.is_empty());
            }
            "distributedInfo" => {
                let Lenient(info) = cursor.value::<Lenient<Named>>().ok()?;
                self.rank = info.rank.filter(|rank| !rank.is_empty());
            }
            _ => drop(cursor.value::<IgnoredAny>().ok()?),
        }
        Some(())
    }
}
