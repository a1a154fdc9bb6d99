//! The partitioner replicates a tensor to change its sharding.

use std::collections::BTreeMap;

use knowledge::advice::AdviceKind;
use profiler::logs::Logs;
use profiler::logs::partitioner::{FullRematerialization, ShardingKind};
use profiler::program::shape::Array;

use crate::finding::{Exhibit, Remark, Severity};
use crate::rule::{Context, Rule};
use crate::rules::logs::place;

/// See the card.
#[derive(Debug)]
pub struct InvoluntaryRematerialization;

/// Pairs of shardings that get a finding of their own.
const MAX_PAIRS: usize = 3;
/// Ops of a pair that are told of.
const MAX_OPS: usize = 6;
/// A tensor below this size costs little, wherever it goes.
const SMALL_BYTES: u64 = 1 << 20;

impl Rule for InvoluntaryRematerialization {
    fn code(&self) -> &'static str {
        "TL401"
    }

    fn name(&self) -> &'static str {
        "involuntary-full-rematerialization"
    }

    fn card(&self) -> &'static str {
        include_str!("full_rematerialization.md")
    }

    fn check_logs(&self, context: &Context<'_>) -> Vec<Remark> {
        let logs = &context.evidence.session.logs;
        let mut pairs: BTreeMap<(&str, &str), Vec<&FullRematerialization>> = BTreeMap::new();
        for warning in &logs.partitioner.rematerializations {
            let pair = (warning.from.text.as_str(), warning.to.text.as_str());
            pairs.entry(pair).or_default().push(warning);
        }
        let mut pairs: Vec<Vec<&FullRematerialization>> = pairs.into_values().collect();
        let size = |pair: &[&FullRematerialization]| {
            let largest = pair
                .iter()
                .filter_map(|w| w.shape.as_ref())
                .map(Array::bytes)
                .max();
            let count: u64 = pair.iter().map(|warning| warning.count).sum();
            (largest, count)
        };
        pairs.sort_by(|a, b| {
            (size(b).cmp(&size(a)))
                .then_with(|| a.first().map(|w| w.at).cmp(&b.first().map(|w| w.at)))
        });
        let rest: Vec<String> = pairs
            .iter()
            .skip(MAX_PAIRS)
            .map(|pair| words(pair))
            .collect();
        let mut remarks: Vec<Remark> = pairs
            .iter()
            .take(MAX_PAIRS)
            .map(|pair| remark(logs, pair))
            .collect();
        if let Some(last) = remarks.last_mut() {
            last.evidence.extend(
                rest.into_iter()
                    .take(MAX_OPS)
                    .map(|words| Exhibit::text("also", words, "the partitioner's warnings")),
            );
        }
        remarks
    }
}

/// `from … to …`, for a pair.
fn words(pair: &[&FullRematerialization]) -> String {
    pair.first().map_or_else(String::new, |warning| {
        format!("from {} to {}", warning.from, warning.to)
    })
}

/// `bf16[4,4,8,64] at reshape (jit(g)/reshape)`.
fn tensor(warning: &FullRematerialization) -> String {
    let what = match &warning.shape {
        Some(shape) => Array {
            layout: None,
            ..shape.clone()
        }
        .to_string(),
        None => "a tensor".to_owned(),
    };
    let at = if warning.opcode.is_empty() {
        warning.instruction.clone()
    } else {
        warning.opcode.clone()
    };
    match (at.is_empty(), warning.op_name.is_empty()) {
        (true, _) => what,
        (false, true) => format!("{what} at {at}"),
        (false, false) => format!("{what} at {at} ({})", warning.op_name),
    }
}

fn remark(logs: &Logs, pair: &[&FullRematerialization]) -> Remark {
    let Some(first) = pair.first() else {
        return Remark::new(AdviceKind::Resharding, Severity::Info, "");
    };
    // The largest tensor speaks for the pair.
    let main = pair
        .iter()
        .max_by_key(|warning| {
            let bytes = warning.shape.as_ref().map(Array::bytes);
            (bytes, std::cmp::Reverse(warning.at))
        })
        .unwrap_or(first);
    let count: u64 = pair.iter().map(|warning| warning.count).sum();
    let maximal = matches!(main.from.kind, ShardingKind::Maximal { .. });
    let times = if count > 1 {
        format!(" ({count} warnings)")
    } else {
        String::new()
    };
    let small = main
        .shape
        .as_ref()
        .is_some_and(|shape| shape.bytes().0 < SMALL_BYTES);
    let mut remark = Remark::new(
        AdviceKind::Resharding,
        if small {
            Severity::Low
        } else {
            Severity::Medium
        },
        format!(
            "the partitioner replicates {}: {}{times}",
            tensor(main),
            words(pair)
        ),
    );
    remark.places = pair
        .iter()
        .take(MAX_OPS)
        .flat_map(|warning| {
            let first = place(logs, warning.at, &warning.text, tensor(warning));
            let again = warning
                .again
                .iter()
                .map(|at| place(logs, *at, &warning.text, "again"));
            std::iter::once(first).chain(again.take(2))
        })
        .collect();
    let source = "the partitioner's warning";
    remark.evidence = vec![
        Exhibit::text(
            "from",
            format!("{}: {}", first.from.text, first.from),
            source,
        ),
        Exhibit::text("to", format!("{}: {}", first.to.text, first.to), source),
    ];
    if count > 1 {
        remark
            .evidence
            .push(Exhibit::number("warnings", count as f64, "", source));
    }
    for warning in pair.iter().take(MAX_OPS) {
        if let Some(shape) = &warning.shape {
            remark.evidence.push(Exhibit::text(
                if warning.instruction.is_empty() {
                    "tensor"
                } else {
                    warning.instruction.as_str()
                },
                format!("{}, {}", tensor(warning), shape.bytes()),
                "the shape as printed: one device's part where the op is partitioned already",
            ));
        } else if !warning.instruction.is_empty() {
            remark.evidence.push(Exhibit::text(
                "instruction",
                warning.instruction.clone(),
                source,
            ));
        }
        if !warning.source.is_empty() {
            remark
                .evidence
                .push(Exhibit::text("source", warning.source.clone(), source));
        }
    }
    remark.advice = advice(main, maximal);
    remark.caveats.push("the warning says nothing of time: a tensor that changes once at start costs little, one in each layer or step much".to_owned());
    remark
}

fn advice(warning: &FullRematerialization, maximal: bool) -> Vec<String> {
    let mut advice = Vec::new();
    if maximal {
        advice.push(format!(
            "{}: give it the target sharding where it is made (out_shardings of its jit, or jax.device_put with a NamedSharding)",
            warning.from
        ));
        return advice;
    }
    let (from, to) = (warning.from.parts(), warning.to.parts());
    if warning.opcode == "reshape" || (from.len() != to.len() && !from.is_empty() && !to.is_empty())
    {
        advice.push("the axes are merged or split by a reshape: put with_sharding_constraint on the tensor before and after it, and keep the sharded axis the major part of the axis that it is split from or merged into".to_owned());
    }
    if warning.opcode == "gather" || warning.opcode == "scatter" {
        advice.push("shard the table and the indices so that the gathered axis is whole on each device, or use a one-hot matmul".to_owned());
    }
    advice.push(format!(
        "give this tensor and its users one sharding (with_sharding_constraint), or go in two steps that are one collective each, from {} to {}",
        warning.from, warning.to
    ));
    if from.len() == to.len() && !from.is_empty() && warning.from.devices() == warning.to.devices()
    {
        advice.push(
            "where only the order of the mesh's axes differs, use the same order in both shardings"
                .to_owned(),
        );
    }
    advice
}
