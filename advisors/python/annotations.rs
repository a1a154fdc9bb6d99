//! What annotations say of values.

use ruff_python_ast::Expr;

use crate::python::index::Index;
use crate::python::names::Names;
use crate::python::value::{Certainty, Framework, Tensor, Value};

/// The value of what is annotated: `torch.Tensor`, `Optional[jax.Array]`, `list[Tensor]`, `int`.
pub(super) fn value<'a>(annotation: &'a Expr, names: &Names<'a>, index: &Index<'a>) -> Value {
    at_depth(annotation, names, index, 0)
}

fn at_depth<'a>(annotation: &'a Expr, names: &Names<'a>, index: &Index<'a>, depth: u32) -> Value {
    if depth > 8 {
        return Value::Unknown;
    }
    let inner = |part: &'a Expr| at_depth(part, names, index, depth + 1);
    match annotation {
        Expr::NoneLiteral(_) => Value::Literal,
        Expr::StringLiteral(text) => of_word(text.value.to_str()),
        Expr::BinOp(op) if op.op.is_bit_or() => choice([inner(&op.left), inner(&op.right)]),
        Expr::Name(_) | Expr::Attribute(_) => {
            let name = names.qualified(annotation, index);
            match (&name, annotation) {
                (Some(name), _) => of_word(name),
                (None, Expr::Name(name)) => of_word(name.id.as_str()),
                _ => Value::Unknown,
            }
        }
        Expr::Subscript(subscript) => {
            let name = names.qualified(&subscript.value, index);
            let word = match (&name, &*subscript.value) {
                (Some(name), _) => name.rsplit('.').next().unwrap_or(name),
                (None, Expr::Name(name)) => name.id.as_str(),
                _ => "",
            };
            let parts: Vec<&Expr> = match &*subscript.slice {
                Expr::Tuple(tuple) => tuple.elts.iter().collect(),
                other => vec![other],
            };
            match word {
                "Optional" | "Union" => choice(parts.into_iter().map(inner)),
                "Annotated" => parts.first().map_or(Value::Unknown, |part| inner(part)),
                "list" | "List" | "tuple" | "Tuple" | "Sequence" | "dict" | "Dict" | "Iterable"
                | "Mapping" => {
                    let found: Vec<Value> = parts.into_iter().map(inner).collect();
                    let tensor = found.iter().find_map(|value| match value {
                        Value::Tensor(tensor) | Value::Many(tensor) => Some(*tensor),
                        _ => None,
                    });
                    match tensor {
                        Some(tensor) => Value::Many(tensor),
                        None if found.iter().all(|value| *value == Value::Host) => Value::Host,
                        None => Value::Unknown,
                    }
                }
                // jaxtyping: Float[Array, "b t"].
                "Float" | "Int" | "Bool" | "Shaped" | "Num" | "Integer" => {
                    parts.first().map_or(Value::Unknown, |part| inner(part))
                }
                "DataLoader" => Value::Loader { device: false },
                _ => Value::Unknown,
            }
        }
        _ => Value::Unknown,
    }
}

/// One of several: `None` beside a tensor does not count, a number does.
fn choice(parts: impl IntoIterator<Item = Value>) -> Value {
    let (mut tensor, mut other, mut host) = (None, false, false);
    for part in parts {
        match part {
            Value::Literal => {}
            Value::Tensor(_) | Value::Many(_) if tensor.is_none() || tensor == Some(part) => {
                tensor = Some(part);
            }
            Value::Host => host = true,
            _ => other = true,
        }
    }
    match tensor {
        Some(found) if !other && !host => found,
        None if host && !other => Value::Host,
        _ => Value::Unknown,
    }
}

fn of_word(word: &str) -> Value {
    let word = word.trim();
    let last = word.rsplit('.').next().unwrap_or(word);
    let certain = |framework| {
        Value::Tensor(Tensor {
            framework,
            certainty: Certainty::Certain,
            on_host: false,
        })
    };
    match last {
        "Tensor" | "FloatTensor" | "LongTensor" | "BoolTensor" | "IntTensor" | "HalfTensor"
        | "ByteTensor" | "DoubleTensor" => certain(Framework::Torch),
        "Parameter" if word.contains("nn") => certain(Framework::Torch),
        "Array" | "ArrayLike" if word == "Array" || word.starts_with("jax") => {
            certain(Framework::Jax)
        }
        "ndarray" if word.starts_with("jax") || word.starts_with("jnp") => certain(Framework::Jax),
        "Module" if word.starts_with("torch") => Value::Module(Framework::Torch),
        "DataLoader" => Value::Loader { device: false },
        "Optimizer" => Value::Optimizer,
        "int" | "float" | "bool" | "str" | "bytes" | "ndarray" | "list" | "tuple" | "dict"
        | "set" | "Path" | "Callable" | "device" | "dtype" | "Size" => Value::Host,
        _ if last.ends_with("Config") => Value::Host,
        _ => Value::Unknown,
    }
}
