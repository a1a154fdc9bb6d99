//! One element of `traceEvents`, read leniently: wrong types, unknown keys and keys given twice
//! never make an event unreadable.

use std::borrow::Cow;

use super::cursor::{Cursor, Damage, Scalar};
use super::decimal;

/// What is asked of every event. The arguments that describe an operation are many and the same
/// for all its executions, so they are read once, as [`Details`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event<'a> {
    /// First letter of `ph`; 0 where there is none.
    pub(super) phase: u8,
    pub(super) category: Scalar<'a>,
    pub(super) name: Scalar<'a>,
    pub(super) pid: Scalar<'a>,
    pub(super) tid: Scalar<'a>,
    /// `ts` in picoseconds.
    pub(super) start_ps: Option<i128>,
    /// `dur` in picoseconds.
    pub(super) duration_ps: Option<i128>,
    pub(super) args: Args<'a>,
    /// Whether there was any key at all: XProf closes its list with `{}`.
    pub(super) has_keys: bool,
}

/// The arguments that differ between events, and those of `M` events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Args<'a> {
    /// The name that an `M` event gives to a process or a thread, or Kineto's labels of a process.
    pub(super) name: Scalar<'a>,
    /// `device_offset_ps`: start on the device's own clock.
    pub(super) device_start_ps: Option<u64>,
    /// `device_duration_ps`.
    pub(super) device_duration_ps: Option<u64>,
    /// Whether it is worth coming back for [`Details`]: operations of any device and runs of
    /// modules have them, host spans mostly not.
    pub(super) has_details: bool,
}

/// The arguments that describe what was executed.
#[derive(Debug, Default)]
pub(super) struct Details<'a> {
    pub(super) long_name: Cow<'a, str>,
    pub(super) category: Cow<'a, str>,
    pub(super) framework_op: Cow<'a, str>,
    pub(super) source: Cow<'a, str>,
    pub(super) source_stack: Cow<'a, str>,
    pub(super) shape: Cow<'a, str>,
    pub(super) deduplicated_name: Cow<'a, str>,
    pub(super) flops: Option<u64>,
    pub(super) model_flops: Option<u64>,
    pub(super) bytes_accessed: Option<u64>,
    pub(super) program_id: Option<u64>,
    pub(super) symbol_id: Option<u64>,
    pub(super) run_id: Option<u64>,
    /// The operation and the module that XLA:CPU ran on a host thread.
    pub(super) host_op: Cow<'a, str>,
    pub(super) host_module: Cow<'a, str>,
}

impl<'a> Event<'a> {
    /// Reads the event at the cursor.
    ///
    /// With damage comes what was read before it: Kineto turns every backslash into a slash, so
    /// quotes inside HLO text end the string early, but only in arguments, which come last.
    #[inline]
    pub(super) fn read(cursor: &mut Cursor<'a>) -> (Self, Result<(), Damage>) {
        let mut event = Self::default();
        let outcome = cursor.object(|cursor, key| {
            event.has_keys = true;
            match key {
                b"ph" => {
                    event.phase = cursor.scalar()?.raw.first().copied().unwrap_or_default();
                }
                b"pid" => event.pid = cursor.scalar()?,
                b"tid" => event.tid = cursor.scalar()?,
                b"ts" => event.start_ps = decimal::picos(cursor.scalar()?.raw),
                b"dur" => event.duration_ps = decimal::picos(cursor.scalar()?.raw),
                b"name" => event.name = cursor.scalar()?,
                b"cat" => event.category = cursor.scalar()?,
                b"args" if cursor.peek() == Some(b'{') => event.args.read(cursor)?,
                _ => cursor.skip()?,
            }
            Ok(())
        });
        (event, outcome)
    }

    /// Whether Kineto put it on an accelerator.
    pub(super) fn is_kernel(&self) -> bool {
        self.category.raw == b"kernel" || self.category.raw.starts_with(b"gpu_")
    }
}

impl<'a> Args<'a> {
    #[inline]
    fn read(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Damage> {
        cursor.object(|cursor, key| {
            match key {
                b"name" | b"labels" => self.name = cursor.scalar()?,
                b"device_offset_ps" => self.device_start_ps = integer(cursor.scalar()?),
                b"device_duration_ps" => self.device_duration_ps = integer(cursor.scalar()?),
                b"hlo_category" | b"long_name" | b"hlo_op" | b"queue_id" | b"program_id" => {
                    self.has_details = true;
                    cursor.skip()?;
                }
                _ => cursor.skip()?,
            }
            Ok(())
        })
    }
}

impl<'a> Details<'a> {
    /// Reads the details of the event at the cursor.
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, Damage> {
        let mut details = Self::default();
        cursor.object(|cursor, key| match key {
            b"args" if cursor.peek() == Some(b'{') => {
                cursor.object(|cursor, key| details.take(key, cursor.scalar()?))
            }
            _ => cursor.skip(),
        })?;
        Ok(details)
    }

    fn take(&mut self, key: &[u8], value: Scalar<'a>) -> Result<(), Damage> {
        match key {
            b"long_name" => self.long_name = value.text(),
            b"hlo_category" => self.category = value.text(),
            b"tf_op" => self.framework_op = value.text(),
            b"source" => self.source = value.text(),
            b"source_stack" => self.source_stack = value.text(),
            b"shape_with_layout" => self.shape = value.text(),
            b"deduplicated_name" => self.deduplicated_name = value.text(),
            b"flops" => self.flops = integer(value),
            b"model_flops" => self.model_flops = integer(value),
            b"bytes_accessed" => self.bytes_accessed = integer(value),
            b"program_id" => self.program_id = integer(value),
            b"symbol_id" => self.symbol_id = integer(value),
            b"run_id" => self.run_id = integer(value),
            b"hlo_op" => self.host_op = value.text(),
            b"hlo_module" => self.host_module = value.text(),
            _ => {}
        }
        Ok(())
    }
}

/// A whole number as writers print them: unsigned, signed (ids are hashes), or as a double.
fn integer(value: Scalar<'_>) -> Option<u64> {
    let text = std::str::from_utf8(value.raw).ok()?;
    if let Ok(value) = text.parse::<u64>() {
        return Some(value);
    }
    if let Ok(value) = text.parse::<i64>() {
        return Some(value.cast_unsigned());
    }
    // The cast saturates.
    let value = text.parse::<f64>().ok()?;
    (value >= 0.0).then_some(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Event<'_> {
        let (event, outcome) = Event::read(&mut Cursor::new(text.as_bytes(), 0));
        assert_eq!(outcome, Ok(()), "{text}");
        event
    }

    #[test]
    fn an_event_is_read_whatever_the_types_of_its_values() {
        let event = read(
            r#"{"ph":"X","pid":"Spans","tid":7,"ts":"1.5","dur":0.25,"name":12,
                "args":{"device_offset_ps":9,"device_duration_ps":"8","other":[{}]}}"#,
        );
        assert_eq!((event.phase, &*event.name.text()), (b'X', "12"));
        assert!(event.pid.is_string && !event.tid.is_string);
        assert_eq!(
            (event.start_ps, event.duration_ps),
            (Some(1_500_000), Some(250_000))
        );
        assert_eq!(event.args.device_start_ps, Some(9));
        assert_eq!(event.args.device_duration_ps, Some(8));
    }

    #[test]
    fn values_of_no_use_leave_fields_empty() {
        let event = read(r#"{"ph":{},"pid":{},"ts":[1],"name":[2],"args":"none","dur":null}"#);
        assert_eq!(
            (event.phase, event.start_ps, event.duration_ps),
            (0, None, None)
        );
        assert!(event.pid.raw.is_empty() && event.name.raw.is_empty() && event.has_keys);
        assert!(!read("{}").has_keys);
    }

    #[test]
    fn of_keys_given_twice_the_last_counts() {
        assert_eq!(read(r#"{"name":"a","name":"b"}"#).name.raw, b"b");
    }

    #[test]
    fn damage_comes_with_what_stood_before_it() {
        let text = br#"{"ph":"X","name":"a","ts":1,"args":{"x":"say /"hi/""}}"#;
        let (event, outcome) = Event::read(&mut Cursor::new(text, 0));
        assert_eq!(outcome, Err(Damage::Malformed));
        assert_eq!(
            (event.name.raw, event.start_ps),
            (&b"a"[..], Some(1_000_000))
        );
    }

    #[test]
    fn integers_are_read_as_writers_print_them() {
        let read = |text: &str| {
            let quoted = format!("\"{text}\"");
            integer(
                Cursor::new(quoted.as_bytes(), 0)
                    .scalar()
                    .expect("a string"),
            )
        };
        assert_eq!(read("18446744073709551615"), Some(u64::MAX));
        assert_eq!(read("-1"), Some(u64::MAX));
        assert_eq!(read("1.5e3"), Some(1500));
        assert_eq!(read("-0.5"), None);
        assert_eq!(read("<opaque bytes>"), None);
    }
}
