//! What is asked of a compiler and a cost model: what does this candidate take?

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chip::ChipFacts;
use crate::compiler::ici::Transfer;
use crate::compiler::predicted_session::{Settings, predict};
use crate::compiler::pricer::{OpKind, Prices};
use crate::compiler::sharding::candidate::Candidate;
use crate::compiler::sharding::mesh::Mesh;
use crate::compiler::sharding::spec::Sharding;
use crate::program::shape::MemorySpace;
use crate::program::{Computation, ComputationId, Program};
use crate::session::{Session, SessionProgram};
use crate::units::{Bytes, Picos};

/// What a compiled candidate takes on each device, predicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The whole run.
    pub time: Picos,
    /// The part in which the core waits for collectives or runs them.
    pub collective_time: Picos,
    /// Bytes that a device sends, by the mesh axes that they go along: `fsdp`, `fsdp+tensor`.
    pub collective_bytes: BTreeMap<String, Bytes>,
    /// FLOPs of the products.
    pub product_flops: u64,
    /// The most HBM in use at one time.
    pub peak_memory: Bytes,
}

impl Outcome {
    /// The part without collectives.
    #[must_use]
    pub fn compute_time(&self) -> Picos {
        self.time.saturating_sub(self.collective_time)
    }

    /// Bytes that a device sends, all axes together.
    #[must_use]
    pub fn all_collective_bytes(&self) -> Bytes {
        let bytes = self.collective_bytes.values();
        Bytes(bytes.fold(0, |sum, b| sum.saturating_add(b.0)))
    }
}

/// What came of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It compiled, and this is what it takes.
    Priced(Outcome),
    /// It does not fit in HBM.
    OutOfMemory {
        /// What it needs, where the compiler says.
        needed: Option<Bytes>,
    },
    /// The compiler refused it.
    Refused {
        /// The compiler's message.
        message: String,
    },
}

/// Compiles candidates and prices them. One that does not compile is a [`Verdict`]; an error ends
/// the search, which can be taken up again.
pub trait Evaluate {
    /// What ends a search.
    type Error;

    /// What a candidate takes.
    ///
    /// # Errors
    /// When nothing more can be evaluated.
    fn evaluate(
        &mut self,
        candidate: &Candidate,
        sharding: &Sharding,
    ) -> Result<Verdict, Self::Error>;
}

/// Prices a compiled candidate: its schedule, played by a cost model. `peak_memory` is the
/// compiler's figure, where there is one; else it is estimated from the schedule.
#[must_use]
pub fn price(
    program: Program,
    mesh: &Mesh,
    facts: &ChipFacts,
    prices: &dyn Prices,
    peak_memory: Option<Bytes>,
) -> Outcome {
    let mut outcome = Outcome {
        collective_bytes: collective_bytes(&program, mesh),
        ..Outcome::default()
    };
    let estimated = program
        .memory_estimate(MemorySpace::Hbm)
        .map(|estimate| estimate.peak());
    outcome.peak_memory = peak_memory.or(estimated).unwrap_or_default();
    let run = crate::program::cost::CostModel::new(&program).run();
    outcome.product_flops = run.matmul_flops.clamp(0.0, 1e18) as u64;
    let mut session = Session {
        programs: vec![SessionProgram {
            module: None,
            program,
        }],
        ..Session::default()
    };
    predict(&mut session, facts, prices, &Settings::default());
    let prediction = session.prediction.unwrap_or_default();
    outcome.time = Picos(prediction.step().map_or(0, |band| band.time_ps));
    let collectives = prediction
        .ops
        .iter()
        .filter(|op| op.kind == OpKind::Collective)
        .fold(0u64, |sum, op| sum.saturating_add(op.run.time_ps));
    outcome.collective_time = Picos(collectives.min(outcome.time.0));
    outcome
}

/// Bytes that a device sends in one run, by the mesh axes that they go along.
fn collective_bytes(program: &Program, mesh: &Mesh) -> BTreeMap<String, Bytes> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for (id, executions) in (0u32..).map(ComputationId).zip(program.executions()) {
        if !program.has_own_ops(id) {
            continue;
        }
        let ops = program
            .computation(id)
            .into_iter()
            .flat_map(Computation::ops);
        for transfer in ops.filter_map(|op| Transfer::of(program, op)) {
            let axes = if transfer.pairs.is_empty() {
                mesh.axes_of_group(&transfer.group)
            } else {
                axes_of_pairs(mesh, &transfer.pairs)
            };
            let names = axes.iter().filter_map(|axis| mesh.axes.get(*axis));
            let names: Vec<&str> = names.map(|axis| axis.name.as_str()).collect();
            *sums.entry(names.join("+")).or_default() +=
                transfer.wire_bytes() * executions.count as f64;
        }
    }
    let whole = |(name, bytes): (String, f64)| (name, Bytes(bytes.clamp(0.0, 1e18) as u64));
    sums.into_iter()
        .filter(|(_, bytes)| *bytes > 0.0)
        .map(whole)
        .collect()
}

/// The axes along which any pair lies.
fn axes_of_pairs(mesh: &Mesh, pairs: &[(i64, i64)]) -> Vec<usize> {
    let mut axes: Vec<usize> = pairs
        .iter()
        .flat_map(|(from, to)| mesh.axes_of_group(&[*from, *to]))
        .collect();
    axes.sort_unstable();
    axes.dedup();
    axes
}
