//! Whether an expression is a tensor: local data flow, without running anything.
//!
//! Values come from calls of `torch`, `jax` and NumPy, from annotations, from modules, loaders and
//! optimizers, from parameters of `forward` and of traced functions, and from how a name is bound
//! before its use. What cannot be seen is unknown; it is never guessed to be a tensor, except by
//! a few names (`model`, `loader`, `loss`) where nothing else is known of them, and then only
//! as likely.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use ruff_python_ast::{
    AnyNodeRef, CmpOp, Expr, ExprAttribute, ExprCall, ExprName, Parameter, StmtClassDef,
};

use crate::python::annotations;
use crate::python::index::{Index, NodeId};
use crate::python::libraries::{self, Gives};
use crate::python::names::Names;
use crate::python::scopes::{Binding, Scope, Scopes, Source, Step, bases, is_self};
use crate::python::transforms::Transforms;

/// How sure it is that an expression is a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// The names and the shape of the code suggest it.
    Likely,
    /// It follows from the code, if the libraries are what they are called.
    Certain,
}

/// Whose tensor it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    /// PyTorch, by whatever path to the TPU.
    Torch,
    /// JAX.
    Jax,
}

/// A tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Whose.
    pub framework: Framework,
    /// How sure.
    pub certainty: Certainty,
    /// Whether it is known to be in the host's memory: reading it there costs nothing.
    pub on_host: bool,
}

impl Tensor {
    /// A tensor that may be on the device.
    const fn new(framework: Framework, certainty: Certainty) -> Self {
        Self {
            framework,
            certainty,
            on_host: false,
        }
    }

    fn likely(mut self) -> Self {
        self.certainty = Certainty::Likely;
        self
    }
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Unknown,
    /// A Python number, string, flag, shape or NumPy array.
    Host,
    /// `None` or a number that is written out: the start of a sum.
    Literal,
    /// A tensor.
    Tensor(Tensor),
    /// A tuple, list, dict or tree of tensors.
    Many(Tensor),
    /// What a module returns: a tensor, or a record of tensors.
    Output(Tensor),
    /// A module of a network, to be called.
    Module(Framework),
    /// A loader; `device` where its batches are on the device already.
    Loader {
        /// Whether its batches are on the device.
        device: bool,
    },
    /// An optimizer.
    Optimizer,
    /// A function that the device runs: made by `jax.jit`, `torch.compile`.
    Compiled(Framework),
}

impl Value {
    /// The tensor that it is; that an output is one is likely at best.
    fn tensor(self) -> Option<Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            Self::Output(tensor) => Some(tensor.likely()),
            _ => None,
        }
    }

    /// The tensor in it, however deep.
    fn inner(self) -> Option<Tensor> {
        match self {
            Self::Tensor(tensor) | Self::Output(tensor) | Self::Many(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// What iterating over it, or taking an item of it, gives.
    fn element(self) -> Self {
        match self {
            Self::Tensor(tensor) => Self::Tensor(tensor),
            Self::Many(tensor) => Self::Output(tensor),
            Self::Output(tensor) => Self::Tensor(tensor.likely()),
            Self::Loader { device } => Self::Many(Tensor {
                framework: Framework::Torch,
                certainty: Certainty::Likely,
                on_host: !device,
            }),
            Self::Host | Self::Literal => Self::Host,
            Self::Unknown | Self::Module(_) | Self::Optimizer | Self::Compiled(_) => Self::Unknown,
        }
    }

    /// What it is where it is one of two.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Tensor(a), Self::Tensor(b)) => Self::Tensor(either(a, b)),
            (Self::Many(a), Self::Many(b)) => Self::Many(either(a, b)),
            (Self::Output(a), Self::Output(b) | Self::Tensor(b))
            | (Self::Tensor(a), Self::Output(b)) => Self::Output(either(a, b)),
            (Self::Literal, Self::Tensor(tensor)) | (Self::Tensor(tensor), Self::Literal) => {
                Self::Tensor(tensor.likely())
            }
            (Self::Literal, value) | (value, Self::Literal) => value,
            _ => Self::Unknown,
        }
    }
}

fn either(a: Tensor, b: Tensor) -> Tensor {
    Tensor {
        framework: a.framework,
        certainty: a.certainty.min(b.certainty),
        on_host: a.on_host && b.on_host,
    }
}

/// Steps of the data flow that one question may take.
const MAX_STEPS: u32 = 4000;
/// How deep it may go.
const MAX_DEPTH: u32 = 48;

/// The values of a file's expressions, found when asked for.
#[derive(Debug)]
pub struct Tensors<'a> {
    index: &'a Index<'a>,
    names: &'a Names<'a>,
    scopes: &'a Scopes<'a>,
    transforms: &'a Transforms<'a>,
    known: RefCell<BTreeMap<NodeId, Value>>,
    modules: RefCell<BTreeMap<NodeId, Option<Framework>>>,
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
                if compare.ops.iter().all(by_value) {
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
                Value::Output(tensor) => found = Some(found.unwrap_or(tensor.likely())),
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

    fn join(&self, parts: impl Iterator<Item = &'a Expr>) -> Value {
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

    fn name(&self, id: NodeId, name: &ExprName) -> Value {
        let word = name.id.as_str();
        let mut scope: Scope = self.index.get(id).and_then(|node| node.function);
        let own = scope;
        loop {
            if let Some(bindings) = self.scopes.bindings(scope, word) {
                return if scope == own {
                    self.reaching(id, name, bindings)
                } else {
                    self.any_of(bindings)
                };
            }
            let Some(function) = scope else { break };
            scope = self.index.get(function).and_then(|node| node.function);
        }
        if is_self(&Expr::Name(name.clone())) {
            return Value::Unknown;
        }
        match word {
            "True" | "False" | "__name__" | "__file__" => Value::Host,
            _ => by_custom(word),
        }
    }

    /// The join of the bindings that reach a use: those before it, back to one that is always
    /// passed; where there is none before, those of an earlier turn of the loop.
    fn reaching(&self, id: NodeId, name: &ExprName, bindings: &'a [Binding<'a>]) -> Value {
        let at = name.range.start();
        let mut found: Option<Value> = None;
        for binding in bindings.iter().rev().filter(|binding| binding.from <= at) {
            let (reaches, always) = self.passes(binding.node, id);
            if !reaches {
                continue;
            }
            let value = self.bound(binding, name.id.as_str());
            found = Some(found.map_or(value, |other| other.or(value)));
            if always {
                return found.unwrap_or(Value::Unknown);
            }
        }
        found.unwrap_or_else(|| self.any_of(bindings))
    }

    /// Whether control may pass from a binding to a later use, and whether it always came by it.
    fn passes(&self, binding: NodeId, at: NodeId) -> (bool, bool) {
        let Some(node) = self.index.get(binding) else {
            return (false, false);
        };
        if matches!(node.node, AnyNodeRef::Parameter(_)) {
            return (true, true);
        }
        let Some(block) = node.parent else {
            return (true, true);
        };
        // Within a comprehension its names hold there and nowhere else.
        let within = block == at || self.index.ancestors(at).any(|(id, _)| id == block);
        if matches!(node.node, AnyNodeRef::Comprehension(_)) {
            return (within, within);
        }
        if !within {
            return (true, false);
        }
        // In another branch of the same `if`?
        let other_branch = matches!(
            self.index.get(block).map(|node| node.node),
            Some(AnyNodeRef::StmtIf(_))
        ) && self
            .index
            .ancestors(at)
            .take_while(|(id, _)| *id != block)
            .any(|(_, node)| matches!(node.node, AnyNodeRef::ElifElseClause(_)))
            && self
                .index
                .ancestors(at)
                .find(|(_, node)| node.parent == Some(block))
                .is_some_and(|(_, node)| matches!(node.node, AnyNodeRef::ElifElseClause(_)));
        if other_branch {
            return (false, false);
        }
        // The target of a loop holds in the loop; after it, only if it ran.
        (true, true)
    }

    fn any_of(&self, bindings: &'a [Binding<'a>]) -> Value {
        bindings
            .iter()
            .take(16)
            .map(|binding| self.bound(binding, ""))
            .reduce(Value::or)
            .unwrap_or(Value::Unknown)
    }

    fn bound(&self, binding: &'a Binding<'a>, name: &str) -> Value {
        match &binding.source {
            Source::Parameter {
                parameter,
                default,
                variadic,
            } => self.parameter(binding.node, parameter, *default, *variadic),
            Source::Assigned { value, path } => {
                let found = self.part(value, path);
                // Of `loss = something(unknown)` the name still tells.
                if found == Value::Unknown && path.is_empty() && name == "loss" {
                    by_custom(name)
                } else {
                    found
                }
            }
            Source::Annotated { annotation, value } => match self.annotated(annotation) {
                Value::Unknown => value.map_or(Value::Unknown, |value| self.value(value)),
                found => found,
            },
            Source::Augmented(assign) => {
                let value = self.value(&assign.value);
                match value.tensor() {
                    Some(tensor) => Value::Tensor(tensor),
                    None => match &*assign.target {
                        Expr::Name(target) => {
                            let id = self.index.id_of_expr(&assign.target);
                            let before = id.map_or(Value::Unknown, |id| self.name(id, target));
                            self.known.borrow_mut().remove(&id.unwrap_or_default());
                            if before.tensor().is_some() {
                                before
                            } else {
                                value
                            }
                        }
                        _ => Value::Unknown,
                    },
                }
            }
            Source::Function(function) => match self.transforms.of(*function) {
                Some(trace) if trace.runs_on_device => Value::Compiled(trace.framework),
                _ => Value::Unknown,
            },
            Source::Opaque => Value::Unknown,
        }
    }

    /// A part of a value, as a target of an assignment or a loop takes it.
    fn part(&self, value: &'a Expr, path: &[Step]) -> Value {
        let Some((first, rest)) = path.split_first() else {
            return self.value(value);
        };
        match (first, value) {
            (Step::Item(item), Expr::Tuple(tuple)) => match tuple.elts.get(*item) {
                Some(Expr::Starred(_)) | None => Value::Unknown,
                Some(part) => self.part(part, rest),
            },
            (Step::Element, Expr::Call(call)) => {
                let first = call.arguments.args.first();
                match (&*call.func, rest.split_first(), first) {
                    (Expr::Name(name), Some((Step::Item(item), rest)), Some(first)) => {
                        match (name.id.as_str(), *item) {
                            ("enumerate", 0) => Value::Host,
                            ("enumerate", 1) => self.steps_from(self.iterated(first), rest),
                            ("zip", item) => match call.arguments.args.get(item) {
                                Some(part) => self.steps_from(self.iterated(part), rest),
                                None => Value::Unknown,
                            },
                            _ => self.steps_from(self.iterated(value), &path[1..]),
                        }
                    }
                    (Expr::Attribute(attribute), Some((Step::Item(item), rest)), None)
                        if attribute.attr.as_str() == "items" =>
                    {
                        if *item == 0 {
                            Value::Host
                        } else {
                            self.steps_from(self.value(&attribute.value).element(), rest)
                        }
                    }
                    _ => self.steps_from(self.iterated(value), rest),
                }
            }
            (Step::Element, _) => self.steps_from(self.iterated(value), rest),
            (Step::Item(_), _) => self.steps_from(self.value(value).element(), rest),
        }
    }

    fn steps_from(&self, value: Value, path: &[Step]) -> Value {
        path.iter().fold(value, |value, _| value.element())
    }

    /// What a loop over an expression gives: progress bars and slices pass their own through.
    fn iterated(&self, expression: &'a Expr) -> Value {
        let mut inner = expression;
        for _ in 0..8 {
            let Expr::Call(call) = inner else { break };
            let name = match &*call.func {
                Expr::Name(name) => name.id.as_str(),
                Expr::Attribute(attribute) => match attribute.attr.as_str() {
                    "values" if call.arguments.args.is_empty() => {
                        inner = &attribute.value;
                        continue;
                    }
                    other => other,
                },
                _ => break,
            };
            let passes = matches!(
                name,
                "tqdm"
                    | "trange"
                    | "islice"
                    | "iter"
                    | "cycle"
                    | "list"
                    | "tuple"
                    | "reversed"
                    | "track"
                    | "progress_bar"
                    | "log_every"
            );
            match call.arguments.args.first() {
                Some(first) if passes => inner = first,
                _ => break,
            }
        }
        match inner {
            Expr::Tuple(tuple) => self.join(tuple.elts.iter().take(16)),
            Expr::List(list) => self.join(list.elts.iter().take(16)),
            _ => self.value(inner).element(),
        }
    }

    fn parameter(
        &self,
        id: NodeId,
        parameter: &'a Parameter,
        default: Option<&'a Expr>,
        variadic: bool,
    ) -> Value {
        let word = parameter.name.as_str();
        let function = self.index.get(id).and_then(|node| node.function);
        if word == "self" || word == "cls" {
            return Value::Unknown;
        }
        if let Some(annotation) = &parameter.annotation {
            let value = self.annotated(annotation);
            if value != Value::Unknown {
                return match value {
                    Value::Tensor(tensor) | Value::Many(tensor) if variadic => Value::Many(tensor),
                    _ => value,
                };
            }
        }
        if matches!(
            default,
            Some(Expr::BooleanLiteral(_) | Expr::NumberLiteral(_) | Expr::StringLiteral(_))
        ) {
            return Value::Host;
        }
        let Some(function) = function else {
            return Value::Unknown;
        };
        let annotated = parameter.annotation.is_some();
        if let Some(trace) = self.transforms.of(function)
            && !annotated
        {
            if trace.is_static(word) {
                return Value::Host;
            }
            let tensor = Tensor::new(trace.framework, Certainty::Certain);
            return if trace.framework == Framework::Torch {
                Value::Unknown
            } else if variadic {
                Value::Many(tensor)
            } else {
                Value::Output(tensor)
            };
        }
        if !annotated
            && !variadic
            && let Some(framework) = self.forward_of(function)
            && is_tensor_name(word)
        {
            return Value::Tensor(Tensor::new(framework, Certainty::Likely));
        }
        if variadic || annotated {
            return Value::Unknown;
        }
        match self.passed(function, word) {
            Value::Unknown => by_custom(word),
            value => value,
        }
    }

    /// What the calls of a function in this file pass for a parameter.
    fn passed(&self, function: NodeId, word: &str) -> Value {
        let Some(AnyNodeRef::StmtFunctionDef(def)) = self.index.get(function).map(|n| n.node)
        else {
            return Value::Unknown;
        };
        let position = def
            .parameters
            .posonlyargs
            .iter()
            .chain(&def.parameters.args)
            .position(|parameter| parameter.name().as_str() == word);
        let skip = usize::from(self.scopes.class_of_method(function).is_some());
        let position = position.and_then(|position| position.checked_sub(skip));
        self.scopes
            .calls_of(function)
            .iter()
            .take(8)
            .filter_map(|call| {
                call.arguments
                    .find_argument_value(word, position.unwrap_or(usize::MAX))
            })
            .map(|argument| self.value(argument))
            .reduce(Value::or)
            .map_or(Value::Unknown, |value| match value {
                Value::Tensor(tensor) => Value::Tensor(tensor.likely()),
                other => other,
            })
    }

    fn annotated(&self, annotation: &'a Expr) -> Value {
        annotations::value(annotation, self.names, self.index)
    }

    /// Whether a function is `forward` of a module, and whose.
    pub(super) fn forward_of(&self, function: NodeId) -> Option<Framework> {
        let class = self.scopes.class_of_method(function)?;
        let AnyNodeRef::StmtFunctionDef(def) = self.index.get(function)?.node else {
            return None;
        };
        let framework = self.module_class(class)?;
        let name = def.name.as_str();
        let runs = match framework {
            Framework::Torch => {
                matches!(name, "forward" | "training_step")
            }
            Framework::Jax => name == "__call__",
        };
        runs.then_some(framework)
    }

    /// Whether a class of this file is a module of a network, and whose.
    #[must_use]
    pub fn module_class(&self, class: NodeId) -> Option<Framework> {
        if let Some(known) = self.modules.borrow().get(&class) {
            return *known;
        }
        self.modules.borrow_mut().insert(class, None);
        let line = self.scopes.lineage(self.index, class);
        let found =
            line.into_iter()
                .find_map(|class| match self.index.get(class).map(|node| node.node) {
                    Some(AnyNodeRef::StmtClassDef(class)) => self.module_bases(class),
                    _ => None,
                });
        let found = found.or_else(|| self.by_forward(class));
        self.modules.borrow_mut().insert(class, found);
        found
    }

    fn module_bases(&self, class: &'a StmtClassDef) -> Option<Framework> {
        bases(class).find_map(|base| {
            let name = self.names.qualified(base, self.index)?;
            let last = name.rsplit('.').next().unwrap_or(&name);
            if name.starts_with("flax.")
                || name.starts_with("haiku.")
                || name.starts_with("equinox.")
            {
                return (last == "Module").then_some(Framework::Jax);
            }
            let torch = matches!(last, "Module" | "LightningModule" | "Sequential")
                || (last.ends_with("PreTrainedModel")
                    && !last.starts_with("Flax")
                    && !last.starts_with("TF"))
                || last == "Function" && name.starts_with("torch.");
            torch.then_some(Framework::Torch)
        })
    }

    /// A class with `forward` in a file that uses PyTorch, whose base class is out of sight.
    fn by_forward(&self, class: NodeId) -> Option<Framework> {
        let AnyNodeRef::StmtClassDef(def) = self.index.get(class)?.node else {
            return None;
        };
        let forward = self.scopes.method(self.index, class, "forward")?;
        let based = bases(def).next().is_some();
        (based && self.names.imports("torch") && self.index.get(forward).is_some())
            .then_some(Framework::Torch)
    }

    fn attribute(&self, id: NodeId, attribute: &'a ExprAttribute) -> Value {
        let word = attribute.attr.as_str();
        if is_self(&attribute.value) {
            return self.own_attribute(id, word);
        }
        match self.value(&attribute.value) {
            Value::Tensor(tensor) => {
                if libraries::attribute_is_tensor(word) {
                    Value::Tensor(tensor)
                } else {
                    Value::Host
                }
            }
            Value::Output(tensor) | Value::Many(tensor) if libraries::output_attribute(word) => {
                Value::Output(tensor)
            }
            Value::Output(tensor) if libraries::attribute_is_tensor(word) => {
                Value::Tensor(tensor.likely())
            }
            Value::Output(_) if matches!(word, "shape" | "ndim" | "dtype" | "device" | "size") => {
                Value::Host
            }
            Value::Module(framework) if matches!(word, "weight" | "bias") => {
                Value::Tensor(Tensor::new(framework, Certainty::Certain))
            }
            Value::Module(framework) if word == "module" => Value::Module(framework),
            Value::Unknown if matches!(word, "shape" | "ndim" | "dtype") => Value::Host,
            _ => Value::Unknown,
        }
    }

    fn own_attribute(&self, id: NodeId, word: &str) -> Value {
        let Some(class) = self.scopes.class_around(self.index, id) else {
            return by_custom(word);
        };
        for class in self.scopes.lineage(self.index, class) {
            if self.scopes.is_buffer(class, word) {
                return Value::Tensor(Tensor::new(Framework::Torch, Certainty::Certain));
            }
            let bindings = self.scopes.attribute(class, word);
            if !bindings.is_empty() {
                return match self.any_of(bindings) {
                    Value::Unknown => by_custom(word),
                    // Where a module keeps it, it was moved with the module.
                    Value::Tensor(tensor) if self.module_class(class).is_some() => {
                        Value::Tensor(tensor.likely())
                    }
                    value => value,
                };
            }
        }
        by_custom(word)
    }

    fn call(&self, id: NodeId, call: &'a ExprCall) -> Value {
        if let Some(name) = self.names.qualified(&call.func, self.index) {
            return self.library(call, &name);
        }
        match &*call.func {
            Expr::Name(name) => {
                if let Some(value) = self.builtin(name.id.as_str(), call) {
                    return value;
                }
                self.called(id, call)
            }
            Expr::Attribute(attribute) => {
                let word = attribute.attr.as_str();
                match self.value(&attribute.value) {
                    Value::Tensor(tensor) => self.of_method(tensor, word, call),
                    Value::Output(tensor) => {
                        if matches!(word, "items" | "values" | "keys" | "get" | "pop") {
                            Value::Many(tensor)
                        } else {
                            self.of_method(tensor.likely(), word, call)
                        }
                    }
                    Value::Many(tensor) => match word {
                        "to" | "cuda" | "values" | "items" | "copy" => Value::Many(Tensor {
                            on_host: false,
                            ..tensor
                        }),
                        "pop" | "get" => Value::Output(tensor),
                        _ => Value::Unknown,
                    },
                    Value::Module(framework) => match word {
                        "to" | "cuda" | "train" | "eval" | "half" | "bfloat16" | "float" => {
                            Value::Module(framework)
                        }
                        "generate" | "forward" | "apply" | "training_step" => {
                            Value::Output(Tensor::new(framework, Certainty::Likely))
                        }
                        _ => Value::Unknown,
                    },
                    Value::Host => Value::Host,
                    Value::Unknown if libraries::only_tensors_have(word) => {
                        Value::Tensor(Tensor::new(self.framework(), Certainty::Likely))
                    }
                    Value::Unknown if matches!(word, "item" | "tolist" | "numpy" | "size") => {
                        Value::Host
                    }
                    _ => self.called(id, call),
                }
            }
            _ => self.called(id, call),
        }
    }

    /// Whose tensors a file has, where only their methods show it.
    fn framework(&self) -> Framework {
        if self.names.imports("torch") {
            Framework::Torch
        } else {
            Framework::Jax
        }
    }

    fn of_method(&self, tensor: Tensor, word: &str, call: &'a ExprCall) -> Value {
        match word {
            "cpu" => Value::Tensor(Tensor {
                on_host: true,
                ..tensor
            }),
            "cuda" | "xla" => Value::Tensor(Tensor {
                on_host: false,
                ..tensor
            }),
            "to" => {
                let device = call.arguments.find_argument_value("device", 0);
                let on_host = match device {
                    Some(device) if is_cpu(device) => true,
                    Some(device) if self.is_dtype(device) => tensor.on_host,
                    Some(_) => false,
                    None => tensor.on_host,
                };
                Value::Tensor(Tensor { on_host, ..tensor })
            }
            _ => match libraries::method(word) {
                Gives::Host => Value::Host,
                Gives::Many(_) => Value::Many(tensor),
                _ => Value::Tensor(tensor),
            },
        }
    }

    fn is_dtype(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Attribute(attribute) => {
                attribute.attr.as_str().contains("dtype")
                    || self
                        .names
                        .qualified(expression, self.index)
                        .is_some_and(|name| name.starts_with("torch."))
            }
            Expr::Name(name) => name.id.as_str().contains("dtype"),
            _ => false,
        }
    }

    fn library(&self, call: &'a ExprCall, name: &str) -> Value {
        let certain = |framework| Tensor::new(framework, Certainty::Certain);
        match libraries::call(name) {
            Gives::Tensor(framework) => Value::Tensor(self.placed(call, certain(framework))),
            Gives::Many(framework) => Value::Many(self.placed(call, certain(framework))),
            Gives::Created(framework) => {
                let device = call.arguments.find_keyword("device");
                let on_host = device.is_none_or(|device| is_cpu(&device.value));
                Value::Tensor(Tensor {
                    on_host,
                    ..certain(framework)
                })
            }
            Gives::Host => Value::Host,
            Gives::Module(framework) => Value::Module(framework),
            Gives::Optimizer => Value::Optimizer,
            Gives::Loader { device } => Value::Loader { device },
            Gives::Compiled(framework) => match call.arguments.args.first() {
                // A compiled module is one still.
                Some(first) => match self.value(first) {
                    Value::Module(framework) => Value::Module(framework),
                    _ => Value::Compiled(framework),
                },
                None => Value::Compiled(framework),
            },
            Gives::Unknown => {
                let last = name.rsplit('.').next().unwrap_or(name);
                if last == "from_pretrained" && name.contains("Model") {
                    Value::Module(Framework::Torch)
                } else {
                    Value::Unknown
                }
            }
        }
    }

    /// The result of an operation is where its operands are.
    fn placed(&self, call: &'a ExprCall, tensor: Tensor) -> Tensor {
        let mut known = false;
        for argument in call.arguments.args.iter().take(8) {
            match self.value(argument).inner() {
                Some(tensor) if tensor.on_host => known = true,
                Some(_) => return tensor,
                None => {}
            }
        }
        Tensor {
            on_host: known,
            ..tensor
        }
    }

    fn builtin(&self, name: &str, call: &'a ExprCall) -> Option<Value> {
        let first = call.arguments.args.first();
        let value = match name {
            "int" | "float" | "bool" | "str" | "len" | "range" | "isinstance" | "hasattr"
            | "id" | "type" | "repr" | "round" | "format" | "any" | "all" | "callable" | "open"
            | "print" | "hash" | "input" | "getattr" | "issubclass" => Value::Host,
            "sum" => {
                let value = self.iterated(first?);
                value.tensor().map_or(value, Value::Tensor)
            }
            "abs" | "pow" => self.value(first?),
            "max" | "min" => match self.value(first?) {
                Value::Host | Value::Literal => Value::Host,
                _ => Value::Unknown,
            },
            "list" | "tuple" | "iter" | "reversed" | "sorted" | "next" | "tqdm" | "dict" => {
                let value = self.value(first?);
                match (name, value) {
                    ("next", value) => value.element(),
                    (_, Value::Tensor(tensor) | Value::Output(tensor)) => Value::Many(tensor),
                    (_, value) => value,
                }
            }
            _ => return None,
        };
        // Unless the file has a function of that name.
        match &*call.func {
            Expr::Name(name) if self.scopes.bindings(None, name.id.as_str()).is_some() => None,
            _ => Some(value),
        }
    }

    /// A call of a value.
    fn called(&self, id: NodeId, call: &'a ExprCall) -> Value {
        if is_self(&call.func) {
            let class = self.scopes.class_around(self.index, id);
            if let Some(framework) = class.and_then(|class| self.module_class(class)) {
                return Value::Output(Tensor::new(framework, Certainty::Likely));
            }
        }
        if let Expr::Name(name) = &*call.func
            && let Some(class) = self.scopes.class_named(name.id.as_str())
        {
            return self
                .module_class(class)
                .map_or(Value::Unknown, Value::Module);
        }
        match self.value(&call.func) {
            Value::Module(framework) => Value::Output(Tensor::new(framework, Certainty::Certain)),
            Value::Compiled(framework) => Value::Output(Tensor::new(framework, Certainty::Certain)),
            _ => self.returned(id, call),
        }
    }

    /// What a function of this file returns, by its annotation.
    fn returned(&self, id: NodeId, call: &'a ExprCall) -> Value {
        let function = self.scopes.callee(self.index, id, &call.func);
        match function
            .and_then(|function| self.index.get(function))
            .map(|node| node.node)
        {
            Some(AnyNodeRef::StmtFunctionDef(function)) => function
                .returns
                .as_deref()
                .map_or(Value::Unknown, |annotation| self.annotated(annotation)),
            _ => Value::Unknown,
        }
    }
}

/// What a name says of what it stands for, where nothing else does.
fn by_custom(word: &str) -> Value {
    let likely = Tensor::new(Framework::Torch, Certainty::Likely);
    match word {
        "model" | "net" | "network" | "ddp_model" => Value::Module(Framework::Torch),
        "optimizer" | "optim" => Value::Optimizer,
        "loss" => Value::Tensor(likely),
        _ if word.ends_with("loader") => Value::Loader { device: false },
        _ => Value::Unknown,
    }
}

/// Names of parameters of `forward` that are tensors.
fn is_tensor_name(word: &str) -> bool {
    matches!(
        word,
        "x" | "y"
            | "z"
            | "q"
            | "k"
            | "v"
            | "input"
            | "inputs"
            | "hidden"
            | "query"
            | "key"
            | "value"
            | "target"
            | "targets"
            | "labels"
            | "logits"
            | "mask"
            | "pixel_values"
            | "h"
            | "grad_output"
            | "tokens"
            | "xs"
            | "queries"
            | "keys"
            | "values"
    ) || [
        "_mask",
        "_ids",
        "_states",
        "_embeds",
        "_values",
        "_logits",
        "_embeddings",
        "_weights",
    ]
    .iter()
    .any(|end| word.ends_with(end))
}

/// Whether a device is the host, as far as it is written out.
fn is_cpu(expression: &Expr) -> bool {
    match expression {
        Expr::StringLiteral(text) => text.value.to_str().starts_with("cpu"),
        Expr::Call(call) => call.arguments.args.first().is_some_and(is_cpu),
        _ => false,
    }
}
