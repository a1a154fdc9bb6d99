//! Which dimensions of a StableHLO program's tensors belong together.
//!
//! Dimensions that an operation passes through unchanged are one: the rows of a matmul's left
//! operand and of its result, all dimensions of an addition's operands, an argument of a call and
//! the callee's. What is left are the program's own axes: batch, sequence, embedding, heads, the
//! MLP's hidden size. A sharding rule per axis then says how every argument lies.
//!
//! The reader is tolerant: an operation that it does not know joins dimensions of tensors of equal
//! rank and size, and lines that it cannot read are left out.

use std::collections::HashMap;

use crate::compiler::sharding::signature::{Header, Port};
use crate::compiler::sharding::tensor::TensorType;
use crate::compiler::sharding::text::{items, list, numbers_after};
use crate::compiler::sharding::union::Union;

/// Statements that are read; of longer programs the first ones.
const MAX_STATEMENTS: usize = 2_000_000;

/// A tensor: where its dimensions stand in the union, and where it came from.
#[derive(Clone, Debug, Default)]
pub(super) struct Value {
    /// The first of its dimensions.
    first: u32,
    /// Its sizes.
    pub(super) dims: Vec<u64>,
    /// Bits of an element.
    bits: u32,
    /// The argument of `@main` that it is, if only converted, transposed or reshaped.
    pub(super) argument: Option<usize>,
}

impl Value {
    fn dim(&self, index: usize) -> Option<u32> {
        (index < self.dims.len()).then(|| self.first + index as u32)
    }

    fn ids(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let first = self.first;
        let sizes = self.dims.iter().enumerate();
        sizes.map(move |(i, size)| (first + i as u32, *size))
    }

    /// Bytes without padding, as a number to compute with.
    fn bytes(&self) -> f64 {
        let elements: f64 = self.dims.iter().map(|size| *size as f64).product();
        elements * f64::from(self.bits) / 8.0
    }
}

/// A tensor of a product, with its dimensions' sets.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// The set of each dimension.
    pub(super) axes: Vec<u32>,
    /// Bytes of the whole.
    pub(super) bytes: f64,
    /// The argument of `@main` that it is.
    pub(super) argument: Option<usize>,
}

/// A product: what most of a model's time and communication comes from.
#[derive(Clone, Debug)]
pub(super) struct Product {
    /// The operands.
    pub(super) operands: [Side; 2],
    /// The result.
    pub(super) result: Side,
    /// Sets of the dimensions that are summed over.
    pub(super) contracted: Vec<u32>,
    /// FLOPs, two for each multiply-add.
    pub(super) flops: f64,
}

/// What the program's text told.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    union: Union,
    /// Dimensions of each argument of `@main`.
    pub(super) arguments: Vec<Vec<u32>>,
    /// Products in program order.
    pub(super) products: Vec<Product>,
    /// How often a set is the leading dimension of a value of rank two or more.
    pub(super) leads: Vec<(u32, u64)>,
    /// Sets that are batching dimensions of a product.
    pub(super) batching: Vec<u32>,
    /// Sets that a gather looks up in.
    pub(super) looked_up: Vec<u32>,
}

impl Flow {
    /// Reads a program. Arguments that are tied have their dimensions in common, whether the
    /// program joins them or not.
    pub(super) fn read(text: &str, ties: &[(usize, usize)]) -> Self {
        let mut reader = Reader::default();
        reader.declare(text);
        reader.walk(text);
        reader.tie_arguments(ties);
        reader.finish()
    }

    /// What divides all sizes of a set.
    pub(super) fn divisor(&self, set: u32) -> u64 {
        self.union.divisor(set)
    }
}

/// A function's arguments and results.
#[derive(Clone, Debug, Default)]
struct Function {
    arguments: Vec<(String, Value)>,
    results: Vec<Value>,
}

struct RawProduct {
    lhs: Value,
    rhs: Value,
    result: Value,
    contracted: Vec<u32>,
    flops: f64,
}

/// An operation whose region is being read.
struct Open {
    results: Vec<Value>,
    /// What a statement with types at its end still needs: names of results, text, operands.
    pending: Option<(String, String)>,
    in_body: bool,
}

#[derive(Default)]
struct Reader {
    union: Union,
    functions: HashMap<String, Function>,
    /// Values of the function that is being read.
    values: HashMap<String, Value>,
    current: String,
    open: Vec<Open>,
    products: Vec<RawProduct>,
    leads: Vec<u32>,
    batching: Vec<u32>,
    looked_up: Vec<u32>,
}

impl Reader {
    fn value(&mut self, ty: &str) -> Value {
        let tensor = TensorType::parse(ty);
        let (dims, bits) = tensor.map_or((Vec::new(), 0), |t| (t.dims, t.dtype.bits()));
        let ids: Vec<u32> = dims.iter().map(|size| self.union.add(*size)).collect();
        Value {
            first: ids.first().copied().unwrap_or_default(),
            dims,
            bits,
            argument: None,
        }
    }

    /// Finds all functions, so that a call can come before its callee.
    fn declare(&mut self, text: &str) {
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            if let Some((name, open)) = function_of(line)
                && let Some(header) = Header::at(text, at + open)
            {
                let mut function = Function::default();
                for (index, range) in header.arguments.into_iter().enumerate() {
                    let raw = text.get(range.clone()).unwrap_or_default();
                    let label = raw.split([':', ' ']).next().unwrap_or_default().to_owned();
                    let port = Port::read(text, range, String::new());
                    let ty = text.get(port.ty).unwrap_or_default();
                    let mut value = self.value(ty);
                    value.argument = (name == "main").then_some(index);
                    function.arguments.push((label, value));
                }
                for range in header.results {
                    let port = Port::read(text, range, String::new());
                    let ty = text.get(port.ty).unwrap_or_default();
                    let value = self.value(ty);
                    function.results.push(value);
                }
                self.functions.insert(name.to_owned(), function);
            }
            at += line.len();
        }
    }

    fn tie_arguments(&mut self, ties: &[(usize, usize)]) {
        let main = self.functions.get("main").cloned().unwrap_or_default();
        for (a, b) in ties {
            if let (Some((_, a)), Some((_, b))) = (main.arguments.get(*a), main.arguments.get(*b)) {
                self.same(a, b);
            }
        }
    }

    fn walk(&mut self, text: &str) {
        for line in text.lines().take(MAX_STATEMENTS) {
            if let Some((name, _)) = function_of(line) {
                name.clone_into(&mut self.current);
                self.open.clear();
                let arguments = self.functions.get(name).map(|f| f.arguments.clone());
                self.values = arguments.unwrap_or_default().into_iter().collect();
                continue;
            }
            let line = line.trim();
            let line = line.split(" loc(").next().unwrap_or(line).trim_end();
            if line.starts_with('%') {
                self.statement(line);
            } else if line.starts_with("return ") || line.starts_with("func.return ") {
                let results = self.functions.get(&self.current).map(|f| f.results.clone());
                self.returned(line, &results.unwrap_or_default());
            } else if line.starts_with("stablehlo.return ") {
                self.region_returns(line);
            } else if line.starts_with("} do {") || line.starts_with("do {") {
                if let Some(open) = self.open.last_mut() {
                    open.in_body = true;
                }
            } else if line.starts_with("})") {
                let pending = self.open.pop().and_then(|open| open.pending);
                if let (Some((names, op)), Some(types)) = (pending, line.rsplit(" : ").next()) {
                    self.define(&names, &format!("{op} : {types}"));
                }
            }
        }
    }

    fn operands(&self, text: &str) -> Vec<Value> {
        let mut found = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            rest = rest.get(at..).unwrap_or_default();
            let end = rest
                .char_indices()
                .skip(1)
                .find(|(_, c)| {
                    !c.is_ascii_alphanumeric() && !matches!(c, '_' | '#' | '$' | '.' | '-')
                })
                .map_or(rest.len(), |(at, _)| at);
            let name = rest.get(..end).unwrap_or_default();
            if let Some(value) = self.values.get(name) {
                found.push(value.clone());
            }
            rest = rest.get(end.max(1)..).unwrap_or_default();
        }
        found
    }

    fn returned(&mut self, line: &str, into: &[Value]) {
        let names = line.split(" : ").next().unwrap_or_default();
        let given = self.operands(names);
        if given.len() == into.len() {
            for (a, b) in given.iter().zip(into) {
                self.same(a, b);
            }
        }
    }

    fn region_returns(&mut self, line: &str) {
        let Some(open) = self.open.last() else { return };
        let is_loop = open.pending.is_none();
        if is_loop && open.in_body {
            let results = open.results.clone();
            self.returned(line, &results);
            self.open.pop();
        }
    }

    fn statement(&mut self, line: &str) {
        let Some((names, rest)) = line.split_once(" = ") else {
            return;
        };
        if rest.ends_with("({") {
            self.open.push(Open {
                results: Vec::new(),
                pending: Some((names.to_owned(), rest.to_owned())),
                in_body: false,
            });
            return;
        }
        self.define(names, rest);
    }

    /// Makes the values of a statement and joins dimensions as its operation says.
    fn define(&mut self, names: &str, rest: &str) {
        let Some(split) = rest.rfind(" : ") else {
            return;
        };
        let (head, types) = (&rest[..split], &rest[split + 3..]);
        let op = head
            .split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '_' | '"'))
            .next()
            .unwrap_or_default()
            .trim_matches('"');
        let is_loop = op == "stablehlo.while";
        let results = result_types(types, is_loop);
        let (name, count) = match names.split_once(':') {
            Some((name, count)) => (name, count.trim().parse().unwrap_or(1)),
            None => (names, 1usize),
        };
        let operands = self.operands(head);
        let mut made = Vec::new();
        for ty in results.iter().take(count.max(1)) {
            let value = self.value(ty);
            made.push(value);
        }
        match op {
            "stablehlo.dot_general" => self.product(head, &operands, &made),
            "stablehlo.transpose" => self.transpose(head, &operands, &mut made),
            "stablehlo.broadcast_in_dim" => self.broadcast(head, &operands, &made),
            "stablehlo.reduce" => self.reduce(head, &operands, &made),
            "stablehlo.reshape" => self.reshape(&operands, &mut made),
            "stablehlo.gather" => self.gather(head, &operands, &made),
            "stablehlo.convert"
            | "stablehlo.bitcast_convert"
            | "stablehlo.optimization_barrier" => {
                for (from, to) in operands.iter().zip(&mut made) {
                    self.alike(from, to);
                    to.argument = from.argument;
                }
            }
            "call" | "func.call" => self.call(head, &operands, &made),
            "stablehlo.while" => {
                self.enter_loop(head, &made);
            }
            "stablehlo.convolution" | "stablehlo.iota" | "stablehlo.constant" => {}
            "stablehlo.custom_call" if !head.contains("@Sharding") => {}
            _ => {
                for value in &made {
                    for operand in &operands {
                        self.alike(operand, value);
                    }
                }
            }
        }
        for value in &made {
            if value.dims.len() >= 2 {
                self.leads.extend(value.dim(0));
            }
        }
        if count == 1 {
            if let Some(value) = made.pop() {
                self.values.insert(name.to_owned(), value);
            }
        } else {
            for (index, value) in made.into_iter().enumerate() {
                self.values.insert(format!("{name}#{index}"), value);
            }
        }
    }

    /// Joins all dimensions of two tensors of the same shape.
    fn same(&mut self, a: &Value, b: &Value) {
        if a.dims == b.dims {
            self.alike(a, b);
        }
    }

    /// Joins dimensions of equal size of two tensors of equal rank.
    fn alike(&mut self, a: &Value, b: &Value) {
        if a.dims.len() == b.dims.len() {
            for index in 0..a.dims.len() {
                self.tie(a, index, b, index);
            }
        }
    }

    fn tie(&mut self, a: &Value, i: usize, b: &Value, j: usize) {
        let (Some(x), Some(y)) = (a.dim(i), b.dim(j)) else {
            return;
        };
        let (m, n) = (a.dims.get(i), b.dims.get(j));
        if m == n && m.is_some_and(|size| *size > 1) {
            self.union.join(x, y);
        }
    }

    fn product(&mut self, head: &str, operands: &[Value], made: &[Value]) {
        let ([lhs, rhs], [result]) = (operands, made) else {
            return;
        };
        let pair = |short: &str, left: &str, right: &str| -> (Vec<usize>, Vec<usize>) {
            if let Some(at) = head.find(short) {
                let rest = head.get(at + short.len()..).unwrap_or_default();
                let left = list(rest).unwrap_or_default();
                let after = rest.split_once("] x ").map_or("", |(_, after)| after);
                return (left, list(after).unwrap_or_default());
            }
            (
                numbers_after(head, left).unwrap_or_default(),
                numbers_after(head, right).unwrap_or_default(),
            )
        };
        let (lhs_batch, rhs_batch) = pair(
            "batching_dims =",
            "lhs_batching_dimensions",
            "rhs_batching_dimensions",
        );
        let (lhs_sum, rhs_sum) = pair(
            "contracting_dims =",
            "lhs_contracting_dimensions",
            "rhs_contracting_dimensions",
        );
        let mut contracted = Vec::new();
        let mut flops = 2.0;
        for (&i, &j) in lhs_sum.iter().zip(&rhs_sum) {
            self.tie(lhs, i, rhs, j);
            contracted.extend(lhs.dim(i));
            flops *= lhs.dims.get(i).copied().unwrap_or(1) as f64;
        }
        flops *= result.dims.iter().map(|size| *size as f64).product::<f64>();
        let mut at = 0;
        for (&i, &j) in lhs_batch.iter().zip(&rhs_batch) {
            self.tie(lhs, i, rhs, j);
            self.tie(lhs, i, result, at);
            self.batching.extend(lhs.dim(i));
            at += 1;
        }
        for (side, batch, sum) in [(lhs, &lhs_batch, &lhs_sum), (rhs, &rhs_batch, &rhs_sum)] {
            for index in 0..side.dims.len() {
                if !batch.contains(&index) && !sum.contains(&index) {
                    self.tie(side, index, result, at);
                    at += 1;
                }
            }
        }
        self.products.push(RawProduct {
            lhs: lhs.clone(),
            rhs: rhs.clone(),
            result: result.clone(),
            contracted,
            flops,
        });
    }

    fn transpose(&mut self, head: &str, operands: &[Value], made: &mut [Value]) {
        let ([from, ..], [to]) = (operands, made) else {
            return;
        };
        let order = numbers_after(head, "dims =").or_else(|| numbers_after(head, "permutation"));
        for (j, i) in order.unwrap_or_default().into_iter().enumerate() {
            self.tie(from, i, to, j);
        }
        to.argument = from.argument;
    }

    fn broadcast(&mut self, head: &str, operands: &[Value], made: &[Value]) {
        let ([from, ..], [to]) = (operands, made) else {
            return;
        };
        let dims = numbers_after(head, "dims =")
            .or_else(|| numbers_after(head, "broadcast_dimensions"))
            .unwrap_or_default();
        for (i, j) in dims.into_iter().enumerate() {
            self.tie(from, i, to, j);
        }
    }

    fn reduce(&mut self, head: &str, operands: &[Value], made: &[Value]) {
        let gone = numbers_after(head, "dimensions =").unwrap_or_default();
        for (from, to) in operands.iter().filter(|o| !o.dims.is_empty()).zip(made) {
            let kept = (0..from.dims.len()).filter(|dim| !gone.contains(dim));
            for (j, i) in kept.enumerate() {
                self.tie(from, i, to, j);
            }
        }
    }

    /// Joins a dimension that is cut into several with the outermost of them: that is where its
    /// sharding goes.
    fn reshape(&mut self, operands: &[Value], made: &mut [Value]) {
        let ([from, ..], [to]) = (operands, made) else {
            return;
        };
        to.argument = from.argument;
        let (mut i, mut j) = (0, 0);
        while i < from.dims.len() && j < to.dims.len() {
            let (first_i, first_j) = (i, j);
            let at = |value: &Value, index: usize| {
                u128::from(value.dims.get(index).copied().unwrap_or(1))
            };
            let (mut a, mut b) = (at(from, i), at(to, j));
            while a != b {
                if a < b && i + 1 < from.dims.len() {
                    i += 1;
                    a = a.saturating_mul(at(from, i));
                } else if b < a && j + 1 < to.dims.len() {
                    j += 1;
                    b = b.saturating_mul(at(to, j));
                } else {
                    return;
                }
            }
            let outer = |value: &Value, first: usize, last: usize| {
                (first..=last)
                    .find(|index| at(value, *index) > 1)
                    .and_then(|index| Some((value.dim(index)?, at(value, index))))
            };
            if let (Some((x, m)), Some((y, n))) = (outer(from, first_i, i), outer(to, first_j, j))
                && (m.is_multiple_of(n) || n.is_multiple_of(m))
            {
                self.union.join(x, y);
            }
            i += 1;
            j += 1;
        }
    }

    fn gather(&mut self, head: &str, operands: &[Value], made: &[Value]) {
        let ([table, indices, ..], [to]) = (operands, made) else {
            return;
        };
        let offsets = numbers_after(head, "offset_dims =").unwrap_or_default();
        let collapsed = numbers_after(head, "collapsed_slice_dims =").unwrap_or_default();
        let vector = numbers_after(head, "index_vector_dim =");
        let whole = (0..table.dims.len()).filter(|dim| !collapsed.contains(dim));
        for (i, j) in whole.zip(&offsets) {
            self.tie(table, i, to, *j);
        }
        for dim in &collapsed {
            self.looked_up.extend(table.dim(*dim));
        }
        // Without a list the number stands alone; indices' last dimension is the usual one.
        let vector = vector.and_then(|v| v.first().copied());
        let vector = vector.unwrap_or(indices.dims.len().saturating_sub(1));
        let others = (0..indices.dims.len()).filter(|dim| *dim != vector);
        let batch = (0..to.dims.len()).filter(|dim| !offsets.contains(dim));
        for (i, j) in others.zip(batch) {
            self.tie(indices, i, to, j);
        }
    }

    fn call(&mut self, head: &str, operands: &[Value], made: &[Value]) {
        let Some(name) = head.split('@').nth(1).and_then(|r| r.split('(').next()) else {
            return;
        };
        let Some(callee) = self.functions.get(name).cloned() else {
            return;
        };
        for (given, (_, taken)) in operands.iter().zip(&callee.arguments) {
            self.same(given, taken);
        }
        for (value, result) in made.iter().zip(&callee.results) {
            self.same(value, result);
        }
    }

    /// `stablehlo.while(%iterArg = %0, …)`: what goes in, goes around and comes out is the same.
    fn enter_loop(&mut self, head: &str, made: &[Value]) {
        let open = head.find('(').map_or(head.len(), |at| at + 1);
        let close = head.rfind(')').unwrap_or(head.len()).max(open);
        for (range, value) in items(head, open..close).into_iter().zip(made) {
            let item = head.get(range).unwrap_or_default();
            let Some((inner, outer)) = item.split_once(" = ") else {
                continue;
            };
            for given in self.operands(outer) {
                self.same(&given, value);
            }
            self.values.insert(inner.trim().to_owned(), value.clone());
        }
        self.open.push(Open {
            results: made.to_vec(),
            pending: None,
            in_body: false,
        });
    }

    fn finish(mut self) -> Flow {
        self.union.flatten();
        let union = self.union;
        let side = |value: &Value| Side {
            axes: value.ids().map(|(id, _)| union.root(id)).collect(),
            bytes: value.bytes(),
            argument: value.argument,
        };
        let roots = |ids: &[u32]| {
            let mut roots: Vec<u32> = ids.iter().map(|id| union.root(*id)).collect();
            roots.sort_unstable();
            roots
        };
        let products = self
            .products
            .iter()
            .map(|product| Product {
                operands: [side(&product.lhs), side(&product.rhs)],
                result: side(&product.result),
                contracted: roots(&product.contracted),
                flops: product.flops,
            })
            .collect();
        let leads = roots(&self.leads)
            .chunk_by(|a, b| a == b)
            .filter_map(|same| Some((*same.first()?, same.len() as u64)))
            .collect();
        let unique = |ids: &[u32]| {
            let mut found = roots(ids);
            found.dedup();
            found
        };
        let (batching, looked_up) = (unique(&self.batching), unique(&self.looked_up));
        let arguments = self.functions.get("main").map(|main| {
            let arguments = main.arguments.iter();
            let ids = |value: &Value| value.ids().map(|(id, _)| union.root(id)).collect();
            arguments.map(|(_, value)| ids(value)).collect()
        });
        Flow {
            arguments: arguments.unwrap_or_default(),
            products,
            leads,
            batching,
            looked_up,
            union,
        }
    }
}

/// The name of the function that a line begins, and where its arguments open.
fn function_of(line: &str) -> Option<(&str, usize)> {
    let rest = line.trim_start().strip_prefix("func.func ")?;
    let at = rest.find('@')?;
    let rest = rest.get(at + 1..)?;
    let open = rest.find('(')?;
    Some((rest.get(..open)?, line.len() - rest.len() + open))
}

/// Types of a statement's results from what stands behind its last colon.
fn result_types(types: &str, is_loop: bool) -> Vec<&str> {
    let arrow = types.find("->");
    let results = arrow.map_or(types, |at| types.get(at + 2..).unwrap_or_default());
    let results = results.trim().trim_start_matches('(').trim_end_matches(')');
    let found: Vec<&str> = items(results, 0..results.len())
        .into_iter()
        .filter_map(|range| results.get(range))
        .collect();
    if arrow.is_some() || is_loop {
        return found;
    }
    // Operands and result have one type, or (`select`) the last one is the result's.
    found.last().copied().into_iter().collect()
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
