//! Programs that are one function compiled for several shapes: the buckets of a server.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::evidence::class::OpClass;
use crate::evidence::ops::OpProfile;
use crate::evidence::{ModuleRuns, Spread};
use crate::session::{ModuleId, Session};
use crate::units::Picos;

/// What a program of a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Works through prompts, many tokens of a sequence at once.
    Prefill,
    /// Makes one token for each sequence.
    Decode,
}

impl Phase {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

/// One shape bucket.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShapeBucket {
    /// The program.
    pub module: ModuleId,
    /// Rows of the matmuls that take most of its matmul time: tokens. `None` where it has none.
    pub tokens: Option<u64>,
    /// What it does, where name or shapes tell.
    pub phase: Option<Phase>,
    /// Its runs over all cores.
    pub time: Spread,
    /// Sum over all cores.
    pub total_ps: Picos,
}

/// A function and the programs it was compiled to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Family {
    /// The function's module name, as `jit_step_fun`.
    pub name: String,
    /// Its programs, fewest tokens first.
    pub buckets: Vec<ShapeBucket>,
    /// Sum over all cores and programs.
    pub total_ps: Picos,
}

/// Matmuls of at most this many rows read their weights for the sake of few tokens.
const DECODE_TOKENS: u64 = 256;
/// From so many rows on it can hardly be one token for each sequence.
const PREFILL_TOKENS: u64 = 1024;

/// Functions that ran as more than one program, or whose name says prefill or decode; longest
/// total first. `modules` are the runs of each program, `ops` what ran in them.
#[must_use]
pub fn families(session: &Session, modules: &[ModuleRuns], ops: &[OpProfile]) -> Vec<Family> {
    let mut tokens = tokens_of_modules(ops);
    let mut by_name: BTreeMap<&str, Vec<ShapeBucket>> = BTreeMap::new();
    for runs in modules {
        let Some(module) = session.modules.get(runs.module as usize) else {
            continue;
        };
        by_name.entry(&module.name).or_default().push(ShapeBucket {
            module: runs.module,
            tokens: tokens.remove(&runs.module),
            phase: phase_of_name(&module.name),
            time: runs.time,
            total_ps: runs.total_ps,
        });
    }
    let mut families: Vec<Family> = by_name
        .into_iter()
        .filter(|(name, buckets)| buckets.len() > 1 || phase_of_name(name).is_some())
        .map(|(name, mut buckets)| {
            // Small shapes alone mean nothing: a training step may have few rows as well.
            if buckets.len() > 1 {
                for bucket in &mut buckets {
                    bucket.phase = bucket.phase.or(bucket.tokens.and_then(phase_of_tokens));
                }
            }
            buckets.sort_by_key(|bucket| (bucket.tokens, bucket.module));
            Family {
                name: name.to_owned(),
                total_ps: buckets.iter().map(|bucket| bucket.total_ps).sum(),
                buckets,
            }
        })
        .collect();
    families.sort_by(|a, b| {
        b.total_ps
            .cmp(&a.total_ps)
            .then_with(|| a.name.cmp(&b.name))
    });
    families
}

/// For each program the row count under which most of its matmul time passes.
fn tokens_of_modules(ops: &[OpProfile]) -> BTreeMap<ModuleId, u64> {
    let mut times: BTreeMap<ModuleId, BTreeMap<u64, u64>> = BTreeMap::new();
    for op in ops.iter().filter(|op| op.class == OpClass::Matmul) {
        let largest = op
            .model
            .matmuls
            .iter()
            .max_by(|a, b| a.flops.total_cmp(&b.flops));
        if let (Some(module), Some(matmul)) = (op.module, largest) {
            let time = times
                .entry(module)
                .or_default()
                .entry(matmul.m)
                .or_default();
            *time = time.saturating_add(op.self_ps.0);
        }
    }
    times
        .into_iter()
        .filter_map(|(module, rows)| {
            let most = rows.into_iter().max_by_key(|(rows, time)| (*time, *rows))?;
            Some((module, most.0))
        })
        .collect()
}

fn phase_of_name(name: &str) -> Option<Phase> {
    let name = name.to_ascii_lowercase();
    match (name.contains("prefill"), name.contains("decode")) {
        (true, false) => Some(Phase::Prefill),
        // A decoder is a kind of model, not a phase.
        (false, true) if !name.contains("decoder") => Some(Phase::Decode),
        _ => None,
    }
}

fn phase_of_tokens(tokens: u64) -> Option<Phase> {
    match tokens {
        0..=DECODE_TOKENS => Some(Phase::Decode),
        PREFILL_TOKENS.. => Some(Phase::Prefill),
        _ => None,
    }
}
