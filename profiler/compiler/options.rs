//! How a program is compiled, as the serialised `xla.CompileOptionsProto` that PJRT takes.

use serde::{Deserialize, Serialize};

/// Options of one compilation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileOptions {
    /// Devices that work on one copy of the program (SPMD).
    pub partitions: u32,
    /// Copies of the program.
    pub replicas: u32,
    /// Whether shardings are Shardy's (`sdy.`); GSPMD's (`mhlo.sharding`) otherwise.
    pub shardy: bool,
    /// Options of the compiler by name, as `xla_tpu_scoped_vmem_limit_kib` = `65536`.
    pub overrides: Vec<(String, String)>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            partitions: 1,
            replicas: 1,
            shardy: false,
            overrides: Vec::new(),
        }
    }
}

impl CompileOptions {
    /// The protobuf message.
    #[must_use]
    pub fn to_proto(&self) -> Vec<u8> {
        let mut build = Writer::default();
        // No particular device.
        build.integer(1, u64::MAX);
        build.integer(4, u64::from(self.replicas.max(1)));
        build.integer(5, u64::from(self.partitions.max(1)));
        if self.partitions > 1 {
            build.integer(6, 1);
        }
        if self.shardy {
            build.integer(19, 1);
        }
        build.integer(25, MEMORY_FITTING);
        let mut options = Writer::default();
        options.bytes(3, &build.out);
        for (name, value) in &self.overrides {
            let mut given = Writer::default();
            match value.to_ascii_lowercase().as_str() {
                // Flags of `DebugOptions` take nothing but a boolean.
                "true" => given.integer(2, 1),
                "false" => given.integer(2, 0),
                _ => given.bytes(1, value.as_bytes()),
            }
            let mut entry = Writer::default();
            entry.bytes(1, name.as_bytes());
            entry.bytes(2, &given.out);
            options.bytes(7, &entry.out);
        }
        options.out
    }
}

/// `memory_fitting_level` as JAX sets it for all programs (`O2`): how hard the compiler works to
/// make a program fit. Another level makes another schedule.
const MEMORY_FITTING: u64 = 29;

/// Appends a field of bytes to a message.
pub(crate) fn write_bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    let mut writer = Writer {
        out: std::mem::take(out),
    };
    writer.bytes(u64::from(field), value);
    *out = writer.out;
}

/// Writes the two wire types that the message needs.
#[derive(Default)]
struct Writer {
    out: Vec<u8>,
}

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    fn integer(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.out.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Message;

    #[test]
    fn the_message_holds_what_was_asked_for() {
        let options = CompileOptions {
            partitions: 4,
            shardy: true,
            overrides: vec![("xla_a".to_owned(), "7".to_owned())],
            ..CompileOptions::default()
        };
        let proto = options.to_proto();
        let mut seen = Vec::new();
        let build = Message::new(&proto).find(|(number, _)| *number == 3);
        let build = build.map(|(_, value)| value.bytes()).unwrap_or_default();
        for (number, value) in Message::new(build) {
            seen.push((number, value.uint()));
        }
        assert_eq!(
            seen,
            [(1, u64::MAX), (4, 1), (5, 4), (6, 1), (19, 1), (25, 29)]
        );
    }
}
