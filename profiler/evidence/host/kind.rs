//! What a host span is about, from its name: the names that JAX, XLA, libtpu, TensorFlow, grain,
//! PyTorch and TorchTPU give their spans.

use serde::Serialize;

use crate::session::HostThread;

/// What the host was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    /// Tracing, lowering or compiling a program.
    Compile,
    /// Getting the next batch.
    Input,
    /// Copying to the device.
    ToDevice,
    /// Waiting for a result of the device.
    Read,
    /// Copying from the device.
    FromDevice,
    /// Sending programs.
    Dispatch,
}

impl HostKind {
    /// What to call it in a sentence: the host was …
    #[must_use]
    pub fn doing(self) -> &'static str {
        match self {
            Self::Compile => "compiling",
            Self::Input => "loading input",
            Self::ToDevice => "copying to the device",
            Self::Read => "waiting for a result",
            Self::FromDevice => "copying from the device",
            Self::Dispatch => "dispatching programs",
        }
    }
}

/// Some of the kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindSet(u8);

impl KindSet {
    /// Adds a kind.
    #[inline]
    pub fn insert(&mut self, kind: HostKind) {
        self.0 |= 1 << kind as u8;
    }

    /// Whether a kind is among them.
    #[must_use]
    pub fn contains(self, kind: HostKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

const COMPILE: [&str; 14] = [
    "backend_compile",
    "Compiler::Compile",
    "PyClient::Compile",
    "CompileTraversal",
    "Traversal::Compile",
    "XLA::TPU",
    "XlaCompile",
    "RunHloPasses",
    "RunBackend",
    "trace_to_jaxpr",
    "lower_sharding_computation",
    "lower_jaxpr_to_module",
    "LoadProgramCacheMiss",
    "compile_or_get_cached",
];
const INPUT: [&str; 17] = [
    "DataLoader",
    "dataloader.py",
    "data_loader",
    "Iterator::",
    "IteratorGetNext",
    "iterator_ops.py",
    "tf.data",
    "tf_data",
    "tfds",
    "grain.",
    "PyGrain",
    "load_batch",
    "next_batch",
    "get_batch",
    "load_next_batch",
    "input_pipeline",
    "prefetch_to_device",
];
const READ: [&str; 11] = [
    "np.asarray(jax.Array)",
    "AtenLocalScalarDense",
    "_local_scalar_dense",
    "aten::item",
    "CopyTpuToCpu",
    "ToLiteral",
    "block_until_ready",
    "BlockUntilReady",
    "BlockHostUntilReady",
    "PjRtFuture::Await",
    "Await",
];
const FROM_DEVICE: [&str; 6] = [
    "TransferFromDevice",
    "D2H Dispatch",
    "Delinearize",
    "outfeed",
    "Outfeed",
    "CopyToHost",
];
const TO_DEVICE: [&str; 10] = [
    "TransferToDevice",
    "H2D Dispatch",
    "Linearize",
    "BufferFromHost",
    "DevicePut",
    "device_put",
    "shard_args",
    "infeed",
    "Infeed",
    "CopyToMemoryViaPcie",
];
const DISPATCH: [&str; 7] = [
    "PjitFunction(",
    "LoadedExecutable::Execute",
    "ExecuteReplicated",
    "ExecuteLaunch",
    "ExecutionTask::Run",
    "Torch-Compiled Region",
    "tpu::System::Execute",
];

/// The kind of a span of that name, if it is one of those that matter.
fn kind_of(name: &str) -> Option<HostKind> {
    // What the runtime does once a program or a copy is over holds nothing up.
    if name.ends_with("=>Done") || name == "Execute=>Done" {
        return None;
    }
    let any = |needles: &[&str]| needles.iter().any(|needle| name.contains(needle));
    if any(&COMPILE) {
        Some(HostKind::Compile)
    } else if any(&INPUT) {
        Some(HostKind::Input)
    } else if any(&READ) {
        Some(HostKind::Read)
    } else if any(&FROM_DEVICE) {
        Some(HostKind::FromDevice)
    } else if any(&TO_DEVICE) {
        Some(HostKind::ToDevice)
    } else if any(&DISPATCH) || name == "Execute" {
        Some(HostKind::Dispatch)
    } else {
        None
    }
}

/// The kind of each name.
#[must_use]
pub fn kinds(names: &[String]) -> Vec<Option<HostKind>> {
    names.iter().map(|name| kind_of(name)).collect()
}

/// The function that a span calls: `train_step` of `PjitFunction(train_step)`.
#[must_use]
pub fn called_function(name: &str) -> Option<&str> {
    let function = name
        .strip_prefix("PjitFunction(")
        .and_then(|rest| rest.strip_suffix(')'));
    function.or_else(|| name.starts_with("Torch-Compiled Region").then_some(name))
}

/// Whether a span stands for one whole compilation and not for a part of it.
#[must_use]
pub fn is_whole_compile(name: &str) -> bool {
    const WHOLE: [&str; 4] = [
        "backend_compile",
        "Compiler::Compile",
        "PyClient::Compile",
        "Traversal::Compile",
    ];
    name == "CompileTraversal" || WHOLE.iter().any(|whole| name.contains(whole))
}

/// Whether a thread is one of the runtime's workers and not the user's.
#[must_use]
pub fn is_worker(thread: &HostThread) -> bool {
    [
        "py_xla_execute",
        "tfrt",
        "pjrt-tpu",
        "switchto",
        "futex",
        "EventFD",
    ]
    .iter()
    .any(|worker| thread.name.starts_with(worker))
}

#[cfg(test)]
mod tests {
    use super::{HostKind, called_function, is_whole_compile, kind_of};

    #[test]
    fn names_of_real_captures_have_their_kind() {
        for (name, kind) in [
            ("backend_compile", Some(HostKind::Compile)),
            ("TfrtTpuCompiler::Compile", Some(HostKind::Compile)),
            ("XLA::TPU run hlo passes", Some(HostKind::Compile)),
            ("$dataloader.py:701 __next__", Some(HostKind::Input)),
            (
                "tpu::System::TransferToDevice=>IssueEvent",
                Some(HostKind::ToDevice),
            ),
            ("XlaDelinearize", Some(HostKind::FromDevice)),
            ("np.asarray(jax.Array)", Some(HostKind::Read)),
            ("aten::_local_scalar_dense", Some(HostKind::Read)),
            ("PjitFunction(f)", Some(HostKind::Dispatch)),
            (
                "TpuLoadedExecutable::ExecuteLaunch",
                Some(HostKind::Dispatch),
            ),
            ("tpu::System::Execute=>Done", None),
            ("$threading.py:323 wait", None),
            ("ReadSyncFlag", None),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }

    #[test]
    fn a_pass_is_part_of_a_compilation_and_not_one_itself() {
        assert!(is_whole_compile("TfrtTpuCompiler::Compile"));
        assert!(!is_whole_compile("XLA::TPU run backend"));
        assert_eq!(
            called_function("PjitFunction(train_step)"),
            Some("train_step")
        );
        assert_eq!(called_function("PjRtFuture::Await"), None);
    }
}
