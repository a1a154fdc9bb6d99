//! Event metadata: what the ids on events stand for, interned once for each plane.

use super::event_stats::EventStats;
use super::ids::IdTable;
use super::plane::Plane;
use crate::session::{MemoryAccess, NameId, Op, OpId};
use crate::session_builder::{OpKey, SessionBuilder};
use crate::wire::Message;

/// A plane's event metadata by local index, and the stat ids that its events use.
pub(super) struct Local<'a> {
    pub(super) plane: &'a Plane<'a>,
    pub(super) metadata: Vec<&'a [u8]>,
    pub(super) stats: EventStats,
    index: IdTable<u32>,
    memory_ids: [Option<u32>; 2],
}

impl<'a> Local<'a> {
    pub(super) fn of(plane: &'a Plane<'a>) -> Self {
        let mut index = IdTable::sized(plane.event_metadata.len());
        let mut metadata = Vec::with_capacity(plane.event_metadata.len());
        let mut memory_ids = [None; 2];
        for (id, bytes) in &plane.event_metadata {
            let local = metadata.len() as u32;
            index.insert(*id, local);
            metadata.push(*bytes);
            let name = Message::new(bytes)
                .find(|(n, _)| *n == 2)
                .map(|(_, v)| v.text());
            match name {
                Some("MemoryAllocation") => memory_ids[0] = Some(local),
                Some("MemoryDeallocation") => memory_ids[1] = Some(local),
                _ => {}
            }
        }
        Self {
            plane,
            metadata,
            stats: EventStats::of(plane),
            index,
            memory_ids,
        }
    }

    /// The local index of an id.
    #[inline]
    pub(super) fn find(&self, id: i64) -> Option<u32> {
        self.index.get(id)
    }

    /// Whether events of that local index tell how much device memory is in use.
    #[inline]
    pub(super) fn is_memory(&self, local: u32) -> bool {
        self.memory_ids.contains(&Some(local))
    }

    pub(super) fn label(&self, local: u32) -> (&'a str, &'a str) {
        let mut name = "";
        let mut display = "";
        let bytes = self
            .metadata
            .get(local as usize)
            .copied()
            .unwrap_or_default();
        for (number, value) in Message::new(bytes) {
            match number {
                2 => name = value.text(),
                4 => display = value.text(),
                _ => {}
            }
        }
        (name, display)
    }
}

/// Handles already given to a plane's metadata.
pub(super) struct Interned {
    pub(super) names: Vec<Option<NameId>>,
    pub(super) ops: Vec<Option<OpId>>,
}

impl Interned {
    pub(super) fn new(len: usize) -> Self {
        Self {
            names: vec![None; len],
            ops: vec![None; len],
        }
    }

    pub(super) fn name(
        &mut self,
        local: u32,
        metadata: &Local<'_>,
        builder: &mut SessionBuilder,
    ) -> NameId {
        let slot = self.names.get_mut(local as usize);
        match slot {
            Some(Some(id)) => *id,
            Some(slot) => {
                let (name, display) = metadata.label(local);
                let id = builder.name(if display.is_empty() { name } else { display });
                *slot = Some(id);
                id
            }
            None => builder.name(""),
        }
    }

    pub(super) fn op(
        &mut self,
        local: u32,
        metadata: &Local<'_>,
        builder: &mut SessionBuilder,
    ) -> OpId {
        if let Some(Some(id)) = self.ops.get(local as usize) {
            return *id;
        }
        let id = intern_op(local, metadata, builder);
        if let Some(slot) = self.ops.get_mut(local as usize) {
            *slot = Some(id);
        }
        id
    }
}

pub(super) fn intern_op(local: u32, metadata: &Local<'_>, builder: &mut SessionBuilder) -> OpId {
    let bytes = metadata
        .metadata
        .get(local as usize)
        .copied()
        .unwrap_or_default();
    let mut op = Op::default();
    let mut program_id = None;
    let mut name = "";
    let mut display = "";
    for (number, value) in Message::new(bytes) {
        match number {
            2 => name = value.text(),
            4 => display = value.text(),
            5 => {
                let (key, stat) = metadata.plane.stat(value.bytes());
                match key {
                    "hlo_category" => op.category = stat.text().to_owned(),
                    "program_id" => program_id = Some(stat.uint()),
                    "symbol_id" => op.symbol_id = Some(stat.uint()),
                    "flops" => op.flops = Some(stat.uint()),
                    "model_flops" => op.model_flops = Some(stat.uint()),
                    "bytes_accessed" => op.bytes_accessed = Some(stat.uint()),
                    "memory_access_breakdown" => op.accesses = read_breakdown(stat.bytes()),
                    "shape_with_layout" => op.shape = stat.text().to_owned(),
                    "tf_op" => op.framework_op = stat.text().to_owned(),
                    "source" => op.source = stat.text().to_owned(),
                    "source_stack" => op.source_stack = stat.text().to_owned(),
                    "deduplicated_name" => op.deduplicated_name = stat.text().to_owned(),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    display.clone_into(&mut op.name);
    if op.name.is_empty() {
        let text = name.strip_prefix('%').unwrap_or(name);
        let end = text.find(" = ").unwrap_or(text.len());
        text[..end].clone_into(&mut op.name);
    }
    if name.contains(" = ") {
        name.clone_into(&mut op.hlo_text);
    }
    op.module = program_id.map(|id| module_of_program(id, builder));
    let key = match (program_id, op.symbol_id) {
        (Some(program_id), Some(symbol_id)) if symbol_id != 0 => OpKey::Symbol {
            program_id,
            symbol_id,
        },
        _ => OpKey::Name {
            module: op.module,
            name: op.name.clone(),
        },
    };
    builder.op(key, || op)
}

/// The module of a program id: named on the modules line, or not yet.
pub(super) fn module_of_program(program_id: u64, builder: &mut SessionBuilder) -> u32 {
    match builder.find_program(program_id) {
        Some(module) => module,
        None => builder.module("", Some(program_id)),
    }
}

/// Reads XProf's `MemoryAccessBreakdown`: repeated `{operation_type, memory_space, bytes}`.
pub(super) fn read_breakdown(bytes: &[u8]) -> Vec<MemoryAccess> {
    let mut accesses = Vec::new();
    for (number, value) in Message::new(bytes) {
        if number != 1 {
            continue;
        }
        let mut access = MemoryAccess {
            write: false,
            space: 0,
            bytes: 0,
        };
        for (number, value) in Message::new(value.bytes()) {
            match number {
                1 => access.write = value.uint() == 2,
                2 => access.space = value.uint(),
                3 => access.bytes = value.uint(),
                _ => {}
            }
        }
        accesses.push(access);
    }
    accesses
}
