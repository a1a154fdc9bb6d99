//! A StableHLO module: functions, operations and values, each with its place in the text.

use std::ops::Range;

use super::op::{Block, Op, OpId, TypeUse, Value, ValueId};

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name, with `@`.
    pub name: String,
    /// Where its name stands.
    pub name_range: Range<usize>,
    /// Its bytes, from `func.func` to the closing brace.
    pub range: Range<usize>,
    /// The text of each argument's attributes, `{…}`; `None` where there are none.
    pub argument_attributes: Vec<Option<Range<usize>>>,
    /// The text of each result's attributes, `{…}`; `None` where there are none.
    pub result_attributes: Vec<Option<Range<usize>>>,
    /// Its arguments and operations.
    pub body: Block,
}

/// A module read from text.
///
/// Read tolerantly: what is not understood is an [`Op`] whose `typed` is false, never an error.
#[derive(Clone, Debug)]
pub struct Module<'t> {
    /// The text.
    pub text: &'t str,
    /// Its functions, in order.
    pub functions: Vec<Function>,
    pub(crate) ops: Vec<Op>,
    pub(crate) values: Vec<Value>,
    pub(crate) type_uses: Vec<TypeUse>,
}

impl Module<'_> {
    /// The operation `id`.
    #[must_use]
    pub fn op(&self, id: OpId) -> &Op {
        &self.ops[id.0]
    }

    /// The value `id`.
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// All values, by [`ValueId::index`].
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The value called `name` in `function`, outside of its regions.
    #[must_use]
    pub fn named(&self, function: &Function, name: &str) -> Option<ValueId> {
        let results = function
            .body
            .ops
            .iter()
            .flat_map(|&id| self.op(id).results.iter());
        let mut all = function.body.arguments.iter().chain(results).copied();
        all.find(|&v| self.value(v).name == name)
    }

    /// All operations, those of regions before the operation that holds them.
    pub fn ops(&self) -> impl Iterator<Item = (OpId, &Op)> {
        self.ops.iter().enumerate().map(|(i, op)| (OpId(i), op))
    }

    /// Every place where a value's type is written.
    #[must_use]
    pub fn type_uses(&self) -> &[TypeUse] {
        &self.type_uses
    }

    /// The function called `name`, with `@`.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|f| f.name == name)
    }

    /// The function that runs: `@main`, else the first.
    #[must_use]
    pub fn main(&self) -> Option<&Function> {
        self.function("@main").or_else(|| self.functions.first())
    }

    /// What `function` returns, by its last operation.
    #[must_use]
    pub fn returned(&self, block: &Block) -> Option<&Op> {
        block
            .ops
            .last()
            .map(|&id| self.op(id))
            .filter(|op| op.short_name() == "return")
    }

    /// How often each value is read.
    #[must_use]
    pub fn uses(&self) -> Vec<Vec<(OpId, usize)>> {
        let mut uses = vec![Vec::new(); self.values.len()];
        for (id, op) in self.ops() {
            for (i, operand) in op.operands.iter().enumerate() {
                uses[operand.value.0].push((id, i));
            }
        }
        uses
    }
}
