//! A program's fingerprint: what it computes and how it is laid out, whatever things are called.

use std::fmt::{self, Write as _};

use rustc_hash::FxHashMap;

use crate::program::instruction::{CallRole, Instruction, Operand};
use crate::program::shape::Shape;
use crate::program::{ComputationId, OpId, Program};

/// FNV-1a, 64 bits: the same on every machine and in every version.
struct Fnv(u64);

impl fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

/// Calls within calls that are followed.
const MAX_DEPTH: usize = 64;

impl Program {
    /// A hash of what the entry computation does and in which order: opcodes, types with layouts,
    /// operands, constants and the attributes that decide what is computed. No names, source
    /// lines or backend notes, and not where the file puts which computation. The same module
    /// has the same fingerprint as text and as proto, unless it calls something asynchronously:
    /// text abbreviates that.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hashes = Hashes {
            program: self,
            computations: FxHashMap::default(),
        };
        self.entry.map_or(0, |entry| hashes.computation(entry, 0))
    }
}

/// What was hashed so far.
struct Hashes<'a> {
    program: &'a Program,
    computations: FxHashMap<ComputationId, u64>,
}

impl Hashes<'_> {
    fn computation(&mut self, id: ComputationId, depth: usize) -> u64 {
        if let Some(&known) = self.computations.get(&id) {
            return known;
        }
        let Some(computation) = self.program.computation(id).filter(|_| depth < MAX_DEPTH) else {
            return 0;
        };
        // Stands in while it is computed, so that a computation that calls itself ends.
        self.computations.insert(id, 0);
        let mut ops: FxHashMap<OpId, u64> = FxHashMap::default();
        let mut sequence = Fnv::new();
        for op in computation.ops() {
            let hash = self.op(op, &ops, depth);
            ops.insert(op, hash);
            let _ = write!(sequence, "{hash:x};");
        }
        // Within a fusion or the function of a reduce there is no order but that of the data.
        let is_ordered = computation
            .callers
            .iter()
            .all(|&(caller, role)| match role {
                CallRole::Applies => false,
                CallRole::Calls => self
                    .program
                    .get(caller)
                    .is_some_and(|op| op.opcode != "fusion"),
                CallRole::Body | CallRole::Condition | CallRole::Branch => true,
            });
        let root = computation
            .root
            .and_then(|root| ops.get(&root))
            .copied()
            .unwrap_or(0);
        let hash = if is_ordered { sequence.0 } else { root };
        self.computations.insert(id, hash);
        hash
    }

    fn op(&mut self, op: OpId, before: &FxHashMap<OpId, u64>, depth: usize) -> u64 {
        let mut hash = Fnv::new();
        if let Some(instruction) = self.program.get(op) {
            let made = |operand: &Operand| operand.op.and_then(|op| before.get(&op).copied());
            let operands: Vec<_> = instruction.operands.iter().map(made).collect();
            let mut called: Vec<_> = self.program.called(op).collect();
            // Text names a loop's condition first, a proto its body.
            called.sort_by_key(|&(role, _)| role);
            let called: Vec<_> = called
                .into_iter()
                .map(|(role, callee)| (role, self.computation(callee, depth + 1)))
                .collect();
            // Writing into a hash cannot fail.
            let _ = write!(hash, "{operands:x?}{called:x?}");
            let _ = write_work(&mut hash, instruction);
        }
        hash.0
    }
}

fn write_work(hash: &mut Fnv, instruction: &Instruction) -> fmt::Result {
    let a = &instruction.attributes;
    let numbers = [a.parameter_number, a.tuple_index].map(|number| number.unwrap_or(0));
    // Protos write a group count of 1 out, text does not.
    let groups = [a.feature_group_count, a.batch_group_count].map(|count| count.max(1));
    write!(hash, "{} {}", instruction.opcode, instruction.shape)?;
    let literal = literal(&a.literal, &instruction.shape);
    write!(
        hash,
        "{:?}{numbers:?}{groups:?}{literal} {}",
        a.fusion_kind, a.direction
    )?;
    write!(hash, "{:?}{:?}{:?}", a.dot, a.convolution, a.window)?;
    write!(
        hash,
        "{:?}{:?}{:?}{:?}",
        a.dimensions, a.slice, a.padding, a.slice_sizes
    )?;
    write!(
        hash,
        "{:?}{:?}{}",
        a.replica_groups, a.source_target_pairs, a.custom_call_target
    )
}

/// A constant in one spelling: text rounds short floats to four digits, protos give their bits.
fn literal(text: &str, shape: &Shape) -> String {
    let dtype = shape
        .as_array()
        .map(|array| array.dtype)
        .filter(|dtype| dtype.is_float());
    match (dtype, text.parse::<f32>()) {
        // Rounded to the bits that a bfloat16 has.
        (Some(dtype), Ok(value)) if dtype.bits() <= 16 => {
            format!("{:x}", value.to_bits().wrapping_add(0x8000) >> 16)
        }
        (Some(_), Ok(value)) => format!("{:x}", value.to_bits()),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::program::hlo_text::parse_module;

    fn fingerprint(name: &str, op: &str, shape: &str) -> u64 {
        let text = format!(
            "HloModule {name}\nENTRY %{name} (a: f32[8]) -> f32[8] {{\n  %a = f32[8]{{0}} parameter(0)\n  ROOT %{name}.1 = {shape} {op}(%a), metadata={{op_name=\"{name}\"}}\n}}\n"
        );
        parse_module(&text).0.fingerprint()
    }

    #[test]
    fn names_do_not_matter_and_work_does() {
        let one = fingerprint("one", "negate", "f32[8]{0}");
        assert_eq!(one, fingerprint("two", "negate", "f32[8]{0}"));
        assert_ne!(one, fingerprint("one", "cosine", "f32[8]{0}"));
        assert_ne!(one, fingerprint("one", "negate", "f32[8]{0:S(1)}"));
    }

    #[test]
    fn it_is_the_same_in_every_version() {
        // Stored results are found by it.
        let stored = 14_628_499_480_735_629_646;
        assert_eq!(fingerprint("one", "negate", "f32[8]{0}"), stored);
    }
}
