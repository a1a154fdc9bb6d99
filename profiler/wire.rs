//! The protobuf wire format: the only place that knows wire types.
//!
//! A [`Message`] walks the fields of one message without copying. It never panics; the first
//! malformed byte ends the walk and [`Message::error`] says where it was.

use std::fmt;

/// A value as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Wire type 0: integers, booleans, enumerations.
    Varint(u64),
    /// Wire type 1: `double`, `fixed64`.
    Fixed64(u64),
    /// Wire type 2: strings, bytes, messages, packed lists, maps.
    Bytes(&'a [u8]),
    /// Wire type 5: `float`, `fixed32`.
    Fixed32(u32),
}

impl<'a> Value<'a> {
    /// The integer, or 0 for another wire type.
    #[must_use]
    pub fn uint(self) -> u64 {
        match self {
            Self::Varint(v) | Self::Fixed64(v) => v,
            Self::Fixed32(v) => u64::from(v),
            Self::Bytes(_) => 0,
        }
    }

    /// The integer read as two's complement `int64`.
    #[must_use]
    pub fn int(self) -> i64 {
        self.uint().cast_signed()
    }

    /// The `double` (or `float`) value, or 0 for another wire type.
    #[must_use]
    pub fn double(self) -> f64 {
        match self {
            Self::Fixed64(v) => f64::from_bits(v),
            Self::Fixed32(v) => f64::from(f32::from_bits(v)),
            Self::Varint(_) | Self::Bytes(_) => 0.0,
        }
    }

    /// The bytes, empty for another wire type.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(b) => b,
            _ => &[],
        }
    }

    /// The text; bytes that are not UTF-8 end it, so that nothing is invented.
    #[must_use]
    pub fn text(self) -> &'a str {
        let bytes = self.bytes();
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
    }
}

/// Where and why a message could not be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError {
    /// Offset into the message's own bytes.
    pub offset: usize,
    /// What was wrong there.
    pub what: &'static str,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.offset)
    }
}

/// The fields of one message, in file order: `(number, value)`.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    at: usize,
    error: Option<WireError>,
}

impl<'a> Message<'a> {
    /// Starts at the first field of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            error: None,
        }
    }

    /// Why the walk ended early, if it did.
    #[must_use]
    pub fn error(&self) -> Option<WireError> {
        self.error
    }

    /// The offset of the next field.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "every field of millions of events starts with one"
    )]
    fn varint(&mut self) -> Option<u64> {
        // Nearly all varints of a profile take one or two bytes.
        let first = *self.bytes.get(self.at)?;
        self.at += 1;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    #[inline]
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let bytes = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn fail<T>(&mut self, offset: usize, what: &'static str) -> Option<T> {
        self.error = Some(WireError { offset, what });
        self.at = self.bytes.len();
        None
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = (u32, Value<'a>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let start = self.at;
        let Some(key) = self.varint() else {
            return self.fail(start, "bad field key");
        };
        let Ok(number) = u32::try_from(key >> 3) else {
            return self.fail(start, "field number out of range");
        };
        if number == 0 {
            return self.fail(start, "field number 0");
        }
        let value = match key & 7 {
            0 => self.varint().map(Value::Varint),
            1 => self
                .take(8)
                .and_then(|b| b.try_into().ok())
                .map(|b| Value::Fixed64(u64::from_le_bytes(b))),
            2 => self
                .varint()
                .and_then(|len| usize::try_from(len).ok())
                .and_then(|len| self.take(len))
                .map(Value::Bytes),
            5 => self
                .take(4)
                .and_then(|b| b.try_into().ok())
                .map(|b| Value::Fixed32(u32::from_le_bytes(b))),
            _ => return self.fail(start, "unknown wire type"),
        };
        match value {
            Some(value) => Some((number, value)),
            None => self.fail(start, "value runs past the end"),
        }
    }
}

/// The integers of a repeated field, packed or not: call it with each value of that field.
pub fn each_uint(value: Value<'_>, mut each: impl FnMut(u64)) {
    match value {
        Value::Bytes(packed) => {
            let mut cursor = Message::new(packed);
            while cursor.at < packed.len() {
                match cursor.varint() {
                    Some(v) => each(v),
                    None => break,
                }
            }
        }
        other => each(other.uint()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_file_order_with_their_wire_types() {
        // 1: varint 150, 2: "hi", 3: double 1.5
        let mut bytes = vec![0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x19];
        bytes.extend(1.5f64.to_le_bytes());
        let mut fields = Message::new(&bytes);
        assert_eq!(fields.next(), Some((1, Value::Varint(150))));
        assert_eq!(fields.next().map(|(n, v)| (n, v.text())), Some((2, "hi")));
        assert_eq!(fields.next().map(|(n, v)| (n, v.double())), Some((3, 1.5)));
        assert_eq!(fields.next(), None);
        assert_eq!(fields.error(), None);
    }

    #[test]
    fn a_value_past_the_end_is_an_error_with_its_offset() {
        let mut fields = Message::new(&[0x08, 0x01, 0x12, 0x7f, b'x']);
        assert_eq!(fields.next(), Some((1, Value::Varint(1))));
        assert_eq!(fields.next(), None);
        assert_eq!(fields.error().map(|e| e.offset), Some(2));
    }

    #[test]
    fn negative_int64_takes_ten_bytes() {
        let mut bytes = vec![0x08];
        bytes.extend([0xff; 9]);
        bytes.push(0x01);
        assert_eq!(Message::new(&bytes).next().map(|(_, v)| v.int()), Some(-1));
    }
}
