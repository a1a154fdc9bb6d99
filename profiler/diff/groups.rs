//! Operations in groups, before and after.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::diff::{Change, Row, largest_first};
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

/// The framework's op without its last part and without layer numbers, so that equal layers meet:
/// `jit(step)/layers_3/mlp/dot_general:` is of the scope `jit(step)/layers_*/mlp`.
#[must_use]
pub fn scope(framework_op: &str) -> String {
    let trimmed = framework_op.trim_end_matches(':');
    let parts = trimmed.rsplit_once('/').map_or("", |(scope, _)| scope);
    let without_number = |part: &str| {
        let bare = part.trim_end_matches(|c: char| c.is_ascii_digit());
        if bare.len() < part.len() && bare.ends_with(['_', '.']) {
            format!("{bare}*")
        } else {
            part.to_owned()
        }
    };
    let parts: Vec<String> = parts.split('/').map(without_number).collect();
    parts.join("/")
}
