//! What names are bound to, where they are used.

use ruff_python_ast::{AnyNodeRef, Expr, ExprName, Parameter};

use crate::python::annotations;
use crate::python::index::NodeId;
use crate::python::scopes::{Binding, Scope, Source, Step, is_self};
use crate::python::tensors::Tensors;
use crate::python::value::{Certainty, Framework, Tensor, Value};

impl<'a> Tensors<'a> {
    pub(super) fn name(&self, id: NodeId, name: &ExprName) -> Value {
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

    pub(super) fn any_of(&self, bindings: &'a [Binding<'a>]) -> Value {
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
    pub(super) fn iterated(&self, expression: &'a Expr) -> Value {
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
            // `grad` and `vmap` hand some arguments through as they are; `None` may stay `None`.
            let all = trace.compiles || trace.by.contains(".lax.");
            let certainty = if all && default.is_none() {
                Certainty::Certain
            } else {
                Certainty::Likely
            };
            let tensor = Tensor::new(trace.framework, certainty);
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

    pub(super) fn annotated(&self, annotation: &'a Expr) -> Value {
        annotations::value(annotation, self.names, self.index)
    }
}

/// What a name says of what it stands for, where nothing else does.
pub(super) fn by_custom(word: &str) -> Value {
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
