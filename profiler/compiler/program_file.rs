//! A program as a file holds it: what it is, and how the compiler takes it.
//!
//! Told by content, as everywhere: StableHLO as text, as MLIR bytecode or as the portable artifact
//! (bytecode in the VHLO dialect, which `jax.export` wraps into a flatbuffer), and HLO as proto or
//! text. HLO that the compiler has already scheduled need not be compiled again.

use serde::{Deserialize, Serialize};

use super::options::CompileOptions;
use crate::program::{looks_like_hlo_proto, looks_like_hlo_text};

/// What a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramKind {
    /// StableHLO as MLIR text.
    StablehloText,
    /// StableHLO or VHLO as MLIR bytecode.
    StablehloBytecode,
    /// `HloModuleProto`, `HloProto` or `HloModuleProtoWithConfig`.
    HloProto,
    /// An HLO module as text.
    HloText,
}

impl ProgramKind {
    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::StablehloText => "StableHLO text",
            Self::StablehloBytecode => "StableHLO bytecode",
            Self::HloProto => "HLO proto",
            Self::HloText => "HLO text",
        }
    }
}

/// A program that can be compiled or, when it is, priced as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFile {
    /// What it is.
    pub kind: ProgramKind,
    /// The bytes that the compiler takes.
    pub code: Vec<u8>,
    /// Devices that it is partitioned over, where it says.
    pub partitions: Option<u32>,
    /// Whether it holds Shardy's shardings.
    pub shardy: bool,
    /// Whether it holds shardings of either kind.
    pub sharded: bool,
}

/// Why a file is no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramFileError {
    /// It has no bytes.
    #[error("it is empty (0 bytes)")]
    Empty,
    /// It is something else.
    #[error(
        "it is no program: it starts with {start}; expected StableHLO (text, bytecode or a jax.export artifact) or HLO (proto or text)"
    )]
    Unknown {
        /// Its first bytes, readable.
        start: String,
    },
}

const BYTECODE_MAGIC: &[u8] = b"ML\xefR";
/// A `jax.export` flatbuffer holds its module behind a few tables.
const LOOK_FOR_MODULE_IN: usize = 1 << 16;

impl ProgramFile {
    /// Tells what a file's bytes are.
    ///
    /// # Errors
    /// When they are no program.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, ProgramFileError> {
        if bytes.is_empty() {
            return Err(ProgramFileError::Empty);
        }
        if let Some(code) = bytecode(bytes) {
            return Ok(Self {
                kind: ProgramKind::StablehloBytecode,
                partitions: None,
                shardy: contains(code, b"sdy.mesh"),
                sharded: contains(code, b"sdy.mesh") || contains(code, b"mhlo.sharding"),
                code: code.to_vec(),
            });
        }
        if looks_like_hlo_text(bytes) {
            return Ok(Self::plain(ProgramKind::HloText, bytes));
        }
        if let Ok(text) = std::str::from_utf8(bytes)
            && looks_like_mlir(text)
        {
            return Ok(Self {
                kind: ProgramKind::StablehloText,
                code: bytes.to_vec(),
                partitions: module_attribute(text, "mhlo.num_partitions"),
                shardy: text.contains("sdy.mesh"),
                sharded: text.contains("sdy.mesh") || text.contains("mhlo.sharding"),
            });
        }
        if looks_like_hlo_proto(bytes) {
            return Ok(Self::plain(ProgramKind::HloProto, bytes));
        }
        let start: String = bytes
            .iter()
            .take(24)
            .map(|b| b.escape_ascii().to_string())
            .collect();
        Err(ProgramFileError::Unknown {
            start: format!("\"{start}\""),
        })
    }

    fn plain(kind: ProgramKind, bytes: &[u8]) -> Self {
        Self {
            kind,
            code: bytes.to_vec(),
            partitions: None,
            shardy: false,
            sharded: false,
        }
    }

    /// How the program is compiled for that many devices: partitioned as it says, over all of them
    /// where it holds shardings and does not say, else for one.
    #[must_use]
    pub fn options(&self, devices: u32) -> CompileOptions {
        let partitions = match self.partitions {
            Some(partitions) => partitions,
            None if self.sharded => devices,
            None => 1,
        };
        CompileOptions {
            partitions,
            shardy: self.shardy,
            ..CompileOptions::default()
        }
    }

    /// What PJRT calls the format.
    #[must_use]
    pub fn pjrt_format(&self) -> &'static str {
        match self.kind {
            ProgramKind::StablehloText | ProgramKind::StablehloBytecode => "mlir",
            ProgramKind::HloProto | ProgramKind::HloText => "hlo",
        }
    }
}

/// Whether bytes are StableHLO: bytecode, an artifact that holds it, or text.
#[must_use]
pub fn looks_like_stablehlo(bytes: &[u8]) -> bool {
    bytecode(bytes).is_some() || std::str::from_utf8(bytes).is_ok_and(looks_like_mlir)
}

/// The MLIR bytecode in a file: the whole of it, or what a flatbuffer carries as a byte vector.
fn bytecode(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.starts_with(BYTECODE_MAGIC) {
        return Some(bytes);
    }
    let window = bytes.get(..bytes.len().min(LOOK_FOR_MODULE_IN))?;
    let at = window
        .windows(BYTECODE_MAGIC.len())
        .position(|four| four == BYTECODE_MAGIC)?;
    // A vector of bytes begins with its length.
    let length = bytes.get(at.checked_sub(4)?..at)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    bytes.get(at..at.checked_add(length)?)
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|part| part == needle)
}

fn looks_like_mlir(text: &str) -> bool {
    let code = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with("//"));
    code.is_some_and(|line| match line.strip_prefix("module") {
        // Not `modules`, and not `module load` of a shell script.
        Some(rest) => rest.trim_start().starts_with(['@', '{', 'a']) && rest.contains(['@', '{']),
        None => {
            line.starts_with("func.func")
                || line.starts_with("\"builtin.module\"")
                || line.strip_prefix('#').is_some_and(is_alias)
        }
    })
}

/// Whether what follows `#` is the alias of an attribute, as `loc1 = loc(…)`: scripts and settings
/// begin with the same character.
fn is_alias(rest: &str) -> bool {
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    rest.split_once('=')
        .is_some_and(|(before, _)| !before.trim().is_empty() && before.trim_end().chars().all(name))
}

/// An integer attribute of the module, as `mhlo.num_partitions = 4 : i32`.
fn module_attribute(text: &str, name: &str) -> Option<u32> {
    let after = text.split_once(name)?.1.trim_start().strip_prefix('=')?;
    let digits: String = after
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_no_programs() {
        for text in [
            "#!/bin/bash\npython train.py\n",
            "# Run this = now\n",
            "module load cuda\n",
            "modules @x {\n",
        ] {
            assert!(!looks_like_mlir(text), "{text}");
        }
        for text in [
            "// made by hand\n#loc = loc(unknown)\nmodule @a {\n",
            "module {\n",
            "module @jit_f attributes {mhlo.num_partitions = 4 : i32} {\n",
            "module attributes {a = 1} {\n",
        ] {
            assert!(looks_like_mlir(text), "{text}");
        }
    }

    #[test]
    fn programs_are_told_by_content() {
        let text = "module @jit_f attributes {mhlo.num_partitions = 4 : i32} {\n sdy.mesh @m = <[\"x\"=4]>\n}";
        let file = ProgramFile::of_bytes(text.as_bytes()).expect("text");
        assert_eq!(file.kind, ProgramKind::StablehloText);
        assert_eq!((file.partitions, file.shardy), (Some(4), true));
        let file = ProgramFile::of_bytes(b"ML\xefR\x06StableHLO").expect("bytecode");
        assert_eq!(file.kind, ProgramKind::StablehloBytecode);
        let file = ProgramFile::of_bytes(b"HloModule jit_f, is_scheduled=true\n").expect("HLO");
        assert_eq!(file.kind, ProgramKind::HloText);
        assert_eq!(ProgramFile::of_bytes(b""), Err(ProgramFileError::Empty));
        let junk = ProgramFile::of_bytes(b"\x7fELF\x02").expect_err("junk");
        assert!(junk.to_string().contains("\\x7fELF"), "{junk}");
    }

    #[test]
    fn the_module_in_a_flatbuffer_is_found_by_its_length() {
        let mut file = vec![8, 0, 0, 0, 1, 2, 3, 4, 6, 0, 0, 0];
        file.extend_from_slice(b"ML\xefR\x06Xtail");
        let found = ProgramFile::of_bytes(&file).expect("wrapped");
        assert_eq!(found.code, b"ML\xefR\x06X");
        // A length beyond the file is none.
        file[8] = 200;
        assert!(ProgramFile::of_bytes(&file).is_err());
    }
}
