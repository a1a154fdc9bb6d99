//! A matmul with operands of another type: converts before it, and one behind it where the
//! product's type changes too.

use std::fmt::Write as _;

use crate::program::stablehlo::types::{TensorType, write_tensor};
use crate::program::stablehlo::{Module, Op};

use super::WhatIfError;
use super::edits::Edits;

pub(super) fn apply(
    module: &Module<'_>,
    line: usize,
    element: &str,
) -> Result<String, WhatIfError> {
    let dot = module
        .ops()
        .map(|(_, op)| op)
        .find(|op| op.line == line && is_dot(op));
    let absent = || WhatIfError::Absent {
        what: format!("a matmul at line {line}"),
    };
    let dot = dot.ok_or_else(absent)?;
    let refuse = |why: &str| WhatIfError::Refused {
        op: dot.name.clone(),
        line,
        why: why.to_owned(),
    };
    let mut edits = Edits::default();
    for (side, operand) in dot.operands.iter().enumerate() {
        let tensor = module
            .value(operand.value)
            .tensor
            .as_ref()
            .ok_or_else(absent)?;
        let old = written(module, tensor).ok_or_else(|| refuse("has an open dimension"))?;
        let new = retyped(tensor, element).ok_or_else(|| refuse("has an open dimension"))?;
        if old == new {
            continue;
        }
        let name = format!("%narrow{line}_{side}");
        let source = &module.value(operand.value).name;
        let mut convert = String::new();
        let _ = write!(
            convert,
            "{name} = stablehlo.convert {source} : ({old}) -> {new}\n    "
        );
        edits.insert(dot.range.start, &convert);
        edits.replace(operand.range.clone(), name);
        let inside =
            |t: &TensorType| dot.range.start <= t.range.start && t.range.end <= dot.range.end;
        for used in module.type_uses() {
            if used.value == operand.value && inside(&used.tensor) {
                edits.replace(used.tensor.element.clone(), element);
            }
        }
    }
    // Products of integers are integers; the next operation wants what it had.
    if is_integer(element) {
        let &[result] = dot.results.as_slice() else {
            return Err(absent());
        };
        let value = module.value(result);
        let tensor = value.tensor.as_ref().ok_or_else(absent)?;
        let old = written(module, tensor).ok_or_else(|| refuse("has an open dimension"))?;
        let new = retyped(tensor, "i32").ok_or_else(|| refuse("has an open dimension"))?;
        let name_end = dot.range.start + value.name.len();
        edits.replace(dot.range.start..name_end, format!("%wide{line}"));
        edits.replace(tensor.element.clone(), "i32");
        let mut convert = String::new();
        let _ = write!(
            convert,
            "\n    {} = stablehlo.convert %wide{line} : ({new}) -> {old}",
            value.name
        );
        edits.insert(dot.range.end, &convert);
    }
    Ok(edits.apply(module.text))
}

pub(super) fn is_dot(op: &Op) -> bool {
    matches!(op.name.as_str(), "stablehlo.dot_general" | "stablehlo.dot")
}

fn is_integer(element: &str) -> bool {
    element
        .strip_prefix(['i', 'u'])
        .is_some_and(|rest| rest.ends_with(|c: char| c.is_ascii_digit()))
}

fn written(module: &Module<'_>, tensor: &TensorType) -> Option<String> {
    retyped(tensor, module.text.get(tensor.element.clone())?)
}

fn retyped(tensor: &TensorType, element: &str) -> Option<String> {
    let sizes: Vec<i64> = tensor.dims.iter().map(|d| d.size).collect::<Option<_>>()?;
    Some(write_tensor(&sizes, element))
}
