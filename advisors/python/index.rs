//! Every node of a file with its parent, its function and the loops around it.

use std::collections::BTreeMap;

use ruff_python_ast::visitor::source_order::{SourceOrderVisitor, TraversalSignal};
use ruff_python_ast::{AnyNodeRef, Expr, ModModule, StmtClassDef, StmtFunctionDef};
use ruff_text_size::Ranged as _;

/// Index of a node.
pub type NodeId = u32;

/// A node and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The node.
    pub node: AnyNodeRef<'a>,
    /// What it stands in; none for the module.
    pub parent: Option<NodeId>,
    /// The innermost function that it stands in.
    pub function: Option<NodeId>,
    /// Loops around it within its function: `for` and `while` statements and comprehensions.
    pub loops: u32,
}

/// The nodes of a file in source order.
#[derive(Debug)]
pub struct Index<'a> {
    nodes: Vec<Node<'a>>,
    by_address: BTreeMap<(usize, u32), NodeId>,
}

struct Builder<'a> {
    index: Index<'a>,
    open: Vec<NodeId>,
}

impl<'a> SourceOrderVisitor<'a> for Builder<'a> {
    fn enter_node(&mut self, node: AnyNodeRef<'a>) -> TraversalSignal {
        let parent = self.open.last().copied();
        let (mut function, mut loops) = (None, 0);
        if let Some(above) = parent.and_then(|id| self.index.get(id).map(|node| (id, node))) {
            (function, loops) = (above.1.function, above.1.loops);
            match above.1.node {
                AnyNodeRef::StmtFunctionDef(_) | AnyNodeRef::ExprLambda(_) => {
                    (function, loops) = (Some(above.0), 0);
                }
                AnyNodeRef::StmtFor(_)
                | AnyNodeRef::StmtWhile(_)
                | AnyNodeRef::ExprListComp(_)
                | AnyNodeRef::ExprSetComp(_)
                | AnyNodeRef::ExprDictComp(_)
                | AnyNodeRef::ExprGenerator(_) => loops += 1,
                _ => {}
            }
        }
        let id = u32::try_from(self.index.nodes.len()).unwrap_or(u32::MAX);
        self.index.nodes.push(Node {
            node,
            parent,
            function,
            loops,
        });
        self.index.by_address.insert(key(node), id);
        self.open.push(id);
        TraversalSignal::Traverse
    }

    fn leave_node(&mut self, _node: AnyNodeRef<'a>) {
        self.open.pop();
    }
}

/// A node is known by where it is stored and what it is: a node may be stored first in another.
fn key(node: AnyNodeRef<'_>) -> (usize, u32) {
    let address = node.as_ptr().as_ptr() as usize;
    (address, node.kind() as u32)
}

impl<'a> Index<'a> {
    /// Indexes a module.
    #[must_use]
    pub fn new(module: &'a ModModule) -> Self {
        let mut builder = Builder {
            index: Self {
                nodes: Vec::new(),
                by_address: BTreeMap::new(),
            },
            open: Vec::new(),
        };
        let root = AnyNodeRef::ModModule(module);
        builder.enter_node(root);
        builder.visit_body(&module.body);
        builder.index
    }

    /// All nodes in source order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node<'a>)> {
        (0..).zip(&self.nodes)
    }

    /// A node.
    #[must_use]
    pub fn get(&self, id: NodeId) -> Option<&Node<'a>> {
        self.nodes.get(id as usize)
    }

    /// The id of a node of this file.
    #[must_use]
    pub fn id_of<'n>(&self, node: impl Into<AnyNodeRef<'n>>) -> Option<NodeId> {
        self.by_address.get(&key(node.into())).copied()
    }

    /// What a node stands in, from the inside out.
    pub fn ancestors(&self, id: NodeId) -> impl Iterator<Item = (NodeId, &Node<'a>)> {
        let parent = move |id: NodeId| self.get(id).and_then(|node| node.parent);
        std::iter::successors(parent(id), move |id| parent(*id))
            .filter_map(|id| Some((id, self.get(id)?)))
    }

    /// The function that a node stands in; none at the top level and in lambdas at the top level.
    #[must_use]
    pub fn function_of(&self, id: NodeId) -> Option<&'a StmtFunctionDef> {
        self.ancestors(id).find_map(|(_, node)| match node.node {
            AnyNodeRef::StmtFunctionDef(function) => Some(function),
            _ => None,
        })
    }

    /// The class whose body holds the function (or the node) directly or through functions.
    #[must_use]
    pub fn class_of(&self, id: NodeId) -> Option<&'a StmtClassDef> {
        self.ancestors(id).find_map(|(_, node)| match node.node {
            AnyNodeRef::StmtClassDef(class) => Some(class),
            _ => None,
        })
    }

    /// The statement that a node is part of.
    #[must_use]
    pub fn statement_of(&self, id: NodeId) -> Option<AnyNodeRef<'a>> {
        let own = self.get(id).map(|node| node.node);
        let above = self.ancestors(id).map(|(_, node)| node.node);
        own.into_iter()
            .chain(above)
            .find(|node| node.is_statement())
    }

    /// The id of an expression of this file.
    #[must_use]
    pub fn id_of_expr(&self, expression: &Expr) -> Option<NodeId> {
        self.id_of(AnyNodeRef::from(expression))
    }

    /// Nodes within a node, itself not.
    pub fn descendants(&self, id: NodeId) -> impl Iterator<Item = (NodeId, &Node<'a>)> {
        let end = self.get(id).map(|node| node.node.range().end());
        let from = id as usize + 1;
        (id + 1..)
            .zip(self.nodes.get(from..).unwrap_or_default())
            .take_while(move |(_, node)| Some(node.node.range().start()) < end)
    }
}
