//! The protobuf wire format, written.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn key(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    /// An integer; negative ones as their two's complement.
    pub(super) fn uint(&mut self, field: u32, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }

    /// A `double`.
    pub(super) fn double(&mut self, field: u32, value: f64) {
        self.key(field, 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes, or a message that is written already.
    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// Text.
    pub(super) fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// A message that `write` fills.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Message, Value};

    #[test]
    fn what_is_written_is_read_again() {
        let mut out = Encoder::default();
        out.uint(1, 0);
        out.uint(2, u64::MAX);
        out.double(3, -1.5);
        out.text(200, "é");
        out.message(5, |inner| inner.uint(1, 300));
        let bytes = out.into_bytes();
        let fields: Vec<(u32, Value<'_>)> = Message::new(&bytes).collect();
        assert_eq!(
            fields,
            [
                (1, Value::Varint(0)),
                (2, Value::Varint(u64::MAX)),
                (3, Value::Fixed64((-1.5f64).to_bits())),
                (200, Value::Bytes("é".as_bytes())),
                (5, Value::Bytes(&[0x08, 0xac, 0x02])),
            ]
        );
    }
}
