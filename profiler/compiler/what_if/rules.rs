//! What each StableHLO operation says about the dimensions of its operands and results.

use crate::program::stablehlo::{Block, Function, Integer, Module, Op, ValueId};

use super::dims::{Dims, Expr, Node};

mod indexing;
mod products;
mod shapes;

pub(super) use products::{DotAxes, convolution_axes};

/// Reads what all operations of `module` say.
pub(super) fn dimensions(module: &Module<'_>) -> Dims {
    let mut dims = Dims::new(module);
    for (_, op) in module.ops() {
        Rule {
            module,
            op,
            dims: &mut dims,
        }
        .apply();
    }
    dims
}

struct Rule<'a, 't> {
    module: &'a Module<'t>,
    op: &'a Op,
    dims: &'a mut Dims,
}

impl Rule<'_, '_> {
    fn apply(&mut self) {
        let known = self.op.typed && self.known().is_some();
        if !known {
            let why = if self.op.typed {
                "ties its dimensions in a way that is not known here"
            } else {
                "is written in a form that is not known here"
            };
            let values = self.op.operands.iter().map(|o| o.value);
            for value in values
                .chain(self.op.results.iter().copied())
                .collect::<Vec<_>>()
            {
                self.dims.freeze_value(value, self.op, why);
            }
        }
    }

    /// `None` when the operation is not known.
    fn known(&mut self) -> Option<()> {
        match self.op.name.as_str() {
            "return" | "func.return" | "stablehlo.return" | "sdy.return" => Some(()),
            "call" | "func.call" => self.call(),
            "stablehlo.custom_call" => self.custom_call(),
            "sdy.sharding_constraint" | "sdy.reshard" | "sdy.propagation_barrier" => {
                self.elementwise()
            }
            name => {
                if let Some(name) = name.strip_prefix("chlo.") {
                    self.chlo(name)
                } else {
                    self.stablehlo(name.strip_prefix("stablehlo.")?)
                }
            }
        }
    }

    fn stablehlo(&mut self, name: &str) -> Option<()> {
        match name {
            "constant" => self.constant(),
            "iota" | "create_token" | "after_all" => Some(()),
            "broadcast_in_dim" => self.broadcast_in_dim(),
            "broadcast" => self.broadcast(),
            "transpose" => self.transpose(),
            "reshape" => self.reshape(),
            "dot_general" | "dot" => self.dot(),
            "convolution" => self.convolution(),
            "reduce" => self.reduce(),
            "slice" => self.slice(),
            "pad" => self.pad(),
            "concatenate" => self.concatenate(),
            "gather" => self.gather(),
            "scatter" => self.scatter(),
            "dynamic_slice" => self.dynamic_slice(),
            "dynamic_update_slice" => self.dynamic_update_slice(),
            "while" => self.repeat(),
            "if" | "case" => self.branches(),
            "rng_bit_generator" => {
                self.dims.same(self.operand(0)?, self.result(0)?);
                self.dims
                    .freeze_value(self.operand(0)?, self.op, "keeps a generator's state");
                Some(())
            }
            "optimization_barrier" => {
                for (operand, result) in self.op.operands.iter().zip(&self.op.results) {
                    self.dims.same(operand.value, *result);
                }
                Some(())
            }
            "sort" | "all_reduce" | "collective_permute" | "reverse" | "map" => self.elementwise(),
            _ if ELEMENTWISE.contains(&name) => self.elementwise(),
            _ => None,
        }
    }

    fn chlo(&mut self, name: &str) -> Option<()> {
        match name {
            "top_k" => {
                let (operand, results) = (self.operand(0)?, self.op.results.clone());
                let last = self.dims.of(operand).len().checked_sub(1)?;
                for result in results {
                    for axis in 0..last {
                        self.equal(operand, axis, result, axis)?;
                    }
                }
                Some(())
            }
            "ragged_dot" => self.ragged_dot(),
            _ if name.starts_with("broadcast_") => self.broadcast_trailing(),
            "scan" => self.scan(),
            "dynamic_reshape" => None,
            // The rest of the dialect is special functions of single elements.
            _ => self.elementwise(),
        }
    }

    fn operand(&self, index: usize) -> Option<ValueId> {
        self.op.operand(index)
    }

    fn result(&self, index: usize) -> Option<ValueId> {
        self.op.results.get(index).copied()
    }

    fn node(&self, value: ValueId, axis: usize) -> Option<Node> {
        self.dims.node(value, axis)
    }

    fn equal(&mut self, a: ValueId, a_axis: usize, b: ValueId, b_axis: usize) -> Option<()> {
        let (a, b) = (self.node(a, a_axis)?, self.node(b, b_axis)?);
        self.dims.equal(a, b);
        Some(())
    }

    fn integers(&self, keys: &[&str]) -> Option<Vec<Integer>> {
        keys.iter()
            .find_map(|key| self.op.integers(self.module.text, key))
    }

    /// Indices of the first of `keys` that is there; none when none is.
    fn axes(&self, keys: &[&str]) -> Vec<usize> {
        self.integers(keys)
            .unwrap_or_default()
            .iter()
            .map(Integer::index)
            .collect()
    }

    fn elementwise(&mut self) -> Option<()> {
        let values = self
            .op
            .results
            .iter()
            .copied()
            .chain(self.op.operands.iter().map(|o| o.value));
        let values: Vec<_> = values.collect();
        let first = *values.first()?;
        for value in values {
            self.dims.same(first, value);
        }
        Some(())
    }

    fn constant(&mut self) -> Option<()> {
        let result = self.result(0)?;
        let text = self.module.text.get(self.op.range.clone())?;
        let value = text.split_once("dense<").map_or("", |(_, value)| value);
        // One value for all elements takes any shape.
        if !value.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '(' | '+')) {
            self.dims
                .freeze_value(result, self.op, "holds a table of values");
        }
        Some(())
    }

    fn repeat(&mut self) -> Option<()> {
        for (index, operand) in self.op.operands.iter().enumerate() {
            self.dims.same(operand.value, self.result(index)?);
            for region in &self.op.regions {
                self.dims.same(operand.value, *region.arguments.get(index)?);
            }
            if let Some(returned) = self.op.regions.get(1).and_then(|r| self.module.returned(r)) {
                self.dims.same(operand.value, returned.operand(index)?);
            }
        }
        Some(())
    }

    fn branches(&mut self) -> Option<()> {
        for region in &self.op.regions {
            self.returns(region)?;
        }
        Some(())
    }

    fn returns(&mut self, block: &Block) -> Option<()> {
        let returned = self.module.returned(block)?;
        for (operand, &result) in returned.operands.iter().zip(&self.op.results) {
            self.dims.same(operand.value, result);
        }
        Some(())
    }

    /// One input, one carry: cumulative sums.
    fn scan(&mut self) -> Option<()> {
        let operands: Vec<_> = self.op.operands.iter().map(|o| o.value).collect();
        let (&[input, carry], &[out, last]) = (operands.as_slice(), self.op.results.as_slice())
        else {
            return None;
        };
        let &[along] = self.axes(&["dimension"]).as_slice() else {
            return None;
        };
        self.dims.same(input, out);
        self.dims.same(carry, last);
        let scanned = self.node(input, along)?;
        for size in self.integers(&["scan_dim_size"])? {
            self.dims.number(size.range, Expr::Size(scanned));
        }
        let body = self.op.regions.first()?;
        let returned = self.module.returned(body)?;
        let kept: Vec<_> = (0..self.dims.of(input).len())
            .filter(|&a| a != along)
            .collect();
        for value in [body.arguments.first().copied()?, returned.operand(0)?] {
            for (inner, &axis) in kept.iter().enumerate() {
                self.equal(input, axis, value, inner)?;
            }
        }
        for value in [body.arguments.get(1).copied()?, returned.operand(1)?] {
            self.dims.same(carry, value);
        }
        Some(())
    }

    fn call(&mut self) -> Option<()> {
        let callee: &Function = self.module.function(self.op.callee.as_deref()?)?;
        for (operand, &argument) in self.op.operands.iter().zip(&callee.body.arguments) {
            self.dims.same(operand.value, argument);
        }
        self.returns(&callee.body)
    }

    fn custom_call(&mut self) -> Option<()> {
        let text = self.module.text.get(self.op.range.clone())?;
        let sharding = ["@Sharding(", "\"Sharding\"", "@LayoutConstraint("];
        if sharding.iter().any(|s| text.contains(s)) {
            self.elementwise()
        } else {
            None
        }
    }
}

/// Operations whose operands and results have the same dimensions.
const ELEMENTWISE: [&str; 49] = [
    "abs",
    "add",
    "and",
    "atan2",
    "bitcast_convert",
    "cbrt",
    "ceil",
    "clamp",
    "compare",
    "complex",
    "convert",
    "cosine",
    "count_leading_zeros",
    "divide",
    "exponential",
    "exponential_minus_one",
    "floor",
    "imag",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "or",
    "popcnt",
    "power",
    "real",
    "reduce_precision",
    "remainder",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "select",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "uniform_dequantize",
    "uniform_quantize",
    "xor",
];
