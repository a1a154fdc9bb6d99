//! One instruction as HLO text, as profiles name operations: what XProf shows of an operation.

use std::fmt::Write as _;

use rustc_hash::FxHashMap;

use crate::program::instruction::{CallRole, FusionKind, Instruction};
use crate::program::{OpId, Program};
use crate::session::{self, ModuleId, Op, Session};

/// The longest line: tuples of thousands of arrays are cut in the middle of nothing that counts.
const MAX_BYTES: usize = 64 << 10;

/// The texts of a session's operations: their own, else those of the session's programs.
pub(super) struct HloLines<'s> {
    session: &'s Session,
    programs: FxHashMap<ModuleId, &'s Program>,
}

impl<'s> HloLines<'s> {
    pub(super) fn of(session: &'s Session) -> Self {
        let programs = session
            .programs
            .iter()
            .filter_map(|program| Some((program.module?, &program.program)));
        Self {
            session,
            programs: programs.collect(),
        }
    }

    /// The text of an operation; empty where nothing tells.
    pub(super) fn line(&self, id: session::OpId) -> String {
        let Some(op) = self.session.ops.get(id as usize) else {
            return String::new();
        };
        if !op.hlo_text.is_empty() {
            return op.hlo_text.clone();
        }
        let found = |op: &Op| {
            let program = *self.programs.get(&op.module?)?;
            Some(hlo_line(program, program.find(&op.name)?))
        };
        found(op).unwrap_or_default()
    }
}

/// The instruction with its operands' types and what decides its work; metadata and the backend's
/// configuration are left out, as in profiles.
fn hlo_line(program: &Program, op: OpId) -> String {
    let Some(instruction) = program.get(op) else {
        return String::new();
    };
    let mut line = format!(
        "%{} = {} {}(",
        instruction.name, instruction.shape, instruction.opcode
    );
    for (at, operand) in instruction.operands.iter().enumerate() {
        if at > 0 {
            line.push_str(", ");
        }
        if let Some(shape) = program.operand_shape(op, at) {
            let _ = write!(line, "{shape} ");
        }
        let _ = write!(line, "%{}", operand.name);
        if line.len() > MAX_BYTES {
            break;
        }
    }
    line.push(')');
    attributes(&mut line, instruction);
    line
}

fn attributes(line: &mut String, instruction: &Instruction) {
    let found = &instruction.attributes;
    let kind = match found.fusion_kind {
        Some(FusionKind::Loop) => ", kind=kLoop",
        Some(FusionKind::Output) => ", kind=kOutput",
        Some(FusionKind::Input) => ", kind=kInput",
        Some(FusionKind::Custom) => ", kind=kCustom",
        None => "",
    };
    line.push_str(kind);
    if let Some(channel) = found.channel_id {
        let _ = write!(line, ", channel_id={channel}");
    }
    if let Some(groups) = &found.replica_groups {
        let _ = write!(line, ", replica_groups={groups}");
    }
    if !found.source_target_pairs.is_empty() {
        let pairs = found.source_target_pairs.iter();
        let pairs: Vec<String> = pairs.map(|(from, to)| format!("{{{from},{to}}}")).collect();
        let _ = write!(line, ", source_target_pairs={{{}}}", pairs.join(","));
    }
    if !found.dimensions.is_empty() {
        let dimensions: Vec<String> = found.dimensions.iter().map(i64::to_string).collect();
        let _ = write!(line, ", dimensions={{{}}}", dimensions.join(","));
    }
    if !found.custom_call_target.is_empty() {
        let target = found.custom_call_target.replace(['"', '\\', '\n'], "_");
        let _ = write!(line, ", custom_call_target=\"{target}\"");
    }
    for call in &instruction.called {
        let role = match call.role {
            CallRole::Calls => "calls",
            CallRole::Applies => "to_apply",
            CallRole::Body => "body",
            CallRole::Condition => "condition",
            CallRole::Branch => continue,
        };
        let _ = write!(line, ", {role}=%{}", call.computation);
    }
    if !found.execution_thread.is_empty() {
        let thread = found.execution_thread.replace(['"', '\\', '\n'], "_");
        let _ = write!(line, ", async_execution_thread=\"{thread}\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{parse_instruction, parse_module};

    #[test]
    fn a_line_reads_back_as_the_instruction() {
        let text = "HloModule m, is_scheduled=true\n\n\
            %f (p: bf16[8,128]) -> bf16[8,128] {\n  ROOT %p = bf16[8,128]{1,0} parameter(0)\n}\n\n\
            ENTRY %main (a: bf16[8,128]) -> bf16[8,128] {\n  \
            %a = bf16[8,128]{1,0:T(8,128)(2,1)} parameter(0)\n  \
            %r = bf16[8,128]{1,0:T(8,128)(2,1)} all-reduce(%a), channel_id=3, replica_groups=[2,2]<=[4], to_apply=%f\n  \
            ROOT %g = bf16[8,128]{1,0:T(8,128)(2,1)S(1)} fusion(%r), kind=kLoop, calls=%f\n}\n";
        let (program, notes) = parse_module(text);
        assert!(notes.is_empty(), "{notes:?}");
        for name in ["r", "g"] {
            let op = program.find(name).expect(name);
            let line = hlo_line(&program, op);
            let mut wanted = program.get(op).expect(name).clone();
            let read = parse_instruction(&line).expect(&line);
            for (operand, found) in wanted.operands.iter_mut().zip(&read.operands) {
                assert!(found.shape.is_some(), "{line}");
                operand.shape = found.shape.clone();
                operand.op = None;
            }
            wanted.is_root = false;
            assert_eq!(read, wanted, "{line}");
        }
    }
}
