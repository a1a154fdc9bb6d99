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

/// Whether an error of the compiler says that its build has none of these options.
#[must_use]
pub fn is_unknown(message: &str) -> bool {
    message.contains("No such compile option") && message.contains("xla_dump_")
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

/// How much a file of a dump tells, by its name: the higher the better, none of files that hold
/// no scheduled program.
#[must_use]
pub fn rank(name: &str) -> Option<u8> {
    const RANKS: [(&str, u8); 4] = [
        ("after_codegen.hlo.pb", 4),
        ("after_optimizations.hlo.pb", 3),
        ("after_codegen.txt", 2),
        ("after_optimizations.txt", 1),
    ];
    RANKS
        .iter()
        .find(|(end, _)| name.ends_with(end))
        .map(|(_, rank)| *rank)
}

/// The module of a file of a dump: `module_0001.jit_f.cl_7` of
/// `module_0001.jit_f.cl_7.after_codegen.hlo.pb`.
#[must_use]
pub fn module_of(name: &str) -> &str {
    name.find(".after_")
        .or_else(|| name.find(".tpu_after_"))
        .and_then(|end| name.get(..end))
        .unwrap_or(name)
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
    fn files_of_a_dump_are_told_by_their_names() {
        let name = "module_0001.jit_f.cl_7.after_codegen.hlo.pb";
        assert_eq!(
            (rank(name), module_of(name)),
            (Some(4), "module_0001.jit_f.cl_7")
        );
        assert_eq!(
            rank("module_0001.jit_f.cl_7.before_optimizations.hlo.pb"),
            None
        );
        assert_eq!(rank("module_0001.jit_f.after_optimizations.txt"), Some(1));
    }

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
