//! Functions that JAX or `torch.compile` traces: by decorators, by calls, through `partial`.

use std::collections::BTreeMap;

use ruff_python_ast::{AnyNodeRef, Arguments, Expr, Parameters};

use crate::python::index::{Index, NodeId};
use crate::python::names::Names;
use crate::python::scopes::{Scopes, Source};
use crate::python::value::Framework;

/// Why and how a function is traced.
#[derive(Clone, Debug)]
pub struct Trace<'a> {
    /// What traces it, as `jax.jit`.
    pub by: String,
    /// Whose tracing.
    pub framework: Framework,
    /// Whether calling the name of the function runs the compiled one: it is decorated.
    pub runs_on_device: bool,
    /// Whether a compiled program with a cache comes of it (`jit`, `torch.compile`), and not only
    /// a part of one (`scan`, `grad`, `vmap`).
    pub compiles: bool,
    /// The place of the transformation: the decorator or the call.
    pub at: NodeId,
    /// Names of arguments that are static.
    statics: Vec<&'a str>,
    static_positions: Vec<usize>,
    parameters: Vec<&'a str>,
}

impl<'a> Trace<'a> {
    /// Whether a parameter is static: a Python value that the program depends on.
    #[must_use]
    pub fn is_static(&self, parameter: &str) -> bool {
        self.statics.contains(&parameter)
            || self
                .parameters
                .iter()
                .position(|name| *name == parameter)
                .is_some_and(|at| self.static_positions.contains(&at))
    }

    /// What a `partial` binds is part of the function, and not traced.
    fn bind(&mut self, argument: &'a Expr) {
        let Expr::Call(call) = argument else { return };
        self.static_positions
            .extend(0..call.arguments.args.len().saturating_sub(1));
        let names = call.arguments.keywords.iter();
        self.statics
            .extend(names.filter_map(|keyword| keyword.arg.as_ref().map(|arg| arg.as_str())));
    }

    /// Whether any parameter is static.
    #[must_use]
    pub fn has_statics(&self) -> bool {
        !self.statics.is_empty() || !self.static_positions.is_empty()
    }
}

/// The traced functions and lambdas of a file.
#[derive(Debug, Default)]
pub struct Transforms<'a> {
    traces: BTreeMap<NodeId, Trace<'a>>,
}

/// A transformation as a decorator or a call writes it: `jax.jit`, `partial(jax.jit, …)`,
/// `jax.jit(static_argnums=0)`.
#[derive(Clone, Debug)]
pub(super) struct Applied<'a> {
    /// Its qualified name.
    pub(super) name: String,
    /// Its arguments, where there are any.
    pub(super) arguments: Option<&'a Arguments>,
}

impl<'a> Transforms<'a> {
    pub(super) fn new(index: &Index<'a>, names: &Names<'a>, scopes: &Scopes<'a>) -> Self {
        let mut found = Self::default();
        for id in scopes.functions() {
            let Some(AnyNodeRef::StmtFunctionDef(function)) = index.get(*id).map(|node| node.node)
            else {
                continue;
            };
            for decorator in &function.decorator_list {
                let Some(applied) = applied(&decorator.expression, names, index) else {
                    continue;
                };
                let Some((framework, compiles)) = traces(&applied.name) else {
                    continue;
                };
                let at = index.id_of(decorator).unwrap_or(*id);
                let trace = trace(&applied, framework, compiles, at, &function.parameters);
                found.add(
                    *id,
                    Trace {
                        runs_on_device: true,
                        ..trace
                    },
                );
            }
        }
        for (id, node) in index.nodes() {
            let AnyNodeRef::ExprCall(call) = node.node else {
                continue;
            };
            let Some(applied) = applied(&call.func, names, index) else {
                continue;
            };
            let Some((framework, compiles)) = traces(&applied.name) else {
                continue;
            };
            let applied = Applied {
                arguments: Some(&call.arguments),
                ..applied
            };
            for position in traced_arguments(&applied.name) {
                let Some(argument) = call.arguments.args.get(*position) else {
                    continue;
                };
                let Some((function, parameters)) = function_of(index, names, scopes, id, argument)
                else {
                    continue;
                };
                let mut traced = trace(&applied, framework, compiles, id, parameters);
                traced.bind(argument);
                found.add(function, traced);
            }
        }
        found
    }

    /// One that compiles prevails over one that only traces.
    fn add(&mut self, function: NodeId, trace: Trace<'a>) {
        match self.traces.get(&function) {
            Some(known) if known.compiles || !trace.compiles => {}
            _ => {
                self.traces.insert(function, trace);
            }
        }
    }

    /// How a function or lambda is traced, if it is.
    #[must_use]
    pub fn of(&self, function: NodeId) -> Option<&Trace<'a>> {
        self.traces.get(&function)
    }

    /// All of them, in source order of the functions.
    pub fn all(&self) -> impl Iterator<Item = (NodeId, &Trace<'a>)> {
        self.traces.iter().map(|(id, trace)| (*id, trace))
    }
}

fn trace<'a>(
    applied: &Applied<'a>,
    framework: Framework,
    compiles: bool,
    at: NodeId,
    parameters: &'a Parameters,
) -> Trace<'a> {
    let (mut statics, mut static_positions) = (Vec::new(), Vec::new());
    if let Some(arguments) = applied.arguments {
        for keyword in &arguments.keywords {
            match keyword.arg.as_ref().map(|arg| arg.as_str()) {
                Some("static_argnames") => each(&keyword.value, &mut |value| {
                    if let Expr::StringLiteral(text) = value {
                        statics.push(text.value.to_str());
                    }
                }),
                Some("static_argnums" | "static_broadcasted_argnums" | "nondiff_argnums") => {
                    each(&keyword.value, &mut |value| {
                        if let Some(position) = integer(value) {
                            static_positions.push(position);
                        }
                    });
                }
                _ => {}
            }
        }
    }
    Trace {
        by: applied.name.clone(),
        framework,
        runs_on_device: false,
        compiles,
        at,
        statics,
        static_positions,
        parameters: parameters
            .posonlyargs
            .iter()
            .chain(&parameters.args)
            .map(|parameter| parameter.name().as_str())
            .collect(),
    }
}

/// The items of a tuple or list, or the one thing.
fn each<'a>(value: &'a Expr, visit: &mut impl FnMut(&'a Expr)) {
    match value {
        Expr::Tuple(tuple) => tuple.elts.iter().for_each(visit),
        Expr::List(list) => list.elts.iter().for_each(visit),
        other => visit(other),
    }
}

/// A small number that is written out.
fn integer(value: &Expr) -> Option<usize> {
    match value {
        Expr::NumberLiteral(number) => match &number.value {
            ruff_python_ast::Number::Int(int) => {
                int.as_u64().and_then(|int| usize::try_from(int).ok())
            }
            _ => None,
        },
        _ => None,
    }
}

/// What a decorator or a called expression applies.
pub(super) fn applied<'a>(
    expression: &'a Expr,
    names: &Names<'a>,
    index: &Index<'a>,
) -> Option<Applied<'a>> {
    if let Some(name) = names.qualified(expression, index) {
        return Some(Applied {
            name,
            arguments: None,
        });
    }
    let Expr::Call(call) = expression else {
        return None;
    };
    let name = names.qualified(&call.func, index)?;
    if matches!(name.as_str(), "functools.partial" | "partial") {
        let name = names.qualified(call.arguments.args.first()?, index)?;
        return Some(Applied {
            name,
            arguments: Some(&call.arguments),
        });
    }
    Some(Applied {
        name,
        arguments: Some(&call.arguments),
    })
}

/// Whether a transformation traces what it is given, whose it is, and whether it compiles.
pub(super) fn traces(name: &str) -> Option<(Framework, bool)> {
    let jax = |compiles| Some((Framework::Jax, compiles));
    match name {
        "jax.jit"
        | "jax.pjit"
        | "jax.experimental.pjit.pjit"
        | "jax.pmap"
        | "equinox.filter_jit"
        | "flax.nnx.jit"
        | "flax.linen.jit" => jax(true),
        "jax.vmap"
        | "jax.grad"
        | "jax.value_and_grad"
        | "jax.checkpoint"
        | "jax.remat"
        | "jax.ad_checkpoint.checkpoint"
        | "jax.shard_map"
        | "jax.experimental.shard_map.shard_map"
        | "jax.lax.scan"
        | "jax.lax.while_loop"
        | "jax.lax.fori_loop"
        | "jax.lax.cond"
        | "jax.lax.switch"
        | "jax.lax.map"
        | "jax.lax.associative_scan"
        | "jax.linearize"
        | "jax.vjp"
        | "jax.jvp"
        | "jax.hessian"
        | "jax.jacfwd"
        | "jax.jacrev"
        | "equinox.filter_grad"
        | "equinox.filter_value_and_grad"
        | "equinox.filter_vmap"
        | "flax.nnx.grad"
        | "flax.nnx.value_and_grad"
        | "flax.nnx.vmap"
        | "flax.nnx.remat"
        | "flax.nnx.scan"
        | "flax.linen.remat" => jax(false),
        "torch.compile" | "torch_xla.compile" => Some((Framework::Torch, true)),
        _ => None,
    }
}

/// Which positional arguments of a transformation are traced functions.
fn traced_arguments(name: &str) -> &'static [usize] {
    match name.rsplit('.').next().unwrap_or(name) {
        "while_loop" => &[0, 1],
        "fori_loop" => &[2],
        "cond" => &[1, 2],
        _ => &[0],
    }
}

/// The function of this file that an argument is: a name, `self.name`, a lambda, a `partial`.
pub(super) fn function_of<'a>(
    index: &Index<'a>,
    names: &Names<'a>,
    scopes: &Scopes<'a>,
    at: NodeId,
    argument: &'a Expr,
) -> Option<(NodeId, &'a Parameters)> {
    match argument {
        Expr::Lambda(lambda) => {
            let parameters = lambda.parameters.as_deref()?;
            Some((index.id_of_expr(argument)?, parameters))
        }
        Expr::Call(call) => {
            let name = names.qualified(&call.func, index)?;
            let wraps = name.ends_with("partial") || traces(&name).is_some();
            let inner = call.arguments.args.first().filter(|_| wraps)?;
            // One step only: `jit(vmap(f))` reaches `f` by the call of `vmap` itself.
            match inner {
                Expr::Name(_) | Expr::Attribute(_) => function_of(index, names, scopes, at, inner),
                _ => None,
            }
        }
        Expr::Name(_) | Expr::Attribute(_) => {
            let id = match scopes.callee(index, at, argument) {
                Some(id) => id,
                None => lambda_named(index, scopes, at, argument)?,
            };
            match index.get(id)?.node {
                AnyNodeRef::StmtFunctionDef(function) => Some((id, &function.parameters)),
                AnyNodeRef::ExprLambda(lambda) => Some((id, lambda.parameters.as_deref()?)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// `f = lambda …` of the same scope or the module.
fn lambda_named(index: &Index<'_>, scopes: &Scopes<'_>, at: NodeId, name: &Expr) -> Option<NodeId> {
    let Expr::Name(name) = name else { return None };
    let own = index.get(at).and_then(|node| node.function);
    let bindings = scopes
        .bindings(own, name.id.as_str())
        .or_else(|| scopes.bindings(None, name.id.as_str()))?;
    match bindings {
        [only] => match &only.source {
            Source::Assigned { value, path } if path.is_empty() && value.is_lambda_expr() => {
                index.id_of_expr(value)
            }
            _ => None,
        },
        _ => None,
    }
}
