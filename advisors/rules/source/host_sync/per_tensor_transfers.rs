//! The tensors of a batch are moved to the device one by one, in the step.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;

use crate::finding::{Exhibit, Remark, Severity};
use crate::python::ast::{AnyNodeRef, Expr, ExprCall};
use crate::python::{HeatKind, NodeId, Ranged as _, SourceContext, Value};
use crate::rule::Rule;

/// Transfers in one block from which on it is worth a word.
const MIN_TRANSFERS: usize = 3;

/// See the card.
#[derive(Debug)]
pub struct PerTensorTransfers;

impl Rule for PerTensorTransfers {
    fn code(&self) -> &'static str {
        "TS206"
    }

    fn name(&self) -> &'static str {
        "transfer-per-tensor"
    }

    fn card(&self) -> &'static str {
        include_str!("per_tensor_transfers.md")
    }

    fn check_source(&self, context: &SourceContext<'_>) -> Vec<Remark> {
        if context.runs_once()
            || context
                .names
                .imports("torch_xla.distributed.parallel_loader")
        {
            return Vec::new();
        }
        let mut blocks: BTreeMap<NodeId, Vec<&ExprCall>> = BTreeMap::new();
        for (id, node) in context.index.nodes() {
            let AnyNodeRef::StmtAssign(assign) = node.node else {
                continue;
            };
            let Some(block) = node.parent else { continue };
            if let [Expr::Name(target)] = assign.targets.as_slice()
                && let Some((call, source)) = transfer(context, &assign.value)
                && of_batch(context, id, source, target.id.as_str())
            {
                blocks.entry(block).or_default().push(call);
            }
        }
        blocks
            .into_iter()
            .filter(|(_, calls)| calls.len() >= MIN_TRANSFERS)
            .filter_map(|(_, calls)| remark(context, &calls))
            .collect()
    }
}

/// `x.to(device)` or `x.cuda()`: the call, and what is moved.
fn transfer<'a>(context: &SourceContext<'a>, value: &'a Expr) -> Option<(&'a ExprCall, &'a Expr)> {
    let Expr::Call(call) = value else { return None };
    let Expr::Attribute(attribute) = &*call.func else {
        return None;
    };
    let moves = match attribute.attr.as_str() {
        "cuda" => true,
        "to" => {
            let device = call.arguments.find_argument_value("device", 0)?;
            let text = context.text(device);
            (text.contains("device")
                || text.contains("\"xla")
                || text.contains("\"tpu")
                || text.contains("'tpu")
                || text.contains("'xla")
                || text.contains("cuda"))
                && !text.contains(".device")
        }
        _ => false,
    };
    let module = matches!(context.value(&attribute.value), Value::Module(_));
    (moves && !module).then_some((call, &*attribute.value))
}

/// Whether what is moved comes from a batch: unpacked from one, or an item of one.
fn of_batch(context: &SourceContext<'_>, at: NodeId, source: &Expr, target: &str) -> bool {
    match source {
        Expr::Subscript(subscript) => is_batch_name(context.text(&*subscript.value)),
        Expr::Attribute(attribute) => is_batch_name(context.text(&*attribute.value)),
        Expr::Name(name) => {
            name.id.as_str() == target
                && (context
                    .heat(at)
                    .is_some_and(|heat| heat.kind == HeatKind::Step)
                    || context
                        .unpacked_from(at, name.id.as_str())
                        .is_some_and(|value| is_batch_name(context.text(value))))
        }
        _ => false,
    }
}

fn is_batch_name(text: &str) -> bool {
    let text = text.trim_start_matches("self.");
    matches!(
        text,
        "batch" | "data" | "inputs" | "sample" | "samples" | "minibatch" | "examples"
    ) || text.ends_with("_batch")
        || text.starts_with("batch")
}

fn remark(context: &SourceContext<'_>, calls: &[&ExprCall]) -> Option<Remark> {
    let first = calls.first()?;
    let long = calls.iter().any(|call| {
        let text = context.text(*call);
        text.contains("torch.long") || text.contains("torch.int64")
    });
    let mut remark = Remark::new(
        AdviceKind::InputPipeline,
        Severity::Medium,
        format!(
            "the tensors of a batch are moved to the device one by one ({} transfers): none of them overlaps the step before",
            calls.len()
        ),
    );
    remark.places = calls
        .iter()
        .map(|call| context.place(call.range(), "a transfer of its own"))
        .collect();
    remark.evidence.push(Exhibit::number(
        "transfers",
        calls.len() as f64,
        "a step",
        "calls of `.to(device)` in this block",
    ));
    if long {
        remark.evidence.push(Exhibit::text(
            "dtype",
            "moved as int64: twice the bytes of int32, and emulated on the device",
            context.text(*first).to_owned(),
        ));
    }
    remark.advice.push("let the loader move whole batches ahead of the step: `pl.MpDeviceLoader(loader, device)` in PyTorch/XLA; in TorchTPU move the next batch while this one computes (a prefetching iterator of two batches)".to_owned());
    if long {
        remark.advice.push(
            "ids, masks and token types fit into int32: convert them in the collator".to_owned(),
        );
    }
    Some(remark)
}

#[cfg(test)]
mod tests {
    use super::PerTensorTransfers;
    use crate::rules::source::recompilation::found;

    #[test]
    fn transfers_of_a_batch_are_counted() {
        let text = "ids, mask, labels = batch\nids = ids.to(device, dtype=torch.long)\nmask = mask.to(device)\nlabels = labels.to(device)\nout = model(ids, mask, labels)\n";
        let findings = found(&PerTensorTransfers, text);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].title.contains("3 transfers"));
        assert_eq!(findings[0].places[0].line, 2);
    }

    #[test]
    fn modules_and_dtypes_are_no_batch() {
        let text = "import torch\nmodel = torch.nn.Linear(2, 2)\na = model.to(device)\nx = x.to(torch.float32)\ny = y.to(x.device)\nz = z.to(dtype)\n";
        assert!(found(&PerTensorTransfers, text).is_empty());
    }
}
