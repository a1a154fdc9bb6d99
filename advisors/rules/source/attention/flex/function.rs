//! A `mask_mod` or `score_mod` whose text is known: what it computes from the indices.
//!
//! FlexAttention calls such functions under `vmap`, with one number for each index. Where the text
//! is made of elementwise operations and of look-ups with all indices in one subscript, calling it
//! with index *tensors* that broadcast gives the same values as a dense array.

use std::collections::BTreeMap;

use crate::python::bindings::{Bindings, Bound};
use crate::python::{Ranged as _, SourceContext, TextRange, ast};
use ast::{AnyNodeRef, CmpOp, Expr, Operator, Stmt, StmtFunctionDef, UnaryOp};

/// Calls of functions within functions are followed this deep.
const MAX_DEPTH: usize = 4;
/// Expressions are followed this deep.
const MAX_NESTING: usize = 64;

/// What is needed to look things up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'c, 'a> {
    pub(crate) context: &'c SourceContext<'a>,
    pub(crate) bindings: &'c Bindings<'a>,
}

/// A function of indices, and how it is called where it was named.
#[derive(Clone, Debug)]
pub(crate) struct Function<'a> {
    /// Its parameters that are indices (and the score, first, of a score_mod).
    pub(crate) parameters: Vec<&'a str>,
    /// Its local values.
    locals: BTreeMap<&'a str, &'a Expr>,
    /// What it returns.
    pub(crate) value: &'a Expr,
    /// It is a lambda.
    pub(crate) is_lambda: bool,
    depth: usize,
}

/// The function that an expression stands for, or why it is not known.
pub(crate) fn resolve<'a>(
    scope: Scope<'_, 'a>,
    expression: &'a Expr,
    arity: usize,
    depth: usize,
) -> Result<Function<'a>, String> {
    let context = scope.context;
    let text = context.text(expression);
    if depth > MAX_DEPTH {
        return Err(format!(
            "`{}` is made through too many functions",
            short(text)
        ));
    }
    match expression {
        Expr::Lambda(lambda) => {
            let parameters: Vec<&str> = lambda
                .parameters
                .iter()
                .flat_map(|parameters| parameters.args.iter())
                .filter(|parameter| parameter.default.is_none())
                .map(|parameter| parameter.parameter.name.as_str())
                .collect();
            checked(
                parameters,
                BTreeMap::new(),
                &lambda.body,
                true,
                depth,
                arity,
            )
            .ok_or_else(|| format!("the lambda does not take {arity} arguments"))
        }
        Expr::Name(name) => match scope.bindings.only(name, context.index).map(|b| b.what) {
            Some(Bound::Function(function)) => of_def(function, arity, depth, false),
            Some(Bound::Assigned(assign)) => resolve(scope, &assign.value, arity, depth + 1),
            Some(Bound::Parameter) => Err(format!(
                "`{text}` is a parameter, and which function comes in is not to be seen here"
            )),
            Some(Bound::Import) => Err(format!("`{text}` is imported, and its text is not here")),
            _ => Err(format!("`{text}` is not bound exactly once")),
        },
        Expr::Attribute(attribute) => of_self(scope, attribute, arity, depth),
        Expr::Call(call) => {
            let partial = context.qualified(&call.func).as_deref() == Some("functools.partial");
            if partial && let [inner] = &*call.arguments.args {
                let bound = call.arguments.keywords.iter();
                let bound: Vec<&str> = bound
                    .filter_map(|keyword| keyword.arg.as_ref().map(|name| name.as_str()))
                    .collect();
                let mut function = resolve(scope, inner, arity + bound.len(), depth + 1)?;
                function.parameters.retain(|name| !bound.contains(name));
                return if function.parameters.len() == arity {
                    Ok(function)
                } else {
                    Err(format!("`{}` binds other parameters", short(text)))
                };
            }
            of_factory(scope, call, arity, depth)
        }
        _ => Err(format!(
            "`{}` is not a function whose text is here",
            short(text)
        )),
    }
}

fn checked<'a>(
    parameters: Vec<&'a str>,
    locals: BTreeMap<&'a str, &'a Expr>,
    value: &'a Expr,
    is_lambda: bool,
    depth: usize,
    arity: usize,
) -> Option<Function<'a>> {
    (parameters.len() == arity).then_some(Function {
        parameters,
        locals,
        value,
        is_lambda,
        depth,
    })
}

/// A function whose body is values and a return.
fn of_def<'a>(
    function: &'a StmtFunctionDef,
    arity: usize,
    depth: usize,
    method: bool,
) -> Result<Function<'a>, String> {
    let name = function.name.as_str();
    let mut locals = BTreeMap::new();
    let mut value = None;
    for (at, statement) in function.body.iter().enumerate() {
        match statement {
            Stmt::Expr(it) if at == 0 && it.value.is_string_literal_expr() => {}
            Stmt::Assign(it) => match it.targets.as_slice() {
                [Expr::Name(target)] if !locals.contains_key(target.id.as_str()) => {
                    locals.insert(target.id.as_str(), &*it.value);
                }
                _ => return Err(format!("`{name}` does more than compute a value")),
            },
            Stmt::Return(it) => {
                value = it.value.as_deref();
                break;
            }
            _ => return Err(format!("`{name}` does more than compute a value")),
        }
    }
    let value = value.ok_or_else(|| format!("`{name}` returns nothing"))?;
    let parameters: Vec<&str> = function
        .parameters
        .posonlyargs
        .iter()
        .chain(&function.parameters.args)
        .chain(&function.parameters.kwonlyargs)
        .skip(usize::from(method))
        .filter(|parameter| parameter.default.is_none())
        .map(|parameter| parameter.parameter.name.as_str())
        .collect();
    checked(parameters, locals, value, false, depth, arity)
        .ok_or_else(|| format!("`{name}` does not take {arity} arguments"))
}

/// A method, or what `self.name` was set to, once, in its class.
fn of_self<'a>(
    scope: Scope<'_, 'a>,
    attribute: &'a ast::ExprAttribute,
    arity: usize,
    depth: usize,
) -> Result<Function<'a>, String> {
    let index = scope.context.index;
    let name = attribute.attr.as_str();
    let unknown = || {
        format!(
            "what `{}` is is not to be seen here",
            scope.context.text(attribute)
        )
    };
    let class = index
        .id_of(attribute)
        .filter(|_| matches!(&*attribute.value, Expr::Name(name) if name.id == "self"))
        .and_then(|id| index.class_of(id))
        .ok_or_else(unknown)?;
    let method = class.body.iter().find_map(|statement| match statement {
        Stmt::FunctionDef(function) if function.name.as_str() == name => Some(function),
        _ => None,
    });
    if let Some(method) = method {
        let fixed = method.decorator_list.iter().any(|decorator| {
            matches!(&decorator.expression, Expr::Name(name) if name.id == "staticmethod")
        });
        return of_def(method, arity, depth, !fixed);
    }
    let value = self_value(scope, class, name).ok_or_else(unknown)?;
    resolve(scope, value, arity, depth + 1)
}

/// What an attribute of `self` is set to, if once in its class.
pub(crate) fn self_value<'a>(
    scope: Scope<'_, 'a>,
    class: &'a ast::StmtClassDef,
    name: &str,
) -> Option<&'a Expr> {
    let mut values =
        self_targets(scope, name).filter(|(range, _)| class.range().contains_range(*range));
    let value = values.next()?.1;
    values.next().is_none().then_some(value)
}

/// Assignments to `self.name` in the file.
fn self_targets<'s, 'a>(
    scope: Scope<'s, 'a>,
    name: &'s str,
) -> impl Iterator<Item = (TextRange, &'a Expr)> + use<'s, 'a> {
    scope.context.index.nodes().filter_map(move |(_, node)| {
        let AnyNodeRef::StmtAssign(assign) = node.node else {
            return None;
        };
        match assign.targets.as_slice() {
            [Expr::Attribute(target)]
                if target.attr.as_str() == name
                    && matches!(&*target.value, Expr::Name(own) if own.id == "self") =>
            {
                Some((assign.range, &*assign.value))
            }
            _ => None,
        }
    })
}

/// The inner function that a function of the file returns.
fn of_factory<'a>(
    scope: Scope<'_, 'a>,
    call: &'a ast::ExprCall,
    arity: usize,
    depth: usize,
) -> Result<Function<'a>, String> {
    let unknown = || {
        let text = short(scope.context.text(call));
        format!("`{text}` is made by a function that is not in this file")
    };
    let factory = match &*call.func {
        Expr::Name(name) => match scope
            .bindings
            .only(name, scope.context.index)
            .map(|b| b.what)
        {
            Some(Bound::Function(function)) => function,
            _ => return Err(unknown()),
        },
        _ => return Err(unknown()),
    };
    let returned: Vec<&Expr> = factory
        .body
        .iter()
        .filter_map(|statement| match statement {
            Stmt::Return(it) => it.value.as_deref(),
            _ => None,
        })
        .collect();
    match returned.as_slice() {
        [inner @ (Expr::Name(_) | Expr::Lambda(_))] => resolve(scope, inner, arity, depth + 1),
        _ => Err(unknown()),
    }
}

impl<'a> Function<'a> {
    /// A local's value, or the expression itself.
    pub(crate) fn look(&self, expression: &'a Expr) -> &'a Expr {
        let mut expression = expression;
        for _ in 0..MAX_DEPTH {
            match expression {
                Expr::Name(name) => match self.locals.get(name.id.as_str()) {
                    Some(value) => expression = value,
                    None => break,
                },
                _ => break,
            }
        }
        expression
    }

    /// Whether an expression is a parameter.
    pub(crate) fn is(&self, expression: &'a Expr, parameter: usize) -> bool {
        matches!(self.look(expression), Expr::Name(name)
            if self.parameters.get(parameter).is_some_and(|own| *own == name.id.as_str()))
    }

    /// Which parameters an expression depends on.
    pub(crate) fn uses(&self, scope: Scope<'_, 'a>, expression: &'a Expr) -> Vec<bool> {
        let mut used = vec![false; self.parameters.len()];
        self.mark(scope, expression, &mut used, 0);
        used
    }

    fn mark(&self, scope: Scope<'_, 'a>, expression: &'a Expr, used: &mut [bool], depth: usize) {
        let index = scope.context.index;
        let Some(id) = index.id_of_expr(expression).filter(|_| depth <= MAX_DEPTH) else {
            used.fill(true);
            return;
        };
        let own = index.get(id).into_iter().map(|node| node.node);
        for node in own.chain(index.descendants(id).map(|(_, node)| node.node)) {
            // What a function that is called uses shows in its arguments: an index that it does
            // not use counts as used, which is harmless.
            let AnyNodeRef::ExprName(name) = node else {
                continue;
            };
            let name = name.id.as_str();
            if let Some(at) = self.parameters.iter().position(|own| *own == name)
                && let Some(used) = used.get_mut(at)
            {
                *used = true;
            } else if let Some(value) = self.locals.get(name) {
                self.mark(scope, value, used, depth + 1);
            }
        }
    }

    /// The nested function that is called with exactly the parameters of this one.
    pub(crate) fn nested(&self, scope: Scope<'_, 'a>, call: &'a ast::ExprCall) -> Option<Self> {
        let same = call.arguments.keywords.is_empty()
            && call.arguments.args.len() == self.parameters.len()
            && call
                .arguments
                .args
                .iter()
                .enumerate()
                .all(|(at, argument)| self.is(argument, at));
        if !same {
            return None;
        }
        resolve(scope, &call.func, self.parameters.len(), self.depth + 1).ok()
    }

    /// Why the function cannot be called with index tensors instead of numbers; none when it can.
    pub(crate) fn not_elementwise(&self, scope: Scope<'_, 'a>) -> Option<String> {
        let locals = self.locals.values().copied();
        locals
            .chain([self.value])
            .find_map(|value| self.broadcasts(scope, value, 0).err())
    }

    fn broadcasts(
        &self,
        scope: Scope<'_, 'a>,
        expression: &'a Expr,
        deep: usize,
    ) -> Result<(), String> {
        let text = || short(scope.context.text(expression));
        if deep > MAX_NESTING {
            return Err("it is nested too deeply".to_owned());
        }
        let inner = |expression: &'a Expr| self.broadcasts(scope, expression, deep + 1);
        let free = |expression: &'a Expr| !self.uses(scope, expression).contains(&true);
        match expression {
            Expr::Name(_)
            | Expr::NumberLiteral(_)
            | Expr::BooleanLiteral(_)
            | Expr::StringLiteral(_) => Ok(()),
            Expr::BinOp(it) if it.op != Operator::MatMult => {
                inner(&it.left)?;
                inner(&it.right)
            }
            Expr::UnaryOp(it) if it.op != UnaryOp::Not => inner(&it.operand),
            Expr::Compare(it) if it.ops.len() == 1 => {
                if it
                    .ops
                    .iter()
                    .any(|op| matches!(op, CmpOp::Is | CmpOp::IsNot | CmpOp::In | CmpOp::NotIn))
                {
                    return Err(format!("`{}` compares no numbers", text()));
                }
                inner(&it.left)?;
                it.comparators.iter().try_for_each(inner)
            }
            Expr::Attribute(it) if free(&it.value) => Ok(()),
            Expr::Subscript(it) if it.value.is_subscript_expr() => {
                Err(format!("`{}` looks up in two steps", text()))
            }
            Expr::Subscript(it) if free(&it.value) => match &*it.slice {
                Expr::Tuple(tuple) => tuple.elts.iter().try_for_each(inner),
                Expr::Slice(_) => Err(format!("`{}` takes a slice", text())),
                slice => inner(slice),
            },
            Expr::Call(call) => {
                if free(expression) {
                    return Ok(());
                }
                if let Some(nested) = self.nested(scope, call) {
                    return nested.not_elementwise(scope).map_or(Ok(()), Err);
                }
                let plain = scope
                    .context
                    .qualified(&call.func)
                    .and_then(|name| name.strip_prefix("torch.").map(str::to_owned));
                let known = match (&*call.func, plain) {
                    (_, Some(name)) => ELEMENTWISE.contains(&name.as_str()),
                    (Expr::Name(name), None) => name.id == "abs",
                    (Expr::Attribute(method), None) => {
                        inner(&method.value)?;
                        ELEMENTWISE.contains(&method.attr.as_str())
                    }
                    _ => false,
                };
                if !known {
                    return Err(format!("`{}` is not known to work on each element", text()));
                }
                call.arguments.args.iter().try_for_each(inner)
            }
            _ => Err(format!("`{}` is not known to work on each element", text())),
        }
    }
}

/// Functions and methods of tensors that work on each element.
const ELEMENTWISE: &[&str] = &[
    "abs",
    "add",
    "bitwise_and",
    "bitwise_or",
    "bool",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "cos",
    "div",
    "eq",
    "exp",
    "exp2",
    "float",
    "floor_divide",
    "ge",
    "gt",
    "int",
    "le",
    "log",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "long",
    "lt",
    "maximum",
    "minimum",
    "mul",
    "ne",
    "neg",
    "pow",
    "relu",
    "remainder",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "square",
    "sub",
    "tanh",
    "to",
    "type_as",
    "where",
];

/// A text on one line, cut where it is long.
pub(crate) fn short(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", line.get(..at).unwrap_or_default()),
        None => line,
    }
}
