//! Matmuls of one left operand made one: their weights are stored side by side, and slices take
//! the products apart.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::program::stablehlo::types::write_tensor;
use crate::program::stablehlo::{Function, Module, Op, ValueId};

use super::WhatIfError;
use super::edits::Edits;
use super::rules::DotAxes;

/// A matmul of a value and a weight `[in, out]` or `[out, in]` that only it reads.
struct Weighted<'m> {
    op: &'m Op,
    left: ValueId,
    left_contracting: usize,
    weight: ValueId,
    /// Which argument the weight is.
    argument: usize,
    /// Dimension of the weight that stays in the product.
    free: usize,
    sizes: [i64; 2],
    product: Vec<i64>,
    element: &'m str,
    result_element: &'m str,
}

/// Lines of matmuls that could be one, with their weights, in the order of the text.
pub(super) fn groups(module: &Module<'_>) -> Vec<(Vec<usize>, Vec<ValueId>)> {
    let Some(main) = module.main() else {
        return Vec::new();
    };
    let uses = module.uses();
    let mut groups: BTreeMap<_, (Vec<usize>, Vec<ValueId>)> = BTreeMap::new();
    for &id in &main.body.ops {
        let Some(dot) = weighted(module, main, module.op(id)) else {
            continue;
        };
        if uses.get(dot.weight.index()).is_some_and(|u| u.len() == 1)
            && sharded(module, main, &dot).is_none()
        {
            let key = (
                dot.left,
                dot.left_contracting,
                dot.free,
                dot.element,
                dot.result_element,
            );
            let (lines, weights) = groups.entry(key).or_default();
            lines.push(dot.op.line);
            weights.push(dot.weight);
        }
    }
    let mut out: Vec<_> = groups
        .into_values()
        .filter(|(lines, _)| lines.len() > 1)
        .collect();
    out.sort();
    out
}

pub(super) fn apply(module: &Module<'_>, lines: &[usize]) -> Result<String, WhatIfError> {
    let main = module.main().ok_or(WhatIfError::NoFunction)?;
    let uses = module.uses();
    let mut dots: Vec<Weighted<'_>> = Vec::new();
    for &id in &main.body.ops {
        let op = module.op(id);
        if !lines.contains(&op.line) {
            continue;
        }
        let refuse = |why: &str| WhatIfError::Refused {
            op: op.name.clone(),
            line: op.line,
            why: why.to_owned(),
        };
        let dot = weighted(module, main, op)
            .ok_or_else(|| refuse("is no matmul with a matrix that is an argument"))?;
        if uses.get(dot.weight.index()).is_none_or(|u| u.len() != 1) {
            return Err(refuse("is not the only one to read its weight"));
        }
        if let Some(why) = sharded(module, main, &dot) {
            return Err(WhatIfError::Argument {
                argument: dot.argument,
                why,
            });
        }
        if let Some(first) = dots.first()
            && (
                first.left,
                first.left_contracting,
                first.free,
                first.element,
                first.result_element,
            ) != (
                dot.left,
                dot.left_contracting,
                dot.free,
                dot.element,
                dot.result_element,
            )
        {
            return Err(refuse(
                "has another left operand, order or type than the first",
            ));
        }
        dots.push(dot);
    }
    if dots.len() < 2 {
        return Err(WhatIfError::Absent {
            what: "a second matmul on the lines named".to_owned(),
        });
    }
    write(module, main, &dots).ok_or(WhatIfError::Absent {
        what: "a signature to change".to_owned(),
    })
}

fn write(module: &Module<'_>, main: &Function, dots: &[Weighted<'_>]) -> Option<String> {
    let mut edits = Edits::default();
    // The last of the arguments stays, so that those that go have a comma behind them.
    let kept = dots.iter().max_by_key(|d| d.argument)?;
    let kept_name = &module.value(kept.weight).name;
    let total = dots
        .iter()
        .try_fold(0_i64, |n, d| n.checked_add(d.sizes[d.free]))?;
    let mut sizes = kept.sizes;
    sizes[kept.free] = total;
    let merged_type = write_tensor(&sizes, kept.element);
    for dot in dots.iter().filter(|d| d.argument != kept.argument) {
        let next = *main.body.arguments.get(dot.argument + 1)?;
        edits.replace(
            argument_start(module, dot.weight)?..argument_start(module, next)?,
            "",
        );
    }
    edits.replace(
        module.value(kept.weight).tensor.as_ref()?.range.clone(),
        merged_type.clone(),
    );

    let first = dots.first()?;
    let result = *first.op.results.first()?;
    let mut product = first.product.clone();
    *product.last_mut()? = total;
    let product_type = write_tensor(&product, first.result_element);
    let name = format!("%merged{}", first.op.line);
    let result_name = &module.value(result).name;
    edits.replace(
        first.op.range.start..first.op.range.start + result_name.len(),
        name.clone(),
    );
    edits.replace(first.op.operands.get(1)?.range.clone(), kept_name.clone());
    for used in module.type_uses() {
        let inside = first.op.range.start <= used.tensor.range.start
            && used.tensor.range.end <= first.op.range.end;
        if inside && used.value == first.weight {
            edits.replace(used.tensor.range.clone(), merged_type.clone());
        } else if inside && used.value == result {
            edits.replace(used.tensor.range.clone(), product_type.clone());
        }
    }
    let mut from = 0_i64;
    for (i, dot) in dots.iter().enumerate() {
        let to = from.checked_add(dot.sizes[dot.free])?;
        let result = &module.value(*dot.op.results.first()?).name;
        let mut slice = String::new();
        let _ = write!(slice, "{result} = stablehlo.slice {name} [");
        for size in dot.product.iter().rev().skip(1).rev() {
            let _ = write!(slice, "0:{size}, ");
        }
        let part = write_tensor(&dot.product, dot.result_element);
        let _ = write!(slice, "{from}:{to}] : ({product_type}) -> {part}");
        if i == 0 {
            edits.insert(dot.op.range.end, &format!("\n    {slice}"));
        } else {
            edits.replace(dot.op.range.clone(), slice);
        }
        from = to;
    }
    Some(edits.apply(module.text))
}

/// Where an argument's name stands in the signature.
fn argument_start(module: &Module<'_>, argument: ValueId) -> Option<usize> {
    let at = module.value(argument).tensor.as_ref()?.range.start;
    module.text.get(..at)?.rfind('%')
}

fn weighted<'m>(module: &'m Module<'_>, main: &Function, op: &'m Op) -> Option<Weighted<'m>> {
    let axes = DotAxes::read(module.text, op)?;
    let (left, weight, result) = (op.operand(0)?, op.operand(1)?, *op.results.first()?);
    let (&[left_contracting], &[right]) = (
        axes.left_contracting.as_slice(),
        axes.right_contracting.as_slice(),
    ) else {
        return None;
    };
    let tensor = module.value(weight).tensor.as_ref()?;
    if !axes.left_batch.is_empty() || tensor.rank() != 2 || right > 1 {
        return None;
    }
    let made = module.value(result).tensor.as_ref()?;
    Some(Weighted {
        op,
        left,
        left_contracting,
        weight,
        argument: main.body.arguments.iter().position(|&a| a == weight)?,
        free: 1 - right,
        sizes: [tensor.size(0)?, tensor.size(1)?],
        product: made.dims.iter().map(|d| d.size).collect::<Option<_>>()?,
        element: module.text.get(tensor.element.clone())?,
        result_element: module.text.get(made.element.clone())?,
    })
}

fn sharded(module: &Module<'_>, main: &Function, dot: &Weighted<'_>) -> Option<&'static str> {
    super::store::bound(module, main, dot.argument)
}
