//! Operations in groups, before and after.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::diff::{Change, Row, largest_first};
use crate::evidence::source::scope;
use crate::evidence::{Evidence, OpProfile};

/// Self time of operations by what they have in common; each list adds up to all operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Groups {
    /// By XProf's category.
    pub categories: Vec<Row>,
    /// By our class.
    pub classes: Vec<Row>,
    /// By framework scope.
    pub scopes: Vec<Row>,
    /// By source line, or that of the nearest operation that has one.
    pub sources: Vec<Row>,
}

impl Groups {
    /// Groups the operations of two runs.
    #[must_use]
    pub fn of(before: &Evidence<'_>, after: &Evidence<'_>) -> Self {
        let by = |key: fn(&Evidence<'_>, &OpProfile) -> String| -> Vec<Row> {
            let mut sums: BTreeMap<String, [f64; 2]> = BTreeMap::new();
            for (side, evidence) in [before, after].into_iter().enumerate() {
                for op in &evidence.ops {
                    let name = key(evidence, op);
                    let name = if name.is_empty() {
                        "(unknown)".to_owned()
                    } else {
                        name
                    };
                    sums.entry(name).or_default()[side] += op.step_self_ms();
                }
            }
            let mut rows: Vec<Row> = sums
                .into_iter()
                .map(|(name, [before, after])| Row {
                    name,
                    time: Change::new(before, after),
                })
                .collect();
            rows.sort_by(|a, b| largest_first(&a.time, &b.time).then_with(|| a.name.cmp(&b.name)));
            rows
        };
        Self {
            categories: by(|evidence, op| evidence.session.op(op.id).category.clone()),
            classes: by(|_, op| op.class.name().to_owned()),
            scopes: by(|evidence, op| scope(&evidence.session.op(op.id).framework_op)),
            sources: by(|evidence, op| evidence.source_near(op).unwrap_or_default().to_owned()),
        }
    }
}
