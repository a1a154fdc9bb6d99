//! How often each operation is expected to run in one run of a program.

use crate::program::instruction::CallRole;
use crate::program::opcode::AsyncPart;
use crate::program::{ComputationId, OpId, Program};

/// Expected executions of the computations of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// By the position of the computation; fractions where a branch may or may not be taken.
    counts: Vec<f64>,
    /// Loops whose trip count is not known: they count once.
    pub unknown_trips: usize,
    /// Conditionals with several branches: each counts for its equal share.
    pub branches: usize,
}

impl Runs {
    /// Walks the calls of a program from its entry. Callees stand before their callers, so one
    /// pass over the computations from the last to the first is enough.
    #[must_use]
    pub fn of(program: &Program) -> Self {
        let mut runs = Self {
            counts: vec![0.0; program.computations.len()],
            ..Self::default()
        };
        let Some(entry) = program.entry else {
            return runs;
        };
        if let Some(count) = runs.counts.get_mut(entry.0 as usize) {
            *count = 1.0;
        }
        for caller in (0..program.computations.len()).rev() {
            let count = runs.counts.get(caller).copied().unwrap_or(0.0);
            let Some(computation) = program.computations.get(caller).filter(|_| count > 0.0) else {
                continue;
            };
            for op in computation.ops() {
                runs.add_calls(program, op, caller, count);
            }
        }
        runs
    }

    fn add_calls(&mut self, program: &Program, op: OpId, caller: usize, count: f64) {
        let Some(instruction) = program.get(op).filter(|i| !i.called.is_empty()) else {
            return;
        };
        let opcode = instruction.opcode.as_str();
        let branches = instruction.called.iter();
        let branches = branches
            .filter(|call| call.role == CallRole::Branch)
            .count();
        let trips = (opcode == "while").then(|| program.trip_count(op));
        self.unknown_trips += usize::from(trips == Some(None));
        self.branches += usize::from(branches > 1);
        for (role, callee) in program.called(op) {
            let factor = match role {
                CallRole::Body => trips.flatten().unwrap_or(1) as f64,
                CallRole::Condition => trips.flatten().unwrap_or(1) as f64 + 1.0,
                CallRole::Branch => 1.0 / branches.max(1) as f64,
                // What an asynchronous op starts may call further: work that runs elsewhere does.
                CallRole::Calls | CallRole::Applies => match instruction.opcode.async_part() {
                    Some((AsyncPart::Start, "async" | "call")) => 1.0,
                    None if opcode == "call" => 1.0,
                    _ => continue,
                },
            };
            if let Some(sum) = self.counts.get_mut(callee.0 as usize)
                && (callee.0 as usize) < caller
            {
                *sum += count * factor;
            }
        }
    }

    /// How often a computation runs.
    #[must_use]
    pub fn count(&self, computation: ComputationId) -> f64 {
        let index = computation.0 as usize;
        self.counts.get(index).copied().unwrap_or(0.0)
    }
}
