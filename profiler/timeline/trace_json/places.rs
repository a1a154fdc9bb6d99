//! What the processes of a trace stand for.

use std::collections::BTreeMap;

use super::super::kineto::{self, ProcessFacts, ProcessKind};
use super::table::{Key, Table};
use crate::session::CoreKind;
use crate::session_builder::parse_tpu_plane;

/// What a process stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A TPU core.
    Core {
        /// Its host's name.
        host: String,
        /// The plane's name, as `/device:TPU:0`.
        plane: String,
        /// The kind of core.
        kind: CoreKind,
        /// `N` of `/device:TPU:N`.
        ordinal: u32,
    },
    /// Threads of a host.
    Host(String),
    /// A device that is not a TPU.
    Foreign(String),
    /// Something that is not read.
    Nowhere,
}

/// The place of each process, by process.
pub(super) fn places(table: &Table<'_>, is_kineto: bool, host: &str) -> BTreeMap<Key, Place> {
    let mut facts: BTreeMap<Key, ProcessFacts<'_>> = BTreeMap::new();
    for (pid, process) in &table.processes {
        let known = facts.entry(*pid).or_default();
        known.name = &process.name;
        known.labels = &process.labels;
    }
    for line in &table.lines {
        let known = facts.entry(line.pid).or_default();
        known.has_kernels |= line.has_kernels;
        known.has_core_lines |= line
            .name
            .is_some_and(|name| kineto::is_core_line(&table.names.get(name)));
    }
    let mut cores = 0;
    let place = |(pid, facts): (Key, ProcessFacts<'_>)| {
        let place = if is_kineto {
            kineto_place(pid, facts, host, &mut cores)
        } else {
            xprof_place(facts, host, &mut cores)
        };
        (pid, place)
    };
    facts.into_iter().map(place).collect()
}

/// XProf names processes after planes, where hosts were merged as `host /device:TPU:0`.
fn xprof_place(facts: ProcessFacts<'_>, host: &str, unnamed_cores: &mut u32) -> Place {
    if facts.name.is_empty() && facts.has_core_lines {
        return unnamed_core(host, unnamed_cores);
    }
    let plane_at = ["/device:", "/host:"]
        .iter()
        .find_map(|start| facts.name.find(start));
    let (before, plane) = facts.name.split_at(plane_at.unwrap_or(0));
    let host = Some(before.trim())
        .filter(|name| !name.is_empty())
        .unwrap_or(host)
        .to_owned();
    if let Some((kind, ordinal)) = parse_tpu_plane(plane) {
        return Place::Core {
            host,
            plane: plane.to_owned(),
            kind,
            ordinal,
        };
    }
    let is_of_a_tpu = |kind: &str| {
        ["TPU", "CUSTOM", "CPU"]
            .iter()
            .any(|known| kind.starts_with(known))
    };
    match plane.strip_prefix("/device:") {
        Some(kind) if is_of_a_tpu(kind) => Place::Nowhere,
        Some(_) => Place::Foreign(plane.to_owned()),
        // Planes as `#Chip TPU Non-Core HBM` and `Task Environment`.
        None if plane.starts_with('#') || plane == "Task Environment" => Place::Nowhere,
        None => Place::Host(host),
    }
}

fn kineto_place(pid: Key, facts: ProcessFacts<'_>, host: &str, unnamed_cores: &mut u32) -> Place {
    if let Key::Word(_) = pid {
        // "Spans" and "Traces": the profiler's own iterations.
        return Place::Nowhere;
    }
    match kineto::process_kind(facts) {
        ProcessKind::Core => match parse_tpu_plane(facts.name) {
            Some((kind, ordinal)) => Place::Core {
                host: host.to_owned(),
                plane: facts.name.to_owned(),
                kind,
                ordinal,
            },
            None => unnamed_core(host, unnamed_cores),
        },
        ProcessKind::Foreign => match pid {
            Key::Number(index) => Place::Foreign(format!("/device:GPU:{index}")),
            Key::Word(_) | Key::Absent => Place::Foreign("/device:GPU".to_owned()),
        },
        ProcessKind::Host => Place::Host(host.to_owned()),
    }
}

/// Cores without a number are counted in the order of their processes.
fn unnamed_core(host: &str, count: &mut u32) -> Place {
    let ordinal = *count;
    *count += 1;
    Place::Core {
        host: host.to_owned(),
        plane: format!("/device:TPU:{ordinal}"),
        kind: CoreKind::TensorCore,
        ordinal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xprof(name: &str) -> Place {
        let facts = ProcessFacts {
            name,
            ..ProcessFacts::default()
        };
        xprof_place(facts, "file", &mut 0)
    }

    fn core(host: &str, plane: &str, kind: CoreKind, ordinal: u32) -> Place {
        Place::Core {
            host: host.to_owned(),
            plane: plane.to_owned(),
            kind,
            ordinal,
        }
    }

    #[test]
    fn planes_are_told_apart_by_name() {
        assert_eq!(
            xprof("/device:TPU:3"),
            core("file", "/device:TPU:3", CoreKind::TensorCore, 3)
        );
        assert_eq!(
            xprof("/device:TPU:0 SparseCore 1"),
            core(
                "file",
                "/device:TPU:0 SparseCore 1",
                CoreKind::SparseCore,
                0
            )
        );
        assert_eq!(xprof("/host:CPU"), Place::Host("file".to_owned()));
        assert_eq!(
            xprof("/device:GPU:0"),
            Place::Foreign("/device:GPU:0".to_owned())
        );
        assert_eq!(xprof("/device:CUSTOM:Megascale Trace"), Place::Nowhere);
        assert_eq!(xprof("#Chip TPU Non-Core HBM"), Place::Nowhere);
    }

    #[test]
    fn the_host_before_the_plane_counts_more_than_the_file() {
        assert_eq!(
            xprof("worker-1 /device:TPU:2"),
            core("worker-1", "/device:TPU:2", CoreKind::TensorCore, 2)
        );
        assert_eq!(
            xprof("worker-1 /host:CPU"),
            Place::Host("worker-1".to_owned())
        );
    }

    #[test]
    fn cores_that_lost_their_name_are_known_by_their_lines() {
        let facts = ProcessFacts {
            has_core_lines: true,
            ..ProcessFacts::default()
        };
        assert_eq!(
            xprof_place(facts, "file", &mut 1),
            core("file", "/device:TPU:1", CoreKind::TensorCore, 1)
        );
    }
}
