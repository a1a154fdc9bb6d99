//! One element of `traceEvents`, read leniently: wrong types, unknown keys and keys given twice
//! never make an event unreadable.

use std::borrow::Cow;

use serde::de::{IgnoredAny, MapAccess};
use serde_json::value::RawValue;

use super::decimal;
use super::lenient::{FromKeys, Id, Lenient, Text};

/// What is asked of every event. The arguments that describe an operation are many and the same
/// for all its executions, so they are read once, as [`Details`].
#[derive(Debug, Default)]
pub(super) struct Event<'a> {
    /// First letter of `ph`; 0 where there is none.
    pub(super) phase: u8,
    pub(super) category: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) pid: Id<'a>,
    pub(super) tid: Id<'a>,
    /// `ts` in picoseconds.
    pub(super) start_ps: Option<i128>,
    /// `dur` in picoseconds.
    pub(super) duration_ps: Option<i128>,
    pub(super) args: Args<'a>,
    /// Whether there was any key at all: XProf closes its list with `{}`.
    pub(super) has_keys: bool,
}

/// The arguments that differ between events, and those of `M` events.
#[derive(Debug, Default)]
pub(super) struct Args<'a> {
    /// The name that an `M` event gives to a process or a thread.
    pub(super) name: Cow<'a, str>,
    /// Kineto's `labels` of a process.
    pub(super) labels: Cow<'a, str>,
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

/// An event read for its [`Details`].
#[derive(Debug, Default)]
pub(super) struct DetailedEvent<'a> {
    pub(super) details: Details<'a>,
}

impl Event<'_> {
    /// The event without its arguments and without what it borrows.
    pub(super) fn without_args(self) -> Event<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Event {
            phase: self.phase,
            category: owned(self.category),
            name: owned(self.name),
            pid: self.pid.into_owned(),
            tid: self.tid.into_owned(),
            start_ps: self.start_ps,
            duration_ps: self.duration_ps,
            args: Args::default(),
            has_keys: self.has_keys,
        }
    }
}

impl<'de> FromKeys<'de> for Event<'de> {
    #[inline]
    fn take<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        self.has_keys = true;
        match key {
            "ph" => {
                let Text(phase) = map.next_value()?;
                self.phase = phase.bytes().next().unwrap_or(0);
            }
            "pid" => self.pid = map.next_value()?,
            "tid" => self.tid = map.next_value()?,
            "ts" => self.start_ps = decimal::picos(map.next_value::<&RawValue>()?.get()),
            "dur" => self.duration_ps = decimal::picos(map.next_value::<&RawValue>()?.get()),
            "name" => self.name = text(map)?,
            "cat" => self.category = text(map)?,
            "args" => Lenient(self.args) = map.next_value()?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl<'de> FromKeys<'de> for Args<'de> {
    #[inline]
    fn take<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "name" => self.name = text(map)?,
            "labels" => self.labels = text(map)?,
            "device_offset_ps" => self.device_start_ps = integer(&text(map)?),
            "device_duration_ps" => self.device_duration_ps = integer(&text(map)?),
            "hlo_category" | "long_name" | "hlo_op" | "queue_id" | "program_id" => {
                self.has_details = true;
                map.next_value::<IgnoredAny>()?;
            }
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl<'de> FromKeys<'de> for DetailedEvent<'de> {
    fn take<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "args" => Lenient(self.details) = map.next_value()?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl<'de> FromKeys<'de> for Details<'de> {
    fn take<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "long_name" => self.long_name = text(map)?,
            "hlo_category" => self.category = text(map)?,
            "tf_op" => self.framework_op = text(map)?,
            "source" => self.source = text(map)?,
            "source_stack" => self.source_stack = text(map)?,
            "shape_with_layout" => self.shape = text(map)?,
            "deduplicated_name" => self.deduplicated_name = text(map)?,
            "flops" => self.flops = integer(&text(map)?),
            "model_flops" => self.model_flops = integer(&text(map)?),
            "bytes_accessed" => self.bytes_accessed = integer(&text(map)?),
            "program_id" => self.program_id = integer(&text(map)?),
            "symbol_id" => self.symbol_id = integer(&text(map)?),
            "run_id" => self.run_id = integer(&text(map)?),
            "hlo_op" => self.host_op = text(map)?,
            "hlo_module" => self.host_module = text(map)?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Cow<'de, str>, A::Error> {
    map.next_value::<Text<'de>>().map(|Text(text)| text)
}

/// A whole number as writers print them: unsigned, signed (ids are hashes), or as a double.
fn integer(text: &str) -> Option<u64> {
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
        let Lenient(event) = serde_json::from_str(text).expect(text);
        event
    }

    #[test]
    fn an_event_is_read_whatever_the_types_of_its_values() {
        let event = read(
            r#"{"ph":"X","pid":"Spans","tid":7,"ts":"1.5","dur":0.25,"name":12,
                "args":{"device_offset_ps":9,"device_duration_ps":"8","other":[{}]}}"#,
        );
        assert_eq!((event.phase, &*event.name), (b'X', "12"));
        assert_eq!(
            (event.pid, event.tid),
            (Id::Text("Spans".into()), Id::Number(7))
        );
        assert_eq!(
            (event.start_ps, event.duration_ps),
            (Some(1_500_000), Some(250_000))
        );
        assert_eq!(event.args.device_start_ps, Some(9));
        assert_eq!(event.args.device_duration_ps, Some(8));
    }

    #[test]
    fn values_of_no_use_leave_fields_empty() {
        let event = read(r#"{"ph":null,"pid":{},"ts":[1],"name":[2],"args":"none","ts":null}"#);
        assert_eq!(
            (event.phase, event.pid, event.start_ps),
            (0, Id::Absent, None)
        );
        assert!(event.name.is_empty() && event.has_keys);
        assert!(!read("{}").has_keys);
    }

    #[test]
    fn of_keys_given_twice_the_last_counts() {
        assert_eq!(read(r#"{"name":"a","name":"b"}"#).name, "b");
    }

    #[test]
    fn integers_are_read_as_writers_print_them() {
        assert_eq!(integer("18446744073709551615"), Some(u64::MAX));
        assert_eq!(integer("-1"), Some(u64::MAX));
        assert_eq!(integer("1.5e3"), Some(1500));
        assert_eq!(integer("-0.5"), None);
        assert_eq!(integer("<opaque bytes>"), None);
    }
}
