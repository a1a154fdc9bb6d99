//! How a program uses its integer arguments, and how long its sums are.
//!
//! An integer that selects from an array (`gather`, `dynamic_slice`, a comparison with an `iota` as
//! in a one-hot) must stay below that array's size to be legal. Integers are followed from
//! `@main`'s arguments through calls, loops and everything that gives integers.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::parity::float::FloatFormat;
use crate::parity::mlir::{self, Function, integers_after};
use crate::parity::tensor::TensorType;

/// Calls are followed that deep.
const MAX_DEPTH: usize = 24;
/// And that many lines are looked at in all: functions that call each other often are not
/// followed forever.
const MAX_LINES: usize = 2_000_000;

/// Distance from 1 to the next bf16.
const BF16_EPSILON: f64 = 1.0 / 128.0;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uses {
    /// For each argument that selects something: its values must be below this.
    pub below: BTreeMap<usize, u64>,
    /// Elements that the longest sum adds up (dot, convolution, reduction); 1 where none does.
    pub longest_sum: u64,
    /// The largest epsilon of the floats that it computes with, at most bf16's; 0 without floats.
    pub coarsest: f64,
}

impl Uses {
    /// Reads them from StableHLO text.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let functions = mlir::functions(text);
        let mut reader = Reader {
            functions: functions.iter().map(|f| (f.name, f)).collect(),
            below: BTreeMap::new(),
            lines_left: MAX_LINES,
        };
        if let Some(main) = reader.functions.get("main").copied() {
            let values = main.arguments.iter().enumerate().map(|(index, (_, ty))| {
                let ty = mlir::tensors(ty).into_iter().next().flatten();
                let is_integer = ty.as_ref().is_some_and(|ty| ty.dtype.is_integer());
                Value {
                    from: is_integer.then_some(index).into_iter().collect(),
                    iota: None,
                    ty,
                }
            });
            let values = values.collect();
            reader.function(main, values, 0);
        }
        let sums = functions
            .iter()
            .flat_map(|f| &f.lines)
            .map(|line| sum_length(line));
        let types = functions.iter().flat_map(|f| &f.lines);
        let types = types.flat_map(|line| mlir::tensors(line)).flatten();
        let epsilons = types
            .filter_map(|ty| FloatFormat::of(ty.dtype))
            .map(FloatFormat::epsilon);
        Self {
            longest_sum: sums.max().unwrap_or(1),
            below: reader.below,
            coarsest: epsilons.fold(0.0, f64::max).min(BF16_EPSILON),
        }
    }
}

/// Elements that a line's operation adds up.
fn sum_length(line: &str) -> u64 {
    let types = mlir::tensors(line.rsplit_once(" : ").map_or("", |(_, types)| types));
    let ty = |index: usize| types.get(index).and_then(Option::as_ref);
    let over = |ty: Option<&TensorType>, dims: Option<Vec<u64>>| {
        let (ty, dims) = (ty?, dims?);
        let sizes = dims.iter().filter_map(|&dim| ty.dims.get(dim as usize));
        Some(sizes.fold(1u64, |all, &size| all.saturating_mul(size)))
    };
    let length = if line.contains("stablehlo.dot_general") {
        let dims = integers_after(line, "contracting_dims")
            .or_else(|| integers_after(line, "lhs_contracting_dimensions"));
        over(ty(0), dims)
    } else if line.contains("stablehlo.dot ") {
        ty(0).and_then(|ty| ty.dims.last().copied())
    } else if line.contains("stablehlo.convolution") {
        // `…x[0, 1, i, o]->…`: the kernel without its output features.
        let kernel = line
            .split_once("]x[")
            .and_then(|(_, rest)| rest.split_once(']'));
        let place = kernel.and_then(|(dims, _)| dims.split(',').position(|dim| dim.trim() == "o"));
        ty(1).zip(place).map(|(ty, place)| {
            let outputs = ty.dims.get(place).copied().unwrap_or(1);
            ty.elements() / outputs.max(1)
        })
    } else if line.contains("stablehlo.reduce(") {
        over(ty(0), integers_after(line, "dimensions"))
    } else {
        None
    };
    length.unwrap_or(1)
}

/// What is known of a value.
#[derive(Clone, Debug, Default)]
struct Value {
    /// The arguments of `@main` that it is made of.
    from: BTreeSet<usize>,
    /// Where it counts up from 0: how far.
    iota: Option<u64>,
    ty: Option<TensorType>,
}

struct Reader<'a> {
    functions: BTreeMap<&'a str, &'a Function<'a>>,
    below: BTreeMap<usize, u64>,
    lines_left: usize,
}

impl<'a> Reader<'a> {
    /// Follows a call, and returns what its results are made of together.
    fn function(
        &mut self,
        function: &'a Function<'a>,
        arguments: Vec<Value>,
        depth: usize,
    ) -> Value {
        let mut values: BTreeMap<&str, Value> = BTreeMap::new();
        for ((name, _), value) in function.arguments.iter().zip(arguments) {
            values.insert(name, value);
        }
        let mut result = Value::default();
        for line in &function.lines {
            if self.lines_left == 0 {
                return result;
            }
            self.lines_left -= 1;
            if let Some(returned) = line
                .strip_prefix("return ")
                .or(line.strip_prefix("func.return "))
            {
                result = joined(&names(returned), &values);
                continue;
            }
            // Loops name what they carry: `while(%iterArg = %0, …)`.
            if let Some((_, carried)) = line.split_once("stablehlo.while(") {
                for (name, first) in carried
                    .split(", ")
                    .filter_map(|pair| pair.split_once(" = "))
                {
                    let names = names(first);
                    values.insert(name.trim(), joined(&names, &values));
                }
            }
            let Some((name, op)) = line.split_once(" = ") else {
                continue;
            };
            let name = name.split(':').next().unwrap_or(name);
            let names = names(op);
            self.select(op, &names, &values);
            let mut value = match self.callee(op) {
                Some(callee) if depth < MAX_DEPTH => {
                    let arguments = names
                        .iter()
                        .map(|name| values.get(name).cloned().unwrap_or_default());
                    let arguments = arguments.collect();
                    self.function(callee, arguments, depth + 1)
                }
                _ => through(op, &names, &values),
            };
            value.ty = mlir::tensors(op).pop().flatten();
            if !value.ty.as_ref().is_none_or(|ty| ty.dtype.is_integer()) {
                value.from.clear();
                value.iota = None;
            }
            values.insert(name, value);
        }
        result
    }

    fn callee(&self, op: &str) -> Option<&'a Function<'a>> {
        let called = op
            .strip_prefix("call @")
            .or(op.strip_prefix("func.call @"))?;
        self.functions.get(called.split('(').next()?).copied()
    }

    /// Looks at an operation that selects by integers.
    fn select(&mut self, op: &str, names: &[&str], values: &BTreeMap<&str, Value>) {
        let value = |index: usize| names.get(index).and_then(|name| values.get(name));
        let dims = |index: usize| {
            value(index)
                .and_then(|value| value.ty.as_ref())
                .map(|ty| &ty.dims)
        };
        let Some((_, rest)) = op.split_once("stablehlo.") else {
            return;
        };
        let is = |name: &str| {
            rest.strip_prefix(name)
                .is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        };
        if is("gather") || is("scatter") {
            let map = integers_after(op, "start_index_map")
                .or_else(|| integers_after(op, "scatter_dims_to_operand_dims"));
            let sizes = integers_after(op, "slice_sizes").unwrap_or_default();
            let (Some(map), Some(dims)) = (map, dims(0)) else {
                return;
            };
            let limits = map.iter().filter_map(|&dim| {
                let taken = sizes.get(dim as usize).copied().unwrap_or(1);
                Some((dims.get(dim as usize)? + 1).saturating_sub(taken.max(1)))
            });
            if let Some(limit) = limits.min() {
                self.limit(value(1), limit);
            }
        } else if is("dynamic_slice") {
            let sizes = integers_after(op, "sizes").or_else(|| integers_after(op, "slice_sizes"));
            let (Some(sizes), Some(dims)) = (sizes, dims(0)) else {
                return;
            };
            for (dim, (size, taken)) in dims.iter().zip(sizes).enumerate() {
                self.limit(value(1 + dim), (size + 1).saturating_sub(taken));
            }
        } else if is("dynamic_update_slice") {
            let (Some(into), Some(update)) = (dims(0), dims(1)) else {
                return;
            };
            for (dim, (size, taken)) in into.iter().zip(update).enumerate() {
                self.limit(value(2 + dim), (size + 1).saturating_sub(*taken));
            }
        } else if is("compare") {
            for (index, with) in [(0, 1), (1, 0)] {
                if let Some(limit) = value(with).and_then(|value| value.iota) {
                    self.limit(value(index), limit);
                }
            }
        }
    }

    fn limit(&mut self, value: Option<&Value>, limit: u64) {
        for &argument in value.iter().flat_map(|value| &value.from) {
            let limit = limit.max(1);
            let known = self.below.entry(argument).or_insert(limit);
            *known = limit.min(*known);
        }
    }
}

/// What an operation gives: an `iota` by itself, else what its operands are made of.
fn through(op: &str, names: &[&str], values: &BTreeMap<&str, Value>) -> Value {
    if op.starts_with("stablehlo.iota") {
        let ty = mlir::tensors(op).pop().flatten();
        let dim = op.split_once("dim = ").and_then(|(_, dim)| {
            dim.split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse::<usize>()
                .ok()
        });
        return Value {
            iota: ty.as_ref().and_then(|ty| ty.dims.get(dim?).copied()),
            ..Value::default()
        };
    }
    let mut value = joined(names, values);
    let shapes_only = [
        "broadcast_in_dim",
        "reshape",
        "convert",
        "transpose",
        "slice",
    ];
    if !shapes_only.iter().any(|name| {
        op.strip_prefix("stablehlo.")
            .is_some_and(|op| op.starts_with(name))
    }) {
        value.iota = None;
    }
    value
}

fn joined(names: &[&str], values: &BTreeMap<&str, Value>) -> Value {
    let mut all = Value::default();
    for value in names.iter().filter_map(|name| values.get(name)) {
        all.from.extend(&value.from);
        all.iota = all.iota.or(value.iota);
    }
    all
}

/// The values that a piece of text names, without `#k`.
fn names(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['%', '"']) {
        let here = rest.get(at..).unwrap_or_default();
        let end = if here.starts_with('"') {
            mlir::string_end(here, 0).map_or(here.len(), |end| end + 1)
        } else {
            let after = here.get(1..).unwrap_or_default();
            1 + after
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(after.len())
        };
        if here.starts_with('%') {
            found.extend(here.get(..end));
        }
        rest = here.get(end..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_followed_through_a_call_to_the_gather() {
        let text = r#"module {
  func.func public @main(%arg0: tensor<1000x64xf32>, %arg1: tensor<8xi32>, %arg2: tensor<i32>) -> tensor<8x64xf32> {
    %0 = call @_take(%arg0, %arg1) : (tensor<1000x64xf32>, tensor<8xi32>) -> tensor<8x64xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_slice %0, %arg2, %c, sizes = [2, 64] : (tensor<8x64xf32>, tensor<i32>, tensor<i32>) -> tensor<2x64xf32>
    return %0 : tensor<8x64xf32>
  }
  func.func private @_take(%arg0: tensor<1000x64xf32>, %arg1: tensor<8xi32>) -> tensor<8x64xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %1 = stablehlo.compare  LT, %arg1, %0,  SIGNED : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
    %c_0 = stablehlo.constant dense<1000> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<8xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<8xi1>, tensor<8xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 64>}> : (tensor<1000x64xf32>, tensor<8x1xi32>) -> tensor<8x64xf32>
    return %6 : tensor<8x64xf32>
  }
}"#;
        let uses = Uses::of_text(text);
        assert_eq!(uses.below, BTreeMap::from([(1, 1000), (2, 7)]));
        assert_eq!(uses.longest_sum, 1);
    }

    #[test]
    fn a_one_hot_limits_its_labels() {
        let text = r#"func.func public @main(%arg0: tensor<4xi32>) -> tensor<4x10xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %1 = stablehlo.iota dim = 1 : tensor<1x10xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<4x1xi32>) -> tensor<4x10xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x10xi32>) -> tensor<4x10xi32>
    %4 = stablehlo.compare  EQ, %2, %3,  SIGNED : (tensor<4x10xi32>, tensor<4x10xi32>) -> tensor<4x10xi1>
    %5 = stablehlo.convert %4 : (tensor<4x10xi1>) -> tensor<4x10xf32>
    return %5 : tensor<4x10xf32>
}"#;
        assert_eq!(Uses::of_text(text).below, BTreeMap::from([(0, 10)]));
    }

    #[test]
    fn the_longest_sum_is_found() {
        for (line, length) in [
            (
                "%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x96xf32>, tensor<4x96x5xf32>) -> tensor<4x8x5xf32>",
                96,
            ),
            (
                "%0 = stablehlo.reduce(%a init: %b) applies stablehlo.add across dimensions = [0, 2] : (tensor<4x8x96xf32>, tensor<f32>) -> tensor<8xf32>",
                384,
            ),
            (
                "%0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x9x9x16xf32>, tensor<3x3x16x32xf32>) -> tensor<2x9x9x32xf32>",
                144,
            ),
            ("%0 = stablehlo.add %a, %b : tensor<4x8x96xf32>", 1),
        ] {
            assert_eq!(sum_length(line), length, "{line}");
        }
    }

    #[test]
    fn functions_that_call_themselves_end() {
        let text = "func.func @main(%a: tensor<4xi32>) -> tensor<4xi32> {\n%0 = call @main(%a) : (tensor<4xi32>) -> tensor<4xi32>\n%1 = call @main(%0) : (tensor<4xi32>) -> tensor<4xi32>\nreturn %1 : tensor<4xi32>\n}";
        assert!(Uses::of_text(text).below.is_empty());
    }
}
