//! What is made of a collective's result, and what runs that does not depend on it.

use rustc_hash::FxHashSet;

use crate::evidence::{Evidence, OpProfile};
use crate::program::shape::Shape;
use crate::program::{OpId as HloId, Program};

/// How much of a result its readers use.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumption {
    /// Elements that its readers take over elements that there are; at most 1.
    pub share: f64,
    /// Names of the slices that take them.
    pub slices: Vec<String>,
    /// Whether all readers are known: they are where the profile has the HLO. Without it, readers
    /// that are no operations of their own (bitcasts, tuples) stay unseen.
    pub complete: bool,
}

/// A result that this many values stand for is not followed further.
const MAX_ALIASES: usize = 256;

/// How much of an op's result is read; `None` where nothing is known of its readers.
pub(super) fn consumption(evidence: &Evidence<'_>, op: &OpProfile) -> Option<Consumption> {
    match op.hlo {
        Some((program, id)) => {
            let program = &evidence.session.programs.get(program)?.program;
            read_share(program, id)
        }
        None => seen_share(evidence, op),
    }
}

fn elements(shape: &Shape) -> f64 {
    shape.arrays().iter().map(|a| a.elements() as f64).sum()
}

/// Follows the result through values that only name it to the ops that read it.
fn read_share(program: &Program, id: HloId) -> Option<Consumption> {
    let instruction = program.get(id)?;
    instruction.shape.as_array()?;
    let whole = elements(&instruction.shape);
    let mut aliases = vec![id];
    let mut next = 0;
    let mut read = 0.0;
    let mut slices = Vec::new();
    let everything = Consumption {
        share: 1.0,
        slices: Vec::new(),
        complete: true,
    };
    while let Some(&value) = aliases.get(next) {
        next += 1;
        if program.get(value)?.is_root || aliases.len() > MAX_ALIASES {
            return Some(everything);
        }
        for user in program.users(value) {
            let reader = program.get(user)?;
            match reader.opcode.as_str() {
                "bitcast" | "copy" | "convert" | "copy-start" | "copy-done" => {
                    if !aliases.contains(&user) {
                        aliases.push(user);
                    }
                }
                "slice" | "dynamic-slice" => {
                    read += elements(&reader.shape);
                    slices.push(reader.name.clone());
                }
                "fusion" => {
                    let Some(part) = sliced_inside(program, user, value) else {
                        return Some(everything);
                    };
                    read += part;
                    slices.push(reader.name.clone());
                }
                _ => return Some(everything),
            }
        }
    }
    (whole > 0.0 && !slices.is_empty()).then(|| Consumption {
        share: (read / whole).min(1.0),
        slices,
        complete: true,
    })
}

/// Elements that a fusion takes of one operand, if it only slices it.
fn sliced_inside(program: &Program, fusion: HloId, operand: HloId) -> Option<f64> {
    let body = program.body_of(fusion)?;
    let operands: Vec<HloId> = program.operands(fusion).collect();
    let mut taken = 0.0;
    for (position, _) in operands.iter().enumerate().filter(|(_, o)| **o == operand) {
        let parameter = *body.parameters.get(position)?;
        for user in program.users(parameter) {
            let reader = program.get(user)?;
            if !matches!(reader.opcode.as_str(), "slice" | "dynamic-slice") {
                return None;
            }
            taken += elements(&reader.shape);
        }
    }
    Some(taken)
}

/// The same from the operations that ran, where there is no HLO.
fn seen_share(evidence: &Evidence<'_>, op: &OpProfile) -> Option<Consumption> {
    let whole = elements(&op.instruction.as_ref()?.shape);
    let mut read = 0.0;
    let mut slices = Vec::new();
    for user in evidence.users_of(op) {
        let instruction = user.instruction.as_ref()?;
        if !matches!(instruction.opcode.as_str(), "slice" | "dynamic-slice") {
            return None;
        }
        read += elements(&instruction.shape);
        slices.push(instruction.name.clone());
    }
    (whole > 0.0 && !slices.is_empty()).then(|| Consumption {
        share: (read / whole).min(1.0),
        slices,
        complete: false,
    })
}

/// The ops of the same computation that neither lead to `from` nor need the result of `to`: what
/// could run while the collective between them is under way. `None` without the HLO.
pub(super) fn independent(
    evidence: &Evidence<'_>,
    from: &OpProfile,
    to: &OpProfile,
) -> Option<Vec<(usize, HloId)>> {
    let (index, start) = from.hlo?;
    let (_, done) = to.hlo.filter(|(other, _)| *other == index)?;
    let program = &evidence.session.programs.get(index)?.program;
    let computation = program.computation(program.computation_of(start)?)?;
    let mut tied: FxHashSet<HloId> = reached(start, |op| program.operands(op).collect());
    tied.extend(reached(done, |op| program.users(op)));
    Some(
        computation
            .ops()
            .filter(|op| !tied.contains(op))
            .map(|op| (index, op))
            .collect(),
    )
}

fn reached(start: HloId, next: impl Fn(HloId) -> Vec<HloId>) -> FxHashSet<HloId> {
    let mut seen = FxHashSet::default();
    seen.insert(start);
    let mut open = vec![start];
    while let Some(op) = open.pop() {
        open.extend(next(op).into_iter().filter(|op| seen.insert(*op)));
    }
    seen
}
