//! What calls and attributes give.

use ruff_python_ast::{AnyNodeRef, Expr, ExprAttribute, ExprCall};

use crate::python::flow::by_custom;
use crate::python::index::NodeId;
use crate::python::libraries::{self, Gives};
use crate::python::scopes::is_self;
use crate::python::tensors::Tensors;
use crate::python::value::{Certainty, Framework, Tensor, Value};

impl<'a> Tensors<'a> {
    pub(super) fn attribute(&self, id: NodeId, attribute: &'a ExprAttribute) -> Value {
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
            return custom_attribute(word);
        };
        for class in self.scopes.lineage(self.index, class) {
            if self.scopes.is_buffer(class, word) {
                return Value::Tensor(Tensor::new(Framework::Torch, Certainty::Certain));
            }
            let bindings = self.scopes.attribute(class, word);
            if !bindings.is_empty() {
                return match self.any_of(bindings) {
                    Value::Unknown => custom_attribute(word),
                    // Where a module keeps it, it was moved with the module.
                    Value::Tensor(tensor) if self.module_class(class).is_some() => {
                        Value::Tensor(tensor.likely())
                    }
                    value => value,
                };
            }
        }
        custom_attribute(word)
    }

    pub(super) fn call(&self, id: NodeId, call: &'a ExprCall) -> Value {
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
                            self.of_method(tensor, word, call)
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
            // No method of a tensor: the annotation is wrong.
            _ if word.starts_with("get_") || word == "update" => Value::Unknown,
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

/// What the name of an attribute says: `self.loss` may be a function or the name of one.
fn custom_attribute(word: &str) -> Value {
    if word == "loss" {
        Value::Unknown
    } else {
        by_custom(word)
    }
}

/// Whether a device is the host, as far as it is written out.
fn is_cpu(expression: &Expr) -> bool {
    match expression {
        Expr::StringLiteral(text) => text.value.to_str().starts_with("cpu"),
        Expr::Call(call) => call.arguments.args.first().is_some_and(is_cpu),
        _ => false,
    }
}
