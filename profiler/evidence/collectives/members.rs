//! Which ops make up one collective.

use rustc_hash::FxHashMap;

use super::Form;
use crate::evidence::class::{CollectiveKind, OpClass};
use crate::evidence::{Evidence, OpProfile};
use crate::program::instruction::CallRole;
use crate::program::opcode::AsyncPart;
use crate::session::OpId;

/// The ops of one collective.
pub(super) struct Member {
    pub(super) kind: CollectiveKind,
    pub(super) form: Form,
    pub(super) ops: Vec<OpId>,
}

/// Which part of a collective an op is.
fn part(op: &OpProfile, name: &str) -> Option<AsyncPart> {
    let opcode = op.instruction.as_ref().map(|i| &i.opcode);
    if let Some((part, _)) = opcode.and_then(|opcode| opcode.async_part()) {
        return Some(part);
    }
    // Fusions start and end a collective too: async-collective-start, async-collective-done.
    let bare = name.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit());
    if bare.ends_with("-start") {
        Some(AsyncPart::Start)
    } else if bare.ends_with("-done") {
        Some(AsyncPart::Done)
    } else {
        None
    }
}

/// Whether a fusion computes while a collective is under way.
fn is_carried(op: &OpProfile, category: &str) -> bool {
    let calls = op
        .instruction
        .as_ref()
        .and_then(|i| i.calls(CallRole::Calls));
    category == "async-collective fusion"
        || category == "convolution fusion"
        || calls.is_some_and(|name| name.starts_with("async_collective_fusion"))
}

/// All collectives that ran, each with its ops: starts joined to their updates and dones.
pub(super) fn members(evidence: &Evidence<'_>) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    // The start that an op leads back to, by op.
    let mut starts: FxHashMap<OpId, usize> = FxHashMap::default();
    let mut ends: Vec<(&OpProfile, CollectiveKind)> = Vec::new();
    for op in &evidence.ops {
        let OpClass::Collective(kind) = op.class else {
            continue;
        };
        let session_op = evidence.session.op(op.id);
        let form = match part(op, &session_op.name) {
            Some(AsyncPart::Update | AsyncPart::Done) => {
                ends.push((op, kind));
                continue;
            }
            Some(AsyncPart::Start) => {
                starts.insert(op.id, members.len());
                Form::Async
            }
            None if is_carried(op, &session_op.category) => Form::Carried,
            None => Form::Blocking,
        };
        members.push(Member {
            kind,
            form,
            ops: vec![op.id],
        });
    }
    // Ends in program order, so that a done comes last; a done may follow an update.
    ends.sort_by_key(|(op, _)| {
        let done = matches!(
            part(op, &evidence.session.op(op.id).name),
            Some(AsyncPart::Done)
        );
        (done, op.id)
    });
    for (op, kind) in ends {
        match start_of(evidence, op, &starts) {
            Some(at) => {
                starts.insert(op.id, at);
                if let Some(member) = members.get_mut(at) {
                    member.ops.push(op.id);
                }
            }
            None => members.push(Member {
                kind,
                form: Form::Async,
                ops: vec![op.id],
            }),
        }
    }
    members
}

fn start_of(
    evidence: &Evidence<'_>,
    end: &OpProfile,
    starts: &FxHashMap<OpId, usize>,
) -> Option<usize> {
    /// Updates between a start and its done.
    const MAX_UPDATES: usize = 64;
    let mut op = end;
    for _ in 0..MAX_UPDATES {
        if let Some(at) = evidence
            .producers_of(op)
            .find_map(|producer| starts.get(&producer.id))
        {
            return Some(*at);
        }
        op = evidence
            .producers_of(op)
            .find(|producer| matches!(producer.class, OpClass::Collective(_)))?;
    }
    None
}
