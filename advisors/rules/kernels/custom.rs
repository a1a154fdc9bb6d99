//! Kernels of a run, equal calls as one.

use std::collections::BTreeMap;

use profiler::evidence::{OpClass, OpProfile};
use profiler::session::{ModuleId, OpId};

use crate::finding::Bucket;
use crate::rule::Context;

/// Calls of one kernel with one shape.
#[derive(Clone, Debug)]
pub(crate) struct Calls<'a> {
    /// The kernel's name, without the number of the call.
    pub(crate) name: String,
    /// The calls, longest self time first.
    pub(crate) ops: Vec<&'a OpProfile>,
}

impl<'a> Calls<'a> {
    /// All Pallas and Mosaic kernels that ran, in order of module and name. Other custom calls are
    /// the compiler's own and have nothing to tune.
    pub(crate) fn all(context: &Context<'a>) -> Vec<Self> {
        type Key = (Option<ModuleId>, String, String);
        let mut calls: BTreeMap<Key, Calls<'a>> = BTreeMap::new();
        for op in &context.evidence.ops {
            if op.class != OpClass::CustomCall || !is_kernel(op) || op.step_self_ps <= 0.0 {
                continue;
            }
            let described = context.op(op);
            // Only a number after a dot is that of the call; a name may end in a block's size.
            let name = described
                .name
                .rsplit_once('.')
                .filter(|(_, number)| number.bytes().all(|b| b.is_ascii_digit()))
                .map_or(described.name.as_str(), |(stem, _)| stem)
                .to_owned();
            let key = (op.module, name.clone(), described.shape.clone());
            let entry = calls.entry(key).or_insert_with(|| Calls {
                name,
                ops: Vec::new(),
            });
            entry.ops.push(op);
        }
        calls.into_values().collect()
    }

    /// The call that takes longest.
    pub(crate) fn first(&self) -> Option<&'a OpProfile> {
        self.ops.first().copied()
    }

    /// Milliseconds a step, mean over cores.
    pub(crate) fn time_ms(&self) -> f64 {
        self.ops.iter().map(|op| op.step_self_ms()).sum()
    }

    /// Calls a step.
    pub(crate) fn count(&self) -> f64 {
        self.ops.iter().map(|op| op.step_occurrences).sum()
    }

    /// Duration of one call, in picoseconds.
    pub(crate) fn mean_ps(&self) -> f64 {
        let count = self.count();
        if count > 0.0 {
            self.time_ms() * 1e9 / count
        } else {
            0.0
        }
    }

    /// The operations' handles.
    pub(crate) fn ids(&self) -> Vec<OpId> {
        self.ops.iter().map(|op| op.id).collect()
    }

    /// Where a saving would come from.
    pub(crate) fn buckets(&self) -> Vec<Bucket> {
        self.ops.iter().map(|op| Bucket::Op(op.id)).collect()
    }
}

fn is_kernel(op: &OpProfile) -> bool {
    op.instruction
        .as_ref()
        .is_some_and(|i| i.attributes.custom_call_target == "tpu_custom_call")
}
