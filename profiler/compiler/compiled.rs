//! What the compiler made of a program.

use serde::{Deserialize, Serialize};

/// Which compiler it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CompilerBuild {
    /// libtpu's build, as `0.0.50.1`, or what the library says of itself where its wheel's version
    /// is not known.
    pub libtpu: String,
    /// Version of the PJRT C API, as `0.116`.
    pub pjrt: String,
}

/// Device memory of a compiled program, for one device. Bytes.
///
/// The compiler's own figures (`PJRT_Executable_GetCompiledMemoryStats`): arrays as they lie in
/// HBM, tiles filled up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompiledMemory {
    /// Code.
    pub code_bytes: u64,
    /// Arguments.
    pub argument_bytes: u64,
    /// Results.
    pub output_bytes: u64,
    /// Results that lie in donated arguments.
    pub alias_bytes: u64,
    /// What is needed in between.
    pub temporary_bytes: u64,
    /// Arguments in the host's memory.
    pub host_argument_bytes: u64,
    /// Results in the host's memory.
    pub host_output_bytes: u64,
    /// What is needed in between in the host's memory.
    pub host_temporary_bytes: u64,
    /// The most that is in use at one time, 0 where the compiler does not say.
    pub peak_bytes: u64,
}

impl CompiledMemory {
    /// From the figures in the API's order.
    #[must_use]
    pub fn of_stats(stats: &[i64]) -> Self {
        let at = |index: usize| {
            let value = stats.get(index).copied().unwrap_or(0);
            u64::try_from(value).unwrap_or(0)
        };
        Self {
            code_bytes: at(0),
            argument_bytes: at(1),
            output_bytes: at(2),
            alias_bytes: at(3),
            temporary_bytes: at(4),
            host_argument_bytes: at(6),
            host_output_bytes: at(7),
            host_temporary_bytes: at(9),
            peak_bytes: at(10),
        }
    }

    /// What a device must hold while the program runs: arguments, results that are not in donated
    /// arguments, temporaries and code.
    #[must_use]
    pub fn needed_bytes(&self) -> u64 {
        self.argument_bytes
            .saturating_add(self.output_bytes.saturating_sub(self.alias_bytes))
            .saturating_add(self.temporary_bytes)
            .saturating_add(self.code_bytes)
    }
}

/// A compiled program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compiled {
    /// Which compiler made it.
    pub build: CompilerBuild,
    /// `HloModuleProtoWithConfig`, which reads as `HloProto` does: scheduled, with layouts, memory
    /// spaces and the compiler's estimates.
    #[serde(skip)]
    pub hlo: Vec<u8>,
    /// Memory on one device.
    pub memory: CompiledMemory,
    /// XLA's own FLOP count, where it gives one.
    pub flops: Option<f64>,
    /// XLA's own count of bytes accessed, where it gives one.
    pub bytes_accessed: Option<f64>,
}
