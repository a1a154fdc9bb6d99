//! What PyTorch's Kineto writes differently from XProf.
//!
//! With TorchTPU, a process of the trace is either a process of the host or a TPU core, whose
//! threads are the lines of XProf (`XLA Ops`, `XLA Modules`, `Steps`). The core's process is
//! called `TPU`, not `/device:TPU:0`, and its arguments are those of the XSpace, all as strings.
//! Host processes carry `cpu_op`, `user_annotation` and `python_function` events.

use crate::note::Notes;

/// Names of lines that only TPU cores have.
const CORE_LINES: [&str; 4] = ["XLA Ops", "XLA Modules", "Async XLA Ops", "Sparse Core Ops"];

/// What is known of a process of a Kineto trace before its events are looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessFacts<'a> {
    /// Its name, as `python` or `TPU`.
    pub(super) name: &'a str,
    /// Its labels, as `CPU`, `GPU 0` or `TPU Device`.
    pub(super) labels: &'a str,
    /// Whether a thread of it is named like a line of a TPU core.
    pub(super) has_core_lines: bool,
    /// Whether it has events of the category `kernel`.
    pub(super) has_kernels: bool,
}

/// What a process of a Kineto trace stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessKind {
    /// A TPU core.
    Core,
    /// An accelerator that is not a TPU.
    Foreign,
    /// A process of the host.
    Host,
}

/// Whether a line of that name belongs to a TPU core.
pub(super) fn is_core_line(name: &str) -> bool {
    CORE_LINES.contains(&name)
}

/// Tells what a process stands for.
pub(super) fn process_kind(facts: ProcessFacts<'_>) -> ProcessKind {
    let says_tpu = facts.name.contains("TPU") || facts.labels.contains("TPU");
    if says_tpu || facts.has_core_lines {
        ProcessKind::Core
    } else if facts.has_kernels {
        ProcessKind::Foreign
    } else {
        ProcessKind::Host
    }
}

/// The host's name: with the rank, because the processes of a distributed run on one host each
/// write a file, in which cores are counted from zero.
pub(super) fn host_name(host: &str, rank: Option<&str>) -> String {
    match rank {
        Some(rank) => format!("{host} rank {rank}"),
        None => host.to_owned(),
    }
}

/// Says what a Kineto file cannot tell.
pub(super) fn note_what_is_missing(has_cores: bool, notes: &mut Notes) {
    let message = if has_cores {
        "Kineto JSON has no HLO and no peaks of the chip, and memory traffic only as a total: \
         the xplane.pb that TorchTPU writes beside it has all of them"
    } else {
        "this Kineto JSON has no TPU events, only the host's: profile with ProfilerActivity.TPU, \
         or give the xplane.pb that TorchTPU writes beside it"
    };
    notes.info("json-dialect", message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_known_by_its_name_its_label_or_its_lines() {
        let host = ProcessFacts {
            name: "python",
            labels: "CPU",
            ..ProcessFacts::default()
        };
        assert_eq!(process_kind(host), ProcessKind::Host);
        let named = ProcessFacts {
            name: "/device:TPU:1",
            ..host
        };
        let labelled = ProcessFacts {
            labels: "TPU Device",
            ..host
        };
        let lined = ProcessFacts {
            has_core_lines: true,
            has_kernels: true,
            ..host
        };
        for facts in [named, labelled, lined] {
            assert_eq!(process_kind(facts), ProcessKind::Core, "{facts:?}");
        }
        let gpu = ProcessFacts {
            labels: "GPU 0",
            has_kernels: true,
            ..host
        };
        assert_eq!(process_kind(gpu), ProcessKind::Foreign);
    }
}
