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
    /// The message, and what follows it in the message around it.
    bytes: &'a [u8],
    start: usize,
    at: usize,
    end: usize,
    error: Option<WireError>,
}

impl<'a> Message<'a> {
    /// Starts at the first field of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            start: 0,
            at: 0,
            end: bytes.len(),
            error: None,
        }
    }

    /// Starts at the first field of the message that is the value just read.
    ///
    /// The same fields as of `Message::new(value)`. Faster for small messages: a number near
    /// their end can be read in one go, for the bytes after it are known to be there.
    #[inline(always)]
    #[must_use]
    pub fn nested(&self, value: &'a [u8]) -> Self {
        // Empty for a value of another wire type, which stands nowhere in the message.
        let Some(start) = self
            .at
            .checked_sub(value.len())
            .filter(|_| !value.is_empty())
        else {
            return Self::new(value);
        };
        debug_assert!(
            std::ptr::eq(&raw const self.bytes[start..self.at], value),
            "the value just read"
        );
        Self {
            bytes: self.bytes,
            start,
            at: start,
            end: self.at,
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
        self.at - self.start
    }

    /// The next field's value if it is the integer field `number`; any other field is left for
    /// `next`. Writers put fields in the order of their numbers: who asks in that order reads a
    /// message without a branch that depends on its content.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "three for each of millions of events")]
    pub fn next_uint(&mut self, number: u8) -> Option<u64> {
        debug_assert!(number < 16, "a key of one byte");
        if self.at >= self.end || self.bytes.get(self.at) != Some(&(number << 3)) {
            return None;
        }
        let key = self.at;
        self.at += 1;
        let value = self.varint_of_any_length();
        if value.is_none() {
            // Let `next` find what is wrong.
            self.at = key;
        }
        value
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "every field of millions of events starts with one"
    )]
    fn varint(&mut self) -> Option<u64> {
        let first = *self.bytes.get(self.at)?;
        if first < 0x80 {
            self.at += 1;
            return (self.at <= self.end).then_some(u64::from(first));
        }
        self.varint_of_any_length()
    }

    /// The same without a guess at the length: for values, whose lengths vary.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "three for each of millions of events")]
    fn varint_of_any_length(&mut self) -> Option<u64> {
        let word = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let word = u64::from_le_bytes(*word.unwrap_or(&[0xff; 8]));
        let stops = !word & 0x8080_8080_8080_8080;
        if stops == 0 {
            return self.long_varint();
        }
        self.at += stops.trailing_zeros() as usize / 8 + 1;
        // The bytes up to the first without a continuation bit; then their groups of seven bits
        // pushed together, two by two.
        let groups = word & (stops ^ (stops - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
        let groups = (groups & 0x007f_007f_007f_007f) | (groups & 0x7f00_7f00_7f00_7f00) >> 1;
        let groups = (groups & 0x0000_3fff_0000_3fff) | (groups & 0x3fff_0000_3fff_0000) >> 2;
        let value = (groups & 0x0fff_ffff) | (groups & 0x0fff_ffff_0000_0000) >> 4;
        (self.at <= self.end).then_some(value)
    }

    /// A number of nine or ten bytes, or one at the very end of the buffer.
    #[cold]
    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            if self.at > self.end || (shift == 63 && byte > 1) {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    #[inline]
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.end)?;
        let bytes = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    #[cold]
    fn fail<T>(&mut self, offset: usize, what: &'static str) -> Option<T> {
        self.error = Some(WireError {
            offset: offset - self.start,
            what,
        });
        self.at = self.end;
        None
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = (u32, Value<'a>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
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
            while cursor.at < cursor.end {
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
    use proptest::prelude::*;

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
    fn a_nested_message_ends_where_its_value_does() {
        // 1: {1: 300, 2: a number cut short}, 3: 5
        let bytes = [0x0a, 0x05, 0x08, 0xac, 0x02, 0x10, 0x80, 0x18, 0x05];
        let mut outer = Message::new(&bytes);
        let (_, value) = outer.next().expect("a field");
        let mut inner = outer.nested(value.bytes());
        assert_eq!(inner.next(), Some((1, Value::Varint(300))));
        assert_eq!(inner.next(), None);
        assert_eq!(inner.error().map(|e| e.offset), Some(3));
        assert_eq!(outer.next(), Some((3, Value::Varint(5))));
    }

    proptest! {
        #[test]
        fn every_number_is_read_back_wherever_it_stands(value: u64, bits in 0u32..64, after in 0usize..9) {
            let value = value >> bits;
            let mut bytes = vec![0x08];
            let mut rest = value;
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
            bytes.extend(std::iter::repeat_n([0x10, 0x01], after).flatten());
            let mut fields = Message::new(&bytes);
            prop_assert_eq!(fields.next(), Some((1, Value::Varint(value))));
            prop_assert_eq!(fields.by_ref().count(), after);
            prop_assert_eq!(fields.error(), None);
            let mut fields = Message::new(&bytes);
            prop_assert_eq!(fields.next_uint(2), None);
            prop_assert_eq!(fields.next_uint(1), Some(value));
            prop_assert_eq!(fields.count(), after);
        }

        #[test]
        fn a_nested_message_has_the_fields_of_its_bytes(
            inner in prop::collection::vec(any::<u8>(), 0..24),
            after in prop::collection::vec(any::<u8>(), 0..12),
        ) {
            let mut bytes = vec![0x0a, inner.len() as u8];
            bytes.extend(&inner);
            bytes.extend(after);
            let mut outer = Message::new(&bytes);
            let (_, value) = outer.next().expect("the message");
            let mut nested = outer.nested(value.bytes());
            let mut alone = Message::new(&inner);
            prop_assert_eq!(nested.next_uint(1), alone.next_uint(1));
            let same: Vec<_> = alone.by_ref().collect();
            prop_assert_eq!(nested.by_ref().collect::<Vec<_>>(), same);
            prop_assert_eq!(nested.error(), alone.error());
        }
    }

    #[test]
    fn negative_int64_takes_ten_bytes() {
        let mut bytes = vec![0x08];
        bytes.extend([0xff; 9]);
        bytes.push(0x01);
        assert_eq!(Message::new(&bytes).next().map(|(_, v)| v.int()), Some(-1));
    }
}
