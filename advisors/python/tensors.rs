//! Whether an expression is a tensor: local data flow, without running anything.
//!
//! Values come from calls of `torch`, `jax` and NumPy, from annotations, from modules, loaders and
//! optimizers, from parameters of `forward` and of traced functions, and from how a name is bound
//! before its use. What cannot be seen is unknown; it is never guessed to be a tensor, except by
//! a few names (`model`, `loader`, `loss`) where nothing else is known of them, and then only
//! as likely.
//!
//! `flow.rs` follows names to what they are bound to, `calls.rs` knows what calls and attributes
//! give, `modules.rs` which classes are modules, `value.rs` the values.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use ruff_python_ast::{CmpOp, Expr};

use crate::python::index::{Index, NodeId};
use crate::python::names::Names;
use crate::python::scopes::Scopes;
use crate::python::transforms::Transforms;
use crate::python::value::{Framework, Tensor, Value};

/// Steps of the data flow that one question may take.
const MAX_STEPS: u32 = 4000;
/// How deep it may go.
const MAX_DEPTH: u32 = 48;

/// The values of a file's expressions, found when asked for.
#[derive(Debug)]
pub struct Tensors<'a> {
    pub(super) index: &'a Index<'a>,
    pub(super) names: &'a Names<'a>,
    pub(super) scopes: &'a Scopes<'a>,
    pub(super) transforms: &'a Transforms<'a>,
    pub(super) known: RefCell<BTreeMap<NodeId, Value>>,
    pub(super) modules: RefCell<BTreeMap<NodeId, Option<Framework>>>,
    depth: Cell<u32>,
    steps: Cell<u32>,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(
        index: &'a Index<'a>,
        names: &'a Names<'a>,
        scopes: &'a Scopes<'a>,
        transforms: &'a Transforms<'a>,
    ) -> Self {
        Self {
            index,
            names,
            scopes,
            transforms,
            known: RefCell::default(),
            modules: RefCell::default(),
            depth: Cell::new(0),
            steps: Cell::new(0),
        }
    }

    /// Whether an expression of this file is a tensor.
    #[must_use]
    pub fn tensor(&self, expression: &'a Expr) -> Option<Tensor> {
        self.value(expression).tensor()
    }

    /// What is known of an expression of this file.
    #[must_use]
    pub fn value(&self, expression: &'a Expr) -> Value {
        if self.depth.get() == 0 {
            self.steps.set(0);
        }
        let Some(id) = self.index.id_of_expr(expression) else {
            return Value::Unknown;
        };
        if let Some(known) = self.known.borrow().get(&id) {
            return *known;
        }
        self.steps.set(self.steps.get() + 1);
        if self.depth.get() >= MAX_DEPTH || self.steps.get() > MAX_STEPS {
            return Value::Unknown;
        }
        // A value that depends on itself is unknown there.
        self.known.borrow_mut().insert(id, Value::Unknown);
        self.depth.set(self.depth.get() + 1);
        let value = self.compute(id, expression);
        self.depth.set(self.depth.get() - 1);
        self.known.borrow_mut().insert(id, value);
        value
    }

    fn compute(&self, id: NodeId, expression: &'a Expr) -> Value {
        match expression {
            Expr::Name(name) => self.name(id, name),
            Expr::Attribute(attribute) => self.attribute(id, attribute),
            Expr::Call(call) => self.call(id, call),
            Expr::Subscript(subscript) => self.value(&subscript.value).element(),
            Expr::BinOp(op) => self.operation([&*op.left, &*op.right].into_iter()),
            Expr::UnaryOp(op) if op.op.is_not() => Value::Host,
            Expr::UnaryOp(op) => self.operation(std::iter::once(&*op.operand)),
            Expr::Compare(compare) => {
                let by_value =
                    |op: &CmpOp| !matches!(op, CmpOp::Is | CmpOp::IsNot | CmpOp::In | CmpOp::NotIn);
                // Tensors are not compared with strings.
                let text = compare
                    .comparators
                    .iter()
                    .any(|right| matches!(right, Expr::StringLiteral(_) | Expr::NoneLiteral(_)));
                if !text && compare.ops.iter().all(by_value) {
                    let operands = std::iter::once(&*compare.left).chain(&*compare.comparators);
                    self.operation(operands)
                } else {
                    Value::Host
                }
            }
            Expr::BoolOp(op) => self.join(op.values.iter()),
            Expr::If(choice) => self.join([&*choice.body, &*choice.orelse].into_iter()),
            Expr::Named(named) => self.value(&named.value),
            Expr::Starred(starred) => self.value(&starred.value),
            Expr::Tuple(tuple) => self.collection(tuple.elts.iter()),
            Expr::List(list) => self.collection(list.elts.iter()),
            Expr::Set(set) => self.collection(set.elts.iter()),
            Expr::Dict(dict) => self.collection(dict.items.iter().map(|item| &item.value)),
            Expr::ListComp(comp) => self.collection(std::iter::once(&*comp.elt)),
            Expr::Generator(comp) => self.collection(std::iter::once(&*comp.elt)),
            Expr::DictComp(comp) => self.collection(std::iter::once(&*comp.value)),
            Expr::NoneLiteral(_) | Expr::NumberLiteral(_) => Value::Literal,
            Expr::StringLiteral(_)
            | Expr::BytesLiteral(_)
            | Expr::BooleanLiteral(_)
            | Expr::FString(_)
            | Expr::EllipsisLiteral(_)
            | Expr::SetComp(_) => Value::Host,
            _ => Value::Unknown,
        }
    }

    /// An operator: a tensor where one of its operands is.
    fn operation(&self, operands: impl Iterator<Item = &'a Expr>) -> Value {
        let mut found: Option<Tensor> = None;
        let mut host = true;
        for operand in operands {
            match self.value(operand) {
                Value::Tensor(tensor) => {
                    found = Some(found.map_or(tensor, |other| Tensor {
                        certainty: other.certainty.max(tensor.certainty),
                        on_host: other.on_host && tensor.on_host,
                        ..tensor
                    }));
                }
                // A record is neither added nor compared: it is a tensor.
                Value::Output(tensor) => found = Some(found.unwrap_or(tensor)),
                Value::Host | Value::Literal => {}
                _ => host = false,
            }
        }
        match found {
            Some(tensor) => Value::Tensor(tensor),
            None if host => Value::Host,
            None => Value::Unknown,
        }
    }

    pub(super) fn join(&self, parts: impl Iterator<Item = &'a Expr>) -> Value {
        parts
            .map(|part| self.value(part))
            .reduce(Value::or)
            .unwrap_or(Value::Unknown)
    }

    fn collection(&self, parts: impl Iterator<Item = &'a Expr>) -> Value {
        let mut all_host = true;
        for part in parts.take(64) {
            match self.value(part) {
                Value::Host | Value::Literal => {}
                value => match value.inner() {
                    Some(tensor) => return Value::Many(tensor),
                    None => all_host = false,
                },
            }
        }
        if all_host {
            Value::Host
        } else {
            Value::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use ruff_python_ast::Stmt;

    use crate::python::file::SourceFile;
    use crate::python::project::{Project, with_context};
    use crate::python::value::{Certainty, Value};

    /// What is known of the right side of the last assignment to `out` in a text.
    fn value_of(text: &str) -> Value {
        let file = SourceFile::parse("a.py", text.as_bytes().to_vec()).expect("parses");
        with_context(&Project::default(), &file, |context| {
            let mut found = Value::Unknown;
            for (_, node) in context.index.nodes() {
                if let ruff_python_ast::AnyNodeRef::StmtAssign(assign) = node.node
                    && context.text(&assign.targets[0]) == "out"
                {
                    found = context.value(&assign.value);
                }
            }
            assert!(!matches!(
                file.module().body.first(),
                None | Some(Stmt::Pass(_))
            ));
            found
        })
    }

    fn is_tensor(text: &str) -> bool {
        value_of(text)
            .tensor()
            .is_some_and(|tensor| !tensor.on_host)
    }

    #[test]
    fn operations_of_libraries_give_tensors() {
        for line in [
            "out = torch.relu(x)",
            "out = F.softmax(x, dim=-1) * 2",
            "out = jnp.sum(x) > 3",
            "out = torch.zeros(3, device=dev)",
            "y = torch.relu(x); out = y[0].mean().to(dev)",
            "a, b = torch.topk(x, 3); out = b",
            "out = torch.relu(x) if c else torch.tanh(x)",
        ] {
            let text = format!(
                "import torch\nimport jax.numpy as jnp\nimport torch.nn.functional as F\n{line}\n"
            );
            assert!(is_tensor(&text), "{line}");
        }
    }

    #[test]
    fn shapes_flags_and_arrays_of_the_host_are_none() {
        for line in [
            "out = torch.relu(x).shape[0]",
            "out = torch.relu(x).size(0) // 2",
            "out = len(torch.relu(x))",
            "out = torch.relu(x).item()",
            "out = torch.relu(x).cpu().sum()",
            "out = np.asarray([1]).sum()",
            "out = torch.zeros(3)",
            "out = torch.is_tensor(x)",
            "out = torch.relu(x) is None",
            "out = x + 1",
        ] {
            let text = format!("import torch\nimport numpy as np\n{line}\n");
            assert!(!is_tensor(&text), "{line}");
        }
    }

    #[test]
    fn a_name_has_the_value_that_reaches_it() {
        let after = "import torch\ndef f(x: torch.Tensor):\n    x = x.item()\n    out = x\n";
        assert_eq!(value_of(after), Value::Host);
        let branch = "import torch\ndef f(x: torch.Tensor, c):\n    if c:\n        x = x.item()\n    out = x\n";
        assert_eq!(value_of(branch), Value::Unknown);
        let other = "import torch\ndef f(x: torch.Tensor, c):\n    if c:\n        x = 1\n    else:\n        out = x\n";
        assert!(is_tensor(other));
        let sum = "import torch\ntotal = 0\nfor a in b:\n    total += torch.relu(a)\nout = total\n";
        assert!(is_tensor(sum));
        let cycle = "def f(a):\n    while a:\n        a = b\n        b = a\n        out = a\n";
        assert_eq!(value_of(cycle), Value::Unknown);
    }

    #[test]
    fn modules_give_outputs_and_parameters_are_typed() {
        let text = "import torch\nfrom torch import nn\nclass A(nn.Module):\n    def __init__(self):\n        self.layer = nn.Linear(2, 2)\n        self.register_buffer('b', None)\n    def forward(self, hidden_states, n: int, flag=False):\n        out = EXPRESSION\n";
        for (expression, tensor) in [
            ("self.layer(n)", true),
            ("self.b", true),
            ("hidden_states", true),
            ("n", false),
            ("flag", false),
            ("self.layer.weight", true),
            ("self.training", false),
        ] {
            let text = text.replace("EXPRESSION", expression);
            assert_eq!(is_tensor(&text), tensor, "{expression}");
        }
    }

    #[test]
    fn what_a_model_returns_is_likely_a_tensor() {
        let text = "import torch\nmodel = torch.nn.Linear(2, 2)\nfor batch in loader:\n    out = model(batch)\n";
        let tensor = value_of(text).tensor().expect("a tensor");
        assert_eq!(tensor.certainty, Certainty::Likely);
    }
}
