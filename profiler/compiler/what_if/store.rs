//! A stored weight with two dimensions exchanged: its readers are told, and where one cannot be,
//! the old order is restored by a transpose that is paid for.

use std::fmt::Write as _;

use crate::program::stablehlo::types::write_tensor;
use crate::program::stablehlo::{Function, Integer, Module, Op, ValueId};

use super::WhatIfError;
use super::edits::Edits;
use super::rules::DotAxes;

pub(super) fn apply(
    module: &Module<'_>,
    argument: usize,
    axes: (usize, usize),
) -> Result<String, WhatIfError> {
    let main = module.main().ok_or(WhatIfError::NoFunction)?;
    let absent = || WhatIfError::Absent {
        what: format!("argument {argument}"),
    };
    let value = *main.body.arguments.get(argument).ok_or_else(absent)?;
    let tensor = module.value(value).tensor.as_ref().ok_or_else(absent)?;
    let refuse = |why| WhatIfError::Argument { argument, why };
    let (Some(a), Some(b)) = (tensor.dims.get(axes.0), tensor.dims.get(axes.1)) else {
        return Err(refuse("it has fewer dimensions"));
    };
    if axes.0 == axes.1 {
        return Err(refuse("a dimension cannot be exchanged with itself"));
    }
    if let Some(why) = bound(module, main, argument) {
        return Err(refuse(why));
    }

    let mut edits = Edits::default();
    let written = |r: &std::ops::Range<usize>| module.text.get(r.clone()).unwrap_or("").to_owned();
    let swap = |edits: &mut Edits, op: Option<&Op>| {
        for used in module.type_uses().iter().filter(|u| u.value == value) {
            let inside = |op: &Op| {
                op.range.start <= used.tensor.range.start && used.tensor.range.end <= op.range.end
            };
            let own = op.map_or_else(|| used.tensor.range == tensor.range, inside);
            if let (true, Some(x), Some(y)) = (
                own,
                used.tensor.dims.get(axes.0),
                used.tensor.dims.get(axes.1),
            ) {
                edits.replace(x.range.clone(), written(&b.range));
                edits.replace(y.range.clone(), written(&a.range));
            }
        }
    };
    swap(&mut edits, None);

    let mut restored = false;
    let uses = module.uses();
    for &(id, index) in uses.get(value.index()).into_iter().flatten() {
        let op = module.op(id);
        let once = op.operands.iter().filter(|o| o.value == value).count() == 1;
        match tell(module, op, index, axes).filter(|_| once) {
            Some(numbers) => {
                for (number, new) in numbers {
                    edits.replace(number.range, new.to_string());
                }
                swap(&mut edits, Some(op));
            }
            None => {
                restored = true;
                if let Some(operand) = op.operands.get(index) {
                    edits.replace(operand.range.clone(), "%restored");
                }
            }
        }
    }
    if restored {
        let first = main.body.ops.first().map(|&id| module.op(id).range.start);
        let line = restore(module, value, axes).ok_or_else(absent)?;
        edits.insert(first.ok_or_else(absent)?, &line);
    }
    Ok(edits.apply(module.text))
}

/// Why an argument must keep its shape.
pub(super) fn bound(module: &Module<'_>, main: &Function, argument: usize) -> Option<&'static str> {
    let attributes = main.argument_attributes.get(argument).cloned().flatten();
    let attributes = attributes.and_then(|r| module.text.get(r)).unwrap_or("");
    if attributes.contains("tf.aliasing_output") {
        return Some("a result of the old order is written into it");
    }
    let sharded = attributes.contains("devices=") || attributes.contains("{\"");
    sharded.then_some("it is sharded by the dimensions that it has")
}

/// What to change in `op` so that it reads operand `index` with `axes` exchanged; `None` when it
/// cannot.
fn tell(
    module: &Module<'_>,
    op: &Op,
    index: usize,
    axes: (usize, usize),
) -> Option<Vec<(Integer, usize)>> {
    let exchange = |axis: usize| match axis {
        _ if axis == axes.0 => axes.1,
        _ if axis == axes.1 => axes.0,
        _ => axis,
    };
    let exchanged = |list: Vec<Integer>| {
        list.into_iter()
            .map(|n| {
                let new = exchange(n.index());
                (n, new)
            })
            .collect::<Vec<_>>()
    };
    match op.name.as_str() {
        "stablehlo.transpose" => {
            let list = ["dims", "permutation"]
                .iter()
                .find_map(|k| op.integers(module.text, k))?;
            Some(exchanged(list))
        }
        "stablehlo.dot_general" => {
            let dot = DotAxes::read(module.text, op)?;
            let (batch, contracting) = if index == 0 {
                (dot.left_batch, dot.left_contracting)
            } else {
                (dot.right_batch, dot.right_contracting)
            };
            let rank = module.value(op.operand(index)?).tensor.as_ref()?.rank();
            let bound = |a: &usize| batch.contains(a) || contracting.contains(a);
            let free: Vec<usize> = (0..rank).filter(|a| !bound(a)).map(exchange).collect();
            // The result lists free dimensions in their order.
            if !free.is_sorted() {
                return None;
            }
            let mut numbers = Vec::new();
            for key in ["batching_dims", "contracting_dims"] {
                if let Some((left, right)) = op.integer_pair(module.text, key) {
                    numbers.extend(exchanged(if index == 0 { left } else { right }));
                }
            }
            let side = if index == 0 { "lhs" } else { "rhs" };
            for role in ["batching", "contracting"] {
                let key = format!("{side}_{role}_dimensions");
                numbers.extend(exchanged(
                    op.integers(module.text, &key).unwrap_or_default(),
                ));
            }
            Some(numbers)
        }
        _ => None,
    }
}

/// The transpose that brings the old order back.
fn restore(module: &Module<'_>, value: ValueId, axes: (usize, usize)) -> Option<String> {
    let written = module.value(value);
    let tensor = written.tensor.as_ref()?;
    let element = module.text.get(tensor.element.clone())?;
    let old: Vec<i64> = tensor.dims.iter().map(|d| d.size).collect::<Option<_>>()?;
    let mut order: Vec<usize> = (0..old.len()).collect();
    order.swap(axes.0, axes.1);
    let mut new = old.clone();
    new.swap(axes.0, axes.1);
    let order: Vec<_> = order.iter().map(usize::to_string).collect();
    let mut out = String::new();
    let _ = write!(
        out,
        "%restored = stablehlo.transpose {}, dims = [{}] : ({}) -> {}\n    ",
        written.name,
        order.join(", "),
        write_tensor(&new, element),
        write_tensor(&old, element)
    );
    Some(out)
}
