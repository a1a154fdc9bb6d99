//! `xla.HloProto`, as profiles embed it and XLA dumps it: a module with its buffers.
//!
//! Field numbers are those of `xla/service/hlo.proto` and `xla/xla_data.proto`.

use rustc_hash::FxHashMap;

use crate::note::Notes;
use crate::program::buffers::BufferAssignment;
use crate::program::frames::{FileLocation, StackFrame, StackFrames};
use crate::program::instruction::{Call, CallRole, Operand, OutputAlias};
use crate::program::instruction_proto::{Raw, each_int, fields, instruction, output_alias};
use crate::program::opcode::Opcode;
use crate::program::{ComputationParts, Program, ProgramParts};
use crate::wire::{Message, Value};

/// Whether the bytes are an `xla.HloProto` or a bare `xla.HloModuleProto`.
#[must_use]
pub fn looks_like_hlo_proto(bytes: &[u8]) -> bool {
    split_hlo_proto(bytes).is_some()
}

/// Reads a module and, where it is there, its buffer assignment.
///
/// Bytes that are neither an `xla.HloProto` nor a bare `xla.HloModuleProto` give an empty program
/// and the warning `not-hlo`.
#[must_use]
pub fn read_hlo_proto(bytes: &[u8]) -> (Program, Notes) {
    let mut notes = Notes::default();
    let Some((module, buffers)) = split_hlo_proto(bytes) else {
        notes.warn(
            "not-hlo",
            "these bytes are no HLO: expected an xla.HloProto or xla.HloModuleProto with a name and instructions",
        );
        return (Program::default(), notes);
    };
    let mut program = read_module(module, &mut notes);
    let assignment = buffers.map(|bytes| BufferAssignment::read(bytes, &program, &mut notes));
    program.buffers = assignment;
    (program, notes)
}

/// The module's and the buffer assignment's bytes.
pub(crate) fn split_hlo_proto(bytes: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    if is_module(bytes) {
        return Some((bytes, None));
    }
    let (mut module, mut buffers) = (None, None);
    for (field, value) in Message::new(bytes) {
        match field {
            1 => module = Some(value.bytes()),
            3 => buffers = Some(value.bytes()),
            _ => {}
        }
    }
    module
        .filter(|module| is_module(module))
        .map(|module| (module, buffers))
}

/// A module starts with its name and holds a computation whose first instruction has an opcode
/// that XLA knows.
fn is_module(bytes: &[u8]) -> bool {
    let mut named = false;
    for (field, value) in Message::new(bytes) {
        match (field, value) {
            (1, Value::Bytes(name)) => named = std::str::from_utf8(name).is_ok(),
            (1, _) => return false,
            (3, Value::Bytes(computation)) => return named && has_instruction(computation),
            _ => {}
        }
    }
    false
}

fn has_instruction(computation: &[u8]) -> bool {
    let first = Message::new(computation).find(|&(field, _)| field == 2);
    let Some((_, Value::Bytes(instruction))) = first else {
        return false;
    };
    let opcode = Message::new(instruction).find(|&(field, _)| field == 2);
    opcode.is_some_and(|(_, value)| Opcode::new(value.text()).is_known())
}

#[derive(Default)]
struct RawComputation {
    id: i64,
    root: i64,
    parts: ComputationParts,
    instructions: Vec<Raw>,
}

fn read_module(bytes: &[u8], notes: &mut Notes) -> Program {
    let mut parts = ProgramParts::default();
    let mut computations: Vec<RawComputation> = Vec::new();
    let mut schedule: FxHashMap<i64, Vec<i64>> = FxHashMap::default();
    let (mut entry_name, mut entry_id) = (String::new(), None);
    fields(bytes, notes, |field, value, notes| match field {
        1 => value.text().clone_into(&mut parts.name),
        2 => value.text().clone_into(&mut entry_name),
        3 => computations.push(computation(value.bytes(), notes)),
        6 => entry_id = Some(value.int()),
        7 => {
            parts.is_scheduled = true;
            read_schedule(value.bytes(), &mut schedule);
        }
        8 => parts.parameter_aliases = input_output_aliases(value.bytes()),
        17 => parts.frames = stack_frames(value.bytes()),
        _ => {}
    });
    let names: FxHashMap<i64, String> = computations
        .iter()
        .map(|c| (c.id, c.parts.name.clone()))
        .collect();
    for mut raw in computations {
        if let Some(order) = schedule.get(&raw.id) {
            reorder(&mut raw.instructions, order);
        }
        raw.parts.is_entry = if entry_name.is_empty() {
            entry_id == Some(raw.id)
        } else {
            raw.parts.name == entry_name
        };
        resolve(&mut raw, &names, notes);
        raw.parts.instructions = raw
            .instructions
            .into_iter()
            .map(|raw| raw.instruction)
            .collect();
        parts.computations.push(raw.parts);
    }
    Program::assemble(parts)
}

/// Puts instructions into schedule order; those that it leaves out keep their place at the end.
fn reorder(instructions: &mut [Raw], order: &[i64]) {
    let position: FxHashMap<i64, usize> = order
        .iter()
        .enumerate()
        .map(|(position, &id)| (id, position))
        .collect();
    instructions.sort_by_key(|raw| {
        raw.instruction
            .id
            .and_then(|id| position.get(&id))
            .copied()
            .unwrap_or(usize::MAX)
    });
}

fn resolve(computation: &mut RawComputation, names: &FxHashMap<i64, String>, notes: &mut Notes) {
    let local: FxHashMap<i64, String> = computation
        .instructions
        .iter()
        .filter_map(|raw| Some((raw.instruction.id?, raw.instruction.name.clone())))
        .collect();
    for Raw {
        instruction,
        operands,
        control,
        called,
    } in &mut computation.instructions
    {
        let mut missing = 0;
        let mut name = |id: &i64| {
            local.get(id).cloned().unwrap_or_else(|| {
                missing += 1;
                id.to_string()
            })
        };
        instruction.operands = operands
            .iter()
            .map(|id| Operand {
                name: name(id),
                shape: None,
                op: None,
            })
            .collect();
        instruction.control_predecessors = control.iter().map(&mut name).collect();
        if missing > 0 {
            notes.warn(
                "hlo-missing-operand",
                "HLO instructions read others that the proto does not hold",
            );
        }
        instruction.is_root = instruction.id == Some(computation.root);
        let opcode = instruction.opcode.clone();
        let called = called.iter().enumerate().filter_map(|(i, id)| {
            Some(Call {
                role: role(opcode.as_str(), i),
                computation: names.get(id)?.clone(),
            })
        });
        instruction.called = called.collect();
    }
}

/// What the computation at a position of `called_computation_ids` is for.
fn role(opcode: &str, position: usize) -> CallRole {
    match (opcode, position) {
        ("while", 0) => CallRole::Body,
        ("while", _) => CallRole::Condition,
        ("conditional", _) => CallRole::Branch,
        ("fusion" | "async-start" | "async-update" | "async-done" | "custom-call", _) => {
            CallRole::Calls
        }
        _ => CallRole::Applies,
    }
}

fn computation(bytes: &[u8], notes: &mut Notes) -> RawComputation {
    let mut raw = RawComputation::default();
    fields(bytes, notes, |field, value, notes| match field {
        1 => value.text().clone_into(&mut raw.parts.name),
        2 => raw.instructions.push(instruction(value.bytes(), notes)),
        5 => raw.id = value.int(),
        6 => raw.root = value.int(),
        8 => {
            // `main` is what everything runs on unless said otherwise.
            let thread = value.text();
            if thread != "main" {
                thread.clone_into(&mut raw.parts.execution_thread);
            }
        }
        _ => {}
    });
    raw
}

/// Entries have the fields of an [`output_alias`] and a kind.
fn input_output_aliases(bytes: &[u8]) -> Vec<OutputAlias> {
    let entries = Message::new(bytes).filter(|&(field, _)| field == 1);
    entries
        .map(|(_, entry)| output_alias(entry.bytes()))
        .collect()
}

/// `map<int64, InstructionSequence>`: the order of each computation.
fn read_schedule(bytes: &[u8], schedule: &mut FxHashMap<i64, Vec<i64>>) {
    for (field, entry) in Message::new(bytes) {
        if field != 1 {
            continue;
        }
        let (mut id, mut order) = (0, Vec::new());
        for (field, value) in Message::new(entry.bytes()) {
            match field {
                1 => id = value.int(),
                2 => {
                    for (field, value) in Message::new(value.bytes()) {
                        if field == 1 {
                            each_int(value, &mut order);
                        }
                    }
                }
                _ => {}
            }
        }
        schedule.insert(id, order);
    }
}

fn stack_frames(bytes: &[u8]) -> StackFrames {
    let mut frames = StackFrames::default();
    let numbers = |value: Value<'_>| {
        let mut numbers = [0u32; 4];
        for (field, value) in Message::new(value.bytes()) {
            if let Some(number) = numbers.get_mut(field as usize) {
                *number = u32::try_from(value.uint()).unwrap_or(0);
            }
        }
        numbers
    };
    for (field, value) in Message::new(bytes) {
        match field {
            1 => frames.files.push(value.text().to_owned()),
            2 => frames.functions.push(value.text().to_owned()),
            3 => {
                let [_, file, function, line] = numbers(value);
                frames.locations.push(FileLocation {
                    file,
                    function,
                    line,
                });
            }
            4 => {
                let [_, location, parent, _] = numbers(value);
                frames.frames.push(StackFrame { location, parent });
            }
            _ => {}
        }
    }
    frames
}

#[cfg(test)]
#[path = "hlo_proto_tests.rs"]
mod tests;
