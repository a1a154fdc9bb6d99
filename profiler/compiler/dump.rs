//! What the compiler writes beside its answer: where each buffer lies.
//!
//! The program that PJRT gives back has the compiler's estimates and no buffer assignment; the
//! dump of the same compilation has the assignment and no estimates, and it is written even when
//! the program does not fit into HBM. Together they are one `HloProto`.

use crate::wire::Message;

/// Options that make the compiler dump into a folder, and nothing more than is needed.
#[must_use]
pub fn options(folder: &str) -> Vec<(String, String)> {
    vec![
        ("xla_dump_to".to_owned(), folder.to_owned()),
        ("xla_dump_hlo_as_proto".to_owned(), "true".to_owned()),
    ]
}

/// Whether a file of a dump is the scheduled program with its buffer assignment.
#[must_use]
pub fn is_assigned(name: &str) -> bool {
    name.ends_with(".after_optimizations.hlo.pb")
}

/// Whether a file of a dump is one that the compiler writes after that one is whole.
#[must_use]
pub fn is_behind_assigned(name: &str) -> bool {
    name.ends_with(".after_optimizations_after_buffer_assignment.hlo.pb")
}

const MODULE: u32 = 1;
const BUFFER_ASSIGNMENT: u32 = 3;

/// One `HloProto` of the program that PJRT returned and the buffer assignment of the dump.
#[must_use]
pub fn join(optimized: &[u8], dumped: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(optimized.len() + dumped.len() / 2);
    let parts = [(optimized, MODULE), (dumped, BUFFER_ASSIGNMENT)];
    for (message, wanted) in parts {
        let found = Message::new(message).find(|(number, _)| *number == wanted);
        if let Some((_, value)) = found {
            super::options::write_bytes(&mut out, wanted, value.bytes());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_of_one_and_the_buffers_of_the_other_are_joined() {
        // Module, config; and module, assignment.
        let optimized = [0x0a, 2, b'a', b'b', 0x12, 1, b'c'];
        let dumped = [0x0a, 1, b'x', 0x1a, 1, b'y'];
        assert_eq!(
            join(&optimized, &dumped),
            [0x0a, 2, b'a', b'b', 0x1a, 1, b'y']
        );
        assert_eq!(join(&optimized, b""), [0x0a, 2, b'a', b'b']);
    }
}
