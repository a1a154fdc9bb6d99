//! What the SparseCores do, which the TensorCores' figures leave out.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::evidence::steps::Steps;
use crate::session::{CoreKind, Session};

/// Time of the SparseCores in operations of one category.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SparseTime {
    /// XProf's category, empty where the profile gives none.
    pub category: String,
    /// Self time a step, the mean over SparseCores, in picoseconds.
    pub step_self_ps: f64,
    /// Executions a step, the mean over SparseCores.
    pub step_occurrences: f64,
}

/// Time of the SparseCores by category, longest first, within the steps of the TensorCore that
/// each of them serves. Empty where none ran.
#[must_use]
pub fn sparse_times(session: &Session, steps: &Steps) -> Vec<SparseTime> {
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let mut cores = 0.0;
    for device in &session.devices {
        if device.kind != CoreKind::SparseCore || device.ops.is_empty() {
            continue;
        }
        let serves = |index: usize| {
            session.devices.get(index).is_some_and(|core| {
                core.kind == CoreKind::TensorCore
                    && (core.host, core.ordinal) == (device.host, device.ordinal)
            })
        };
        let Some(core) = steps.cores.iter().find(|core| serves(core.device)) else {
            continue;
        };
        cores += 1.0;
        let count = core.count().max(1) as f64;
        for ((start, _, op), own) in device.ops.iter().zip(&device.op_self_ps) {
            if start < core.window_ps.0 || start >= core.window_ps.1 {
                continue;
            }
            let Some(op) = session.ops.get(op as usize) else {
                continue;
            };
            let sum = sums.entry(op.category.as_str()).or_default();
            sum.0 += *own as f64 / count;
            sum.1 += 1.0 / count;
        }
    }
    let mut times: Vec<SparseTime> = sums
        .into_iter()
        .map(|(category, (self_ps, occurrences))| SparseTime {
            category: category.to_owned(),
            step_self_ps: self_ps / cores,
            step_occurrences: occurrences / cores,
        })
        .collect();
    times.sort_by(|a, b| {
        b.step_self_ps
            .total_cmp(&a.step_self_ps)
            .then_with(|| a.category.cmp(&b.category))
    });
    times
}
