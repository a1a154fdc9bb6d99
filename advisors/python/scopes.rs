//! What is bound where in a file: names by function, attributes by class, functions and classes.

use std::collections::{BTreeMap, BTreeSet};

use ruff_python_ast::{
    AnyNodeRef, Expr, ExprCall, Parameter, StmtAugAssign, StmtClassDef, StmtFunctionDef,
};
use ruff_text_size::{Ranged as _, TextSize};

use crate::python::index::{Index, NodeId};

/// A step from a value to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// What iterating over it gives.
    Element,
    /// Its item at a position.
    Item(usize),
}

/// How a name gets its value.
#[derive(Clone, Debug)]
pub(super) enum Source<'a> {
    /// It is a parameter.
    Parameter {
        parameter: &'a Parameter,
        default: Option<&'a Expr>,
        /// `*args` or `**kwargs`.
        variadic: bool,
    },
    /// It is assigned, or part of what is.
    Assigned { value: &'a Expr, path: Vec<Step> },
    /// It is annotated, perhaps without a value.
    Annotated {
        annotation: &'a Expr,
        value: Option<&'a Expr>,
    },
    /// `name += value`.
    Augmented(&'a StmtAugAssign),
    /// It is a function of this file.
    Function(NodeId),
    /// Anything else: `with … as`, `except … as`, `import`, a class.
    Opaque,
}

/// A binding of a name.
#[derive(Clone, Debug)]
pub(super) struct Binding<'a> {
    /// From where on it holds.
    pub(super) from: TextSize,
    /// The statement, comprehension or parameter.
    pub(super) node: NodeId,
    /// How.
    pub(super) source: Source<'a>,
}

/// A scope: a function or lambda, or the module.
pub(super) type Scope = Option<NodeId>;

/// The bindings of a file.
#[derive(Debug, Default)]
pub(super) struct Scopes<'a> {
    names: BTreeMap<Scope, BTreeMap<&'a str, Vec<Binding<'a>>>>,
    /// What is assigned to `self.name` in a class.
    attributes: BTreeMap<NodeId, BTreeMap<&'a str, Vec<Binding<'a>>>>,
    /// Names of `register_buffer` calls of a class.
    buffers: BTreeMap<NodeId, BTreeSet<&'a str>>,
    methods: BTreeMap<NodeId, BTreeMap<&'a str, NodeId>>,
    classes: BTreeMap<&'a str, NodeId>,
    class_of: BTreeMap<NodeId, NodeId>,
    calls: BTreeMap<NodeId, Vec<&'a ExprCall>>,
    functions: Vec<NodeId>,
}

impl<'a> Scopes<'a> {
    /// Collects the bindings of a file.
    pub(super) fn new(index: &Index<'a>) -> Self {
        let mut scopes = Self::default();
        for (id, node) in index.nodes() {
            scopes.node(index, id, node.node, node.function);
        }
        for (id, node) in index.nodes() {
            if let AnyNodeRef::ExprCall(call) = node.node
                && let Some(callee) = scopes.callee(index, id, &call.func)
            {
                scopes.calls.entry(callee).or_default().push(call);
            }
        }
        scopes
    }

    fn node(&mut self, index: &Index<'a>, id: NodeId, node: AnyNodeRef<'a>, scope: Scope) {
        let end = node.end();
        let opaque = |from| Binding {
            from,
            node: id,
            source: Source::Opaque,
        };
        match node {
            AnyNodeRef::StmtFunctionDef(function) => self.function(index, id, function, scope),
            AnyNodeRef::StmtClassDef(class) => {
                self.classes.entry(class.name.as_str()).or_insert(id);
                self.bind(scope, class.name.as_str(), opaque(end));
            }
            AnyNodeRef::Parameter(parameter) => {
                let default = index
                    .get(id)
                    .and_then(|node| node.parent)
                    .and_then(|parent| index.get(parent))
                    .and_then(|node| match node.node {
                        AnyNodeRef::ParameterWithDefault(with) => with.default.as_deref(),
                        _ => None,
                    });
                let variadic = index
                    .get(id)
                    .and_then(|node| node.parent)
                    .and_then(|parent| index.get(parent))
                    .is_some_and(|node| matches!(node.node, AnyNodeRef::Parameters(_)));
                let source = Source::Parameter {
                    parameter,
                    default,
                    variadic,
                };
                self.bind(
                    scope,
                    parameter.name.as_str(),
                    Binding {
                        from: TextSize::new(0),
                        node: id,
                        source,
                    },
                );
            }
            AnyNodeRef::StmtAssign(assign) => {
                for target in &assign.targets {
                    let mut path = Vec::new();
                    self.target(index, id, scope, end, target, &assign.value, &mut path);
                }
            }
            AnyNodeRef::StmtAnnAssign(assign) => {
                let source = Source::Annotated {
                    annotation: &assign.annotation,
                    value: assign.value.as_deref(),
                };
                self.bind_target(index, id, scope, end, &assign.target, source);
            }
            AnyNodeRef::StmtAugAssign(assign) => {
                let source = Source::Augmented(assign);
                self.bind_target(index, id, scope, end, &assign.target, source);
            }
            AnyNodeRef::StmtFor(each) => {
                let mut path = vec![Step::Element];
                let from = each.iter.end();
                self.target(index, id, scope, from, &each.target, &each.iter, &mut path);
            }
            AnyNodeRef::Comprehension(each) => {
                let mut path = vec![Step::Element];
                let from = TextSize::new(0);
                self.target(index, id, scope, from, &each.target, &each.iter, &mut path);
            }
            AnyNodeRef::ExprNamed(named) => {
                let mut path = Vec::new();
                self.target(
                    index,
                    id,
                    scope,
                    end,
                    &named.target,
                    &named.value,
                    &mut path,
                );
            }
            AnyNodeRef::WithItem(item) => {
                if let Some(Expr::Name(name)) = item.optional_vars.as_deref() {
                    self.bind(scope, name.id.as_str(), opaque(end));
                }
            }
            AnyNodeRef::Alias(alias) => {
                let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                let first = name.split('.').next().unwrap_or(name);
                self.bind(scope, first, opaque(end));
            }
            AnyNodeRef::ExprCall(call) => {
                if let Expr::Attribute(attribute) = &*call.func
                    && attribute.attr.as_str() == "register_buffer"
                    && let Some(Expr::StringLiteral(name)) = call.arguments.args.first()
                    && let Some(class) = self.class_around(index, id)
                {
                    self.buffers
                        .entry(class)
                        .or_default()
                        .insert(name.value.to_str());
                }
            }
            _ => {}
        }
    }

    fn function(
        &mut self,
        index: &Index<'a>,
        id: NodeId,
        function: &'a StmtFunctionDef,
        scope: Scope,
    ) {
        self.functions.push(id);
        let class = index.get(id).and_then(|node| node.parent).filter(|parent| {
            index
                .get(*parent)
                .is_some_and(|node| matches!(node.node, AnyNodeRef::StmtClassDef(_)))
        });
        if let Some(class) = class {
            self.methods
                .entry(class)
                .or_default()
                .insert(function.name.as_str(), id);
            self.class_of.insert(id, class);
        } else {
            let binding = Binding {
                from: TextSize::new(0),
                node: id,
                source: Source::Function(id),
            };
            self.bind(scope, function.name.as_str(), binding);
        }
    }

    fn bind(&mut self, scope: Scope, name: &'a str, binding: Binding<'a>) {
        self.names
            .entry(scope)
            .or_default()
            .entry(name)
            .or_default()
            .push(binding);
    }

    /// Binds a name or an attribute of `self`.
    fn bind_target(
        &mut self,
        index: &Index<'a>,
        id: NodeId,
        scope: Scope,
        from: TextSize,
        target: &'a Expr,
        source: Source<'a>,
    ) {
        let binding = Binding {
            from,
            node: id,
            source,
        };
        match target {
            Expr::Name(name) => self.bind(scope, name.id.as_str(), binding),
            Expr::Attribute(attribute) if is_self(&attribute.value) => {
                if let Some(class) = self.class_around(index, id) {
                    self.attributes
                        .entry(class)
                        .or_default()
                        .entry(attribute.attr.as_str())
                        .or_default()
                        .push(binding);
                }
            }
            _ => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one step of a recursion")]
    fn target(
        &mut self,
        index: &Index<'a>,
        id: NodeId,
        scope: Scope,
        from: TextSize,
        target: &'a Expr,
        value: &'a Expr,
        path: &mut Vec<Step>,
    ) {
        match target {
            Expr::Tuple(tuple) => {
                for (item, part) in tuple.elts.iter().enumerate() {
                    path.push(Step::Item(item));
                    self.target(index, id, scope, from, part, value, path);
                    path.pop();
                }
            }
            Expr::List(list) => {
                for (item, part) in list.elts.iter().enumerate() {
                    path.push(Step::Item(item));
                    self.target(index, id, scope, from, part, value, path);
                    path.pop();
                }
            }
            Expr::Starred(starred) => {
                self.bind_target(index, id, scope, from, &starred.value, Source::Opaque);
            }
            _ => {
                let path = path.clone();
                let source = Source::Assigned { value, path };
                self.bind_target(index, id, scope, from, target, source);
            }
        }
    }

    /// The class whose method holds a node.
    pub(super) fn class_around(&self, index: &Index<'a>, id: NodeId) -> Option<NodeId> {
        index
            .ancestors(id)
            .find(|(_, node)| matches!(node.node, AnyNodeRef::StmtClassDef(_)))
            .map(|(id, _)| id)
    }

    /// The bindings of a name in a scope, in source order.
    pub(super) fn bindings(&self, scope: Scope, name: &str) -> Option<&[Binding<'a>]> {
        self.names.get(&scope)?.get(name).map(Vec::as_slice)
    }

    /// What is assigned as a whole to a name, in the innermost scope around a node that binds it.
    pub(super) fn assigned(&self, index: &Index<'a>, at: NodeId, name: &str) -> Vec<&'a Expr> {
        let mut scope = index.get(at).and_then(|node| node.function);
        loop {
            if let Some(bindings) = self.bindings(scope, name) {
                let whole = |binding: &Binding<'a>| match &binding.source {
                    Source::Assigned { value, path } if path.is_empty() => Some(*value),
                    Source::Annotated { value, .. } => *value,
                    _ => None,
                };
                return bindings.iter().filter_map(whole).collect();
            }
            let Some(function) = scope else {
                return Vec::new();
            };
            scope = index.get(function).and_then(|node| node.function);
        }
    }

    /// The value that a tuple of targets unpacks, the name among them, in the scope of a node.
    pub(super) fn unpacked_from(
        &self,
        index: &Index<'a>,
        at: NodeId,
        name: &str,
    ) -> Option<&'a Expr> {
        let scope = index.get(at).and_then(|node| node.function);
        self.bindings(scope, name)?
            .iter()
            .find_map(|binding| match &binding.source {
                Source::Assigned { value, path } if path.len() == 1 => Some(*value),
                _ => None,
            })
    }

    /// What a class assigns to an attribute of `self`.
    pub(super) fn attribute(&self, class: NodeId, name: &str) -> &[Binding<'a>] {
        self.attributes
            .get(&class)
            .and_then(|names| names.get(name))
            .map_or(&[], Vec::as_slice)
    }

    /// Whether a class registers a buffer of that name.
    pub(super) fn is_buffer(&self, class: NodeId, name: &str) -> bool {
        self.buffers
            .get(&class)
            .is_some_and(|names| names.contains(name))
    }

    /// The class of that name.
    pub(super) fn class_named(&self, name: &str) -> Option<NodeId> {
        self.classes.get(name).copied()
    }

    /// The class that defines a method.
    pub(super) fn class_of_method(&self, function: NodeId) -> Option<NodeId> {
        self.class_of.get(&function).copied()
    }

    /// A method, of the class or of a base class in this file.
    pub(super) fn method(&self, index: &Index<'a>, class: NodeId, name: &str) -> Option<NodeId> {
        self.lineage(index, class)
            .into_iter()
            .find_map(|class| self.methods.get(&class)?.get(name).copied())
    }

    /// A class and its base classes in this file.
    pub(super) fn lineage(&self, index: &Index<'a>, class: NodeId) -> Vec<NodeId> {
        let mut line = vec![class];
        let mut next = 0;
        while let Some(class) = line.get(next).copied() {
            next += 1;
            let Some(AnyNodeRef::StmtClassDef(class)) = index.get(class).map(|node| node.node)
            else {
                continue;
            };
            for base in bases(class) {
                if let Expr::Name(name) = base
                    && let Some(base) = self.class_named(name.id.as_str())
                    && !line.contains(&base)
                    && line.len() < 32
                {
                    line.push(base);
                }
            }
        }
        line
    }

    /// All functions with a `def`, in source order.
    pub(super) fn functions(&self) -> &[NodeId] {
        &self.functions
    }

    /// The calls of a function in this file.
    pub(super) fn calls_of(&self, function: NodeId) -> &[&'a ExprCall] {
        self.calls.get(&function).map_or(&[], Vec::as_slice)
    }

    /// The function of this file that a name or `self.name` stands for at a node.
    pub(super) fn callee(&self, index: &Index<'a>, at: NodeId, func: &Expr) -> Option<NodeId> {
        match func {
            Expr::Name(name) => {
                let mut scope = index.get(at).and_then(|node| node.function);
                loop {
                    if let Some(bindings) = self.bindings(scope, name.id.as_str()) {
                        return bindings
                            .iter()
                            .rev()
                            .find_map(|binding| match binding.source {
                                Source::Function(function) => Some(function),
                                _ => None,
                            });
                    }
                    scope = index.get(scope?).and_then(|node| node.function);
                }
            }
            Expr::Attribute(attribute) if is_self(&attribute.value) => {
                let class = self.class_around(index, at)?;
                self.method(index, class, attribute.attr.as_str())
            }
            _ => None,
        }
    }
}

/// The base classes as they are written.
pub(super) fn bases(class: &StmtClassDef) -> impl Iterator<Item = &Expr> {
    class
        .arguments
        .iter()
        .flat_map(|arguments| arguments.args.iter())
}

/// Whether an expression is `self`.
pub(super) fn is_self(expression: &Expr) -> bool {
    matches!(expression, Expr::Name(name) if name.id.as_str() == "self")
}
