//! Buffer assignments as `xla.BufferAssignmentProto` holds them.

use crate::note::Notes;
use crate::program::Program;
use crate::program::buffers::{
    Allocation, BufferAssignment, BufferClass, HeapEvent, HeapEventKind, LogicalBuffer,
};
use crate::program::shape::MemorySpace;
use crate::units::Bytes;
use crate::wire::{Message, Value, each_uint};

impl BufferAssignment {
    /// Reads an `xla.BufferAssignmentProto`.
    pub(super) fn read(bytes: &[u8], program: &Program, notes: &mut Notes) -> Self {
        let mut assignment = Self::default();
        let mut message = Message::new(bytes);
        for (field, value) in message.by_ref() {
            match field {
                1 => assignment
                    .logical
                    .push(logical_buffer(value.bytes(), program)),
                3 => assignment.allocations.push(allocation(value.bytes())),
                4 => assignment.traces.push(heap_trace(value.bytes(), program)),
                _ => {}
            }
        }
        if message.error().is_some() {
            notes.warn(
                "buffers-cut-off",
                "the buffer assignment of an HLO proto is damaged or cut off: memory figures may be too low",
            );
        }
        assignment
    }
}

fn bytes_of(value: Value<'_>) -> Bytes {
    // Sizes are int64; a negative one is damage.
    Bytes(u64::try_from(value.int()).unwrap_or(0))
}

fn logical_buffer(bytes: &[u8], program: &Program) -> LogicalBuffer {
    let mut buffer = LogicalBuffer {
        id: 0,
        size: Bytes(0),
        op: None,
        index: Vec::new(),
        space: MemorySpace::Hbm,
    };
    for (field, value) in Message::new(bytes) {
        match field {
            1 => buffer.id = value.int(),
            2 => buffer.size = bytes_of(value),
            3 => {
                for (field, value) in Message::new(value.bytes()) {
                    match field {
                        2 => buffer.op = buffer.op.or_else(|| program.find(value.text())),
                        3 => each_uint(value, |v| buffer.index.push(v.cast_signed())),
                        4 => buffer.op = program.find_id(value.int()).or(buffer.op),
                        _ => {}
                    }
                }
            }
            4 => buffer.space = MemorySpace::from_number(value.uint()),
            _ => {}
        }
    }
    buffer
}

fn allocation(bytes: &[u8]) -> Allocation {
    let mut allocation = Allocation {
        index: 0,
        size: Bytes(0),
        class: BufferClass::Temporary,
        parameter: None,
        space: MemorySpace::Hbm,
        buffers: Vec::new(),
    };
    let [mut local, mut parameter, mut live_out, mut constant] = [false; 4];
    let mut number = 0;
    for (field, value) in Message::new(bytes) {
        match field {
            1 => allocation.index = value.int(),
            2 => allocation.size = bytes_of(value),
            3 => local = value.uint() != 0,
            5 => parameter = value.uint() != 0,
            6 => number = value.uint(),
            7 => live_out = value.uint() != 0,
            8 => allocation.space = MemorySpace::from_number(value.uint()),
            9 => {
                let id = Message::new(value.bytes()).find(|&(field, _)| field == 1);
                allocation.buffers.push(id.map_or(0, |(_, id)| id.int()));
            }
            12 => constant = value.uint() != 0,
            _ => {}
        }
    }
    allocation.parameter = parameter.then_some(number);
    allocation.class = match () {
        () if parameter => BufferClass::Parameter,
        () if live_out => BufferClass::Output,
        () if local => BufferClass::ThreadLocal,
        () if constant => BufferClass::Constant,
        () => BufferClass::Temporary,
    };
    allocation
}

fn heap_trace(bytes: &[u8], program: &Program) -> Vec<HeapEvent> {
    let events = Message::new(bytes).filter(|&(field, _)| field == 1);
    events
        .map(|(_, event)| heap_event(event.bytes(), program))
        .collect()
}

fn heap_event(bytes: &[u8], program: &Program) -> HeapEvent {
    let (mut kind, mut buffer, mut op, mut other) = (0, 0, None, 0);
    for (field, value) in Message::new(bytes) {
        match field {
            1 => kind = value.uint(),
            2 => buffer = value.int(),
            4 => op = program.find(value.text()),
            5 => other = value.int(),
            _ => {}
        }
    }
    let kind = match kind {
        0 => HeapEventKind::Alloc,
        1 => HeapEventKind::Free,
        _ => HeapEventKind::ShareWith(other),
    };
    HeapEvent { kind, buffer, op }
}
