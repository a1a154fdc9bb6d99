//! A value of the IR has a size that depends on data.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;
use profiler::logs::xla_metrics::dynamic::DynamicShape;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;
use crate::rules::logs::words::MAX_PLACES;

/// See the card.
#[derive(Debug)]
pub struct DynamicShapeIr;

impl Rule for DynamicShapeIr {
    fn code(&self) -> &'static str {
        "TL124"
    }

    fn name(&self) -> &'static str {
        "xla-dynamic-shape"
    }

    fn card(&self) -> &'static str {
        include_str!("dynamic_shape_ir.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let values = &logs.xla_metrics.dynamic_shapes;
        let mut ops: BTreeMap<&str, Vec<&DynamicShape>> = BTreeMap::new();
        // What makes the size, not what goes on with it.
        for value in values {
            ops.entry(&value.op).or_default().push(value);
        }
        let makers = [
            "nonzero",
            "masked_select",
            "unique",
            "where",
            "repeat_interleave",
        ];
        let first = values
            .iter()
            .find(|value| makers.iter().any(|maker| value.op.contains(maker)));
        let Some(first) = first.or(values.first()) else {
            return Vec::new();
        };
        let title = format!(
            "{} gives {}: how many rows there are depends on data, and each number of rows is another graph to compile",
            first.op, first.shape
        );
        let mut remark = Remark::new(AdviceKind::Recompilation, Severity::Medium, title);
        remark.places = (std::iter::once(first)
            .chain(values.iter().filter(|value| *value != first)))
        .take(MAX_PLACES)
        .map(|value| {
            place(
                logs,
                value.at,
                &value.text,
                format!("{} of {}", value.shape, value.op),
            )
        })
        .collect();
        for (op, values) in ops {
            let shapes: Vec<&str> = values
                .iter()
                .take(4)
                .map(|value| value.shape.as_str())
                .collect();
            remark.evidence.push(Exhibit::text(
                op,
                format!("{} values: {}", values.len(), shapes.join(", ")),
                "bounds (<=) in the IR",
            ));
        }
        remark.advice = [
            "keep the full size and mask instead: torch.where(mask, x, 0), x * mask, or the three-argument torch.where",
            "pad the result to a fixed number of rows; torch.topk of the mask with a fixed k gives the first indices",
            "or do this part on the host, in the data loader",
        ]
        .map(str::to_owned)
        .to_vec();
        remark.caveats = vec!["without XLA_EXPERIMENTAL=nonzero the op falls back to the CPU instead, which costs a transfer in each step".to_owned()];
        vec![remark]
    }
}
