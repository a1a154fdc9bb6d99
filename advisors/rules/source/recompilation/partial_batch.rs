//! The last batch of an epoch is smaller than the others.

use knowledge::advice::AdviceKind;

use crate::finding::{Applicability, Fix, Numerics, Remark, Severity};
use crate::python::ast::{Expr, ExprCall, Number};
use crate::python::{NodeId, Ranged as _, SourceContext, TextRange};
use crate::rule::Rule;
use crate::rules::source::recompilation::{end_of_arguments, passes_more, trains};

/// See the card.
#[derive(Debug)]
pub struct PartialBatch;

impl Rule for PartialBatch {
    fn code(&self) -> &'static str {
        "TS102"
    }

    fn name(&self) -> &'static str {
        "partial-last-batch"
    }

    fn card(&self) -> &'static str {
        include_str!("partial_batch.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if context.runs_once() {
            return Vec::new();
        }
        context
            .calls_of(|name| name == "torch.utils.data.DataLoader")
            .filter_map(|(id, call, _)| remark(context, id, call))
            .collect()
    }
}

fn remark(context: &SourceContext<'_>, id: NodeId, call: &ExprCall) -> Option<Remark> {
    let batch = call.arguments.find_argument_value("batch_size", 1)?;
    let one = batch.is_none_literal_expr()
        || matches!(batch, Expr::NumberLiteral(number)
            if matches!(&number.value, Number::Int(int) if int.as_u64() == Some(1)));
    let batches = call
        .arguments
        .find_argument_value("batch_sampler", 4)
        .is_some();
    let drop_last = call.arguments.find_argument_value("drop_last", 8);
    let kept = match drop_last {
        None => true,
        Some(Expr::BooleanLiteral(drop)) => !drop.value,
        Some(_) => false,
    };
    if one || batches || !kept || passes_more(call) || !trains(context, id, call) {
        return None;
    }
    let size = context.text(batch);
    let mut remark = Remark::new(
        AdviceKind::Recompilation,
        Severity::Medium,
        format!(
            "the last batch of an epoch is smaller than `{size}`: the whole step is compiled once more for it"
        ),
    );
    remark
        .places
        .push(context.place(call.range(), "without drop_last=True"));
    remark
        .advice
        .push("`drop_last=True`: shuffled data lose no example for good".to_owned());
    remark
        .advice
        .push("or pad the last batch to the full size, with a mask in the loss".to_owned());
    remark.caveats.push(
        "an epoch then has up to a batch fewer examples; for evaluation pad instead".to_owned(),
    );
    let edit = match drop_last {
        Some(value) => context.edit(value.range(), "True"),
        None => {
            let (at, comma) = end_of_arguments(context, call)?;
            context.edit(TextRange::empty(at), format!("{comma}drop_last=True"))
        }
    };
    remark.fix = Some(Fix {
        title: "drop the partial batch".to_owned(),
        applicability: Applicability::Unsafe,
        numerics: Numerics::Changes,
        edits: vec![edit],
    });
    Some(remark)
}

#[cfg(test)]
mod tests {
    use super::PartialBatch;
    use crate::rules::source::recompilation::found;

    #[test]
    fn training_loaders_keep_a_partial_batch() {
        let text = "import torch\nfrom torch.utils.data import DataLoader\na = DataLoader(data, batch_size=32, shuffle=True)\nb = DataLoader(data, batch_size=32, shuffle=True, drop_last=True)\nc = DataLoader(data, batch_size=32)\ntrain_loader = torch.utils.data.DataLoader(data, 32, drop_last=False)\nd = DataLoader(data, batch_size=1, shuffle=True)\n";
        let findings = found(&PartialBatch, text);
        let lines: Vec<u64> = findings
            .iter()
            .map(|finding| finding.places[0].line)
            .collect();
        assert_eq!(lines, [3, 6]);
        let edit = &findings[0].fix.as_ref().expect("a fix").edits[0];
        assert_eq!(edit.replacement, ", drop_last=True");
        assert_eq!(&text[edit.start - 4..edit.start], "True");
        let edit = &findings[1].fix.as_ref().expect("a fix").edits[0];
        assert_eq!(&text[edit.start..edit.end], "False");
    }
}
