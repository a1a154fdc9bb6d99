//! The outer structure of a trace file: fields of a header and the list of events.

use super::JsonTraceError;
use super::cursor::{Cursor, Damage};
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
    /// The mark of a predicted run.
    pub(in crate::timeline) prediction: Option<String>,
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
        let Ok(key) = cursor.key() else {
            // Kineto copies some metadata into its header unquoted.
            match find_events(bytes, cursor.at) {
                Some(at) if events.is_none() => {
                    cursor.at = at;
                    continue;
                }
                _ => break,
            }
        };
        // A second list would be a second file glued to the first.
        if key == b"traceEvents" && events.is_none() && cursor.eat(b'[') {
            let (table, end) = scan::read_events(bytes, cursor.at);
            events = Some((table, ending(end)));
            match end {
                End::Closed(at) => cursor.at = at,
                End::BetweenEvents | End::InEvent(_) => break,
            }
        } else if header.take(key, &mut cursor).is_err() && events.is_some() {
            break;
        }
        if keys.len() < MAX_KEYS_SHOWN {
            keys.push(String::from_utf8_lossy(key).chars().take(40).collect());
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

impl Header {
    /// Takes the value of a key.
    fn take(&mut self, key: &[u8], cursor: &mut Cursor<'_>) -> Result<(), Damage> {
        match key {
            b"host_name" => self.host = name(cursor)?,
            b"prediction" => self.prediction = name(cursor)?,
            b"distributedInfo" if cursor.peek() == Some(b'{') => {
                cursor.object(|cursor, key| {
                    match key {
                        b"rank" => self.rank = name(cursor)?,
                        _ => cursor.skip()?,
                    }
                    Ok(())
                })?;
            }
            b"deviceProperties" => {
                self.is_kineto = true;
                self.take_devices(cursor)?;
            }
            _ => {
                self.is_kineto |= matches!(key, b"schemaVersion" | b"baseTimeNanoseconds");
                cursor.skip()?;
            }
        }
        Ok(())
    }

    fn take_devices(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Damage> {
        if !cursor.eat(b'[') {
            return cursor.skip();
        }
        while cursor.peek() == Some(b'{') {
            cursor.object(|cursor, key| {
                match key {
                    b"name" => self.gpus.extend(name(cursor)?),
                    _ => cursor.skip()?,
                }
                Ok(())
            })?;
            cursor.eat(b',');
        }
        if cursor.eat(b']') {
            Ok(())
        } else {
            Err(Damage::Malformed)
        }
    }
}

/// A string or number that names something; `None` where it is empty.
fn name(cursor: &mut Cursor<'_>) -> Result<Option<String>, Damage> {
    let name = cursor.scalar()?.text();
    Ok(Some(name.into_owned()).filter(|name| !name.is_empty()))
}
