//! What is kept once: names, reasons, graphs and programs, within limits.

use std::hash::{Hash as _, Hasher as _};

use rustc_hash::{FxHashMap, FxHasher};

use super::{AtenGraph, GraphBreak, Process, Reason, StableHlo, TorchTrace};

/// Bytes of StableHLO that are kept; a training run of many shapes has hundreds of megabytes.
const MAX_PROGRAM_BYTES: usize = 64 << 20;
/// Bytes of graphs that are kept.
const MAX_GRAPH_BYTES: u64 = 64 << 20;
/// Places of graph breaks that are kept.
const MAX_BREAKS: usize = 1 << 12;
/// Distinct names of operations or reasons that are kept.
const MAX_NAMES: usize = 1 << 16;

/// Where what is kept stands. Graphs and programs are found by a 64-bit hash of their text: two of
/// one hash would be taken for one, which costs a shape in a report and nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Store {
    names: FxHashMap<String, u32>,
    reasons: FxHashMap<String, u32>,
    graphs: FxHashMap<u64, u32>,
    programs: FxHashMap<u64, Option<u32>>,
    graph_keys: Vec<u64>,
    program_keys: Vec<u64>,
    graph_bytes: u64,
    program_bytes: usize,
}

fn hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    text.hash(&mut hasher);
    hasher.finish()
}

impl TorchTrace {
    pub(super) fn intern_name(&mut self, name: &str) -> u32 {
        if let Some(known) = self.store.names.get(name) {
            return *known;
        }
        let index = self.names.len().min(MAX_NAMES - 1);
        if self.names.len() < MAX_NAMES {
            self.names.push(name.to_owned());
            self.store.names.insert(name.to_owned(), index as u32);
        }
        index as u32
    }

    pub(super) fn intern_reason(&mut self, name: &str) -> u32 {
        if let Some(known) = self.store.reasons.get(name) {
            return *known;
        }
        let index = self.reasons.len().min(MAX_NAMES - 1);
        if self.reasons.len() < MAX_NAMES {
            self.reasons.push(Reason::parse(name));
            self.store.reasons.insert(name.to_owned(), index as u32);
        }
        index as u32
    }

    /// Keeps a graph; its first line names the reason, which is not the graph's.
    pub(super) fn intern_graph(&mut self, text: &str) -> Option<u32> {
        let body = match text.split_once('\n') {
            Some((first, rest)) if first.trim_start().starts_with('#') => rest,
            _ => text,
        };
        let key = hash(body);
        if let Some(known) = self.store.graphs.get(&key) {
            return Some(*known);
        }
        self.keep_graph(key, AtenGraph::parse(body))
    }

    fn keep_graph(&mut self, key: u64, graph: AtenGraph) -> Option<u32> {
        if let Some(known) = self.store.graphs.get(&key) {
            return Some(*known);
        }
        let weight = graph.weight();
        if graph.ops.is_empty() || self.store.graph_bytes + weight > MAX_GRAPH_BYTES {
            return None;
        }
        self.store.graph_bytes += weight;
        let index = u32::try_from(self.graphs.len()).ok()?;
        self.graphs.push(graph);
        self.store.graph_keys.push(key);
        self.store.graphs.insert(key, index);
        Some(index)
    }

    /// Keeps a program, unless there is too much of them; counts it in any case.
    pub(super) fn intern_program(&mut self, text: String, compiled_mode: bool) -> Option<u32> {
        let key = hash(&text);
        let name = StableHlo::name_of(&text)?.to_owned();
        let program = StableHlo {
            name,
            text,
            compiled_mode,
            count: 1,
        };
        self.keep_program(key, program)
    }

    fn keep_program(&mut self, key: u64, program: StableHlo) -> Option<u32> {
        if let Some(known) = self.store.programs.get(&key) {
            let known = *known;
            if let Some(kept) = known.and_then(|index| self.programs.get_mut(index as usize)) {
                kept.count += program.count;
            }
            return known;
        }
        let room = MAX_PROGRAM_BYTES.saturating_sub(self.store.program_bytes);
        if program.text.len() > room {
            self.dropped_program_bytes += program.text.len() as u64;
            self.store.programs.insert(key, None);
            return None;
        }
        self.store.program_bytes += program.text.len();
        let index = u32::try_from(self.programs.len()).ok()?;
        self.programs.push(program);
        self.store.program_keys.push(key);
        self.store.programs.insert(key, Some(index));
        Some(index)
    }

    /// Keeps a graph break, once for each place and reason.
    pub(super) fn add_break(&mut self, one: GraphBreak) {
        let same = |known: &&mut GraphBreak| known.place == one.place && known.reason == one.reason;
        if let Some(known) = self.graph_breaks.iter_mut().find(same) {
            known.count += one.count;
        } else if self.graph_breaks.len() < MAX_BREAKS {
            self.graph_breaks.push(one);
        }
    }

    /// Takes over what another file tells. Files of one process are rotated files of one log, and
    /// become one.
    pub(super) fn absorb(&mut self, other: Self) {
        let names: Vec<u32> = other
            .names
            .iter()
            .map(|name| self.intern_name(name))
            .collect();
        let reasons = other.reasons.iter();
        let reasons: Vec<u32> = reasons.map(|r| self.intern_reason(r.name())).collect();
        let keys = other.store.graph_keys.iter();
        let graphs: Vec<Option<u32>> = keys
            .zip(other.graphs)
            .map(|(key, graph)| self.keep_graph(*key, graph))
            .collect();
        let keys = other.store.program_keys.iter();
        let programs: Vec<Option<u32>> = keys
            .zip(other.programs)
            .map(|(key, program)| self.keep_program(*key, program))
            .collect();
        self.dropped_program_bytes += other.dropped_program_bytes;
        let at = |map: &[u32], index: u32| map.get(index as usize).copied().unwrap_or_default();
        let kept = |map: &[Option<u32>], index: Option<u32>| *map.get(index? as usize)?;
        for mut process in other.processes {
            for launch in &mut process.launches {
                launch.op = at(&names, launch.op);
                launch.reason = at(&reasons, launch.reason);
                launch.graph = kept(&graphs, launch.graph);
                launch.program = kept(&programs, launch.program);
            }
            self.add_process(process);
        }
        self.dynamo.extend(other.dynamo);
        for one in other.graph_breaks {
            self.add_break(one);
        }
    }

    fn add_process(&mut self, process: Process) {
        let key = |process: &Process| (process.rank, process.pid);
        let start = |process: &Process| process.launches.first().map(|launch| launch.start_us);
        let known = self
            .processes
            .iter_mut()
            .find(|known| key(known) == key(&process));
        match known {
            // Rotated files hold one time after another, in whatever order they were given.
            Some(known) if start(&process) < start(known) => {
                known.launches.splice(0..0, process.launches);
            }
            Some(known) => known.launches.extend(process.launches),
            None => self.processes.push(process),
        }
        self.processes.sort_by_key(key);
    }
}
