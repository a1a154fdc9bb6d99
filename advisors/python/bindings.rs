//! Where names are bound: functions, assignments, imports, parameters, by scope.

use std::collections::BTreeMap;

use ruff_python_ast::{AnyNodeRef, Expr, ExprName, StmtAssign, StmtFunctionDef};

use crate::python::index::{Index, NodeId};

/// What binds a name.
#[derive(Clone, Copy, Debug)]
pub enum Bound<'a> {
    /// An import.
    Import,
    /// `def name(...)`.
    Function(&'a StmtFunctionDef),
    /// `name = value`, the only target.
    Assigned(&'a StmtAssign),
    /// A parameter of a function or a lambda.
    Parameter,
    /// Anything else: a loop variable, a tuple, `with`, `+=`, `global`.
    Other,
}

/// A binding: its node, and the function whose scope it is in; none for the module.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    /// The node that binds.
    pub id: NodeId,
    /// The function whose scope holds the name.
    pub scope: Option<NodeId>,
    /// What it is.
    pub what: Bound<'a>,
}

/// All bindings of a file. Names of class bodies are left out: they are reached by attributes.
#[derive(Debug, Default)]
pub struct Bindings<'a> {
    by_name: BTreeMap<&'a str, Vec<Binding<'a>>>,
}

impl<'a> Bindings<'a> {
    /// Collects the bindings of a file.
    #[must_use]
    pub fn new(index: &Index<'a>) -> Self {
        let mut out = Self::default();
        for (id, node) in index.nodes() {
            let parent = node.parent.and_then(|id| index.get(id));
            let in_class =
                parent.is_some_and(|node| matches!(node.node, AnyNodeRef::StmtClassDef(_)));
            match node.node {
                AnyNodeRef::Alias(alias) => {
                    let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    let name = name.split('.').next().unwrap_or(name);
                    out.bind(name, id, node.function, Bound::Import);
                }
                AnyNodeRef::StmtFunctionDef(function) if !in_class => {
                    let name = function.name.as_str();
                    out.bind(name, id, node.function, Bound::Function(function));
                }
                AnyNodeRef::StmtClassDef(class) if !in_class => {
                    out.bind(class.name.as_str(), id, node.function, Bound::Other);
                }
                AnyNodeRef::Parameter(parameter) => {
                    out.bind(parameter.name.as_str(), id, node.function, Bound::Parameter);
                }
                AnyNodeRef::StmtGlobal(global) => {
                    for name in &global.names {
                        out.bind(name.as_str(), id, node.function, Bound::Other);
                        out.bind(name.as_str(), id, None, Bound::Other);
                    }
                }
                AnyNodeRef::StmtNonlocal(nonlocal) => {
                    for name in &nonlocal.names {
                        out.bind(name.as_str(), id, node.function, Bound::Other);
                    }
                }
                AnyNodeRef::ExprName(name) if name.ctx.is_store() || name.ctx.is_del() => {
                    let what = match parent.map(|node| node.node) {
                        Some(AnyNodeRef::StmtAssign(assign)) if assign.targets.len() == 1 => {
                            Bound::Assigned(assign)
                        }
                        _ => Bound::Other,
                    };
                    let in_class = matches!(what, Bound::Assigned(_))
                        && node
                            .parent
                            .and_then(|id| index.get(id)?.parent)
                            .and_then(|id| index.get(id))
                            .is_some_and(|node| matches!(node.node, AnyNodeRef::StmtClassDef(_)));
                    if !in_class {
                        out.bind(name.id.as_str(), id, node.function, what);
                    }
                }
                _ => {}
            }
        }
        out
    }

    fn bind(&mut self, name: &'a str, id: NodeId, scope: Option<NodeId>, what: Bound<'a>) {
        let binding = Binding { id, scope, what };
        self.by_name.entry(name).or_default().push(binding);
    }

    /// The bindings that a use of the name at a node sees: those of the innermost scope that has
    /// any, in source order. Empty for builtins and what star imports bring.
    #[must_use]
    pub fn visible(&self, name: &str, at: NodeId, index: &Index<'a>) -> Vec<Binding<'a>> {
        let Some(all) = self.by_name.get(name) else {
            return Vec::new();
        };
        let mut scope = index.get(at).and_then(|node| node.function);
        loop {
            let own: Vec<Binding<'a>> = all.iter().copied().filter(|b| b.scope == scope).collect();
            if !own.is_empty() || scope.is_none() {
                return own;
            }
            scope = scope.and_then(|id| index.get(id)?.function);
        }
    }

    /// The only binding that a use of a name sees.
    #[must_use]
    pub fn only(&self, name: &ExprName, index: &Index<'a>) -> Option<Binding<'a>> {
        let at = index.id_of(name)?;
        match self.visible(name.id.as_str(), at, index).as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// The value that a name has, when it is assigned once; other expressions stand for themselves.
    /// Follows at most a few names.
    #[must_use]
    pub fn value(&self, expression: &'a Expr, index: &Index<'a>) -> &'a Expr {
        let mut expression = expression;
        for _ in 0..8 {
            let Expr::Name(name) = expression else { break };
            let Some(Bound::Assigned(assign)) = self.only(name, index).map(|b| b.what) else {
                break;
            };
            expression = &assign.value;
        }
        expression
    }

    /// Whether the name is bound anywhere in the file.
    #[must_use]
    pub fn is_bound(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// All bindings of a name, in source order.
    #[must_use]
    pub fn of(&self, name: &str) -> &[Binding<'a>] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }
}
